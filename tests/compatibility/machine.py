"""The machine of a user of version 0.1.0: notes, the command and a server of JSON, without network."""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

NOTES: tuple[dict[str, Any], ...] = (
    {
        "id": "a",
        "title": "Aspirin and the liver",
        "abstract": "Aspirin harms the liver at high doses. The weather was fine.",
        "year": 2020,
        "journal": "Hepatology",
        "authors": ["Doe, Jane", "Roe, Richard"],
        "doi": "10.1000/x",
        "keywords": ["aspirin", "liver"],
        "mesh": ["Liver"],
        "url": "https://example.org/a",
    },
    {"id": "b", "title": "Statins in practice", "abstract": "Statins lower cholesterol.", "year": 2001, "authors": ["Doe, Jane"]},
    {
        "id": "c",
        "title": "Aspirin and the liver",
        "abstract": "Aspirin harms the liver at high doses. The weather was fine.",
        "year": 2020,
        "journal": "Hepatology",
        "authors": ["Doe, Jane", "Roe, Richard"],
        "doi": "10.1000/x",
        "pages": "1-2",
    },
    {"id": "d", "title": "Correction to: Statins in practice", "abstract": "A table was wrong.", "year": 2002},
)
"""Two records of one work, another work, and its correction."""
KEPT = ("OUTRIDER_DATA",)


@dataclass(frozen=True, slots=True)
class Result:
    """What one call of the command gave."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Command = Callable[..., Result]


def isolate(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Let no settings, keys or network of this machine reach a test."""
    for name in [name for name in os.environ if name.startswith("OUTRIDER_") and name not in KEPT]:
        monkeypatch.delenv(name)
    for name in ("FORCE_COLOR", "GITHUB_ACTIONS", "TERMINAL_WIDTH"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {
        "XDG_CONFIG_HOME": str(folder / "config"),
        "XDG_DATA_HOME": str(folder / "data"),
        "XDG_CACHE_HOME": str(folder / "cache"),
        "OUTRIDER_SOURCES__OFFLINE": "true",
        "OUTRIDER_EMBEDDING__MODEL_NAME": "none",  # a machine may have weights
        "OUTRIDER_RERANKER__MODEL_NAME": "none",
        "COLUMNS": "400",
        "NO_COLOR": "1",
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(folder)


def run_command(*arguments: str | Path, stdin: str = "") -> Result:
    """Run `outrider` in this process, as its console script does."""
    from outrider.__main__ import main

    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    read = io.TextIOWrapper(io.BytesIO(stdin.encode()), encoding="utf-8")
    with (
        mock.patch.object(sys, "argv", ["outrider", *map(str, arguments)]),
        mock.patch.object(sys, "stdin", read),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        pytest.raises(SystemExit) as ended,
    ):
        main()
    code = ended.value.code
    texts = [stream.buffer.getvalue().decode() for stream in (out, err)]  # type: ignore[attr-defined]
    return Result(code if isinstance(code, int) else 0, *texts)


@contextlib.contextmanager
def answering(answer: Callable[[str, Any], tuple[int, Any]]) -> Iterator[str]:
    """Serve JSON on a free loopback port; `answer` gets the path and the body of a request and returns status and data."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self.send(answer(self.path, None))

        def do_POST(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            self.send(answer(self.path, json.loads(self.rfile.read(length) or "null")))

        def send(self, made: tuple[int, Any]) -> None:
            body = json.dumps(made[1]).encode()
            self.send_response(made[0])
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
