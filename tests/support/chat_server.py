"""A small OpenAI-compatible chat server on loopback: answers from a function, and misbehaves on demand."""

from __future__ import annotations

import json
import select
import socket
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from typing import Any, Self

from outrider.prompts import parse_fence


@dataclass(frozen=True)
class Request:
    """One request as the server saw it."""

    body: dict[str, Any]
    headers: Mapping[str, str]

    @property
    def mode(self) -> str:
        """How structure was requested: `json_schema`, `function_calling`, `json_mode` or `text`."""
        if self.body.get("tools"):
            return "function_calling"
        kind = self.body.get("response_format", {}).get("type")
        return {"json_schema": "json_schema", "json_object": "json_mode"}.get(kind, "text")

    def join_messages(self, role: str) -> str:
        return "\n".join(str(one["content"]) for one in self.body["messages"] if one["role"] == role)

    @property
    def system(self) -> str:
        return self.join_messages("system")

    @property
    def user(self) -> str:
        return self.join_messages("user")

    @property
    def data(self) -> Any:
        """What stands in the first fence."""
        return parse_fence(self.user)


@dataclass(frozen=True)
class Reply:
    """What to answer. `content` that is no text is sent as JSON, in the requested mode."""

    content: Any = ""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    delay_s: float = 0.0
    release: threading.Event | None = None
    """Nothing is sent before it is set."""
    refusal: str | None = None
    usage: tuple[int | None, int | None] | None = (100, 20)
    """Input and output tokens; None where the server reports none."""
    finish_reason: str = "stop"
    raw: bytes | None = None
    """Sent as the body, unchanged."""
    cut: bool = False
    """Whether the connection is closed in the middle of the body."""
    drip_s: float = 0.0
    """Seconds between one byte of the body and the next."""


Answer = Callable[[Request], Reply]
NUMBERS = count()
"""In the addresses: a port may be reused, and the state of one server must not apply to another."""


@dataclass
class ChatServer:
    """Use it as a context manager: it hangs up at the end. `requests` are in the order of their arrival; `most` were under way at once."""

    answer: Answer
    models: Reply | None = field(default=None, kw_only=True)
    """The answer to `GET .../models`, whose content is a list of names; 404 without one."""
    listings: list[Mapping[str, str]] = field(default_factory=list, kw_only=True)
    """Headers of the requests for it."""
    requests: list[Request] = field(default_factory=list)
    most: int = 0
    _now: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _connections: list[socket.socket] = field(default_factory=list)
    _number: int = field(default_factory=lambda: next(NUMBERS))

    def __enter__(self) -> Self:
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True  # head and body are two writes, and a persistent connection would wait between them

            def setup(self) -> None:
                super().setup()
                server._connections.append(self.connection)

            def finish(self) -> None:
                with suppress(OSError):  # the client has disconnected
                    super().finish()
                with suppress(ValueError):  # hung up
                    server._connections.remove(self.connection)

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                request = Request(body, {name.lower(): value for name, value in self.headers.items()})
                with suppress(ConnectionError):  # the client has disconnected
                    server._serve(self, request)

            def do_GET(self) -> None:
                server.listings.append({name.lower(): value for name, value in self.headers.items()})
                reply = server.models if server.models and self.path.endswith("/v1/models") else Reply("no such page", status=404)
                if isinstance(reply.content, list):
                    listed = {"object": "list", "data": [{"id": name, "object": "model", "owned_by": "test"} for name in reply.content]}
                    reply = replace(reply, raw=json.dumps(listed).encode())
                time.sleep(reply.delay_s)
                with suppress(ConnectionError):
                    server._send(self, reply, reply.raw or json.dumps({"error": {"message": reply.content}}).encode())

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self.hang_up()

    def wait_for_end(self, timeout_s: float = 60.0) -> None:
        """Wait until every request of clients that are gone is in `requests`: no connection is open, and none waits to be accepted."""
        ends = time.monotonic() + timeout_s
        while self._connections or select.select([self._server.socket], [], [], 0.05)[0]:
            assert time.monotonic() < ends, f"{len(self._connections)} connections are still open"
            time.sleep(0.01)

    def hang_up(self) -> None:
        """Closes the connections that are open now."""
        while self._connections:
            with suppress(OSError):  # closed already
                self._connections.pop().shutdown(socket.SHUT_RDWR)

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/{self._number}/v1"

    def _serve(self, handler: BaseHTTPRequestHandler, request: Request) -> None:
        with self._lock:
            self.requests.append(request)
            self._now += 1
            self.most = max(self.most, self._now)
        try:
            reply = self.answer(request)
            if reply.release:
                reply.release.wait(300)
            time.sleep(reply.delay_s)
        finally:
            with self._lock:
                self._now -= 1
        self._send(handler, reply, reply.raw if reply.raw is not None else json.dumps(_body(request, reply)).encode())

    @staticmethod
    def _send(handler: BaseHTTPRequestHandler, reply: Reply, body: bytes) -> None:
        handler.send_response(reply.status)
        for name, value in {"Content-Type": "application/json", "Content-Length": str(len(body)), **reply.headers}.items():
            handler.send_header(name, value)
        handler.end_headers()
        for byte in body if reply.drip_s else b"":
            handler.wfile.write(bytes([byte]))
            time.sleep(reply.drip_s)
        if not reply.drip_s:
            handler.wfile.write(body[: len(body) // 2] if reply.cut else body)
        if reply.cut:
            handler.close_connection = True


def _body(request: Request, reply: Reply) -> dict[str, Any]:
    if reply.status != 200:
        return {"error": {"message": str(reply.content), "type": "error", "code": None}}
    text = reply.content if isinstance(reply.content, str) else json.dumps(reply.content)
    message: dict[str, Any] = {"role": "assistant", "content": text, "refusal": reply.refusal}
    if request.mode == "function_calling" and not isinstance(reply.content, str):
        name = request.body["tools"][0]["function"]["name"]
        message |= {"content": None, "tool_calls": [{"id": "call_1", "type": "function", "function": {"name": name, "arguments": text}}]}
    usage = reply.usage and {
        "prompt_tokens": reply.usage[0],
        "completion_tokens": reply.usage[1],
        "total_tokens": sum(filter(None, reply.usage)),
    }
    choice = {"index": 0, "message": message, "finish_reason": reply.finish_reason, "logprobs": None}
    return {"id": "1", "object": "chat.completion", "created": 0, "model": request.body["model"], "choices": [choice], "usage": usage}
