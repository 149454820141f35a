"""The address that a server of Outrider answers at.

The server process: where it listens, who needs a key, and how it stops.
"""

from __future__ import annotations

import ipaddress
import socket
import sys
from contextlib import closing, redirect_stdout
from functools import partial
from typing import TYPE_CHECKING, Any

import uvicorn

from outrider.interfaces.http.application import Doors, doors
from outrider.interfaces.http.request_limits import Connection
from outrider.state.errors import BadRequest

if TYPE_CHECKING:
    from outrider.services import Services
    from outrider.settings.serving import ServeSettings


BACKLOG = 2_048


def listening_on(host: str, port: int) -> socket.socket:
    """A bound socket; whatever keeps it from listening is said before the server starts."""
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET, backlog=BACKLOG)
    except OSError as error:
        raise BadRequest(f"cannot listen on {host}:{port}: {error.strerror or error}; choose another --port") from error


def address_of(host: str, listening: socket.socket) -> str:
    return f"http://[{host}]:{listening.getsockname()[1]}" if ":" in host else f"http://{host}:{listening.getsockname()[1]}"


HEAD_BYTES = 32 * 1024
IDLE_S = 75
"""For which a connection is kept for its next request: longer than httpx (5 s) and nginx (60 s) keep theirs, for a request that is sent
while the server closes is lost.
"""


class Server(uvicorn.Server):
    """Takes no more searches as soon as it is asked to stop, and lets those under way end."""

    def __init__(self, config: uvicorn.Config, served: Doors) -> None:
        super().__init__(config)
        self._served = served

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._served.stop()
        await super().shutdown(sockets)


def serve(services: Services, host: str, port: int) -> None:
    settings = services.settings.serve
    needs_key = key_needed(settings, host)
    with closing(listening_on(host, port)) as listening, redirect_stdout(sys.stderr):  # logs are no results
        server = server_of(services, host, needs_key=needs_key, alone=True)  # uvicorn takes the streams of its logs here
        wants = f"keys of {', '.join(sorted(settings.api_keys))}" if needs_key else "no key is asked for"
        sys.stderr.write(f"Outrider answers at {address_of(host, listening)} - {wants} - Ctrl-C stops it\n")
        server.run(sockets=[listening])


def server_of(services: Services, host: str, *, needs_key: bool, log_level: str = "info", alone: bool = False) -> Server:
    settings = services.settings.serve
    made = doors(services, host=host, needs_key=needs_key, alone=alone)
    protocol: Any = partial(Connection, most=settings.connections, head_s=settings.body_s)
    config = uvicorn.Config(
        made.app,
        log_level=log_level,
        http=protocol,
        ws="none",
        server_header=False,
        proxy_headers=False,
        h11_max_incomplete_event_size=HEAD_BYTES,
        timeout_keep_alive=IDLE_S,
        timeout_graceful_shutdown=max(1, round(settings.shutdown_s)),
    )
    return Server(config, made)


def key_needed(settings: ServeSettings, host: str) -> bool:
    """Raises `BadRequest` where a key is needed and there is none that would be accepted."""
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
