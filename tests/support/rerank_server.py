"""A rerank server on the loopback interface, for tests of its clients."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = tuple[int, Any, dict[str, str]]


class Server:
    """Answers with `answer(path, body)`; records its requests."""

    def __init__(self) -> None:
        self.answer: Callable[[str, dict[str, Any]], Answer] = lambda _, __: (404, {}, {})
        self.requests: list[tuple[str, dict[str, Any], str]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.requests.append((self.path, body, self.headers.get("Authorization", "")))
                status, content, headers = outer.answer(self.path, body)
                data = content if isinstance(content, bytes) else json.dumps(content).encode()
                try:
                    self.send_response(status)
                    for name, value in {**headers, "Content-Length": str(len(data))}.items():
                        self.send_header(name, value)
                    self.end_headers()
                    self.wfile.write(data)
                except (BrokenPipeError, ConnectionResetError):  # the client has stopped waiting
                    self.close_connection = True

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
