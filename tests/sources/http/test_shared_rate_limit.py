"""Limits that several processes share in Redis: simulated processes on a loop that skips waiting, and real ones"""

from __future__ import annotations

import asyncio
import itertools
import re
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from outrider.runtime.shared_permits import GRANT_S, SharedLimits, SharedPermits
from outrider.runtime.shared_redis import BEAT_S, NOTICE_S, PATIENCE_S, SETTLE_S, SHARE_AFTER_S, SharedRedis
from outrider.runtime.threads_and_loops import in_background
from outrider.sources.http.rate_limit import FAILURES, PAUSE_S, TRANSIT_S
from outrider.sources.http.service import Service
from outrider.sources.http.shared_rate_limit import SharedRateLimiter
from outrider.state.errors import RateLimited, SourceTimeout, SourceUnavailable
from support.http_server import Answer, Request, as_json, serving
from support.limited_client import most_within, read_result, run_clients
from support.redis import find_free_port, module_redis_url, redis_url, run_redis
from support.skipping_loop import SkippingRedis, now, run

__all__ = ["module_redis_url", "redis_url"]
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
            process._heard_at = process._counted_from = 0.0
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
        st.floats(0, HOLD_S - TRANSIT_S - 0.1),  # until it is written
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
        run_clients(3, server.base_url, url, 10, 0.5, 4, 6, 5.0) as clients,
    ):
        await asyncio.sleep(1.0)
        clients[0].kill()
        killed = time.monotonic()
        await asyncio.gather(*(asyncio.to_thread(read_result, client) for client in clients[1:]))
    arrivals = [request.at for request in server.requests]
    assert most_within(arrivals, 0.5) <= 10
    assert most_under_way <= 4
    assert max(arrivals) > killed + 1.0 + GRANT_S + TRANSIT_S  # the slots of the dead process have come back


def test_pauses_and_failures_count_for_all_processes(processes: list[SkippingRedis]) -> None:
    async def search() -> None:
        cluster = Cluster(processes, make_limits(100, 1.0))
        ours, theirs = cluster.limiters[:2]
        ours.close(now() + 7)
        await ours.outlook()
        with pytest.raises(RateLimited, match="one is rate-limiting us; retry in 7 s"):
            await cluster.ask(1, within_s=5.0)
        await cluster.ask(1, within_s=8.0)
        for number in range(FAILURES):
            cluster.limiters[number % 4].record_failure(SourceTimeout(f"no answer {number % 2}"))
        assert (await theirs.outlook()).wait_s == 0.0
        with pytest.raises(SourceUnavailable, match=rf"one failed {FAILURES} times in a row and is skipped; retry in 30 s. .*no answer"):
            await cluster.ask(3)
        await asyncio.sleep(PAUSE_S)
        begun = len(cluster.arrivals)
        tests = await asyncio.gather(*(cluster.ask(number % 4, answer_s=0.5) for number in range(12)), return_exceptions=True)
        assert [type(outcome) for outcome in tests].count(SourceUnavailable) == 11  # one request tests for all
        assert len(cluster.arrivals) == begun + 1
        ours.record_success()
        await ours.outlook()
        await asyncio.gather(*(cluster.ask(number % 4) for number in range(12)))

    run(search())


def test_requests_of_all_processes_are_served_in_the_order_of_their_coming(processes: list[SkippingRedis]) -> None:
    async def search() -> list[int]:
        cluster, order = Cluster(processes, make_limits(2, 1.0, 1)), []

        async def ask(number: int) -> None:
            await asyncio.sleep(number / 100)
            await cluster.ask(number % 4)
            order.append(number)

        await asyncio.gather(*(ask(number) for number in range(16)))
        return order

    assert run(search()) == list(range(16))


def test_a_process_without_the_server_uses_its_share_and_never_more(processes: list[SkippingRedis]) -> None:
    async def search() -> None:
        cluster = Cluster(processes, make_limits(9, 1.0, 9))
        for process in processes:
            process.lose()
        with pytest.raises(RateLimited, match=r"not asked yet: the Redis server of shared.redis_url.*uses a share of the limit in 11\.0 s"):
            await cluster.ask(0, within_s=1.0)
        await asyncio.sleep(SHARE_AFTER_S)
        begun = now()
        await asyncio.gather(*(cluster.ask(number % 4) for number in range(16)))
        assert 1.0 <= now() - begun < 1.5  # 2 of 9 each, twice
        assert cluster.most_within_period() == 8
        for process in processes:
            process.find()
        with pytest.raises(RateLimited, match=r"not asked yet: the Redis server .* was away"):
            await cluster.ask(0, within_s=1.0)
        await cluster.ask(0, within_s=SETTLE_S + 1)

    run(search())


def test_a_pause_that_a_service_asked_for_holds_without_the_server_and_after_its_return(processes: list[SkippingRedis]) -> None:
    async def search() -> None:
        cluster = Cluster(processes, make_limits(8, 1.0))
        ours, third = cluster.limiters[0], cluster.limiters[2]
        ours.close(now() + 100)
        await ours.outlook()
        with pytest.raises(RateLimited, match="retry in 100 s"):
            await cluster.ask(1, within_s=1.0)
        for process in processes:
            process.lose()
        await asyncio.sleep(SHARE_AFTER_S)
        for process in (0, 1):  # which asked for the pause, and which learned of it
            with pytest.raises(RateLimited, match="one is rate-limiting us"):
                await cluster.ask(process, within_s=1.0)
        processes[0].erase()
        for process in processes:
            process.find()
        await asyncio.sleep(SETTLE_S)
        assert 80 < (await third.outlook()).wait_s < 90

    run(search())


