"""Limits that several processes share in Redis: simulated processes on a loop that skips waiting, and real ones"""

from __future__ import annotations

import asyncio
import itertools
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from outrider.runtime.shared_permits import GRANT_S, SharedLimits, SharedPermits
from outrider.runtime.shared_redis import SETTLE_S
from outrider.sources.http.rate_limit import FAILURES, PAUSE_S, TRANSIT_S
from outrider.sources.http.service import Service
from outrider.sources.http.shared_rate_limit import SharedRateLimiter
from outrider.state.errors import RateLimited
from support.http_server import Answer, Request, as_json, serving
from support.limited_client import most_within, read_result, run_clients
from support.redis import module_redis_url, run_redis
from support.skipping_loop import SkippingRedis, now, run

__all__ = ["module_redis_url"]
pytestmark = pytest.mark.blocking

HOLD_S = 2.0
HAIR = 1e-6
names = (f"limit {number}" for number in itertools.count())


@dataclass
class Cluster:
    """Simulated processes that share one limit, and what arrives at its service."""

    processes: list[SkippingRedis]
    limits: SharedLimits
    limiters: list[SharedRateLimiter] = field(init=False)
    arrivals: list[float] = field(default_factory=list)
    under_way: int = 0
    most_under_way: int = 0

    def __post_init__(self) -> None:
        name = next(names)
        for process in self.processes:
            process.fault, process.is_dead, process.away_since, process._settled_at = "", False, None, 0.0
            process._info, process.processes = {"aof_enabled": "1"}, len(self.processes)
            process.on_return.clear()
        self.limiters = [SharedRateLimiter(SharedPermits(process, name, self.limits), now) for process in self.processes]

    async def ask(self, process: int, lag_s: float = 0.0, way_s: float = 0.0, answer_s: float = 0.0, within_s: float = 1e6) -> None:
        limits = self.limits
        service = Service("one", "http://127.0.0.1:1", limits.most, limits.per_s, at_once=limits.at_once, timeout_s=HOLD_S)
        async with self.limiters[process].acquire(service, within_s) as mark_sent:
            self.under_way += 1
            self.most_under_way = max(self.most_under_way, self.under_way)
            try:
                await asyncio.sleep(lag_s)
                mark_sent()
                asyncio.get_running_loop().call_later(way_s, self.arrive)
                await asyncio.sleep(min(way_s + answer_s, HOLD_S - lag_s))
            finally:
                self.under_way -= 1

    def arrive(self) -> None:
        self.arrivals.append(now())

    def most_within_period(self) -> int:
        ordered, per_s = sorted(self.arrivals), self.limits.per_s
        return max((sum(start <= one < start + per_s - HAIR for one in ordered) for start in ordered), default=0)


@pytest.fixture(scope="module")
def processes(module_redis_url: str) -> list[SkippingRedis]:
    return [SkippingRedis(module_redis_url) for _ in range(4)]


def make_limits(most: int, per_s: float, at_once: int = 100) -> SharedLimits:
    return SharedLimits(at_once, most, per_s, TRANSIT_S, FAILURES, PAUSE_S)


REQUESTS = st.lists(
    st.tuples(
        st.integers(0, 3),  # of which process
        st.floats(0, 5),  # when it comes
        st.floats(0, HOLD_S - 0.1),  # until it is written
        st.floats(0, TRANSIT_S),  # until it arrives
        st.floats(0, 3),  # until it is answered
    ),
    min_size=1,
    max_size=30,
)
FEW = settings(deadline=None, max_examples=25, phases=[Phase.explicit, Phase.reuse, Phase.generate])
"""To shrink an example takes minutes."""


