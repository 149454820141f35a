"""The whole graph over every service at once, on loopback: all answer, one fails, all fail."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from outrider.graph.pipeline import build
from outrider.services import Services
from outrider.settings.model import LibrarySettings, RunSettings, Settings
from outrider.sources.http import client
from outrider.state.response import SearchResponse
from support import fake_services
from support.fake_services import SERVICES, make_handler, settings
from support.http_server import FAULTS, Answer, Request, refusal, serving

pytestmark = pytest.mark.slow


QUERY = "liver injury by drugs"
PATIENT_S = 15.0
"""Time limit of services that answer; on a busy machine that takes a while."""
FAILED = {"timeout", "rate_limited", "forbidden", "unauthorized", "unavailable", "malformed", "empty", "partial"}


def make_settings(base_url: str, folder: Path, **common: Any) -> Settings:
    own = {"library": LibrarySettings(uri=str(folder / "none")), "run": RunSettings(run_timeout_s=20)}
    return settings(base_url, folder / "answers", **common).model_copy(update=own)


async def run_search(own_settings: Settings, **request: Any) -> SearchResponse:
    services = Services(own_settings)
    try:
        return SearchResponse.model_validate(await build(services).ainvoke({"query": QUERY, "top_k": 50, **request}))
    finally:
        services.close()


async def test_every_service_is_queried_and_every_work_is_returned(tmp_path: Path) -> None:
    async with serving(make_handler()) as server:
        answer = await run_search(make_settings(server.base_url, tmp_path))
    rows = {(row.source, row.strategy): row for row in answer.sources if row.source != "library"}
    assert {source for source, _ in rows} == set(SERVICES)
    assert {strategy for source, strategy in rows if source == "github"} == {"stars", "updated"}
    assert {(row.status, row.returned) for row in rows.values()} == {("ok", 3)}, [row.message for row in rows.values()]
    sources = {place.source for hit in answer.hits for place in hit.found_by}
    assert sources == set(SERVICES)
    assert answer.failures == ()


class LoopLag:
    """The longest time in which the running loop did nothing else, in seconds."""

    def __init__(self) -> None:
        self.worst_s = 0.0

    async def __aenter__(self) -> LoopLag:
        self._ticking = asyncio.create_task(self._tick())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._ticking.cancel()

    async def _tick(self) -> None:
        while True:
            began = time.perf_counter()
            await asyncio.sleep(0.005)
            self.worst_s = max(self.worst_s, time.perf_counter() - began - 0.005)


async def test_answers_of_60_000_works_are_read_as_far_as_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every service answers at once with megabytes; reading all of them held the loop for seconds."""
    monkeypatch.setattr(fake_services, "EACH", range(1, 60_001))
    answers: dict[str, Answer] = {}
    handler = make_handler()

    def remembered(request: Request) -> Answer:  # made once: the server shares the interpreter with the search
        key = f"{request.path} {request.query.get('engine')} {request.query.get('sort')}"
        if key not in answers:
            answers[key] = handler(request)
        return answers[key]

    async with serving(remembered) as server:
        await run_search(make_settings(server.base_url, tmp_path / "first"), distill_enabled=False)
        async with LoopLag() as lag:
            answer = await run_search(make_settings(server.base_url, tmp_path / "second"), distill_enabled=False)
    rows = {row.source: row for row in answer.sources if row.source != "library"}
    asked = {**dict.fromkeys(SERVICES, 100), "serpapi_scholar": 20, "serpapi_google": 10}  # two equal pages of SerpApi are one
    assert {name: row.returned for name, row in rows.items()} == asked
    assert lag.worst_s < 2.0  # 0.1 s alone, 4 s when all was read


HEAVY = {
    "markup": "<b " * 30_000,
    "one word": "a" * 90_000,
    "different words": " ".join(f"w{number}" for number in range(12_000)),
}
"""Texts that are slow to read, in a hundred works: about 20 s of computing each."""


