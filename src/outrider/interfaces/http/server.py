"""The server process: its socket, the need for keys, and its shutdown."""

from __future__ import annotations

import ipaddress
import socket
import sys
from contextlib import closing, redirect_stdout
from functools import partial
from typing import TYPE_CHECKING, Any

import uvicorn

from outrider.interfaces.http.application import Application, build_application
from outrider.interfaces.http.request_limits import Connection
from outrider.state.errors import BadRequest

if TYPE_CHECKING:
    from outrider.services import Services
    from outrider.settings.sections import ServeSettings


BACKLOG = 2_048


def open_socket(host: str, port: int) -> socket.socket:
    """A bound socket. Raises `BadRequest` where it cannot listen."""
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET, backlog=BACKLOG)
    except OSError as error:
        raise BadRequest(f"cannot listen on {host}:{port}: {error.strerror or error}; choose another --port") from error


def format_address(host: str, bound: socket.socket) -> str:
    return f"http://{f'[{host}]' if ':' in host else host}:{bound.getsockname()[1]}"


HEAD_BYTES = 32 * 1024
IDLE_S = 75
"""Time that a connection stays open for its next request: longer than in httpx (5 s) and nginx (60 s), because a request that is sent while
the server closes the connection is lost.
"""


class Server(uvicorn.Server):
    """Refuses new searches as soon as it is asked to stop, and waits for running ones."""

    def __init__(self, config: uvicorn.Config, application: Application) -> None:
        super().__init__(config)
        self._application = application

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._application.stop()
        await super().shutdown(sockets)


def serve(services: Services, host: str, port: int) -> None:
    settings = services.settings.serve
    needs_key = requires_key(settings, host)
    with closing(open_socket(host, port)) as bound, redirect_stdout(sys.stderr):  # standard output is for results
        server = make_server(services, host, needs_key=needs_key, alone=True)  # uvicorn binds the streams of its logs here
        keys = f"keys of {', '.join(sorted(settings.api_keys))}" if needs_key else "no key is required"
        sys.stderr.write(f"Outrider answers at {format_address(host, bound)} - {keys} - Ctrl-C stops it\n")
        server.run(sockets=[bound])


def make_server(services: Services, host: str, *, needs_key: bool, log_level: str = "info", alone: bool = False) -> Server:
    settings = services.settings.serve
    application = build_application(services, host=host, needs_key=needs_key, alone=alone)
    protocol: Any = partial(Connection, most=settings.connections, head_s=settings.body_s)
    config = uvicorn.Config(
        application.app,
        log_level=log_level,
        http=protocol,
        ws="none",
        server_header=False,
        proxy_headers=False,
        h11_max_incomplete_event_size=HEAD_BYTES,
        timeout_keep_alive=IDLE_S,
        timeout_graceful_shutdown=max(1, round(settings.shutdown_s)),
    )
    return Server(config, application)


def requires_key(settings: ServeSettings, host: str) -> bool:
    """Whether requests need a key. Raises `BadRequest` where they do and the settings hold none."""
    needed = settings.authentication == "always" or not is_loopback(host)
    if needed and not settings.api_keys:
        where = "serve.authentication is always" if is_loopback(host) else f"--host {host} can be reached from other machines"
        raise BadRequest(f"{where}, and serve.api_keys holds no key; make one with: outrider serve key NAME")
    return needed


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
