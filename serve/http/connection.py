"""A connection that has patience for `head_s` seconds, and one of at most so many.

uvicorn bounds how long a connection may be idle between requests, not how slowly a request's head may come: a few hundred sockets that send
a byte a minute would fill it (https://en.wikipedia.org/wiki/Slowloris_(cyber_attack)).
"""

from __future__ import annotations

import json
import logging
from asyncio import TimerHandle, Transport
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from outrider.serve.http.problems import MEDIA_TYPE, Refusal, problem_of

log = logging.getLogger(__name__)

FULL = Refusal(429, "busy", "too many connections are open here")
SLOW = Refusal(408, "slow-head", "the request did not arrive in time")
WRONG = Refusal(400, "no-http", "this is no HTTP request that can be understood")


class Connection(H11Protocol):
    """uvicorn's own, on h11, which is strict about what is a request."""

    def __init__(self, *given: Any, most: int, head_s: float, **named: Any) -> None:
        super().__init__(*given, **named)
        self._most, self._head_s = most, head_s
        self._patience: TimerHandle | None = None
        self.answered_at = 0.0

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self._most and not self._another_closed():
            self._end(FULL)
        else:
            self._patience = self.loop.call_later(self._head_s, self._lost_patience)

    def data_received(self, data: bytes) -> None:
        if self._patience is None and self._between_requests():
            self._patience = self.loop.call_later(self._head_s, self._lost_patience)
        super().data_received(data)
        if not self._between_requests():
            self._calm()

    def connection_lost(self, exc: Exception | None) -> None:
        self._calm()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        self._end(WRONG)

    def _another_closed(self) -> bool:
        """One that only waits for its next request makes room."""
        idle = [other for other in self.connections if isinstance(other, Connection) and other.is_idle()]
        if not idle:
            return False
        longest = min(idle, key=lambda other: other.answered_at)
        self.connections.discard(longest)
        longest.transport.close()
        return True

    def is_idle(self) -> bool:
        """Whether it has been answered, has taken its answer, and asks nothing further yet."""
        waits = self.cycle is not None and self.cycle.response_complete and self._patience is None
        return waits and not self.transport.get_write_buffer_size() and not self.transport.is_closing()

    def on_response_complete(self) -> None:
        self.answered_at = self.loop.time()
        super().on_response_complete()

    def _between_requests(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _calm(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def _lost_patience(self) -> None:
        self._patience = None
        if self._between_requests() and not self.transport.is_closing():
            self._end(SLOW)

    def _end(self, refusal: Refusal) -> None:
        """A problem document straight onto the wire: there is no request to answer."""
        problem = problem_of(refusal, "")
        body = json.dumps(problem.model_dump(mode="json", exclude_defaults=True)).encode()
        head = f"HTTP/1.1 {refusal.status} {problem.title}\r\nContent-Type: {MEDIA_TYPE}\r\nContent-Length: {len(body)}\r\n"
        retry = "Retry-After: 5\r\n" if refusal.status == FULL.status else ""
        self.transport.write(f"{head}{retry}Connection: close\r\n\r\n".encode() + body)
        self.transport.close()
