"""Requests to a service over real connections: headers, retries, caching, time limits."""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
import socket
import subprocess
import sys
import threading
import time
import traceback
import tracemalloc
import zlib
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import diskcache
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.sources.http import service as service_module
from outrider.sources.http import transport as clients
from outrider.sources.http.cache import DiskCache, flush_cache
from outrider.sources.http.client import LONGEST_PAUSE_S, Caller
from outrider.sources.http.rate_limit import FAILURES, LONGEST_S, get_rate_limiter, parse_budget_reset, parse_retry_after
from outrider.sources.http.service import Reply, Service
from outrider.state.errors import Forbidden, Malformed, RateLimited, SourceError, SourceTimeout, SourceUnavailable, Unauthorized
from support.http_server import (
    FAULTS,
    MEBIBYTE,
    NEVER,
    PROXY_VARIABLES,
    RESET,
    Answer,
    Request,
    as_bytes,
    as_json,
    as_text,
    cut,
    dripping,
    huge,
    refusal,
    serving,
)
from support.patience import BUSY_S

KEY = "sk-a+very/secret=key\"of'ours"
CALLER = Caller(jitter=lambda: 0.0)
"""Tries again without a pause."""


def service(server: serving, **changed: Any) -> Service:
    default = Service("openalex", server.base_url, 1_000, 1.0, timeout_s=30.0)
    return replace(default, **changed)


@pytest.fixture
def cached(tmp_path: Path) -> Iterator[Caller]:
    answers = DiskCache(tmp_path / "answers")
    yield Caller(answers, jitter=lambda: 0.0)
    flush_cache()
    answers.close()


def in_turn(*answers: Answer) -> Callable[[Request], Answer]:
    """One after the other; the last one for all that follow."""
    remaining = list(answers)
    return lambda _: remaining.pop(0) if len(remaining) > 1 else remaining[0]


async def until(so: Callable[[], object]) -> None:
    async with asyncio.timeout(60):
        while not so():  # noqa: ASYNC110 - what is waited for happens in another thread
            await asyncio.sleep(0.01)


# What is sent


async def test_a_get_sends_parameters_headers_and_the_user_agent() -> None:
    async with serving(lambda _: as_json({"total": 1}, headers={"Link": "<x>"})) as server:
        endpoint = service(server, headers={"Authorization": f"Bearer {KEY}"}, params={"api_key": KEY})
        reply = await Caller(contact="mé@example.org\r\n").get(
            endpoint, "/works", {"search": "ä b", "per-page": 25}, within_s=30.0, headers={"Accept": "application/json"}
        )
    assert (reply.status, reply.json(), reply.headers["link"], reply.age_s, reply.stale) == (200, {"total": 1}, "<x>", 0.0, False)
    (request,) = server.requests
    assert (request.method, request.path) == ("GET", "/works")
    assert request.query == {"search": "ä b", "per-page": "25", "api_key": KEY}
    assert request.headers["user-agent"].startswith("Outrider/")
    assert request.headers["user-agent"].endswith("; mailto:m@example.org)")
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert (request.headers["accept"], request.headers["accept-encoding"]) == ("application/json", "gzip")
    assert KEY not in reply.url
    assert "api_key" not in reply.url


async def test_a_post_sends_json_and_preserves_a_query_in_the_path() -> None:
    async with serving(lambda _: as_json([])) as server:
        await CALLER.post(service(server, params={"key": "k"}), "/batch?fields=title", {"ids": ["ä"]}, {"page": 2}, within_s=30.0)
    (request,) = server.requests
    assert (request.method, request.json, request.headers["content-type"]) == ("POST", {"ids": ["ä"]}, "application/json")
    assert request.query == {"fields": "title", "page": "2", "key": "k"}


async def test_a_connection_is_reused_and_cookies_are_not_stored() -> None:
    async with serving(lambda _: as_json([], headers={"Set-Cookie": "who=you; Path=/"})) as server:
        for at in range(3):
            await CALLER.get(service(server), f"/{at}", within_s=30.0)
    assert {request.connection for request in server.requests} == {1}
    assert all("cookie" not in request.headers for request in server.requests)


async def test_a_redirect_is_returned_to_the_caller() -> None:
    async with serving(lambda _: Answer(status=301, headers={"Location": "/elsewhere"})) as server:
        moved = await CALLER.get(service(server), "/", within_s=30.0, accept=frozenset({200, 301}))
        assert (moved.status, moved.headers["location"]) == (301, "/elsewhere")
        with pytest.raises(SourceUnavailable, match="answered 301"):
            await CALLER.get(service(server), "/", within_s=30.0)
    assert len(server.requests) == 2


@pytest.mark.parametrize("query", ["\ud800", "x" * 70_000])
async def test_an_unsendable_query_is_reported(query: str) -> None:
    async with serving(lambda _: as_json([])) as server:
        with pytest.raises(SourceUnavailable, match="openalex cannot take this query"):
            await CALLER.get(service(server), "/", {"q": query}, within_s=30.0)
    assert not server.requests


