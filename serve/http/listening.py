"""The address that a server of Outrider answers at."""

from __future__ import annotations

import socket

from outrider.state.errors import BadRequest

BACKLOG = 2_048


def listening_on(host: str, port: int) -> socket.socket:
    """A bound socket; whatever keeps it from listening is said before the server starts."""
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET, backlog=BACKLOG)
    except OSError as error:
        raise BadRequest(f"cannot listen on {host}:{port}: {error.strerror or error}; choose another --port") from error


def address_of(host: str, listening: socket.socket) -> str:
    return f"http://[{host}]:{listening.getsockname()[1]}" if ":" in host else f"http://{host}:{listening.getsockname()[1]}"
