"""Rate limits and the circuit breaker, of one process and shared in Redis, on an event loop that skips waiting"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.runtime.shared_permits import SHORTEST_POLL_S, SharedLimits, SharedPermits
from outrider.sources.http.rate_limit import FAILURES, PAUSE_S, TRANSIT_S, RateLimiter, SlidingWindow, get_rate_limiter
from outrider.sources.http.service import Service
from outrider.sources.http.shared_rate_limit import SharedRateLimiter
from outrider.sources.http.transport import Unreachable
from outrider.state.errors import RateLimited, SourceError, SourceTimeout, SourceUnavailable
from support.redis import module_redis_url
from support.skipping_loop import SkippingRedis, now, run

__all__ = ["module_redis_url"]

Limiter = RateLimiter | SharedRateLimiter
MakeLimiter = Callable[..., Limiter]
HAIR = 1e-6


def service(requests: float = 10, per_s: float = 60.0, at_once: int = 5) -> Service:
    return Service("arxiv", "http://127.0.0.1:1", requests, per_s, at_once=at_once)


@pytest.fixture(scope="module", params=["process", pytest.param("redis", marks=pytest.mark.blocking)])
def limiter(request: pytest.FixtureRequest) -> MakeLimiter:
    """Makes limiters of both kinds, which behave in the same way."""
    if request.param == "process":
        return make_limiter
    redis, numbers = SkippingRedis(request.getfixturevalue("module_redis_url")), itertools.count()
    return lambda *most, **limits: share_limiter(redis, f"limit {next(numbers)}", *most, **limits)


def make_limiter(most: int = 10, per_s: float = 60.0, at_once: int = 5) -> RateLimiter:
    return RateLimiter(SlidingWindow(most, per_s), asyncio.Semaphore(at_once), now)


def share_limiter(redis: SkippingRedis, name: str, most: int = 10, per_s: float = 60.0, at_once: int = 5) -> SharedRateLimiter:
    limits = SharedLimits(at_once, most, per_s, TRANSIT_S, FAILURES, PAUSE_S)
    return SharedRateLimiter(SharedPermits(redis, name, limits), now)


def most_within(arrivals: list[float], per_s: float) -> int:
    """The most that came within any `per_s` seconds, the end not counted."""
    ordered = sorted(arrivals)
    return max(sum(start <= one < start + per_s - HAIR for one in ordered) for start in ordered)


ASKERS = st.lists(
    st.tuples(
        st.floats(0, 5),  # when they come
        st.floats(0, 2),  # until it is written: a busy machine
        st.floats(0, TRANSIT_S),  # until the request arrives
        st.floats(0, 3),  # until it is answered
        st.none() | st.floats(0, 4),  # when they give up
    ),
    min_size=1,
    max_size=40,
)


@settings(deadline=None)
@given(ASKERS, st.integers(1, 6), st.floats(0.1, 4), st.integers(1, 6))
def test_the_limit_holds_in_every_period_and_every_waiter_gets_a_permit(
    limiter: MakeLimiter, askers: list[tuple[float, float, float, float, float | None]], most: int, per_s: float, at_once: int
) -> None:
    """Exactly: no burst beyond it, for every start of the period, every transit time and every cancelled waiter."""
    arrivals: list[float] = []
    under_way = 0

    async def ask(one: Limiter, lag_s: float, way_s: float, answer_s: float) -> None:
        nonlocal under_way
        async with one.acquire(service(most, per_s), 1e6) as mark_sent:
            under_way += 1
            assert under_way <= at_once
            try:
                await asyncio.sleep(lag_s)
                mark_sent()
                sent_at = now()
                asyncio.get_running_loop().call_later(way_s, lambda: arrivals.append(sent_at + way_s))
                await asyncio.sleep(way_s + answer_s)
            finally:
                under_way -= 1

    async def one_asker(one: Limiter, comes: float, lag_s: float, way_s: float, answer_s: float, leaves: float | None) -> bool:
        await asyncio.sleep(comes)
        try:
            async with asyncio.timeout(leaves):
                await ask(one, lag_s, way_s, answer_s)
        except TimeoutError:
            return False
        return True

    async def all_of_them() -> list[bool]:
        one = limiter(most, per_s, at_once)
        outcomes = await asyncio.gather(*(one_asker(one, *asker) for asker in askers))
        await asyncio.sleep(per_s + TRANSIT_S)  # then everything that was taken has come back
        assert await one.outlook() == (most, 0.0)
        return outcomes

    had = run(all_of_them())
    assert all(done for done, (*_, leaves) in zip(had, askers, strict=True) if leaves is None)
    assert not arrivals or most_within(arrivals, per_s) <= most


@pytest.mark.parametrize(("most", "per_s", "latency_s"), [(1, 3.0, 0.1), (1, 3.0, 5.0), (1, 1.0, 0.7), (10, 60.0, 1.0), (3, 1.0, 0.02)])
def test_the_real_limits_are_respected_and_used(limiter: MakeLimiter, most: int, per_s: float, latency_s: float) -> None:
    """arXiv, Semantic Scholar, GitHub, PubMed: no faster pair, and hardly a slower one than must be."""
    went: list[float] = []

    async def ask(one: Limiter) -> None:
        async with one.acquire(service(most, per_s), 1e6) as mark_sent:
            mark_sent()
            went.append(now())
            await asyncio.sleep(latency_s)

    async def search() -> None:
        one = limiter(most, per_s, 4 * most)
        await asyncio.gather(*(ask(one) for _ in range(4 * most)))

    run(search())
    assert most_within(went, per_s) == most
    assert all(later - earlier >= per_s - HAIR for earlier, later in zip(went, went[most:], strict=False))
    assert went[-1] - went[0] <= 3 * (per_s + min(latency_s, TRANSIT_S) + SHORTEST_POLL_S) + HAIR


def test_the_number_of_available_permits() -> None:
    async def count_turns() -> list[int]:
        one, counts = SlidingWindow(3, 60.0), []
        counts.append(one.available())
        async with one.acquire() as permit:
            counts.append(one.available())
            permit.start()
            counts.append(one.available())
        async with one.acquire():
            pass  # returned unused
        counts.append(one.available())
        await asyncio.sleep(60.0)
        return [*counts, one.available()]

    assert run(count_turns()) == [3, 2, 2, 2, 3]


@settings(deadline=None)
@given(st.integers(1, 5), st.floats(0.5, 4), st.lists(st.floats(0, 6), min_size=1, max_size=20))
def test_no_permit_comes_sooner_than_announced(most: int, per_s: float, comes: list[float]) -> None:
    """So no request is refused that would have got a permit."""

    async def ask(one: SlidingWindow, at: float) -> None:
        await asyncio.sleep(at)
        promised_at = now() + one.wait_s()
        async with one.acquire() as permit:
            assert now() >= promised_at - HAIR
            permit.start()

    async def all_of_them() -> None:
        one = SlidingWindow(most, per_s)
        await asyncio.gather(*(ask(one, at) for at in comes))

    run(all_of_them())


def test_a_request_that_cannot_get_a_permit_in_time_fails_at_once_with_a_retry_time(limiter: MakeLimiter) -> None:
    async def search() -> None:
        one, begun = limiter(), now()
        for _ in range(10):
            async with one.acquire(service(), 5.0):
                pass
        with pytest.raises(RateLimited, match=r"arxiv: its limit of 10 requests in 60 s is used up; retry in 60\.0 s") as caught:
            async with one.acquire(service(), 10.0):
                pytest.fail("there was no slot")
        assert now() == begun
        assert caught.value.retry_at == pytest.approx(begun + 60)
        async with one.acquire(service(), 60.5):
            assert now() == pytest.approx(begun + 60)

    run(search())


def test_a_limit_is_not_reported_as_used_up_where_only_time_is_over(limiter: MakeLimiter) -> None:
    async def search() -> None:
        one = limiter()
        async with one.acquire(service(), -0.01):  # the request has its own end
            pass

    run(search())


def test_a_waiter_behind_hanging_requests_fails_when_its_time_is_over(limiter: MakeLimiter) -> None:
    async def search() -> None:
        one, begun = limiter(at_once=1), now()
        async with one.acquire(service(), 5.0):
            with pytest.raises(RateLimited, match=r"^arxiv: other requests came first, and 2 s were over; retry later$"):
                async with one.acquire(service(), 2.0):
                    pytest.fail("there was no slot")
        assert now() == pytest.approx(begun + 2)
        async with one.acquire(service(), 0.1):  # nothing was lost
            pass

    run(search())


def test_a_permit_is_free_at_once_where_its_waiter_is_refused_or_cancelled(limiter: MakeLimiter) -> None:
    async def search() -> None:
        one = limiter(1, 3.0)
        one.close(now() + 1)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5), one.acquire(service(1, 3.0), 5.0):
                pytest.fail("it was closed")
        await asyncio.sleep(0.5)
        begun = now()
        async with one.acquire(service(1, 3.0), 1.0):
            assert now() == begun

    run(search())


@pytest.mark.parametrize("most", [1, 3])
def test_a_request_without_a_connection_takes_no_slot_and_a_sent_one_does(limiter: MakeLimiter, most: int) -> None:
    async def search() -> None:
        one, begun = limiter(most, 3.0), now()

        async def fail_to_connect(*, was_sent: bool) -> None:
            async with one.acquire(service(most, 3.0), 10.0) as mark_sent:
                if was_sent:  # on a connection that was dead, and there is no other
                    mark_sent()
                raise Unreachable("no network")

        for _ in range(2 * most):
            with pytest.raises(Unreachable):
                await fail_to_connect(was_sent=False)
        assert (now(), *await one.outlook()) == (begun, most, 0.0)
        for _ in range(most):
            with pytest.raises(Unreachable):
                await fail_to_connect(was_sent=True)
        assert (await one.outlook()).available == 0
        async with one.acquire(service(most, 3.0), 10.0):
            assert now() - begun == pytest.approx(3.0 + TRANSIT_S, abs=2 * SHORTEST_POLL_S)

    run(search())


def test_a_closed_service_is_waited_for_where_there_is_time_and_refused_at_once_where_there_is_none(limiter: MakeLimiter) -> None:
    async def search() -> None:
        one, begun = limiter(), now()
        one.close(begun + 7)
        one.close(begun + 3)  # the later one holds
        with pytest.raises(RateLimited, match="arxiv is rate-limiting us; retry in 7 s") as caught:
            async with one.acquire(service(), 6.0):
                pytest.fail("it was closed")
        assert now() == begun
        assert caught.value.retry_at == begun + 7
        async with one.acquire(service(), 8.0):
            assert now() == pytest.approx(begun + 7)

    run(search())


def test_a_waiter_is_refused_when_the_service_is_closed_meanwhile(limiter: MakeLimiter) -> None:
    async def search() -> None:
        one, begun = limiter(1, 3.0), now()
        async with one.acquire(service(1, 3.0), 1.0):
            pass
        asyncio.get_running_loop().call_later(1, lambda: one.close(begun + 100))
        with pytest.raises(RateLimited, match=r"rate-limiting us; retry in 9[79] s"):
            async with one.acquire(service(1, 3.0), 10.0):
                pytest.fail("it was closed")

    run(search())


def fail(one: Limiter, times: int = FAILURES, error: SourceError | None = None) -> None:
    for _ in range(times):
        one.record_failure(error or SourceTimeout("no answer"))


async def try_it(one: Limiter, times: list[float], for_s: float = 0.0) -> None:
    async with one.acquire(service(100, 1.0), 1.0):
        times.append(now())
        await asyncio.sleep(for_s)


def test_after_failures_in_a_row_a_service_is_skipped_until_one_request_probes_it(limiter: MakeLimiter) -> None:
    async def search() -> None:
        one, times = limiter(100, 1.0), []
        fail(one, FAILURES - 1)
        one.record_success()
        fail(one, FAILURES - 1)
        await try_it(one, times)
        one.record_failure(SourceTimeout("no answer within 9 s"))
        with pytest.raises(
            SourceUnavailable, match=r"arxiv failed 5 times in a row and is skipped; retry in 30 s.*no answer within 9 s"
        ) as caught:
            await try_it(one, times)
        assert caught.value.retry_at == now() + PAUSE_S
        assert len(times) == 1
        await asyncio.sleep(PAUSE_S)
        outcomes = await asyncio.gather(*(try_it(one, times, 0.1) for _ in range(10)), return_exceptions=True)
        assert len(times) == 2
        assert [type(one) for one in outcomes].count(SourceUnavailable) == 9
        one.record_success()
        await asyncio.gather(*(try_it(one, times, 0.1) for _ in range(10)))
        assert len(times) == 12

    run(search())


def test_a_failed_probe_skips_the_service_again_and_a_cancelled_one_is_replaced(limiter: MakeLimiter) -> None:
    async def search() -> None:
        one, times = limiter(100, 1.0), []
        fail(one)
        await asyncio.sleep(PAUSE_S)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await try_it(one, times, 3.0)
        await try_it(one, times)
        one.record_failure(SourceTimeout("no answer"))
        with pytest.raises(SourceUnavailable, match="6 times"):
            await try_it(one, times)
        assert len(times) == 2

    run(search())


def test_a_service_that_refused_repeatedly_is_reported_as_rate_limited(limiter: MakeLimiter) -> None:
    async def search() -> None:
        one = limiter()
        fail(one, error=RateLimited("too many requests"))
        with pytest.raises(RateLimited, match="too many requests"):
            await try_it(one, [])

    run(search())


def test_one_limit_a_service_and_process() -> None:
    ours = Service("github", "http://127.0.0.1:1", 10, 60, headers={"Authorization": "token one"})
    assert get_rate_limiter(ours) is get_rate_limiter(
        Service("github", "http://127.0.0.1:1", 10, 60, headers={"Authorization": "token two"})
    )
    others = [Service("github", "http://127.0.0.1:1", 30, 60), Service("github", "http://127.0.0.1:2", 10, 60)]
    assert all(get_rate_limiter(ours) is not get_rate_limiter(other) for other in others)


def test_less_than_one_request_a_period_is_one_in_a_longer_one() -> None:
    window = get_rate_limiter(Service("slow", "http://127.0.0.1:1", 0.5, 2.0)).window
    assert (window.most, window.per_s) == (1, 4.0)


def test_first_come_first_served(limiter: MakeLimiter) -> None:
    order: list[int] = []

    async def ask(one: Limiter, at: int) -> None:
        async with one.acquire(service(2, 1.0), 100.0):
            order.append(at)

    async def search() -> None:
        one = limiter(2, 1.0, 1)
        await asyncio.gather(*(ask(one, at) for at in range(20)))

    run(search())
    assert order == list(range(20))
    assert all(earlier < later for earlier, later in pairwise(order))