# What is tried again


@pytest.mark.parametrize("fault", [refusal(500), refusal(503), refusal(429), RESET, cut(as_text("x" * 100)), Answer(status=520)])
async def test_a_failure_of_the_moment_is_tried_again(fault: Answer) -> None:
    async with serving(in_turn(fault, fault, as_json("there"))) as server:
        reply = await CALLER.get(service(server), "/", within_s=30.0)
    assert reply.json() == "there"
    assert len(server.requests) == 3


@pytest.mark.parametrize(
    ("answer", "kind", "message"),
    [
        (refusal(401, "bad key"), Unauthorized, "openalex answered 401 to http.*bad key.*check the key of openalex"),
        (refusal(403, "not yours"), Forbidden, "answered 403.*not yours.*whether the key of openalex allows it"),
        (refusal(404, "no such work"), SourceUnavailable, "answered 404 to http.*no such work"),
        (refusal(400, "bad\x1b[31m query"), SourceUnavailable, r"answered 400.*bad \[31m query|bad.*u001b"),
    ],
)
async def test_a_refusal_is_reported_and_not_retried(answer: Answer, kind: type[SourceError], message: str) -> None:
    async with serving(lambda _: answer) as server:
        with pytest.raises(kind, match=message) as caught:
            await CALLER.get(service(server), "/works", within_s=30.0)
        assert type(caught.value) is kind
        assert "\x1b" not in str(caught.value)
    assert len(server.requests) == 1


async def test_another_status_is_an_answer_where_it_is_expected() -> None:
    async with serving(lambda _: refusal(404)) as server:
        reply = await CALLER.get(service(server), "/", within_s=30.0, accept=frozenset({200, 404}))
    assert reply.status == 404


async def test_it_fails_after_three_tries_and_names_the_request_and_the_remedy() -> None:
    async with serving(lambda _: refusal(500, "out of order")) as server:
        with pytest.raises(SourceUnavailable, match=r"openalex answered 500 to http://[^?]*/works: .*out of order.*; retry later"):
            await CALLER.get(service(server), "/works", {"q": "x"}, within_s=30.0)
    assert len(server.requests) == 3


async def test_nothing_is_tried_again_where_the_pause_would_last_beyond_the_time() -> None:
    async with serving(lambda _: refusal(500)) as server:
        begun = time.monotonic()
        with pytest.raises(SourceUnavailable):
            await Caller(jitter=lambda: 1_000.0).get(service(server), "/", within_s=60.0)
        assert time.monotonic() - begun < BUSY_S
    assert len(server.requests) == 1


@given(st.floats(0, 1), st.integers(1, 50))
def test_pauses_grow_up_to_a_bound(part: float, attempt: int) -> None:
    pause_s, next_s = (Caller(jitter=lambda: part).backoff_s(one) for one in (attempt, attempt + 1))
    assert 0 <= pause_s <= next_s <= LONGEST_PAUSE_S


# Limits


async def test_retry_after_is_waited_for_where_there_is_time() -> None:
    async with serving(in_turn(refusal(429, headers={"Retry-After": "0.3"}), as_json(1))) as server:
        await CALLER.get(service(server), "/", within_s=30.0)
    first, second = server.requests
    assert second.at - first.at >= 0.3


async def test_retry_after_closes_the_service_for_all_and_gives_the_time() -> None:
    async with serving(lambda _: refusal(429, headers={"Retry-After": "7200"})) as server:
        for _ in range(3):
            begun = time.monotonic()
            with pytest.raises(RateLimited, match=r"7,200 s|7,1\d\d s") as caught:
                await CALLER.get(service(server), "/", within_s=60)
            assert time.monotonic() - begun < BUSY_S
            assert caught.value.retry_at == pytest.approx(time.time() + 7_200, abs=60)
    assert len(server.requests) == 1


async def test_a_service_under_maintenance_gets_no_request_before_its_time() -> None:
    async with serving(lambda _: refusal(503, "back at noon", {"Retry-After": "7200"})) as server:
        with pytest.raises(SourceUnavailable, match=r"answered 503.*back at noon.*retry in 7,200 s"):
            await CALLER.get(service(server), "/", within_s=30.0)
        with pytest.raises(RateLimited, match="is rate-limiting us; retry in 7,"):
            await CALLER.get(service(server), "/", within_s=30.0)
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    "retry_after", ["99999999999999", "1e400", "nan", "-5", "soon", "Wed, 21 Oct 2099 07:28:00 GMT", "", "9" * 400, "inf"]
)
async def test_no_retry_after_makes_it_wait_beyond_its_time(retry_after: str) -> None:
    async with serving(lambda _: refusal(429, headers={"Retry-After": retry_after})) as server:
        begun = time.monotonic()
        with pytest.raises(RateLimited) as caught:
            await CALLER.get(service(server), "/", within_s=0.5)
        assert time.monotonic() - begun < 0.5 + BUSY_S
        assert caught.value.retry_at is None or -1 <= caught.value.retry_at - time.time() <= LONGEST_S