@pytest.mark.parametrize("text", HEAVY)
async def test_the_time_limit_holds_whatever_a_source_sends(tmp_path: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fake_services, "EACH", range(1, 101))
    monkeypatch.setattr(fake_services, "_title", lambda name, number: f"{name} {number} {HEAVY[text]}")
    async with serving(make_handler()) as server:
        own = make_settings(server.base_url, tmp_path).model_copy(update={"run": RunSettings(run_timeout_s=4)})
        began = time.monotonic()
        answer = await run_search(own, sources=["semantic_scholar", "github", "crossref"])
        took_s = time.monotonic() - began
    assert took_s < 4 + 8  # 4 s and the reading of one part on a busy machine; 20 s and more without bounds
    assert all(row.status in {"ok", "timeout"} for row in answer.sources)


async def test_the_caller_selects_the_sources(tmp_path: Path) -> None:
    async with serving(make_handler()) as server:
        answer = await run_search(make_settings(server.base_url, tmp_path), sources=["pubmed", "arxiv"])
    assert {row.source for row in answer.sources} == {"pubmed", "arxiv"}
    assert {request.path.split("/")[1] for request in server.requests} == {"pubmed", "arxiv"}


ENDLESS = {"timeout", "slow drip"}
"""Faults that take all the time that the service has."""


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("service", SERVICES)
async def test_a_service_that_fails_costs_only_its_own_results(
    tmp_path: Path, service: str, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "FIRST_PAUSE_S", 0.01)
    own = {service: {"timeout_s": 0.5}} if fault in ENDLESS else {}
    async with serving(make_handler({service: FAULTS[fault]})) as server:
        began = time.monotonic()
        answer = await run_search(make_settings(server.base_url, tmp_path, own=own, timeout_s=PATIENT_S), distill_enabled=False)
        took_s = time.monotonic() - began
    rows = [row for row in answer.sources if row.source == service]
    assert {row.status for row in rows} <= {
        "timeout",
        "rate_limited",
        "forbidden",
        "unauthorized",
        "unavailable",
        "malformed",
        "empty",
        "partial",
    }
    assert all(row.message for row in rows if row.status != "empty")
    sources = {place.source for hit in answer.hits for place in hit.found_by}
    assert sources == set(SERVICES) - {service}
    assert {row.status for row in answer.sources if row.source not in (service, "library")} == {"ok"}
    assert took_s < 20  # the run's limit


async def test_all_failed_services_are_named_and_nothing_is_returned(tmp_path: Path) -> None:
    async with serving(make_handler(dict.fromkeys(SERVICES, refusal(503)))) as server:
        answer = await run_search(make_settings(server.base_url, tmp_path, timeout_s=1.0))
    assert [failure.error for failure in answer.failures] == ["NothingSearchable"]
    assert answer.hits == ()
    assert {row.source for row in answer.sources} == {"library", *SERVICES}


async def test_services_are_queried_in_parallel(tmp_path: Path) -> None:
    """No service answers before all eight have a request."""

    async def together(request: Request) -> Answer:
        while server.most < 8:  # noqa: ASYNC110 - counted by the server
            await asyncio.sleep(0.01)
        return make_handler()(request)

    async with serving(together) as server:
        answer = await run_search(make_settings(server.base_url, tmp_path, timeout_s=PATIENT_S))
    assert all(row.status == "ok" for row in answer.sources if row.source != "library")


async def test_searches_share_the_limits_of_services(tmp_path: Path) -> None:
    """Ten at once with a limit of three requests in ten minutes: three are sent, the others are reported as rate-limited."""
    async with serving(make_handler()) as server:
        own_settings = make_settings(server.base_url, tmp_path, requests=3.0, per_s=600.0, timeout_s=PATIENT_S)
        services = Services(own_settings)
        graph = build(services)
        one = {"query": QUERY, "sources": ["crossref"]}
        answers = await asyncio.gather(*(graph.ainvoke({**one, "query": f"{QUERY} {number}"}) for number in range(10)))
        services.close()
    assert len(server.requests) == 3
    statuses = sorted(row.status for answer in answers for row in answer["sources"])
    assert statuses == ["ok"] * 3 + ["rate_limited"] * 7
