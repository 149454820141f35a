from __future__ import annotations

import asyncio
import gc
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import pytest

from outrider.library.fusion import interleave, reciprocal_rank_fusion
from outrider.nodes.scout import Scout, collect_records, make_candidates, make_constraint_filter
from outrider.settings.model import RunSettings
from outrider.state.errors import LibraryCorrupt, LibraryMissing, SourceUnavailable
from outrider.state.filters import Compare, Not, Or
from outrider.state.hits import Ranked, RankedList, Scored
from outrider.state.intent import Constraints, NumberRange, PlannedQuery, SearchStrategy
from outrider.state.pipeline import PipelineState
from outrider.state.ports import Capabilities, SourceAnswer, SourceQuery
from outrider.state.records import Identifiers, Record
from outrider.state.request import RetrieverType
from support.fakes import NOON, Shelf, make_found_by, paper
from support.patience import BUSY_S

STRATEGY = SearchStrategy(
    queries=(PlannedQuery(text="liver", keywords=("liver",), boolean_query="liver"),),
    sources=("library", "shelf"),
    strategies=(RetrieverType.LANCE_FTS,),
)


async def scouted(*sources: Shelf, strategy: SearchStrategy = STRATEGY, timeout_s: float = 30.0, **request: object) -> dict[str, object]:
    scout = Scout(sources, reciprocal_rank_fusion, interleave, RunSettings(run_timeout_s=timeout_s), lambda: NOON)
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
    update = await scouted(Shelf([paper("a", "liver")]), Shelf(name="shelf", delay_s=600), timeout_s=0.2)
    assert [row.status for row in update["sources"]] == ["ok", "timeout"]


@dataclass
class Stubborn(Shelf):
    """Continues when it is cancelled, and fails once it is released."""

    let: asyncio.Event = field(default_factory=asyncio.Event)
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    async def search(self, query: SourceQuery) -> SourceAnswer:
        try:
            while not self.let.is_set():
                with suppress(asyncio.CancelledError):
                    await self.let.wait()
            raise KeyError("nobody hears it")
        finally:
            self.ended.set()


class Cancelled(Shelf):
    async def search(self, query: SourceQuery) -> SourceAnswer:
        raise asyncio.CancelledError


async def test_a_source_that_does_not_stop_is_left_behind(caplog: pytest.LogCaptureFixture) -> None:
    stubborn = Stubborn(name="shelf")
    async with asyncio.timeout(0.2 + BUSY_S):
        update = await scouted(Shelf([paper("a", "liver")]), stubborn, timeout_s=0.2)
    assert [row.status for row in update["sources"]] == ["ok", "timeout"]
    stubborn.let.set()
    await stubborn.ended.wait()
    await asyncio.sleep(0)
    gc.collect()
    assert "never retrieved" not in caplog.text


async def test_a_source_that_cancels_itself_ends_no_search() -> None:
    update = await scouted(Shelf([paper("a", "liver")]), Cancelled(name="shelf"))
    assert [row.status for row in update["sources"]] == ["ok", "unavailable"]


async def test_a_search_that_is_cancelled_is_cancelled() -> None:
    task = asyncio.ensure_future(scouted(Shelf(delay_s=5)))
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


class Generous(Shelf):
    async def search(self, query: SourceQuery) -> SourceAnswer:
        return SourceAnswer(tuple(Scored(paper(f"p{number}", "liver"), 1.0) for number in range(query.most + 5)))


async def test_no_more_is_taken_than_was_requested() -> None:
    update = await scouted(Generous())
    assert [(row.asked, row.returned) for row in update["sources"]] == [(100, 100)]
    assert len(update["candidates"]) == 100  # type: ignore[arg-type]


async def test_fused_lists_are_deeper_than_what_they_leave() -> None:
    """Lists by words and by vectors have twice the places; of the works, a quarter more than requested stay, and all of a service."""
    everything = STRATEGY.model_copy(update={"strategies": tuple(RetrieverType), "sources": ("library", "shelf")})
    shelf = Shelf([paper(f"other{number}", "liver") for number in range(40)], name="shelf", strategies=("relevance",))
    update = await scouted(Generous(strategies=tuple(RetrieverType)), shelf, strategy=everything)
    asked = {(row.source, row.strategy): row.asked for row in update["sources"]}  # type: ignore[attr-defined]
    assert asked == {
        ("library", "lance_dense"): 200,
        ("library", "lance_fts"): 200,
        ("library", "graph_neighbor"): 100,
        ("shelf", "relevance"): 100,
    }
    found = [one.record.doc_id for one in update["candidates"]]  # type: ignore[attr-defined]
    assert sum(doc_id.startswith("other") for doc_id in found) == 40
    assert sorted(doc_id for doc_id in found if doc_id.startswith("p")) == sorted(f"p{number}" for number in range(125))


async def test_searches_run_at_once() -> None:
    """Each source waits until both have been called."""
    both = asyncio.Barrier(2)
    update = await scouted(Shelf([paper("a", "liver")], barrier=both), Shelf(name="shelf", barrier=both))
    assert [row.status for row in update["sources"]] == ["ok", "empty"]


