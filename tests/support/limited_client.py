"""A process that sends as many requests as its limit allows, for `sources/http/test_shared_rate_limit.py` and `bench shared_limits`

Writes a line when it is ready, begins at a line from standard input, and ends with a line of JSON: what it sent.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from outrider.runtime.shared_permits import SharedPermit
from outrider.runtime.shared_redis import get_shared_redis
from outrider.runtime.threads_and_loops import in_background
from outrider.sources.http.client import Caller
from outrider.sources.http.service import Service
from outrider.state.errors import SourceError


async def work(base_url: str, redis_url: str, requests: float, per_s: float, at_once: int, workers: int, seconds: float) -> dict[str, Any]:
    """Each of the workers sends one request after the other until the time is over."""
    service = Service("limited", base_url, requests, per_s, at_once=at_once, timeout_s=1.0, tries=1)
    caller = Caller(fresh_s=0.0, shared=get_shared_redis(redis_url) if redis_url else None)
    failures: dict[str, int] = {}
    sent, sent_at = 0, []
    mark_sent = SharedPermit.mark_sent

    def mark_and_record(permit: SharedPermit) -> None:
        sent_at.append(time.monotonic())
        mark_sent(permit)

    SharedPermit.mark_sent = mark_and_record  # type: ignore[method-assign]

    async def send_one_after_another() -> None:
        nonlocal sent
        while time.monotonic() < until:
            try:
                await caller.get(service, "/", within_s=until - time.monotonic())
                sent += 1
            except SourceError as error:
                failures[str(error)] = failures.get(str(error), 0) + 1
                await asyncio.sleep(0.02)

    await in_background(caller.limiter(service).outlook())  # connect
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    until, cpu = time.monotonic() + seconds, time.process_time()
    await asyncio.gather(*(send_one_after_another() for _ in range(workers)))
    return {"sent": sent, "sent_at": sent_at, "failures": failures, "cpu_s": time.process_time() - cpu}


@contextmanager
def run_clients(number: int, *arguments: object) -> Iterator[Sequence[subprocess.Popen[str]]]:
    """Processes that are ready; they begin when the block is entered."""
    command = [sys.executable, "-P", __file__, json.dumps(arguments)]  # else `redis` would be a module of this folder
    clients = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(number)]
    try:
        for client in clients:
            assert client.stdout is not None
            assert client.stdout.readline() == "ready\n"
        for client in clients:
            assert client.stdin is not None
            client.stdin.write("\n")
            client.stdin.flush()
        yield clients
    finally:
        for client in clients:
            client.kill()
            client.communicate()


def read_result(client: subprocess.Popen[str]) -> dict[str, Any]:
    """What a process sent, when it has ended."""
    assert client.stdout is not None
    result: dict[str, Any] = json.loads(client.stdout.readline())
    return result


def most_within(arrivals: Sequence[float], per_s: float) -> int:
    """The most that came within any `per_s` seconds, the end not counted."""
    ordered = sorted(arrivals)
    return max((sum(start <= one < start + per_s for one in ordered) for start in ordered), default=0)


if __name__ == "__main__":
    print(json.dumps(asyncio.run(work(*json.loads(sys.argv[1])))), flush=True)
