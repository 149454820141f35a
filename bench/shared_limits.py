"""Limits that processes share in Redis: kept in sum, used up, and the price of a permit."""

from __future__ import annotations

import asyncio
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.report import Cell, Report, percentiles, progress

SECONDS = 8.0
KILLED_AFTER_S = 2.0
LATENCY_S = 0.02
WORKERS = 8
CASES = (
    ("PubMed with a key", 10.0, 1.0, 5),
    ("30 a second", 30.0, 1.0, 10),
    ("one connection", 20.0, 1.0, 1),
)
PERMITS = 300


def run() -> Report:
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    if shutil.which("redis-server") is None:
        return Report("shared_limits", (), (), ("no redis-server is installed",))
    rows: list[tuple[Cell, ...]] = []
    for name, requests, per_s, at_once in CASES:
        for processes, shares, kills in ((1, False, False), (2, True, False), (4, True, False), (4, True, True)):
            kind = "in the process" if not shares else "in Redis, one process is killed" if kills else "in Redis"
            progress(f"{name}, {processes} processes, {kind}")
            rows.append((name, processes, kind, *_measure(processes, requests, per_s, at_once, shares=shares, kills=kills)))
    columns = ("limit", "processes", "limiter", "allowed", "most in a period", "at once", "most at once", "sent / allowed", "least by one")
    note = (
        f"{SECONDS:g} s, {WORKERS} workers a process, a response takes {LATENCY_S * 1_000:g} ms and more. A period counts from the response, "
        "so less than everything can be sent. A killed process keeps its slots for 2.25 s and a period."
    )
    return Report("shared_limits", columns, tuple(rows), (note,), (_measure_price(),))


def _measure(number: int, requests: float, per_s: float, at_once: int, *, shares: bool, kills: bool) -> tuple[Cell, ...]:
    from support.http_server import Answer, Request, as_json, serving
    from support.limited_client import most_within, read_result, run_clients

    under_way = most_under_way = 0

    async def respond(_: Request) -> Answer:
        nonlocal under_way, most_under_way
        under_way += 1
        most_under_way = max(most_under_way, under_way)
        await asyncio.sleep(LATENCY_S)
        under_way -= 1
        return as_json({})

    with (
        _run_redis() as url,
        serving(respond) as server,
        run_clients(number, server.base_url, url if shares else "", requests, per_s, at_once, WORKERS, SECONDS) as clients,
    ):
        begun = time.monotonic()
        if kills:
            time.sleep(KILLED_AFTER_S)
            clients[0].kill()
        results = [read_result(client) for client in clients[kills:]]
    arrivals = [request.at for request in server.requests]
    counted = [at for at in arrivals if at < begun + SECONDS]
    allowed = requests * (SECONDS / per_s)
    return (
        int(requests), most_within(arrivals, per_s), at_once, most_under_way, len(counted) / allowed,
        min(int(result["sent"]) for result in results),
    )  # fmt: skip


def _measure_price() -> Report:
    """Milliseconds of one permit, of a limit that is not reached."""
    with _run_redis() as url:
        rows = asyncio.run(_time_permits(url))
    columns = ("limiter", "at a time", "ms a permit, median", "p95", "CPU ms")
    return Report("price of a permit", columns, tuple(rows))


async def _time_permits(url: str) -> list[tuple[Cell, ...]]:
    from outrider.runtime.shared_redis import get_shared_redis
    from outrider.runtime.threads_and_loops import in_background
    from outrider.sources.http.client import Caller
    from outrider.sources.http.service import Service

    async def take(caller: Caller, service: Service, times: list[float]) -> None:
        for _ in range(PERMITS):
            begun = time.perf_counter()
            async with caller.limiter(service).acquire(service, 10.0) as mark_sent:
                times.append(time.perf_counter() - begun)
                mark_sent()

    async def take_all(caller: Caller, service: Service, at_a_time: int) -> tuple[list[float], float]:
        times: list[float] = []
        await caller.limiter(service).outlook()
        begun = time.process_time()
        await asyncio.gather(*(take(caller, service, times) for _ in range(at_a_time)))
        return times, time.process_time() - begun

    rows: list[tuple[Cell, ...]] = []
    for at_a_time in (1, 10):
        for name, caller in (("in the process", Caller()), ("in Redis", Caller(shared=get_shared_redis(url)))):
            service = Service(f"{name} {at_a_time}", "http://127.0.0.1:1", 10_000, 1.0, at_once=100, timeout_s=1.0)
            times, cpu_s = await in_background(take_all(caller, service, at_a_time))
            median, late = percentiles(times)
            rows.append((name, at_a_time, median * 1_000, late * 1_000, cpu_s / len(times) * 1_000))
    return rows


@contextmanager
def _run_redis() -> Iterator[str]:
    """With an append-only file: without one, limits begin a period after the start of the server."""
    from support.redis import run_redis

    with tempfile.TemporaryDirectory() as folder, run_redis(Path(folder), "--appendonly", "yes") as url:
        yield url