@FEW
@given(REQUESTS, st.integers(1, 5), st.floats(0.1, 3), st.integers(1, 5), st.none() | st.floats(0, 8))
def test_no_window_is_exceeded_whatever_processes_do_and_whenever_one_is_killed(
    processes: list[SkippingRedis],
    requests: list[tuple[int, float, float, float, float]],
    most: int,
    per_s: float,
    at_once: int,
    killed_s: float | None,
) -> None:
    async def ask(cluster: Cluster, process: int, comes_s: float, *times: float) -> bool:
        await asyncio.sleep(comes_s)
        if processes[process].is_dead:
            return False
        await cluster.ask(process, *times)
        return True

    async def search() -> None:
        cluster = Cluster(processes, make_limits(most, per_s, at_once))
        tasks = [(request[0], asyncio.create_task(ask(cluster, *request))) for request in requests]
        if killed_s is not None:
            await asyncio.sleep(killed_s)
            processes[0].is_dead = True
            for process, task in tasks:
                if process == 0:
                    task.cancel()
        outcomes = await asyncio.gather(*(task for _, task in tasks), return_exceptions=True)
        assert all(outcome is True for (process, _), outcome in zip(tasks, outcomes, strict=True) if process or killed_s is None)
        assert cluster.most_within_period() <= most
        assert cluster.most_under_way <= at_once
        await asyncio.sleep(HOLD_S + GRANT_S + TRANSIT_S + per_s)  # the slots of a dead process come back too
        assert await cluster.limiters[1].outlook() == (most, 0.0)

    run(search())


@FEW
@given(
    REQUESTS, st.integers(1, 9), st.floats(0.1, 2), st.floats(0, 5), st.floats(0.5, 30), st.booleans(),
    st.lists(st.floats(0, SETTLE_S - 0.1), min_size=4, max_size=4), st.lists(st.floats(0, 30), min_size=10, max_size=10),
)  # fmt: skip
def test_no_window_is_exceeded_while_the_server_is_away_and_after_its_return(
    processes: list[SkippingRedis],
    requests: list[tuple[int, float, float, float, float]],
    most: int,
    per_s: float,
    lost_s: float,
    away_s: float,
    keeps_data: bool,
    returns: list[float],
    later: list[float],
) -> None:
    """The server loses everything or nothing; processes notice its return one after the other."""

    async def ask(cluster: Cluster, process: int, comes_s: float, *times: float) -> None:
        await asyncio.sleep(comes_s)
        with suppress(RateLimited):
            await cluster.ask(process, *times, within_s=20.0)

    async def search() -> None:
        cluster = Cluster(processes, make_limits(most, per_s))
        more = [(number % 4, at_s, 0.0, 0.0, 0.1) for number, at_s in enumerate(later)]
        tasks = [asyncio.create_task(ask(cluster, *request)) for request in (*requests, *more)]
        await asyncio.sleep(lost_s)
        for process in processes:
            process.lose()
        await asyncio.sleep(away_s)
        if not keeps_data:
            processes[0].erase()
        for return_s, process in sorted(zip(returns, processes, strict=True), key=lambda pair: pair[0]):
            asyncio.get_running_loop().call_later(return_s, find, process, keeps_data)
        await asyncio.gather(*tasks)
        assert cluster.most_within_period() <= most

    def find(process: SkippingRedis, keeps: bool) -> None:
        if not keeps:
            process.know_start()
        process.find()

    run(search())


async def test_a_limit_holds_over_real_processes_of_which_one_is_killed(tmp_path: Path) -> None:
    under_way, most_under_way = 0, 0

    async def respond(_: Request) -> Answer:
        nonlocal under_way, most_under_way
        under_way += 1
        most_under_way = max(most_under_way, under_way)
        await asyncio.sleep(0.01)
        under_way -= 1
        return as_json({})

    with (
        run_redis(tmp_path, "--appendonly", "yes") as url,
        serving(respond) as server,
        run_clients(3, server.base_url, url, 10, 0.5, 4, 6, 4.5) as clients,
    ):
        await asyncio.sleep(1.0)
        clients[0].kill()
        results = [await asyncio.to_thread(read_result, client) for client in clients[1:]]
    arrivals = [request.at for request in server.requests]
    assert most_within(arrivals, 0.5) == 10
    assert most_under_way <= 4
    assert min(result["sent"] for result in results) >= 10  # none is left behind
    assert len(arrivals) >= 40  # of 90: the slots of the dead process come back when its requests would have ended
