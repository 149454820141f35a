"""Choice among replicas, and what counts against one; the servers are coroutines."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence

import pytest

from outrider.models.servers import replicas
from outrider.models.servers.replicas import Replica, ReplicaPool
from outrider.models.servers.transport import ServerBusy, ServerFailed, ServerSettings, TooLarge
from outrider.state.errors import ModelUnavailable


async def passes(_: Replica) -> None:
    """A check without a complaint."""


def make_pool(addresses: Sequence[str], check: Callable[[Replica], Awaitable[None]] = passes) -> ReplicaPool:
    settings = ServerSettings("embedding", "m", "", timeout_s=30.0, concurrency=4)
    return ReplicaPool(settings, [f"http://{one}" for one in addresses], check)


def refuse(replica: Replica) -> ServerFailed:
    return ServerFailed(ModelUnavailable(f"{replica.name} answers 500"))


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replicas, "PATIENCE_S", 0.05)
    monkeypatch.setattr(replicas, "FAILED_PAUSE_S", 0.001)


async def test_long_work_after_short_work_is_no_hang() -> None:
    pool, took_s = make_pool("ab"), 0.001

    async def ask(_: Replica) -> str:
        await asyncio.sleep(took_s)
        return "done"

    await pool.report(1.0)
    for _ in range(8):
        await pool.send(ask)
    took_s = 0.3
    assert await asyncio.gather(*(pool.send(ask) for _ in range(8))) == ["done"] * 8


async def test_a_request_goes_to_the_last_of_many_servers() -> None:
    pool = make_pool("abcdef")
    await pool.report(1.0)

    async def ask(replica: Replica) -> str:
        if not replica.address.endswith("f"):
            raise refuse(replica)
        return replica.address

    assert await pool.send(ask) == "http://f"


async def test_a_server_that_passes_its_checks_but_fails_requests_is_asked_less_and_less(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replicas, "FAILED_PAUSE_S", 0.01)
    pool, asked = make_pool("ab"), 0

    async def ask(replica: Replica) -> str:
        nonlocal asked
        await asyncio.sleep(0.001)
        if replica.address == "http://b":
            asked += 1
            raise refuse(replica)
        return "done"

    await pool.report(1.0)
    until = asyncio.get_running_loop().time() + 0.5
    while asyncio.get_running_loop().time() < until:
        await asyncio.gather(*(pool.send(ask) for _ in range(4)))
    assert asked <= 4 * 7  # pauses of .01, .02, .04 ... s; up to four requests are under way


async def test_a_server_that_got_too_little_time_is_not_left_out() -> None:
    pool = make_pool("ab")
    await pool.report(1.0)

    async def ask(_: Replica) -> str:
        await asyncio.sleep(0.03)
        return "done"

    with pytest.raises(ModelUnavailable):
        await pool.send(ask, until=asyncio.get_running_loop().time() + 0.01)
    assert all(one.ready for one in pool.replicas)


async def test_a_server_that_asks_for_no_pause_is_not_asked_without_end() -> None:
    pool, asked = make_pool("a"), 0

    async def ask(_: Replica) -> str:
        nonlocal asked
        asked += 1
        await asyncio.sleep(0)
        raise ServerBusy(ModelUnavailable("busy"), 0.0)

    with pytest.raises(ModelUnavailable):
        await pool.send(ask, until=time.monotonic() + 0.5)
    assert asked <= 5  # pauses of .05, .1, .2 and .4 s


async def test_a_server_to_which_the_question_of_its_check_is_too_long_is_left_out() -> None:
    async def refuses(_: Replica) -> None:
        raise TooLarge("m refuses it: too long")

    pool = make_pool("a", refuses)
    with pytest.raises(ModelUnavailable, match="too long"):
        await pool.wait_ready()
    assert pool.replicas[0].is_wrong
