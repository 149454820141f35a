"""The local server of benchmarks: what it answers, what it remembers, and that one who waits holds nobody up."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from urllib.request import urlopen

from bench.served import HttpRequest, HttpResponse, served


def echo(request: HttpRequest) -> HttpResponse:
    content = json.dumps([request.path, dict(request.query)]).encode()
    return HttpResponse(content, after_s=float(request.query.get("after_s", 0)), log_fields={"n": 1})


def test_it_answers_remembers_and_makes_nobody_wait_for_another() -> None:
    """Four at once, of which each takes half a second, are counted together, and take far from two seconds."""
    with served(echo) as server, ThreadPoolExecutor(4) as threads:

        def asked(number: int) -> object:
            with urlopen(f"{server.base_url}/room/slow/{number}?after_s=0.5") as answer:
                return json.load(answer)

        began = time.monotonic()
        assert list(threads.map(asked, range(4))) == [[f"/room/slow/{number}", {"after_s": "0.5"}] for number in range(4)]
        took_s = time.monotonic() - began
        with urlopen(f"{server.base_url}/other/x"):
            log = server.log("room")
        assert [call.parts[:2] for call in log] == [("room", "slow")] * 4
        assert max(call.now for call in log) == 4
        assert all(call.log_fields == {"n": 1} and call.after_s == 0.5 for call in log)
        assert [call.path for call in server.log("other")] == ["/other/x"]
    assert took_s < 4 * 0.5
