"""What a proxy needs of a server: health checks in HTTP/1.0, the client's address, and a warning before it stops."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import threading
import time
from typing import Any

import httpx
import pytest

from outrider.interfaces.http.server import make_server
from outrider.interfaces.logs import ACCESS
from outrider.settings.sections import ServeSettings
from support.http_app import open_client, running, services, until

pytestmark = pytest.mark.slow


def send(base_url: str, request: bytes) -> bytes:
    host, _, port = base_url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        connection.sendall(request)
        parts = []
        while part := connection.recv(65_536):
            parts.append(part)
    return b"".join(parts)


def test_a_health_check_of_http_1_0_needs_no_host_and_everything_else_does() -> None:
    with running(services()) as base_url:
        _until_ready(base_url)
        probes = [send(base_url, f"GET {path} HTTP/1.0\r\n\r\n".encode()) for path in ("/livez", "/readyz", "/healthz")]
        library = send(base_url, b"GET /api/library HTTP/1.0\r\n\r\n")
        rebound = send(base_url, b"GET /readyz HTTP/1.0\r\nHost: evil.example\r\n\r\n")
    assert [answer.split(b"\r\n")[0] for answer in probes] == [b"HTTP/1.1 200 OK"] * 3
    assert b" 400 " in library.split(b"\r\n")[0]
    assert b"unknown-host" in rebound


async def test_the_address_of_a_client_is_taken_from_a_trusted_proxy_alone(caplog: pytest.LogCaptureFixture) -> None:
    headers = {"X-Forwarded-For": "198.51.100.1, 203.0.113.9", "X-Forwarded-Proto": "https"}

    def ask(**serve: Any) -> str:
        with caplog.at_level(logging.INFO, logger=ACCESS), running(services(**serve)) as base_url:
            httpx.get(f"{base_url}/livez", headers=headers, timeout=60)
        fields: dict[str, str] = caplog.records[-1].log_fields  # type: ignore[attr-defined]
        return fields["client"]

    assert await asyncio.to_thread(ask) == "127.0.0.1"
    assert await asyncio.to_thread(ask, trusted_proxies="10.0.0.0/8") == "127.0.0.1"
    # the address that the proxy itself saw; the one before it is a claim of the client
    assert await asyncio.to_thread(ask, trusted_proxies="127.0.0.0/8") == "203.0.113.9"


@pytest.mark.parametrize("proxies", ["proxy.example", "*", "10.0.0.0/33", "10.0.0.1/8"])
def test_proxies_are_named_by_address(proxies: str) -> None:
    with pytest.raises(ValueError, match="addresses or networks"):
        ServeSettings(trusted_proxies=proxies)


async def test_a_server_that_stops_is_not_ready_before_it_refuses_anything() -> None:
    server = await asyncio.to_thread(make_server, services(drain_s=1.0), "127.0.0.1", needs_key=False, log_level="critical")
    server.config.port = 0
    thread = threading.Thread(target=server.run)
    thread.start()
    await until(lambda: server.started)
    base_url = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    async with httpx.AsyncClient(base_url=base_url, timeout=60) as client:
        await asyncio.to_thread(_until_ready, base_url)
        server.should_exit = True
        while (ready := await client.get("/readyz")).status_code == 200:  # noqa: ASYNC110 - as a load balancer
            await asyncio.sleep(0.02)
        search = await client.post("/api/search", json={"query": "aspirin"})
        alive = await client.get("/livez")
    thread.join(timeout=60)
    assert (ready.status_code, search.status_code, alive.status_code) == (503, 200, 200)
    assert json.loads(ready.content)["detail"] == "this server is about to stop"
    assert not thread.is_alive()


async def test_a_second_interruption_ends_the_wait() -> None:
    server = await asyncio.to_thread(make_server, services(drain_s=600.0), "127.0.0.1", needs_key=False, log_level="critical")
    server.config.port = 0
    thread = threading.Thread(target=server.run)
    thread.start()
    await until(lambda: server.started)
    server.should_exit = True
    await asyncio.sleep(0.2)
    assert thread.is_alive()
    server.force_exit = True
    await asyncio.to_thread(thread.join, 60)
    assert not thread.is_alive()


async def test_livez_needs_no_key() -> None:
    key_hash: Any = {"ann": "sha256:" + "0" * 64}
    async with open_client(services(api_keys=key_hash), needs_key=True) as client:
        statuses = [(await client.get(path)).status_code for path in ("/livez", "/api/library")]
    assert statuses == [200, 401]


def _until_ready(base_url: str) -> None:
    until_ = time.monotonic() + 120
    while httpx.get(f"{base_url}/readyz", timeout=60).status_code != 200:
        assert time.monotonic() < until_
        time.sleep(0.02)
