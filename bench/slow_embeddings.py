"""An embedding server whose every row takes a settable time, and which counts its work."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

DIMENSION = 16


@dataclass
class SlowEmbeddings:
    """Rows of one request wait one after another, those of concurrent requests at once."""

    row_s: float
    url: str = ""
    rows: int = 0
    """Answered so far."""
    under_way: int = 0
    """Requests."""
    keys: set[str] = field(default_factory=set)
    """Authorization headers that came."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def answer(self, body: bytes, key: str) -> bytes:
        asked = json.loads(body)
        texts = asked["input"]
        with self._lock:
            self.under_way += 1
            self.keys.add(key)
        time.sleep(self.row_s * len(texts))
        data = [{"index": at, "embedding": make_vector(text)} for at, text in enumerate(texts)]
        with self._lock:
            self.under_way -= 1
            self.rows += len(texts)
        usage = {"prompt_tokens": len(texts), "total_tokens": len(texts)}
        return json.dumps({"object": "list", "data": data, "model": asked["model"], "usage": usage}).encode()


def make_vector(text: str) -> list[float]:
    """The same for the same text."""
    return [(value - 127.5) / 128 for value in hashlib.sha256(text.encode()).digest()[:DIMENSION]]


@contextmanager
def serve_embeddings(row_s: float = 0.0) -> Iterator[SlowEmbeddings]:
    embeddings = SlowEmbeddings(row_s)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            answer = embeddings.answer(self.rfile.read(int(self.headers["Content-Length"])), self.headers.get("Authorization", ""))
            try:
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)
            except OSError:
                self.close_connection = True  # its process was killed

        def log_message(self, *_: object) -> None:
            """Nothing."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: object) -> None:
            """Its clients are killed."""

    with Server(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        embeddings.url = f"http://127.0.0.1:{server.server_port}/v1"
        yield embeddings
        server.shutdown()
