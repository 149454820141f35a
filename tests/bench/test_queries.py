"""The critical path of a search, the checks of its figures, and one request through the whole graph without waiting."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench import fake_services, queries
from bench.answers import Work
from bench.critical_path import LIMITS, floor_s
from bench.queries import Run
from bench.served import Call, served
from bench.ten_requests import REQUESTS, projects
from outrider.state.response import SearchResponse

NOTHING = SearchResponse(query="q", mode="balanced")
SERVICES = st.sampled_from(["openalex", "arxiv", "pubmed", "serpapi", "model", "github"])


def call(service: str, began: float = 0.0, after_s: float = 1.0, **properties: str) -> Call:
    return Call(f"/room/{service}/x", {}, began, after_s, 1, properties)


@given(st.lists(st.tuples(SERVICES, st.floats(0.1, 3)), max_size=40))
def test_calls_take_between_the_slowest_one_and_all_in_sequence(durations: list[tuple[str, float]]) -> None:
    """More calls never take less; the upper bound is a sequence with its own window for each call."""
    calls = [call(service, after_s=took_s) for service, took_s in durations]
    least = floor_s(calls)
    assert least >= max((took_s for _, took_s in durations), default=0.0)
    assert least <= sum(2 * took_s + LIMITS[service].per_s for service, took_s in durations)
    assert all(floor_s(calls[:at]) <= least for at in range(len(calls)))


@pytest.mark.parametrize(
    ("service", "count", "seconds"),
    [("model", 10, 1.0), ("model", 11, 2.0), ("arxiv", 2, 4.0), ("pubmed", 2, 2.0), ("serpapi", 6, 11.0), ("github", 3, 1.0)],
)
def test_limits_make_calls_wait(service: str, count: int, seconds: float) -> None:
    """Ten concurrent calls of a model; arXiv once in three seconds; PubMed's second call after its first."""
    assert floor_s([call(service)] * count) == seconds


def test_stages_and_waves_follow_one_another() -> None:
    """Translating 1 s, the slower of two services 1.5 s, an abstract 0.5 s, two waves of 1 s each; what runs at once counts once."""
    calls = [
        call("model", 0.0, stage="translator"),
        call("openalex", 1.0, 0.5),
        call("arxiv", 1.0, 1.5),
        call("openalex", 3.0, 0.5),
        call("model", 5.0, stage="papers"),
        call("model", 5.0, stage="repository"),
        call("model", 6.5, stage="papers"),
    ]
    run = Run(NOTHING, 8.0, 1.0, {"translator": 0.0, "scout": 1.0, "enrich": 3.0}, (4.9, 6.4, 7.9), calls)
    assert run.path_s() == 1 + 1.5 + 0.5 + 1 + 1


def test_failed_bounds_are_reported() -> None:
    good = dict(zip(queries.COLUMNS, ["x", 9.0, 1.0, *[1.0] * 5, 8.0, 1.125, 30, 100, 0.004, 0.9, 0.5], strict=True))
    assert [" does not hold" in note for note in queries.checks([tuple(good.values())])] == [False] * 4
    bad = tuple({**good, "wall s": 13.0, "ratio": 1.3, "USD": 0.02}.values())
    notes = queries.checks([tuple(good.values()), bad])
    assert [" does not hold" in note for note in notes] == [True, True, True, False]
    assert notes[-1] == "relevant@10: 0.90 on average, 0.9 at worst"


async def test_a_request_goes_through_every_stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls are counted by stage, cost by the price, and relevant projects come first."""
    monkeypatch.setattr(fake_services, "unavailable_reason", lambda: "not here")
    request = REQUESTS[0]
    candidates, relevant_names = projects(request, time.time())
    works = [Work(number, f"Cartoons, part {number}", "Of drawn animation.", doi=f"10.1145/{number}") for number in range(1, 9)]
    with served(fake_services.FakeServices(works, candidates[:6], {}, shares=True)) as server:
        run = await queries._measured(server, request, 0, tmp_path)
        again = replace(run, calls=[])
    stages = {run._stage(one) for one in run.calls}
    assert {"translator", "scout", "enrich", "fine_scorer"} <= stages
    assert (run.path_s(), again.path_s()) == (1.0, 0.0), "Semantic Scholar's second request waits a second"
    assert run.answer.usage.cost_usd is not None
    assert 0 < run.answer.usage.cost_usd < 0.01
    assert queries.relevant(run.answer, relevant_names) > queries.relevant(run.answer, frozenset())
    row = queries._row(request, [replace(run, calls=[call("model", stage="translator")])], relevant_names, 0.5)
    assert len(row) == len(queries.COLUMNS)
