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
SIMULATED = (
    ("PubMed with a key", 10, 1.0, 5, 0.02),
    ("30 a second", 30, 1.0, 10, 0.02),
    ("one connection", 20, 1.0, 1, 0.02),
    ("PubMed", 3, 1.0, 5, 0.3),
    ("arXiv", 1, 3.0, 1, 0.5),
)
SIMULATED_S = 30.0
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
    columns = (
        "limit",
        "processes",
        "limiter",
        "allowed",
        "most arrived in a period",
        "most sent",
        "at once",
        "most at once",
        "sent / allowed",
        "least by one",
    )
    note = (
        f"{SECONDS:g} s, {WORKERS} workers a process, a response takes {LATENCY_S * 1_000:g} ms and more. "
        "A period counts from the response, so less than everything can be sent. A killed process keeps its slots for 2.25 s and a period."
    )
    return Report("shared_limits", columns, tuple(rows), (note,), (_simulate(), _measure_price()))


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
    sent_at = [at for result in results for at in result["sent_at"]]
    allowed = requests * (SECONDS / per_s)
    sums = (most_within(arrivals, per_s), None if kills or not shares else most_within(sent_at, per_s))  # a killed one tells nothing
    least = min(int(result["sent"]) for result in results)
    return int(requests), *sums, at_once, most_under_way, len(counted) / allowed, least


def _simulate() -> Report:
    """The same with a clock that skips waiting: what the order of permits costs, whatever else this machine does."""
    rows: list[tuple[Cell, ...]] = []
    with _run_redis() as url:
        for name, requests, per_s, at_once, latency_s in SIMULATED:
            shares = [_use_up(url, processes, requests, per_s, at_once, latency_s) for processes in (0, 2, 4)]
            rows.append((name, latency_s, *(sent for sent, _ in shares), *(exchanges for _, exchanges in shares[1:])))
    columns = (
        "limit", "response, s", "one process without Redis", "2 in Redis", "4 in Redis", "exchanges a request: 2", "4",
    )  # fmt: skip
    note = f"Sent / allowed in {SIMULATED_S:g} s. The server and its script are real, the clock of both sides is the same simulated one."
    return Report("shared limits, simulated time", columns, tuple(rows), (note,))


def _use_up(url: str, processes: int, requests: int, per_s: float, at_once: int, latency_s: float) -> tuple[float, float]:
    """Requests that were sent of those allowed, and messages to Redis for each."""
    from outrider.runtime.shared_permits import SharedLimits, SharedPermits
    from outrider.sources.http.rate_limit import FAILURES, PAUSE_S, TRANSIT_S, RateLimiter, SlidingWindow
    from outrider.sources.http.service import Service
    from outrider.sources.http.shared_rate_limit import SharedRateLimiter
    from support.skipping_loop import SkippingRedis, now, run

    clients, sent, exchanges = [SkippingRedis(url) for _ in range(processes)], 0, 0
    service = Service("simulated", "http://127.0.0.1:1", requests, per_s, at_once=at_once)
    limits = SharedLimits(at_once, requests, per_s, TRANSIT_S, FAILURES, PAUSE_S)
    name = f"{processes} {requests} {per_s} {at_once}"

    def count_exchanges() -> None:  # those who still wait at the end are not counted
        nonlocal exchanges
        exchanges = sum(one.exchanges for one in clients)

    async def send_all() -> None:
        nonlocal sent
        limiters: list[RateLimiter | SharedRateLimiter] = [SharedRateLimiter(SharedPermits(one, name, limits), now) for one in clients]
        limiters = limiters or [RateLimiter(SlidingWindow(requests, per_s), asyncio.Semaphore(at_once), now)]
        until = now() + SIMULATED_S
        asyncio.get_running_loop().call_later(SIMULATED_S, count_exchanges)

        async def send_one_after_another(limiter: RateLimiter | SharedRateLimiter) -> None:
            nonlocal sent
            while now() < until:
                async with limiter.acquire(service, 1e6) as mark_sent:
                    mark_sent()
                    sent += now() < until
                    await asyncio.sleep(latency_s)

        await asyncio.gather(*(send_one_after_another(limiter) for limiter in limiters for _ in range(WORKERS)))

    run(send_all())
    return sent / (requests * SIMULATED_S / per_s), exchanges / sent


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
