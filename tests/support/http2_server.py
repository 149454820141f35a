"""A small server on loopback that speaks HTTP/2 over TLS and echoes each request."""

from __future__ import annotations

import asyncio
import datetime as dt
import ipaddress
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from support.http_server import take_no_more


@asynccontextmanager
async def speaking_http2(folder: Path) -> AsyncIterator[tuple[str, Path]]:
    """Its address, and the certificate that a client must believe."""
    certificate, key = _make_certificate(folder)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    context.set_alpn_protocols(["h2"])
    count = 0
    tasks: set[asyncio.Task[None]] = set()

    def met(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal count
        count += 1
        tasks.add(asyncio.create_task(_serve(reader, writer, count)))

    server = await asyncio.start_server(met, "127.0.0.1", 0, ssl=context)
    try:
        yield f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}", certificate
    finally:
        await take_no_more(server)
        server.close()
        if tasks:
            await asyncio.wait(tasks, timeout=2)


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> None:
    from h2.config import H2Configuration
    from h2.connection import H2Connection
    from h2.events import RequestReceived

    speech = H2Connection(H2Configuration(client_side=False, header_encoding="utf-8"))
    speech.initiate_connection()
    writer.write(speech.data_to_send())
    while data := await reader.read(65_536):
        for event in speech.receive_data(data):
            if isinstance(event, RequestReceived):
                headers = dict(event.headers)
                body = json.dumps({"path": headers[":path"], "key": headers.get("x-api-key"), "connection": number}).encode()
                speech.send_headers(event.stream_id, [(":status", "200"), ("content-type", "application/json")])
                speech.send_data(event.stream_id, body, end_stream=True)
        writer.write(speech.data_to_send())
    writer.close()


def _make_certificate(folder: Path) -> tuple[Path, Path]:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "loopback")])
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), now - dt.timedelta(1), now + dt.timedelta(1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    paths = folder / "certificate.pem", folder / "key.pem"
    paths[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    paths[1].write_bytes(private)
    return paths
