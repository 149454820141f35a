"""Object stores on loopback: S3 by moto, whose requests are counted, and Azure by Azurite."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import logging
import os
import shutil
import socket
import subprocess
import threading
import time
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import formatdate
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from outrider.library.library import Library

BUCKET = "shelf"
MAINTAINED_EVERY = 20
KEYS = {"aws_access_key_id": "test", "aws_secret_access_key": "test", "aws_region": "us-east-1"}
AZURE_ACCOUNT = "devstoreaccount1"
AZURE_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="  # pragma: allowlist secret
"""The account that Azurite documents for everybody."""


@dataclass
class S3Server:
    """A bucket `BUCKET` of a moto server in this process; other processes may use it as well."""

    url: str
    requests: list[tuple[str, str]] = field(default_factory=list)
    """Method, and path with the query of a list."""
    refuse: Callable[[str, str], bool] = lambda method, path: False
    """Whether to answer a request with AccessDenied, by method and path."""

    @property
    def options(self) -> dict[str, str]:
        return {**KEYS, "aws_endpoint": self.url, "allow_http": "true", "aws_virtual_hosted_style_request": "false"}

    def client(self) -> Any:
        import boto3

        return boto3.client("s3", endpoint_url=self.url, region_name="us-east-1", aws_access_key_id="test", aws_secret_access_key="test")

    def read_objects(self) -> dict[str, bytes]:
        """Every object by its key."""
        client = self.client()
        pages = client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET)
        keys = [entry["Key"] for page in pages for entry in page.get("Contents", ())]
        return {key: client.get_object(Bucket=BUCKET, Key=key)["Body"].read() for key in keys}


@contextmanager
def serving_s3() -> Iterator[S3Server]:
    from moto.server import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import make_server

    backend = DomainDispatcherApplication(create_backend_app)
    one_at_a_time = threading.Lock()  # moto's conditional requests are two steps, and an object that is replaced can be read no more
    logging.getLogger("werkzeug").setLevel(logging.ERROR)

    def answer(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        method, path, query = environ["REQUEST_METHOD"], environ["PATH_INFO"], environ["QUERY_STRING"]
        server.requests.append((method, f"{path}?{query}" if query else path))
        if server.refuse(method, path):
            start_response("403 Forbidden", [("Content-Type", "application/xml")])
            return [b"<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"]
        with one_at_a_time:
            response: Iterable[bytes] = [b"".join(backend(environ, start_response))]
        return response

    http = make_server("127.0.0.1", 0, answer, threaded=True)
    server = S3Server(f"http://127.0.0.1:{http.server_port}")
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        reset = urllib.request.Request(f"{server.url}/moto-api/reset", method="POST")
        urllib.request.urlopen(reset, timeout=5).close()  # moto's objects are those of the process
        client = server.client()
        client.create_bucket(Bucket=BUCKET)
        client.close()
        yield server
    finally:
        http.shutdown()
        http.server_close()
        thread.join()


@pytest.fixture
def s3() -> Iterator[S3Server]:
    pytest.importorskip("moto.server", reason="needs moto[server]")
    pytest.importorskip("boto3")
    with serving_s3() as server:
        yield server


@pytest.fixture
def azure_options(tmp_path: Path) -> Iterator[dict[str, str]]:
    """Storage options of an Azure account with an empty container `BUCKET`."""
    program = os.environ.get("OUTRIDER_AZURITE") or shutil.which("azurite-blob")
    if not program:
        pytest.skip("no azurite-blob on the PATH or in OUTRIDER_AZURITE (npm install azurite)")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [program, "--blobHost", "127.0.0.1", "--blobPort", str(port), "--location", str(tmp_path / "azurite"), "--silent"]
    endpoint = f"http://127.0.0.1:{port}/{AZURE_ACCOUNT}"
    with subprocess.Popen([*command, "--skipApiVersionCheck"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            _create_container(endpoint)
            yield {
                "azure_storage_account_name": AZURE_ACCOUNT,
                "azure_storage_account_key": AZURE_KEY,
                "azure_storage_endpoint": endpoint,
                "allow_http": "true",
            }
        finally:
            server.terminate()


def _create_container(endpoint: str) -> None:
    """By the Blob service's REST API, with a shared key; again until the server answers."""
    headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": "2021-08-06"}
    signed = "\n".join(f"{name}:{value}" for name, value in sorted(headers.items()))
    resource = f"/{AZURE_ACCOUNT}/{AZURE_ACCOUNT}/{BUCKET}\nrestype:container"
    text = "PUT" + "\n" * 12 + f"{signed}\n{resource}"
    digest = hmac.new(base64.b64decode(AZURE_KEY), text.encode(), hashlib.sha256).digest()
    headers["Authorization"] = f"SharedKey {AZURE_ACCOUNT}:{base64.b64encode(digest).decode()}"
    headers["Content-Length"] = "0"
    for _ in range(300):
        request = urllib.request.Request(f"{endpoint}/{BUCKET}?restype=container", method="PUT", headers=headers)
        try:
            urllib.request.urlopen(request, timeout=5).close()
        except (ConnectionError, urllib.error.URLError) as error:
            if isinstance(error, urllib.error.HTTPError):
                raise
            time.sleep(0.05)
        else:
            return
    pytest.fail("Azurite did not start")


async def write_papers(library: Library, writer: str, count: int, done: Callable[[int], None] = lambda number: None) -> None:
    """Each time a paper of this writer, and one that every writer changes."""
    from outrider.state.records import Edge, Paper

    for number in range(count):
        own = Paper(doc_id=f"{writer}-{number}", title=f"fox {number}", edges=(Edge(relation="cites", target=f"doi:10.1/{number}"),))
        await library.upsert([own, Paper(doc_id="shared", title=f"shared by {writer} at {number}")])
        done(number)
        if number % MAINTAINED_EVERY == MAINTAINED_EVERY - 1:
            await library.optimize()


def main(address: str, endpoint: str, writer: str, count: str) -> None:
    """A writer as a process of its own: creates the library, or finds it created, and prints each number when it is written."""
    from outrider.library import lease
    from outrider.library.library import Library

    lease.EXPIRY_S, lease.FENCE_S, lease.RENEW_S = 10.0, 7.0, 2.0  # a killed writer is waited for

    async def write() -> None:
        options = S3Server(endpoint).options
        library = await Library.open(address, create=True, storage_options=options, read_consistency_s=5.0)
        await write_papers(library, writer, int(count), lambda number: print(number, flush=True))

    asyncio.run(write())


if __name__ == "__main__":
    import sys

    main(*sys.argv[1:])