@pytest.mark.parametrize(
    ("headers", "wait_s"),
    [
        ({"Retry-After": "30"}, 30),
        ({"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "{at}"}, 40),
        ({"X-RateLimit-Remaining": "4000", "X-RateLimit-Reset": "{at}"}, 60),
        ({}, 60),
    ],
)
async def test_githubs_403_is_a_limit(headers: dict[str, str], wait_s: float) -> None:
    """ "Rate limits for the REST API": Retry-After, else the reset of a budget that is used up, else a minute."""
    limit_headers = {name: value.format(at=int(time.time()) + 40) for name, value in headers.items()}
    async with serving(lambda _: refusal(403, "You have exceeded a secondary rate limit.", limit_headers)) as server:
        for _ in range(2):
            with pytest.raises(RateLimited) as caught:
                await CALLER.get(service(server), "/", within_s=20.0)
            assert caught.value.retry_at == pytest.approx(time.time() + wait_s, abs=10)
    assert len(server.requests) == 1


async def test_a_used_up_budget_gets_no_request_before_it_is_renewed() -> None:
    limit_headers = {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "3600"}
    async with serving(lambda _: as_json(1, headers=limit_headers)) as server:
        assert (await CALLER.get(service(server), "/", within_s=30.0)).json() == 1
        begun = time.monotonic()
        with pytest.raises(RateLimited, match=r"is rate-limiting us; retry in 3,[56]"):
            await Caller(jitter=lambda: 20.0).get(service(server), "/", within_s=600)
        assert time.monotonic() - begun < BUSY_S  # refused at once: no pauses, of which the first would be longer
    assert len(server.requests) == 1


async def test_one_that_is_renewed_soon_is_waited_for() -> None:
    used_up = as_json(1, headers={"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "0.3"})
    async with serving(in_turn(used_up, as_json(2))) as server:
        for _ in range(2):
            await CALLER.get(service(server), "/", within_s=30.0)
    first, second = server.requests
    assert second.at - first.at >= 0.29


@settings(deadline=None)
@given(st.text() | st.floats().map(str) | st.integers().map(str) | st.datetimes().map(lambda at: at.strftime("%a, %d %b %Y %H:%M:%S GMT")))
def test_the_pause_is_bounded_for_every_header(header: str) -> None:
    for pause_s in (
        parse_retry_after({"retry-after": header}, 1e9),
        parse_budget_reset({"x-ratelimit-remaining": "0", "x-ratelimit-reset": header}, 1e9),
        parse_budget_reset({"x-ratelimit-remaining": header, "x-ratelimit-reset": "1"}, 1e9),
    ):
        assert pause_s is None or 0 <= pause_s <= LONGEST_S


@pytest.mark.parametrize("date", ["Wed, 21 Oct 2015 07:28:00 GMT", "Wed, 21 Oct 2015 07:28:00", "Wednesday, 21-Oct-15 07:28:00 GMT"])
def test_retry_after_may_be_a_date(date: str) -> None:
    assert parse_retry_after({"retry-after": date}, 1445412480 - 90) == 90


@pytest.mark.parametrize(
    "date", ["Mon, 01 Jan 99999 00:00:00 GMT", "Mon, 01 Jan 2020 00:00:00 +99999999999999999999", ",", "1 2 3 4 5 6 7"]
)
def test_an_invalid_date_is_ignored(date: str) -> None:
    assert parse_retry_after({"retry-after": date}, 0) is None


@pytest.mark.parametrize("header", ["nan", "inf", "-inf", "1e400", "-5", "soon", ""])
def test_an_invalid_number_is_ignored(header: str) -> None:
    assert parse_retry_after({"retry-after": header}, 0) is None
    assert parse_budget_reset({"x-ratelimit-remaining": "nan", "x-ratelimit-reset": "9"}, 0) is None
    assert parse_budget_reset({"x-ratelimit-remaining": "0", "x-ratelimit-reset": header}, 0) == (0 if header == "-5" else None)


async def test_fifty_searches_on_three_loops_keep_the_limit_as_the_server_counts() -> None:
    per_s, most, at_once = 0.3, 10, 4

    async def searches(endpoint: Service, count: int) -> list[Reply]:
        return await asyncio.gather(*(CALLER.get(endpoint, f"/{at}", within_s=60) for at in range(count)))

    async with serving(lambda _: as_json(1, after_s=0.02)) as server:
        endpoint = service(server, requests=most, per_s=per_s, at_once=at_once)
        results = await asyncio.gather(*(asyncio.to_thread(asyncio.run, searches(endpoint, count)) for count in (20, 20, 10)))
    assert sum(map(len, results)) == len(server.requests) == 50
    came = sorted(request.at for request in server.requests)
    assert all(later - earlier >= per_s for earlier, later in zip(came, came[most:], strict=False))
    assert server.most <= at_once


async def test_with_a_real_limit_requests_without_a_permit_fail_at_once() -> None:
    async with serving(lambda _: as_json(1)) as server:
        endpoint = service(server, requests=10, per_s=60.0)
        begun = time.monotonic()
        results = await asyncio.gather(*(CALLER.get(endpoint, f"/{at}", within_s=50) for at in range(50)), return_exceptions=True)
    assert time.monotonic() - begun < BUSY_S
    assert len(server.requests) == 10
    assert sum(isinstance(one, RateLimited) and "its limit of 10 requests in 60 s is used up" in str(one) for one in results) == 40


async def test_a_cancelled_search_frees_its_permit_and_its_connection() -> None:
    async with serving(in_turn(NEVER, as_json(1))) as server:
        endpoint = service(server, at_once=1)
        hanging = asyncio.create_task(CALLER.get(endpoint, "/", within_s=60))
        await until(lambda: server.now)
        waiting = asyncio.create_task(CALLER.get(endpoint, "/", within_s=60))
        given_up = asyncio.create_task(CALLER.get(endpoint, "/", within_s=60))
        await asyncio.sleep(0.05)
        given_up.cancel()
        hanging.cancel()
        assert (await waiting).json() == 1
        await until(lambda: not server.now)
    assert len(server.requests) == 2


async def test_a_service_that_fails_repeatedly_is_skipped() -> None:
    async with serving(lambda _: refusal(500, "out of order")) as server:
        for _ in range(4):
            with pytest.raises(SourceUnavailable) as caught:
                await CALLER.get(service(server), "/", within_s=30.0)
    assert len(server.requests) == FAILURES
    assert "failed 5 times in a row and is skipped" in str(caught.value)
    assert "out of order" in str(caught.value)
    assert caught.value.retry_at is not None


async def test_a_service_that_answers_is_not_skipped() -> None:
    async with serving(lambda _: refusal(404)) as server:
        for _ in range(FAILURES + 2):
            with pytest.raises(SourceUnavailable, match="404"):
                await CALLER.get(service(server), "/", within_s=30.0)
    assert len(server.requests) == FAILURES + 2


async def test_failures_that_are_not_in_a_row_are_let_be() -> None:
    def answer(_: Request) -> Answer:
        return refusal(500) if len(server.requests) % 3 else as_json(1)

    async with serving(answer) as server:
        for _ in range(FAILURES):
            assert (await CALLER.get(service(server), "/", within_s=30.0)).json() == 1


async def test_searches_without_time_do_not_count_as_failures_of_a_service() -> None:
    async with serving(lambda _: as_json(1, after_s=0.2)) as server:
        endpoint = service(server)
        for _ in range(FAILURES):
            with pytest.raises(SourceTimeout):
                await CALLER.get(endpoint, "/", within_s=0.02)
        assert (await CALLER.get(endpoint, "/", within_s=30.0)).json() == 1


# When it ends


@pytest.mark.parametrize("fault", FAULTS)
async def test_no_fault_lasts_beyond_the_time_or_raises_anything_else(fault: str) -> None:
    async with serving(lambda _: FAULTS[fault]) as server:
        begun = time.monotonic()
        (outcome,) = await asyncio.gather(Caller().get(service(server), "/", within_s=0.6), return_exceptions=True)
        assert time.monotonic() - begun < 0.6 + BUSY_S
        assert isinstance(outcome, SourceError) != (fault in {"HTML", "wrong JSON", "JSON of another shape", "empty"}), outcome
        if isinstance(outcome, SourceError):
            assert f"{server.base_url}/" in str(outcome)
        elif fault != "JSON of another shape":
            with pytest.raises(Malformed, match="something else than JSON"):
                outcome.json()


@pytest.mark.parametrize("answer", [NEVER, dripping(as_json("x" * 1_000), 0.05)])
async def test_a_hanging_or_dripping_answer_ends_at_the_time_limit(answer: Answer) -> None:
    async with serving(lambda _: answer) as server:
        begun = time.monotonic()
        with pytest.raises(SourceTimeout, match=r"openalex did not respond to http://.* within 0\.\d+ s; retry later"):
            await CALLER.get(service(server), "/", within_s=0.3)
        assert 0.25 < time.monotonic() - begun < 0.3 + BUSY_S


async def test_one_try_has_its_own_time() -> None:
    async with serving(in_turn(NEVER, as_json(1))) as server:
        reply = await CALLER.get(service(server, timeout_s=0.3), "/", within_s=30.0)
    assert reply.json() == 1


async def test_50_mb_are_cut() -> None:
    async with serving(lambda _: huge()) as server:
        with pytest.raises(Malformed, match=r"openalex answered http://.* with more than 1,048,576 bytes, the most that is read"):
            await CALLER.get(service(server, most_bytes=MEBIBYTE), "/", within_s=30)
    assert server.sent < 40 * MEBIBYTE
    assert len(server.requests) == 1


async def test_a_compressed_answer_is_decompressed() -> None:
    packed = gzip.compress(json.dumps(["ä"] * 10_000).encode())
    async with serving(lambda _: as_bytes(packed, "application/json", headers={"Content-Encoding": "gzip"})) as server:
        assert (await CALLER.get(service(server), "/", within_s=30.0)).json() == ["ä"] * 10_000


def packed_bomb(levels: int) -> bytes:
    body = bytes(100 * MEBIBYTE)
    for _ in range(levels):
        body = gzip.compress(body)
    return body


@pytest.mark.parametrize(
    ("body", "packing", "message"),
    [
        (packed_bomb(1), "gzip", "more than 1,048,576 bytes"),
        (packed_bomb(2), "gzip, gzip", "encoded as gzip, gzip, which was not requested"),
        (zlib.compress(bytes(MEBIBYTE)), "deflate", "encoded as deflate"),
        (b"x", "br", "encoded as br"),
        (b"no gzip", "gzip", "cannot be decompressed"),
    ],
)
async def test_no_bomb_is_unpacked(body: bytes, packing: str, message: str) -> None:
    async with serving(lambda _: as_bytes(body, "application/json", headers={"Content-Encoding": packing})) as server:
        tracemalloc.start()
        try:
            with pytest.raises(Malformed, match=message):
                await CALLER.get(service(server, most_bytes=MEBIBYTE), "/", within_s=30)
            assert tracemalloc.get_traced_memory()[1] < 8 * MEBIBYTE
        finally:
            tracemalloc.stop()


async def test_a_bomb_is_unpacked_to_the_limit_of_a_service(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted at the library that unpacks: not twice the limit, whatever the body becomes."""
    unpacked: list[int] = []

    class Counted:
        def __init__(self, *how: Any) -> None:
            self.own = decompressobj(*how)

        def decompress(self, *args: Any) -> bytes:
            came: bytes = self.own.decompress(*args)
            unpacked.append(len(came))
            return came

        def __getattr__(self, name: str) -> Any:
            return getattr(self.own, name)

    decompressobj = zlib.decompressobj
    async with serving(lambda _: as_bytes(packed_bomb(1), "application/json", headers={"Content-Encoding": "gzip"})) as server:
        monkeypatch.setattr(zlib, "decompressobj", Counted)
        endpoint = service(server)
        with pytest.raises(Malformed, match=r"more than 20,971,520 bytes"):
            await CALLER.get(endpoint, "/", within_s=30)
    assert endpoint.most_bytes < sum(unpacked) < 2 * endpoint.most_bytes


@settings(deadline=None, max_examples=60)
@given(count=st.integers(0, 400), most=st.integers(0, 450), width=st.integers(0, 40), nested=st.booleans(), before=st.booleans())
def test_a_long_answer_is_decoded_as_far_as_asked(count: int, most: int, width: int, nested: bool, before: bool) -> None:
    """At least the requested items, each as it was sent; never a part of one. The total before them stays."""
    items = [{"id": number, "title": "é" * width, "more": [number, {"x": None}]} for number in range(count)]
    payload = {"total": count, "message": {"items": items}} if nested else {"total": count, "items": items}
    payload = payload if before else dict(reversed(payload.items()))
    reply = Reply("http://x/", 200, {}, json.dumps(payload, ensure_ascii=False).encode())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(service_module, "QUICK_BYTES", 100)
        patch.setattr(service_module, "WHOLE_BYTES", 300)
        decoded = asyncio.run(reply.decode(most))
    listed = decoded["message"]["items"] if nested else decoded["items"]
    assert listed == items[: len(listed)]
    assert len(listed) >= min(most, count)
    assert decoded.get("total", count) == count
    assert reply.json() is decoded


@pytest.mark.parametrize("body", [b'{"items": [1, 2}' + b" " * 400, b"<html>" * 100, b"[" * 2_000, b'{"a": 1} x' + b" " * 400])
async def test_a_long_answer_that_is_no_json_is_malformed(body: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service_module, "QUICK_BYTES", 100)
    monkeypatch.setattr(service_module, "WHOLE_BYTES", 300)
    with pytest.raises(Malformed, match="something else than JSON"):
        await Reply("http://x/", 200, {}, body).decode(10)


async def test_a_truncated_compressed_answer_is_retried() -> None:
    short = gzip.compress(b"[" + b"1," * 5_000 + b"1]")[:-12]
    async with serving(in_turn(as_bytes(short, headers={"Content-Encoding": "gzip"}), as_json(1))) as server:
        assert (await CALLER.get(service(server), "/", within_s=30.0)).json() == 1
    assert len(server.requests) == 2


# Caching


async def test_a_fresh_answer_is_not_requested_again(cached: Caller) -> None:
    async with serving(lambda _: as_json({"a": 1}, headers={"Link": "<next>", "Set-Cookie": "x=y"})) as server:
        endpoint = service(server)
        now = await cached.get(endpoint, "/", {"q": "x"}, within_s=30.0)
        later = await cached.get(endpoint, "/", {"q": "x"}, within_s=30.0)
        assert len(server.requests) == 1
        assert (later.json(), later.url, later.stale) == (now.json(), now.url, False)
        assert later.age_s > 0
        assert later.headers["link"] == "<next>"
        assert "set-cookie" not in later.headers
        await cached.get(endpoint, "/", {"q": "y"}, within_s=30.0)
        await cached.get(endpoint, "/", {"q": "x"}, within_s=30.0, headers={"Accept": "text/plain"})
        await cached.post(endpoint, "/", [], {"q": "x"}, within_s=30.0)
        assert len(server.requests) == 4
        await cached.get(endpoint, "/", {"q": "x"}, within_s=30.0, fresh_s=0)
        assert len(server.requests) == 5
        await replace(cached, fresh_s=0).get(endpoint, "/", {"q": "x"}, within_s=30.0)
        assert len(server.requests) == 6


async def test_without_a_connection_no_slot_of_the_limit_is_used() -> None:
    """A second search without a network would else wait for the pace of a service that it cannot reach."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        closed = Service("arxiv", f"http://127.0.0.1:{taken.getsockname()[1]}", 1, 600.0)
    for _ in range(FAILURES - 1):
        with pytest.raises(SourceUnavailable, match="unreachable"):
            await CALLER.get(closed, "/", within_s=30.0)
    assert get_rate_limiter(closed).window.available() == 1


async def test_an_answer_of_this_very_moment_is_not_fresh_where_nothing_is(tmp_path: Path) -> None:
    answers = DiskCache(tmp_path, clock=lambda: 1_000.0)
    async with serving(lambda _: as_json(1)) as server:
        for _ in range(2):
            await Caller(answers, fresh_s=0).get(service(server), "/", within_s=30.0)
    await asyncio.to_thread(answers.close)
    assert len(server.requests) == 2


async def test_what_one_key_may_see_is_not_shown_to_another_or_to_none(cached: Caller) -> None:
    """A token's private repositories, a subscriber's abstracts."""
    async with serving(lambda _: as_json(len(server.requests))) as server:
        url, keys = server.base_url, ("one-key-of-somebody", "another-key-of-somebody")
        services = [service(server)]
        services += [service(server, params={"api_key": key}) for key in keys]
        services += [service(server, headers={"Authorization": key}) for key in keys]
        services += [service(server, base_url=url.replace("://", f"://me:{key}@")) for key in keys]
        first = [(await cached.get(one, "/", within_s=30.0)).json() for one in services]
        again = [(await cached.get(one, "/", within_s=30.0)).json() for one in services]
    assert first == again == list(range(1, len(services) + 1))


@dataclass
class Slow:
    """A cache that takes its time."""

    get_s: float = 0.0
    release: threading.Event | None = None
    """Nothing is put before it is set."""
    put_in: list[bytes] = field(default_factory=list)

    async def get(self, key: str) -> None:
        await asyncio.sleep(self.get_s)

    async def put(self, key: str, body: bytes, headers: dict[str, str]) -> None:
        while self.release and not self.release.is_set():  # noqa: ASYNC110 - set in another thread
            await asyncio.sleep(0.01)
        self.put_in.append(body)


async def test_an_answer_does_not_wait_for_the_cache() -> None:
    release = threading.Event()
    answers = Slow(release=release)
    async with serving(lambda _: as_json(1)) as server:
        assert (await Caller(answers).get(service(server), "/", within_s=30.0)).json() == 1
        assert not answers.put_in
        release.set()
        await asyncio.to_thread(flush_cache)
    assert answers.put_in == [b"1"]


async def test_a_slow_cache_takes_no_longer_than_there_is_time() -> None:
    async with serving(lambda _: as_json(1)) as server:
        begun = time.monotonic()
        with pytest.raises(SourceError):
            await Caller(Slow(get_s=600.0)).get(service(server), "/", within_s=0.2)
        assert time.monotonic() - begun < 0.2 + BUSY_S


@pytest.mark.parametrize("fault", [refusal(429, headers={"Retry-After": "900"}), refusal(429), refusal(500), RESET, NEVER])
async def test_where_the_service_cannot_answer_an_older_answer_is_used_and_marked(cached: Caller, fault: Answer) -> None:
    async with serving(in_turn(as_json({"a": 1}), fault)) as server:
        endpoint = service(server, timeout_s=0.3)
        await cached.get(service(server), "/", within_s=30.0)
        await asyncio.sleep(0.01)
        for _ in range(3):
            old = await cached.get(endpoint, "/", within_s=30, fresh_s=0)
            assert (old.json(), old.stale) == ({"a": 1}, True)
            assert str(old.why).startswith("openalex ")
            assert old.age_s >= 0.01


async def test_only_the_cache_is_read_where_no_try_is_allowed(cached: Caller) -> None:
    async with serving(lambda _: as_json({"a": 1})) as server:
        cache_only = service(server, tries=0)
        with pytest.raises(SourceUnavailable, match="was not queried"):
            await cached.get(cache_only, "/", within_s=30.0)
        await cached.get(service(server), "/", within_s=30.0)
        await asyncio.sleep(0.01)
        fresh, old = await cached.get(cache_only, "/", within_s=30.0), await cached.get(cache_only, "/", within_s=30.0, fresh_s=0)
    assert (fresh.json(), fresh.stale, old.json(), old.stale) == ({"a": 1}, False, {"a": 1}, True)
    assert len(server.requests) == 1


async def test_an_older_answer_is_used_where_no_permit_is_available(cached: Caller) -> None:
    async with serving(lambda _: as_json({"a": 1})) as server:
        endpoint = service(server, requests=1, per_s=60)
        await cached.get(endpoint, "/", within_s=30.0)
        old = await cached.get(endpoint, "/", within_s=30.0, fresh_s=0)
        assert old.stale
        assert isinstance(old.why, RateLimited)
        assert old.why.retry_at == pytest.approx(time.time() + 60, abs=10)
    assert len(server.requests) == 1


@pytest.mark.parametrize("fault", [refusal(404), refusal(401), refusal(400), as_bytes(b"x", headers={"Content-Encoding": "br"})])
async def test_where_the_service_has_answered_no_older_answer_is_used(cached: Caller, fault: Answer) -> None:
    async with serving(in_turn(as_json({"a": 1}), fault)) as server:
        await cached.get(service(server), "/", within_s=30.0)
        with pytest.raises(SourceError):
            await cached.get(service(server), "/", within_s=30.0, fresh_s=0)


@pytest.mark.parametrize(
    "answer",
    [FAULTS["HTML"], FAULTS["wrong JSON"], FAULTS["empty"], as_json({"error": "try again"}), as_json({"you said": "a-key-of-somebody"})],
)
async def test_an_invalid_answer_is_not_cached(cached: Caller, answer: Answer) -> None:
    async with serving(lambda _: answer) as server:
        endpoint = service(server, params={"api_key": "a-key-of-somebody"}, keeps=keeps_no_error)
        for _ in range(2):
            await cached.get(endpoint, "/", within_s=30.0)
    assert len(server.requests) == 2


def keeps_no_error(reply: Reply) -> bool:
    from outrider.sources.http.service import is_complete

    return is_complete(reply) and b"error" not in reply.body


async def test_a_cache_that_cannot_be_used_loses_no_answer(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    async with serving(lambda _: as_json(1)) as server:
        for _ in range(2):
            assert (await Caller(DiskCache(tmp_path / "file")).get(service(server), "/", within_s=30.0)).json() == 1
    assert len(server.requests) == 2


# What is secret


async def test_no_key_is_reported_logged_or_cached(cached: Caller, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    outputs: list[str] = []
    faults = iter([Answer(), refusal(401), refusal(400), refusal(429), refusal(500), RESET, NEVER, Answer(status=200)])

    def echo(request: Request) -> Answer:
        fault = next(faults, refusal(418))
        return replace(fault, body=f"{request.target} {request.headers} {dict(request.query)} {json.dumps(dict(request.query))}".encode())

    async with serving(echo) as server:
        endpoint = service(server, headers={"X-Api-Key": KEY, "Authorization": f"Bearer {KEY}"}, params={"api_key": KEY})
        for at in range(12):
            try:
                reply = await cached.get(endpoint, "/works", {"q": at}, within_s=0.3)
                outputs += [repr(reply), reply.url]
            except SourceError as error:
                outputs += ["".join(traceback.format_exception(error)), repr(error), str(error.__context__)]
        broken = replace(endpoint, headers={"X-Api-Key": f"{KEY}\n"})
        with pytest.raises(SourceUnavailable) as caught:
            await CALLER.get(broken, "/", within_s=2)
        outputs += ["".join(traceback.format_exception(caught.value))]
    outputs += [repr(endpoint), str(endpoint), repr(get_rate_limiter(endpoint)), caplog.text]
    assert "/works" in caplog.text
    await asyncio.to_thread(flush_cache)
    files = await asyncio.to_thread(lambda: [path.read_bytes().decode(errors="replace") for path in tmp_path.rglob("*.*")])
    secrets = [KEY, *endpoint.secrets()]
    for text in [*outputs, *files]:
        assert not [secret for secret in secrets if secret in text], text


async def test_a_password_in_the_address_is_not_shown() -> None:
    async with serving(lambda _: refusal(404)) as server:
        endpoint = service(server, base_url=server.base_url.replace("://", "://me:pass-word@"))
        with pytest.raises(SourceUnavailable) as caught:
            await CALLER.get(endpoint, "/", within_s=30.0)
        reply = await CALLER.get(endpoint, "/", within_s=30.0, accept=frozenset({404}))
    assert "pass-word" not in f"{caught.value} {reply!r} {endpoint!r}"
    assert server.requests[0].headers["authorization"].startswith("Basic ")


async def test_logs_of_other_libraries_are_unchanged(caplog: pytest.LogCaptureFixture) -> None:
    import httpx

    caplog.set_level(logging.INFO, logger="httpx")
    async with serving(lambda _: as_json(1)) as server:
        await CALLER.get(service(server), "/ours", within_s=30.0)
        async with httpx.AsyncClient() as theirs:
            await theirs.get(f"{server.base_url}/theirs")
    assert "/theirs" in caplog.text
    assert "/ours" not in caplog.text


# The connection


@pytest.fixture
async def secure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[str]:
    """A server that speaks nothing but HTTP/2 over TLS, and is believed."""
    from support.http2_server import speaking_http2

    async with speaking_http2(tmp_path) as (base_url, certificate):
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        clients._ssl_context.cache_clear()
        yield base_url
        await asyncio.to_thread(clients.close_clients)
        clients._ssl_context.cache_clear()


async def test_http2_is_spoken_where_the_service_speaks_it(secure: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    endpoint = Service("github", secure, 100, 1.0, headers={"X-Api-Key": KEY}, params={"api_key": KEY})
    replies = await asyncio.gather(*(CALLER.get(endpoint, f"/{at}", within_s=10) for at in range(5)))
    assert [reply.json()["path"].split("?")[0] for reply in replies] == [f"/{at}" for at in range(5)]
    assert {reply.json()["key"] for reply in replies} == {KEY}
    assert {reply.json()["connection"] for reply in replies} == {1}
    assert KEY not in caplog.text


async def test_each_service_has_its_own_connections_and_the_longest_unused_are_closed() -> None:
    await asyncio.to_thread(clients.close_clients)
    let = threading.Event()

    async def answer_slowly(request: Request) -> Answer:
        while request.path == "/slow" and not let.is_set():  # noqa: ASYNC110 - set in another thread
            await asyncio.sleep(0.01)
        return as_json(1)

    async with serving(answer_slowly) as server:
        for name in ("openalex", "crossref", "openalex", "crossref"):
            await CALLER.get(service(server, name=name), "/", within_s=30.0)
        first, second = (request.connection for request in server.requests[:2])
        assert [request.connection for request in server.requests] == [first, second, first, second]
        slow = asyncio.create_task(CALLER.get(service(server, name="slow"), "/slow", within_s=30.0))
        await until(lambda: server.now)
        for number in range(clients.MOST_CLIENTS):
            await CALLER.get(service(server, name=f"of others {number}"), "/", within_s=30.0)
        assert len(clients._clients) == clients.MOST_CLIENTS
        assert {name for name, _ in clients._clients} > {"slow", f"of others {clients.MOST_CLIENTS - 1}"}
        let.set()
        assert (await slow).json() == 1
        await CALLER.get(service(server, name="openalex"), "/", within_s=30.0)
        assert server.requests[-1].connection not in {first, second}


def test_nothing_is_complained_about_when_the_process_ends(tmp_path: Path) -> None:
    """An open connection, and a cache, which has the answer although the caller did not wait for it."""
    script = (
        "import asyncio, sys; from pathlib import Path; sys.path.append(sys.argv[1])\n"
        "from support.http_server import as_json, serving\n"
        "from outrider.sources.http.cache import DiskCache\n"
        "from outrider.sources.http.client import Caller\n"
        "from outrider.sources.http.service import Service\n"
        "async def main():\n"
        "    with serving(lambda _: as_json(1)) as server:\n"
        "        caller = Caller(DiskCache(Path(sys.argv[2])))\n"
        "        print((await caller.get(Service('x', server.base_url, 9, 1), '/', within_s=9)).json())\n"
        "asyncio.run(main())"
    )
    ended = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-c", script, str(Path(__file__).parents[2]), str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    slow = [line for line in ended.stderr.splitlines() if not line.startswith("Executing <")]  # -X dev reports a busy machine
    assert (ended.stdout, slow, ended.returncode) == ("1\n", [], 0)
    with diskcache.Cache(str(tmp_path)) as cache:
        assert len(cache) == 1


@pytest.mark.parametrize("proxy", ["foo://u:secret@p.example", "http://", "http://[::1"])
async def test_an_unusable_proxy_of_the_environment_is_named(proxy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in PROXY_VARIABLES:
        monkeypatch.setenv(name, proxy)
    with pytest.raises(SourceError, match=r"openalex cannot be queried: \w+_proxy in the environment, .* is no proxy") as caught:
        await CALLER.get(Service("openalex", "http://192.0.2.1", 1_000, 1.0, timeout_s=5.0), "/works", within_s=5.0)
    assert "secret" not in str(caught.value)


async def test_a_socks_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing listens there: the service is unreachable, and no traceback names a missing package."""
    for name in PROXY_VARIABLES:
        monkeypatch.setenv(name, "socks5://127.0.0.1:9")
    with pytest.raises(SourceError, match="openalex"):
        await CALLER.get(Service("openalex", "http://192.0.2.1", 1_000, 1.0, timeout_s=2.0), "/works", within_s=2.0)
