"""Every source and every strategy at once; one that fails costs only its own results."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from outrider.linkage.merge import fill_missing, strip_page_values
from outrider.nodes.run_settings import format_time, select_sources, time_left
from outrider.settings.model import RunSettings
from outrider.state.errors import (
    EmbeddingSpaceMismatch,
    LibraryMissing,
    MissingExtra,
    ModelUnavailable,
    NothingSearchable,
    NoVectors,
    SearchError,
    SourceError,
)
from outrider.state.filters import Compare, Filter, Not, Or, combine, matches, parse_filter
from outrider.state.hits import Candidate, FoundBy, Ranked, RankedList, Scored
from outrider.state.intent import NumberRange, PlannedQuery, SearchStrategy
from outrider.state.pipeline import PipelineState, RunContext, Update
from outrider.state.ports import EXPANDED, Clock, Fusion, Source, SourceAnswer, SourceQuery
from outrider.state.records import LIBRARY, Record
from outrider.state.request import RetrieverType
from outrider.state.response import Failure, SourceReport

if TYPE_CHECKING:
    from langgraph.runtime import Runtime


OFF_ERRORS = (LibraryMissing, NoVectors, EmbeddingSpaceMismatch, ModelUnavailable, MissingExtra)
"""What is not there to be searched, rather than broken."""
ANSWERED = frozenset({"ok", "partial", "empty", "cached", "stale"})
NO_SOURCE = "no source runs any of the strategies that were asked for"


@dataclass(frozen=True, slots=True)
class Task:
    """One search to run: who, by what strategy, with which words."""

    source: Source
    strategy: str
    query: PlannedQuery


class TaskResult(NamedTuple):
    """What one task found, also without the records."""

    results: Sequence[Scored]
    ranking: RankedList


@dataclass(frozen=True, slots=True)
class Scout:
    """Reads strategy, filters; writes lists, candidates, sources, and a failure where no source could be asked."""

    sources: tuple[Source, ...]
    fuse: Fusion
    interleave: Fusion
    settings: RunSettings
    clock: Clock

    async def __call__(self, state: PipelineState, runtime: Runtime[RunContext]) -> Update:
        assert state.strategy is not None  # noqa: S101  (the edge to this node is taken only with a strategy)
        where = combine(parse_filter(state.filters or {}), make_constraint_filter(state.strategy))
        tasks = plan_tasks(state.strategy, self.sources)
        limit = max(self.settings.candidates, state.top_k)
        left_s = time_left(runtime, self.settings, self.clock, state)
        queries = [make_source_query(task, state.strategy, where, limit, left_s) for task in tasks]
        # The last first: the library is the first of them, and computes here what others are waited for.
        last_first = [run_task(task, query) for task, query in zip(reversed(tasks), reversed(queries), strict=True)]
        outcomes = (await asyncio.gather(*last_first))[::-1]
        reports = tuple(report for report, _ in outcomes)
        if state.strategy.queries and not any(report.status in ANSWERED for report in reports):
            why = "; ".join(dict.fromkeys(f"{report.source}: {report.message}" for report in reports)) or NO_SOURCE
            failure = Failure(node="scout", error=NothingSearchable.__name__, message=why)
            return {"sources": reports, "failures": (*state.failures, failure)}
        answers = [answer for _, answer in outcomes if answer]
        lists = tuple(answer.ranking for answer in answers)
        records = collect_records([(answer.ranking.source, answer.results) for answer in answers])
        order = (self.fuse if state.fusion_enabled else self.interleave)(lists)
        return {"lists": lists, "candidates": make_candidates(order, lists, records), "sources": reports}


def plan_tasks(strategy: SearchStrategy, sources: Sequence[Source]) -> tuple[Task, ...]:
    """One task a source, strategy and query. The request picks among the library's retrievers; every other strategy always runs."""
    left_out = {kind for kind in RetrieverType if kind not in strategy.strategies} | (set() if strategy.expanded_keywords else {EXPANDED})
    return tuple(
        Task(source, kind, query)
        for source in select_sources(strategy, sources)
        for kind in source.strategies
        if kind not in left_out
        for query in strategy.queries[: source.capabilities.queries]
    )


def collect_records(answers: Iterable[tuple[str, Sequence[Scored]]]) -> dict[str, Record]:
    """One record an id: the library's own, where it holds what a service gave. But what searches have kept there of a service is
    older than that service's answer, and only fills what this leaves out. What it once had from a page it has no more.
    """
    records: dict[str, Record] = {}
    kept: set[str] = set()
    for name, results in answers:
        for record in (one.record for one in results):
            held = records.get(record.doc_id)
            if held is None and name == LIBRARY and record.source != LIBRARY:
                records[record.doc_id] = strip_page_values(record)
                kept.add(record.doc_id)
            elif held is None:
                records[record.doc_id] = record
            elif name != LIBRARY and record.doc_id in kept:
                records[record.doc_id] = fill_missing(record, [held])
                kept.remove(record.doc_id)
    return records


def make_source_query(task: Task, strategy: SearchStrategy, where: Filter | None, limit: int, left_s: float) -> SourceQuery:
    return SourceQuery(
        task.query.text,
        task.strategy,
        where,
        min(limit, task.source.capabilities.most),
        strategy.expanded_keywords,
        task.query.keywords,
        strategy.constraints,
        strategy.repositories,
        min(left_s, task.source.timeout_s),
    )


