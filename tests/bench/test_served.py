"""The local server of benchmarks: what it answers, what it remembers, and that one who waits holds nobody up."""

from __future__ import annotations

import json
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from urllib.request import urlopen

from bench.served import Call, HttpRequest, HttpResponse, Server, served

NEVER_S, PATIENCE_S = 3_600.0, 120.0


def echo(request: HttpRequest) -> HttpResponse:
    content = json.dumps([request.path, dict(request.query)]).encode()
    return HttpResponse(content, after_s=float(request.query.get("after_s", 0)), log_fields={"n": 1})


def test_it_answers_remembers_and_makes_nobody_wait_for_another() -> None:
    """Four that would wait for an hour are counted together; four that wait for half a second, and the log, are answered meanwhile."""
    with served(echo) as server, ThreadPoolExecutor(4) as threads, ExitStack() as waiting:

        def request(number: int) -> object:
            with urlopen(f"{server.base_url}/room/slow/{number}?after_s=0.5", timeout=PATIENCE_S) as answer:
                return json.load(answer)

        for number in range(4):
            connection = waiting.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_S))
            connection.sendall(f"GET /held/slow/{number}?after_s={NEVER_S} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
        held = calls_once_arrived(server, "held", 4)
        assert max(call.now for call in held) == 4
        assert all(call.after_s == NEVER_S for call in held)
        assert list(threads.map(request, range(4))) == [[f"/room/slow/{number}", {"after_s": "0.5"}] for number in range(4)]
        with urlopen(f"{server.base_url}/other/x", timeout=PATIENCE_S):
            log = server.log("room")
        assert [call.parts[:2] for call in log] == [("room", "slow")] * 4
        assert all(call.log_fields == {"n": 1} and call.after_s == 0.5 for call in log)
        assert [call.path for call in server.log("other")] == ["/other/x"]


def calls_once_arrived(server: Server, below: str, count: int) -> list[Call]:
    """The log of these calls as soon as it holds so many."""
    until = time.monotonic() + PATIENCE_S
    while len(calls := server.log(below)) < count and time.monotonic() < until:
        time.sleep(0.02)
    return calls
