"""The searcher of query-builder-and-searcher-spec: REQ-6 to REQ-9, PROP-5 and PROP-6, by their names."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.library.fusion import interleave, reciprocal_rank_fusion
from outrider.nodes.scout import Scout
from outrider.settings.model import RunSettings
from outrider.state.errors import (
    Forbidden,
    LibraryCorrupt,
    LibraryMissing,
    Malformed,
    RateLimited,
    SearchError,
    SourceTimeout,
    SourceUnavailable,
    Unauthorized,
)
from outrider.state.intent import PlannedQuery, SearchStrategy
from outrider.state.pipeline import PipelineState
from outrider.state.request import RetrieverType
from support.fakes import NOON, Shelf, paper

TEN = [paper(f"p{number}", "liver injury") for number in range(10)]
ERRORS: tuple[SearchError | TimeoutError, ...] = (
    Forbidden("no"), LibraryCorrupt("torn"), LibraryMissing("gone"), Malformed("<html>"), RateLimited("later", NOON + 60), SearchError("?"),
    SourceTimeout("late"), SourceUnavailable("down"), TimeoutError(), Unauthorized("key"),
)  # fmt: skip


def strategy(*sources: str, queries: int = 1) -> SearchStrategy:
    query = PlannedQuery(text="liver", keywords=("liver",), boolean_query="liver")
    return SearchStrategy(queries=(query,) * queries, sources=sources, strategies=tuple(RetrieverType))


def run_scout(shelves: Sequence[Shelf], strategy: SearchStrategy) -> dict[str, Any]:
    scout = Scout(tuple(shelves), reciprocal_rank_fusion, interleave, RunSettings(), lambda: NOON)
    state = PipelineState.model_validate({"query": "liver", "started_at": NOON}).model_copy(update={"strategy": strategy})
    return dict(asyncio.run(scout(state, None)))  # type: ignore[arg-type]


def ids(update: dict[str, Any]) -> set[str]:
    return {one.record.doc_id for one in update["candidates"]}


def test_req_6_a_single_source_is_searched() -> None:
    assert len(ids(run_scout([Shelf(list(TEN), name="serpapi_scholar")], strategy("serpapi_scholar")))) == 10


def test_req_7_sources_that_are_not_configured_fall_back_to_all_that_are() -> None:
    update = run_scout([Shelf(list(TEN), name="serpapi_scholar")], strategy("semantic_scholar"))
    assert len(ids(update)) == 10
    assert [row.source for row in update["sources"]] == ["serpapi_scholar"]


def test_req_8_a_failing_source_costs_only_its_own_results() -> None:
    update = run_scout([Shelf(list(TEN), name="one"), Shelf(name="other", error=SourceUnavailable("down"))], strategy("one", "other"))
    assert len(ids(update)) == 10
    assert [(row.source, row.status) for row in update["sources"]] == [("one", "ok"), ("other", "unavailable")]
    assert "failures" not in update


def test_req_9_a_strategy_without_queries_finds_nothing() -> None:
    update = run_scout([Shelf(list(TEN), name="one")], strategy("one", queries=0))
    assert update["candidates"] == ()
    assert "failures" not in update


names = st.sampled_from(["github", "openalex", "pubmed", "library"])


@given(st.lists(names, min_size=1, unique=True), st.lists(names, unique=True), st.integers(0, 3))
def test_prop_5_every_result_names_a_configured_source(configured: list[str], requested: list[str], queries: int) -> None:
    records = [(name, paper(f"{name}:1", "liver", source=name)) for name in configured]
    update = run_scout([Shelf([record], name=name) for name, record in records], strategy(*requested, queries=queries))
    sources = {place.source for one in update["candidates"] for place in one.found_by} | {one.record.source for one in update["candidates"]}
    assert sources <= set(configured)


@given(st.lists(st.sampled_from([None, *ERRORS]), min_size=1, max_size=5))
def test_prop_6_no_failure_of_a_source_is_one_of_the_search(errors: list[Exception | None]) -> None:
    shelves = [Shelf([TEN[at]], name=f"s{at}", error=error) for at, error in enumerate(errors)]
    update = run_scout(shelves, strategy(*(shelf.name for shelf in shelves)))
    assert ids({"candidates": (), **update}) == {TEN[at].doc_id for at, error in enumerate(errors) if error is None}
    assert len(update["sources"]) == len(errors)
    assert all(row.message for row, error in zip(update["sources"], errors, strict=True) if error)


def test_prop_6_a_bug_passes_through() -> None:
    with pytest.raises(KeyError):
        run_scout([Shelf(error=KeyError("ours"))], strategy("library"))


def test_a_rate_limit_names_the_time_to_retry() -> None:
    (row,) = run_scout([Shelf(error=RateLimited("later", NOON + 60))], strategy("library"))["sources"]
    assert (row.status, row.retry_at) == ("rate_limited", "2026-09-21T14:14:20+00:00")


def test_what_the_library_holds_is_not_overwritten_by_what_a_service_gave() -> None:
    own = paper("openalex:W1", "liver", text="The whole of it.")
    update = run_scout([Shelf([own]), Shelf([paper("openalex:W1", "liver")], name="openalex")], strategy("library", "openalex"))
    assert [one.record for one in update["candidates"]] == [own]


def test_every_row_names_its_query() -> None:
    assert [row.query for row in run_scout([Shelf(list(TEN))], strategy("library"))["sources"]] == ["liver"]