async def run_task(task: Task, query: SourceQuery) -> tuple[SourceReport, TaskResult | None]:
    """Listed as soon as it has come, while others are waited for."""
    report, answer = await search_source(task.source, query)
    return report, TaskResult(
        answer.results, make_ranked_list(report.source, report.strategy, report.query, answer.results)
    ) if answer else None


async def search_source(source: Source, query: SourceQuery) -> tuple[SourceReport, SourceAnswer | None]:
    """The source's answer and its status line; an expected error becomes a status, never an exception.

    Nobody waits for one whose time is over: it is told to stop, and left behind whether it does or not.
    """
    started = time.perf_counter()

    def report(status: str, **said: object) -> SourceReport:
        took_ms = (time.perf_counter() - started) * 1000
        row = {"source": source.name, "strategy": query.strategy, "query": query.text, "asked": query.limit, "status": status}
        return SourceReport.model_validate({**row, "took_ms": round(took_ms, 1), **said})

    searching = asyncio.ensure_future(source.search(query))
    try:
        await asyncio.wait({searching}, timeout=query.within_s)
    finally:
        if not searching.done():
            searching.add_done_callback(_seen)
            searching.cancel()
    if not searching.done():
        return report("timeout", message=f"{source.name} did not answer within the {query.within_s:.3g} s that it may take"), None
    if searching.cancelled():
        return report("unavailable", message=f"{source.name} gave up its search"), None
    try:
        answer = searching.result()
    except TimeoutError as error:
        return report("timeout", message=str(error) or f"{source.name} took too long"), None
    except SourceError as error:
        return report(error.status, message=str(error), retry_at=format_time(error.retry_at)), None
    except OFF_ERRORS as error:
        return report("off", message=str(error)), None
    except SearchError as error:
        return report("unavailable", message=str(error)), None
    if query.where is not None and not source.capabilities.filters:
        answer = _fitting(answer, query.where)
    answer = replace(answer, results=answer.results[: query.limit])
    status = answer.status or ("ok" if answer.results else "empty")
    said = {"total": answer.total, "message": answer.message, "model": answer.model, "retry_at": format_time(answer.retry_at)}
    return report(status, returned=len(answer.results), **said), answer


def _seen(searching: asyncio.Future[SourceAnswer]) -> None:
    """Nobody wants its result any more, nor a warning about its error."""
    if not searching.cancelled():
        searching.exception()


def _fitting(answer: SourceAnswer, where: Filter) -> SourceAnswer:
    fitting = tuple(one for one in answer.results if matches(where, one.record))
    left_out = len(answer.results) - len(fitting)
    said = f"{left_out:,} did not fit the filters" if left_out else ""
    return replace(answer, results=fitting, message="; ".join(part for part in (answer.message, said) if part))


def make_constraint_filter(strategy: SearchStrategy) -> Filter | None:
    """Years and stars that the words of the request name, asked before the cut; a record without the field passes.

    The default minimum of stars is left to the coarse filter, which says whom it left out.
    """
    asked = strategy.constraints
    years = _range_or_missing("year", asked.years)
    stars = _range_or_missing("stars", asked.stars) if asked.stars_named else None
    return combine(years, Or((Not(Compare("kind", "$eq", "repository")), stars)) if stars else None)


def _range_or_missing(field: str, bounds: NumberRange) -> Filter | None:
    low: Filter | None = Compare(field, "$gte", bounds.min) if bounds.min is not None else None
    high: Filter | None = Compare(field, "$lte", bounds.max) if bounds.max is not None else None
    inside = combine(low, high)
    return Or((inside, Not(Compare(field, "$exists", True)))) if inside else None


def make_ranked_list(source: str, strategy: str, query: str, results: Sequence[Scored]) -> RankedList:
    """What was found, without the records."""
    places = tuple(Ranked(one.record.doc_id, one.score, one.why, one.paths) for one in results)
    return RankedList(source=source, strategy=strategy, query=query, results=places)


def make_candidates(fused: Mapping[str, float], lists: Sequence[RankedList], records: Mapping[str, Record]) -> tuple[Candidate, ...]:
    """One candidate a record, best fused score first, each with everyone who found it and the best score of each strategy.

    Until a ranker judges it, its score is the fused one over the best.
    """
    found: dict[str, list[FoundBy]] = {}
    scores: dict[str, dict[str, float]] = {}
    for listed in lists:
        source, strategy, query = listed.source, listed.strategy, listed.query
        for rank, place in enumerate(listed.results, start=1):
            by, doc_id = FoundBy(source, strategy, query, rank, place.why, place.paths), place.doc_id
            if doc_id not in found:
                found[doc_id], scores[doc_id] = [by], {strategy: place.score}
                continue
            found[doc_id].append(by)
            own = scores[doc_id]
            own[strategy] = max(place.score, own.get(strategy, place.score))
    best = max(fused.values(), default=0.0) or 1.0
    made = []
    for doc_id in sorted(fused, key=lambda doc_id: (-fused[doc_id], doc_id)):
        score = max(0.0, fused[doc_id] / best)
        scores[doc_id]["fused"] = score
        made.append(Candidate(record=records[doc_id], found_by=tuple(found[doc_id]), scores=scores[doc_id], score=score))
    return tuple(made)