@pytest.mark.parametrize(("joined_before_s", "shares"), [(1.0, 9), (NOTICE_S + PATIENCE_S, 8)])
def test_a_process_that_others_have_not_counted_yet_has_no_share(
    processes: list[SkippingRedis], joined_before_s: float, shares: int
) -> None:
    async def search() -> None:
        processes[0].erase()
        cluster = Cluster(processes, make_limits(9, 1.0, 9))
        for _ in range(3):
            for process in processes[:3]:
                await process.contact()
            await asyncio.sleep(BEAT_S)
        await processes[3].contact()
        await asyncio.sleep(joined_before_s)
        for process in processes if joined_before_s > NOTICE_S else processes[3:]:
            await process.contact()
        for process in processes:
            process.lose()
        await asyncio.sleep(SHARE_AFTER_S)
        await asyncio.gather(*(cluster.ask(number % 4, within_s=0.5) for number in range(16)), return_exceptions=True)
        assert cluster.most_within_period() == shares

    run(search())


def test_a_limit_that_cannot_be_divided_is_refused_without_the_server(processes: list[SkippingRedis]) -> None:
    async def search() -> None:
        cluster = Cluster(processes, make_limits(3, 1.0))
        processes[0].lose()
        with pytest.raises(RateLimited, match="too small for a share for each of 4 processes"):
            await cluster.ask(0)
        processes[0].processes = 0  # it has never reached the server
        with pytest.raises(RateLimited, match="not known to this process"):
            await cluster.ask(0)

    run(search())


async def test_a_server_that_stops_and_returns_is_reported_once_each(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    port = find_free_port()

    async def take(limiter: SharedRateLimiter, service: Service) -> str:
        try:
            async with limiter.acquire(service, 0.5) as mark_sent:
                mark_sent()
        except RateLimited as error:
            return str(error)
        return "sent"

    async def search() -> list[str]:
        service = Service("one", "http://127.0.0.1:1", 1_000, 1.0, timeout_s=20.0)
        with run_redis(tmp_path, "--appendonly", "yes", port=port) as url:
            redis = SharedRedis(url)
            limiter = SharedRateLimiter(SharedPermits(redis, "one", make_limits(1_000, 0.2)))
            outcomes = [await take(limiter, service)]
        outcomes += [await take(limiter, service) for _ in range(3)]
        await asyncio.sleep(1.0)
        outcomes.append(await take(limiter, service))
        fault = redis.fault
        with run_redis(tmp_path, "--appendonly", "yes", port=port):
            while redis.fault:  # noqa: ASYNC110
                await asyncio.sleep(0.1)
            outcomes.append(await take(limiter, service))
            await limiter.outlook()  # after the report of the request
            await asyncio.to_thread(redis.close)
        assert fault
        return outcomes

    outcomes = await in_background(search())
    assert outcomes[0] == outcomes[-1] == "sent"
    assert "is not asked yet" in outcomes[1]
    lines = [record.getMessage() for record in caplog.records if record.name == "outrider.runtime.shared_redis"]
    assert len(lines) == 2
    assert "unavailable" in lines[0]
    assert "is back" in lines[1]


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        (
            ["--maxmemory", "50mb", "--maxmemory-policy", "volatile-lru"],
            "it may drop limits while they hold.*volatile-lru: set it to noeviction",
        ),
        (["--requirepass", "very-secret"], "[Aa]uth"),
        ([], ""),
    ],
)
async def test_a_server_that_may_lose_limits_is_not_used(tmp_path: Path, options: list[str], fault: str) -> None:
    with run_redis(tmp_path, *options) as url:
        redis = SharedRedis(url)
        found = await in_background(redis.check())
        await asyncio.to_thread(redis.close)
    assert re.search(fault, found) if fault else found == ""
    assert "very-secret" not in repr(redis) + found


async def test_limits_begin_a_period_after_a_server_without_data_has_started(redis_url: str) -> None:
    redis = SharedRedis(redis_url)

    async def search() -> float:
        limiter = SharedRateLimiter(SharedPermits(redis, "one", make_limits(1, 30.0)))
        with pytest.raises(RateLimited, match=r"not asked yet: the Redis server of shared.redis_url has just started"):
            async with limiter.acquire(Service("one", "http://127.0.0.1:1", 1, 30.0), 5.0):
                pass
        return (await limiter.outlook()).wait_s

    assert 20 < await in_background(search()) <= 30 + TRANSIT_S
    await asyncio.to_thread(redis.close)


async def test_a_full_server_keeps_limits(tmp_path: Path) -> None:
    """A script that begins with a removal may write; else the first failure of memory would end all limits."""

    async def take_two(redis: SharedRedis) -> None:
        limiter = SharedRateLimiter(SharedPermits(redis, "one", make_limits(1, 30.0)))
        service = Service("one", "http://127.0.0.1:1", 1, 30.0)
        async with limiter.acquire(service, 5.0) as mark_sent:
            mark_sent()
        with pytest.raises(RateLimited, match="its limit of 1 requests in 30 s is used up"):
            async with limiter.acquire(service, 5.0):
                pass

    with run_redis(tmp_path, "--appendonly", "yes", "--maxmemory", "1", "--maxmemory-policy", "noeviction") as url:
        redis = SharedRedis(url)
        await in_background(take_two(redis))
        await asyncio.to_thread(redis.close)