async def test_expanded_keywords_are_added_to_the_words_of_the_request() -> None:
    shelf = Shelf([paper("a", "liver")])
    await scouted(shelf, strategy=STRATEGY.model_copy(update={"expanded_keywords": ("hepatic",)}))
    assert [(query.text, query.widened) for query in shelf.queries] == [("liver", ("hepatic",))]


async def test_a_service_is_asked_for_the_work_of_an_identifier() -> None:
    """Its search by words need not know identifiers."""
    named = paper("s:1", "Deep learning", identifiers=Identifiers(doi="10.1000/d.1"))
    strategy = STRATEGY.model_copy(
        update={"queries": (PlannedQuery(text="10.1000/D.1 liver", keywords=("liver",), boolean_query="liver"),)}
    )
    knows = Capabilities(frozenset({"paper"}), frozenset({"doi"}), filters=True)
    service = Shelf([named, paper("s:2", "liver")], name="shelf", strategies=("relevance", "recent"), capabilities=knows)
    update = await scouted(service, strategy=strategy)
    assert [[place.doc_id for place in one.results] for one in update["lists"]] == [["s:1", "s:2"], ["s:2"]]


async def test_a_service_that_cannot_look_an_identifier_up_still_searches() -> None:
    strategy = STRATEGY.model_copy(
        update={"queries": (PlannedQuery(text="10.1000/d.1 liver", keywords=("liver",), boolean_query="liver"),)}
    )
    knows = Capabilities(frozenset({"paper"}), frozenset({"doi"}), filters=True)
    service = Unknowing([paper("s:2", "liver")], name="shelf", capabilities=knows)
    update = await scouted(service, strategy=strategy)
    assert [(row.status, row.returned) for row in update["sources"]] == [("ok", 1)]


class Unknowing(Shelf):
    async def get(self, scheme: str, value: str, within_s: float) -> Record | None:
        raise SourceUnavailable("no look-ups today")


async def test_lists_are_interleaved_without_fusion() -> None:
    one, other = Shelf([paper("a", "liver"), paper("b", "liver")]), Shelf([paper("c", "liver"), paper("a", "liver")], name="shelf")
    update = await scouted(one, other, fusion_enabled=False)
    assert [found_one.record.doc_id for found_one in update["candidates"]] == ["a", "b", "c"]


def test_words_of_the_request_let_records_without_the_field_pass() -> None:
    strategy = STRATEGY.model_copy(update={"constraints": Constraints(years=NumberRange(min=2020))})
    assert make_constraint_filter(strategy) == Or((Compare("year", "$gte", 2020), Not(Compare("year", "$exists", True))))


def test_only_named_stars_are_required_before_the_cut_and_only_of_repositories() -> None:
    """The default minimum is the coarse filter's: it reports what it left out."""
    default = Constraints(stars=NumberRange(min=50))
    assert make_constraint_filter(STRATEGY.model_copy(update={"constraints": default})) is None
    named = make_constraint_filter(STRATEGY.model_copy(update={"constraints": default.model_copy(update={"stars_named": True})}))
    in_range = Or((Compare("stars", "$gte", 50), Not(Compare("stars", "$exists", True))))
    assert named == Or((Not(Compare("kind", "$eq", "repository")), in_range))


async def test_a_search_without_sources_is_reported() -> None:
    update = await scouted(Shelf(strategies=()))
    assert "no source runs" in update["failures"][0].message


async def test_the_limit_counts_from_the_start_of_the_run() -> None:
    update = await scouted(Shelf([paper("a", "liver")], delay_s=5), timeout_s=1.0, started_at=NOON - 0.9)
    assert [row.status for row in update["sources"]] == ["timeout"]


def test_a_candidate_keeps_everyone_who_found_it() -> None:
    lists = [
        RankedList(source=name, strategy="lance_fts", query="q", results=(Ranked(doc_id="a", score=1.0),)) for name in ("library", "shelf")
    ]
    (one,) = make_candidates(reciprocal_rank_fusion(lists), lists, {"a": paper("a")})
    assert one.found_by == (make_found_by(source="library"), make_found_by(source="shelf"))
    assert one.scores == {"lance_fts": 1.0, "fused": 1.0}


def test_a_stored_record_of_a_service_fills_its_newer_answer_and_the_users_own_is_kept() -> None:
    stored = paper("openalex:W1", "Livers", source="openalex", abstract="Kept.", citations=3)
    own = paper("openalex:W2", "My livers", citations=1)
    newer = [paper(f"openalex:W{number}", "Livers", source="openalex", citations=9) for number in (1, 2)]
    answers = [("library", [stored, own]), ("library", [stored, own]), ("openalex", newer)]
    first, second = collect_records(answers).values()
    assert (first.citations, first.abstract, first.metadata["filled_from"]) == (9, "Kept.", {"abstract": "openalex"})
    assert second is own


