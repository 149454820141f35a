from __future__ import annotations

import asyncio

import pytest
from fakes import NOON, Shelf, found, paper

from outrider.nodes.scout import Scout, candidates, constraint_filter
from outrider.retrieval.fusion import interleaved, reciprocal_rank_fusion
from outrider.settings.model import RunSettings
from outrider.state.errors import LibraryCorrupt, LibraryMissing
from outrider.state.filters import Compare, Not, Or
from outrider.state.hits import Ranked, RankedList
from outrider.state.intent import Constraints, NumberRange, PlannedQuery, SearchStrategy
from outrider.state.pipeline import PipelineState
from outrider.state.request import RetrieverType

STRATEGY = SearchStrategy(
    queries=(PlannedQuery(text="liver", keywords=("liver",), boolean_query="liver"),),
    sources=("library", "shelf"),
    strategies=(RetrieverType.LANCE_FTS,),
)


async def scouted(*sources: Shelf, strategy: SearchStrategy = STRATEGY, timeout_s: float = 5.0, **request: object) -> dict[str, object]:
    scout = Scout(sources, reciprocal_rank_fusion, interleaved, RunSettings(run_timeout_s=timeout_s), lambda: NOON)
    state = PipelineState.model_validate({"query": "liver", "started_at": NOON, **request}).model_copy(update={"strategy": strategy})
    return dict(await scout(state, None))  # type: ignore[arg-type]


async def test_one_failing_source_costs_only_its_own_results() -> None:
    update = await scouted(Shelf([paper("a", "liver")]), Shelf(name="shelf", error=LibraryCorrupt("broken page")))
    assert [one.record.doc_id for one in update["candidates"]] == ["a"]
    assert [(row.source, row.status, row.message) for row in update["sources"]] == [
        ("library", "ok", ""),
        ("shelf", "unavailable", "broken page"),
    ]


async def test_a_bug_in_a_source_is_not_a_status() -> None:
    with pytest.raises(KeyError):
        await scouted(Shelf(error=KeyError("bug")))


async def test_nothing_searchable_names_every_reason() -> None:
    update = await scouted(Shelf(error=LibraryMissing("no library here")))
    assert [(row.node, row.error, row.message) for row in update["failures"]] == [
        ("scout", "NothingSearchable", "library: no library here"),
    ]
    assert [row.status for row in update["sources"]] == ["off"]


async def test_a_slow_source_is_cut_off_at_the_time_limit() -> None:
    update = await scouted(Shelf([paper("a", "liver")]), Shelf(name="shelf", delay_s=5), timeout_s=0.2)
    assert [row.status for row in update["sources"]] == ["ok", "timeout"]


async def test_searches_run_at_once() -> None:
    """Each source waits until both have been asked."""
    both = asyncio.Barrier(2)
    update = await scouted(Shelf([paper("a", "liver")], barrier=both), Shelf(name="shelf", barrier=both))
    assert [row.status for row in update["sources"]] == ["ok", "empty"]


async def test_expanded_keywords_go_beside_the_words_of_the_request() -> None:
    shelf = Shelf([paper("a", "liver")])
    await scouted(shelf, strategy=STRATEGY.model_copy(update={"expanded_keywords": ("hepatic",)}))
    assert [(query.text, query.widened) for query in shelf.asked] == [("liver", ("hepatic",))]


async def test_lists_are_interleaved_without_fusion() -> None:
    one, other = Shelf([paper("a", "liver"), paper("b", "liver")]), Shelf([paper("c", "liver"), paper("a", "liver")], name="shelf")
    update = await scouted(one, other, fusion_enabled=False)
    assert [found_one.record.doc_id for found_one in update["candidates"]] == ["a", "b", "c"]


def test_words_of_the_request_let_records_without_the_field_pass() -> None:
    strategy = STRATEGY.model_copy(update={"constraints": Constraints(years=NumberRange(min=2020))})
    assert constraint_filter(strategy) == Or((Compare("year", "$gte", 2020), Not(Compare("year", "$exists", True))))


def test_only_stars_that_words_name_are_asked_before_the_cut_and_only_of_repositories() -> None:
    """The default minimum is the coarse filter's: it says whom it left out."""
    default = Constraints(stars=NumberRange(min=50))
    assert constraint_filter(STRATEGY.model_copy(update={"constraints": default})) is None
    named = constraint_filter(STRATEGY.model_copy(update={"constraints": default.model_copy(update={"stars_named": True})}))
    in_range = Or((Compare("stars", "$gte", 50), Not(Compare("stars", "$exists", True))))
    assert named == Or((Not(Compare("kind", "$eq", "repository")), in_range))


async def test_nobody_to_ask_is_said() -> None:
    update = await scouted(Shelf(strategies=()))
    assert "no source runs" in update["failures"][0].message


async def test_the_limit_counts_from_the_start_of_the_run() -> None:
    update = await scouted(Shelf([paper("a", "liver")], delay_s=5), timeout_s=1.0, started_at=NOON - 0.9)
    assert [row.status for row in update["sources"]] == ["timeout"]


def test_a_candidate_keeps_everyone_who_found_it() -> None:
    lists = [
        RankedList(source=name, strategy="lance_fts", query="q", results=(Ranked(doc_id="a", score=1.0),)) for name in ("library", "shelf")
    ]
    (one,) = candidates(reciprocal_rank_fusion(lists), lists, {"a": paper("a")})
    assert one.found_by == (found(source="library"), found(source="shelf"))
    assert one.scores == {"lance_fts": 1.0, "fused": 1.0}