async def test_no_source_returns_what_the_query_excludes() -> None:
    """Sources that rank by words, vectors or links know no NOT."""
    shelf = Shelf([paper("a", "aspirin and alcohol"), paper("b", "aspirin")])
    query = PlannedQuery(text="aspirin", keywords=("aspirin",), boolean_query="aspirin NOT (alcohol OR wine)")
    update = await scouted(shelf, strategy=STRATEGY.model_copy(update={"queries": (query,)}))
    assert [one.record.doc_id for one in update["candidates"]] == ["b"]  # type: ignore[attr-defined]
    assert "1 hold what the query excludes" in update["sources"][0].message  # type: ignore[index]


@dataclass
class NamingShelf(Shelf):
    """Names works by id where it may; of some of them the record is gone."""

    gone: frozenset[str] = frozenset()
    reads: list[list[str]] = field(default_factory=list)

    async def search(self, query: SourceQuery) -> SourceAnswer:
        answer = await super().search(query)
        present = tuple(one for one in answer.results if one.doc_id not in self.gone)
        if not query.places_only:
            return SourceAnswer(present)
        return SourceAnswer((), places=tuple(Ranked(one.doc_id, one.score) for one in answer.results), read=self.read)

    async def read(self, doc_ids: Sequence[str]) -> dict[str, Record]:
        self.reads.append(list(doc_ids))
        return {one.doc_id: one for one in self.records if one.doc_id in doc_ids and one.doc_id not in self.gone}


TWO_LISTS = STRATEGY.model_copy(update={"strategies": (RetrieverType.LANCE_FTS, RetrieverType.GRAPH_NEIGHBOR)})
BOTH = (RetrieverType.LANCE_FTS, RetrieverType.GRAPH_NEIGHBOR)


async def test_the_records_of_named_works_are_read_once_after_the_fusion() -> None:
    records = [paper("b", "liver"), paper("a", "liver liver"), paper("c", "kidney")]
    shelf, plain = NamingShelf(records, strategies=BOTH), Shelf(records, strategies=BOTH)
    named, scored = await scouted(shelf, strategy=TWO_LISTS), await scouted(plain, strategy=TWO_LISTS)
    assert shelf.reads == [["a", "b"]]
    assert named["candidates"] == scored["candidates"]
    assert named["lists"] == scored["lists"]
    assert [(row.status, row.returned) for row in named["sources"]] == [("ok", 2), ("ok", 2)]


async def test_a_work_that_is_gone_costs_no_other_its_place() -> None:
    """As after a writer that was interrupted between the records and their vectors."""
    shelf = NamingShelf([paper("a", "liver"), paper("b", "liver")], strategies=BOTH, gone=frozenset("a"))
    update = await scouted(shelf, strategy=TWO_LISTS)
    assert [one.record.doc_id for one in update["candidates"]] == ["b"]
    assert [[place.doc_id for place in one.results] for one in update["lists"]] == [["b"], ["b"]]
    assert [query.places_only for query in shelf.queries] == [True, True, False, False]
    assert [row.returned for row in update["sources"]] == [1, 1]


@dataclass
class DamagedShelf(NamingShelf):
    """Records cannot be read by id, and with `fails` in a search neither."""

    fails: bool = False

    async def search(self, query: SourceQuery) -> SourceAnswer:
        if self.fails and not query.places_only:
            raise LibraryCorrupt("broken page")
        return await super().search(query)

    async def read(self, doc_ids: Sequence[str]) -> dict[str, Record]:
        raise LibraryCorrupt("no index on ids")


async def test_a_library_that_cannot_read_by_id_is_searched_for_records() -> None:
    update = await scouted(DamagedShelf([paper("a", "liver")], strategies=BOTH), strategy=TWO_LISTS)
    assert [one.record.doc_id for one in update["candidates"]] == ["a"]
    assert [row.status for row in update["sources"]] == ["ok", "ok"]


async def test_a_library_whose_records_cannot_be_read_costs_only_its_own_results() -> None:
    shelf = DamagedShelf([paper("a", "liver")], fails=True)
    update = await scouted(shelf, Shelf([paper("b", "liver")], name="shelf"))
    assert [one.record.doc_id for one in update["candidates"]] == ["b"]
    assert [(row.source, row.status, row.message) for row in update["sources"]] == [
        ("library", "unavailable", "broken page"),
        ("shelf", "ok", ""),
    ]
    update = await scouted(shelf)
    assert [(row.error, row.message) for row in update["failures"]] == [("NothingSearchable", "library: broken page")]


async def test_what_a_query_excludes_is_judged_on_records() -> None:
    shelf = NamingShelf([paper("a", "aspirin and alcohol"), paper("b", "aspirin")])
    query = PlannedQuery(text="aspirin", keywords=("aspirin",), boolean_query="aspirin NOT alcohol")
    update = await scouted(shelf, strategy=STRATEGY.model_copy(update={"queries": (query,)}))
    assert [one.record.doc_id for one in update["candidates"]] == ["b"]
