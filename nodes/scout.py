"""The node that searches every source with every strategy at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from outrider.library.fusion import fuse_with_feedback, order_by_score
from outrider.linkage.identifiers import find_identifiers
from outrider.linkage.merge import fill_missing, strip_page_values
from outrider.nodes.run_settings import format_time, select_sources, time_left
from outrider.nodes.translator.common_boolean_syntax import list_phrases, says_more, split_negated
from outrider.runtime.tape import read_monotonic
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
from outrider.state.filters import Compare, Filter, Not, Or, combine, matches, parse_filter, split_code, split_retracted
from outrider.state.hits import Candidate, FoundBy, Ranked, RankedList, Scored
from outrider.state.intent import NumberRange, PlannedQuery, SearchStrategy
from outrider.state.pipeline import PipelineState, RunContext, Update
from outrider.state.ports import EXPANDED, BooleanQuery, Clock, CompareAgain, Fusion, ReadRecords, Source, SourceAnswer, SourceQuery
from outrider.state.records import LIBRARY, Record
from outrider.state.request import RetrieverType
from outrider.state.response import Failure, SourceReport

if TYPE_CHECKING:
    from langgraph.runtime import Runtime

OFF_ERRORS = (LibraryMissing, NoVectors, EmbeddingSpaceMismatch, ModelUnavailable, MissingExtra)
"""Errors of a source that is absent, not broken."""
SUCCESSES = frozenset({"ok", "partial", "empty", "cached", "stale"})
MAX_IDENTIFIERS = 5
"""Works of a request's identifiers that one service is asked for."""
NAMED = "has the identifier that you named"
FUSED_DEPTH = 2
"""The library's lists by words and by vectors are this many times as deep as the results that are requested: a work that both hold far down
may come before one that one of them holds a little higher (docs/adr/0037-fusion-that-generalises.md).
"""
NO_SOURCE = "no source runs any of the requested strategies"


@dataclass(frozen=True, slots=True)
class Task:
    """One search: source, strategy and query."""

    source: Source
    strategy: str
    query: PlannedQuery


class TaskResult(NamedTuple):
    """The results of one task, the same as a list without records, and what orders the list again by the first works.

    Without `results`, `read` reads the records of the list.
    """

    results: Sequence[Scored]
    ranking: RankedList
    compare_again: CompareAgain | None = None
    read: ReadRecords | None = None


Outcome = tuple[SourceReport, TaskResult | None]


@dataclass(frozen=True, slots=True)
class Scout:
    """Reads strategy, filters; writes lists, candidates, sources, and a failure if no source could be searched."""

    sources: tuple[Source, ...]
    fuse: Fusion
    interleave: Fusion
    settings: RunSettings
    clock: Clock

    async def __call__(self, state: PipelineState, runtime: Runtime[RunContext]) -> Update:
        assert state.strategy is not None  # noqa: S101  (the edge to this node is taken only with a strategy)
        # the coarse filter leaves out retracted works, and those without the required code, and names them
        own, _ = split_retracted(split_code(parse_filter(state.filters or {}))[0])
        where = combine(own, make_constraint_filter(state.strategy))
        limit = max(self.settings.candidates, state.top_k)
        left_s = time_left(runtime, self.settings, self.clock, state)
        tasks = plan_tasks(state.strategy, self.sources)
        is_fused = len({task.strategy for task in tasks if task.source.name == LIBRARY}) > 1
        depths = [find_depth(task.strategy, limit) if is_fused and task.source.name == LIBRARY else 0 for task in tasks]
        plain = [make_source_query(task, state.strategy, where, limit, left_s) for task in tasks]
        queries = [replace(query, depth=depth) for query, depth in zip(plain, depths, strict=True)]
        # The last first: the library is the first of them, and computes here while the others wait for their services.
        write = runtime.stream_writer if runtime else _discard  # outside of a graph nobody listens
        last_first = [run_task(task, query, write) for task, query in zip(reversed(tasks), reversed(queries), strict=True)]
        outcomes = (await asyncio.gather(*last_first))[::-1]
        order, records = await self._choose(outcomes, limit, state.fusion_enabled)
        if order.keys() != records.keys():  # some works are gone, and their vectors took the places of others; or none could be read
            is_named = [bool(answer and answer.read) for _, answer in outcomes]
            wanted = [replace(query, places_only=False) for query in queries]
            again = [run_task(task, query, _discard) for task, query, named in zip(tasks, wanted, is_named, strict=True) if named]
            with_records = iter(await asyncio.gather(*again))
            outcomes = [next(with_records) if named else outcome for outcome, named in zip(outcomes, is_named, strict=True)]
            order, records = await self._choose(outcomes, limit, state.fusion_enabled)
        reports = tuple(report for report, _ in outcomes)
        if state.strategy.queries and not any(report.status in SUCCESSES for report in reports):
            why = "; ".join(dict.fromkeys(f"{report.source}: {report.message}" for report in reports)) or NO_SOURCE
            failure = Failure(node="scout", error=NothingSearchable.__name__, message=why)
            return {"sources": reports, "failures": (*state.failures, failure)}
        lists = tuple(answer.ranking for _, answer in outcomes if answer)
        return {"lists": lists, "candidates": make_candidates(order, lists, records), "sources": reports}

    async def _choose(self, outcomes: Sequence[Outcome], limit: int, is_fused: bool) -> tuple[Mapping[str, float], Mapping[str, Record]]:
        """The works that are kept, with their fused scores and their records; without the records of those that are gone."""
        answers = [answer for _, answer in outcomes if answer]
        order = fuse_answers(answers, self.fuse, limit) if is_fused else self.interleave([answer.ranking for answer in answers])
        try:
            return order, await read_records(answers, order)
        except SearchError:  # the strategies that are asked for records say what is wrong; the other sources have answered
            return order, {}


async def read_records(answers: Sequence[TaskResult], doc_ids: Collection[str]) -> dict[str, Record]:
    """The records of these works, in one read of each source that only named them; those that are gone are left out."""
    readers: dict[str, ReadRecords] = {}
    named: dict[str, dict[str, None]] = {}
    for answer in answers:
        if answer.read:
            readers.setdefault(answer.ranking.source, answer.read)
            wanted = (place.doc_id for place in answer.ranking.results if place.doc_id in doc_ids)
            named.setdefault(answer.ranking.source, {}).update(dict.fromkeys(wanted))
    read = {source: await reader(list(named[source])) for source, reader in readers.items()}
    records = collect_records(
        (answer.ranking.source, read[answer.ranking.source].values() if answer.read else [one.record for one in answer.results])
        for answer in answers
    )
    return {doc_id: record for doc_id, record in records.items() if doc_id in doc_ids}


def fuse_answers(answers: Sequence[TaskResult], fuse: Fusion, limit: int) -> Mapping[str, float]:
    """Fused scores by doc_id. Of works that only the library found, the first `limit` are kept, and a quarter as many where several lists
    found them: with lists twice as deep there are more than any step reads.
    """
    lists = [answer.ranking for answer in answers]
    fused = fuse_with_feedback(lists, [answer.compare_again for answer in answers], fuse)
    own = [ranking for ranking in lists if ranking.source == LIBRARY and ranking.results]
    most = limit + limit // 4 if len(own) > 1 else limit
    if len(fused) <= most:
        return fused
    elsewhere = {place.doc_id for ranking in lists if ranking.source != LIBRARY for place in ranking.results}
    only_here = [doc_id for doc_id in order_by_score(fused) if doc_id not in elsewhere]
    beyond = set(only_here[most:])
    return {doc_id: score for doc_id, score in fused.items() if doc_id not in beyond}


def find_depth(strategy: str, limit: int) -> int:
    """The depth of one of the library's lists that are fused."""
    return limit if strategy == RetrieverType.GRAPH_NEIGHBOR else FUSED_DEPTH * limit


def _discard(_: Any) -> None: ...


def plan_tasks(strategy: SearchStrategy, sources: Sequence[Source]) -> tuple[Task, ...]:
    """One task per source, strategy and query. The request picks among the library's retrievers; all other strategies run."""
    left_out = {kind for kind in RetrieverType if kind not in strategy.strategies} | (set() if strategy.expanded_keywords else {EXPANDED})
    return tuple(
        Task(source, kind, query)
        for source in select_sources(strategy, sources)
        for kind in source.strategies
        if kind not in left_out
        for query in strategy.queries[: source.capabilities.queries]
    )


def make_source_query(task: Task, strategy: SearchStrategy, where: Filter | None, limit: int, left_s: float) -> SourceQuery:
    is_sparse = task.source.name == LIBRARY and task.strategy == RetrieverType.LANCE_FTS
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
        make_boolean_query(task),
        list_phrases(task.query.boolean_query) if is_sparse else (),
        places_only=task.source.name == LIBRARY and not split_negated(task.query.boolean_query)[1],
    )


def make_boolean_query(task: Task) -> BooleanQuery | None:
    """The Boolean half of a planned query in the source's syntax, for sources that match Boolean expressions.

    The library gets it only if it names words that the text does not, such as synonyms, or excludes some: otherwise its matches hold the
    words of the text and are among the first by rank.
    """
    query, source = task.query, task.source
    if not source.capabilities.boolean or not query.boolean_query:
        return None
    if source.name == LIBRARY and (task.strategy != RetrieverType.LANCE_FTS or not says_more(query.boolean_query, query.text)):
        return None
    from outrider.systematic_search.services.planned_query import read_planned_query

    return read_planned_query(source.name, query.boolean_query)


async def run_task(task: Task, query: SourceQuery, write: Callable[[Any], None]) -> Outcome:
    """Search, report the outcome and make the list at once, while other sources are still running."""
    report, answer = await search_source(task.source, query, find_excluded(task.query))
    write({"node": "scout", "event": "searched", "report": report.model_dump(mode="json")})
    if answer is None:
        return report, None
    ranking = make_ranked_list(report.source, report.strategy, report.query, answer.places or answer.results)
    return report, TaskResult(answer.results, ranking, answer.compare_again, answer.read)


def find_excluded(query: PlannedQuery) -> BooleanQuery | None:
    """The planned query if it excludes something with NOT: a source that ranks by words, vectors or links returns that, too."""
    if not split_negated(query.boolean_query)[1]:
        return None
    from outrider.systematic_search.services.planned_query import read_planned_query

    return read_planned_query("", query.boolean_query)


async def search_source(
    source: Source, query: SourceQuery, excluding: BooleanQuery | None = None
) -> tuple[SourceReport, SourceAnswer | None]:
    """The source's answer and its row; an expected error becomes a status, never an exception. Results that `excluding` excludes are left
    out.

    When its time is over, the search is cancelled and not awaited, whether it stops or not.
    """
    reading = f"{source.name} {query.strategy} {query.text}"
    started = read_monotonic(reading)

    def report(status: str, **more: object) -> SourceReport:
        took_ms = (read_monotonic(reading) - started) * 1000
        row = {"source": source.name, "strategy": query.strategy, "query": query.text, "asked": query.most, "status": status}
        return SourceReport.model_validate({**row, "took_ms": round(took_ms, 1), **more})

    searching = asyncio.ensure_future(_search(source, query))
    try:
        await asyncio.wait({searching}, timeout=query.within_s)
    finally:
        if not searching.done():
            searching.add_done_callback(_retrieve_error)
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
        return report("off", message=str(error), command=getattr(error, "command", "")), None
    except SearchError as error:
        return report("unavailable", message=str(error)), None
    if query.where is not None and not source.capabilities.filters:
        fitting = tuple(result for result in answer.results if matches(query.where, result.record))
        left_out = len(answer.results) - len(fitting)
        parts = (answer.message, f"{left_out:,} did not fit the filters" if left_out else "")
        answer = replace(answer, results=fitting, message="; ".join(part for part in parts if part))
    if excluding:
        from outrider.sources.adapter import leave_out_excluded

        answer = leave_out_excluded(answer, excluding)
    answer = replace(answer, results=answer.results[: query.most], places=answer.places[: query.most])
    found = len(answer.results or answer.places)
    status = answer.status or ("ok" if found else "empty")
    more = {"total": answer.total, "message": answer.message, "model": answer.model, "retry_at": format_time(answer.retry_at)}
    return report(status, returned=found, **more), answer


async def _search(source: Source, query: SourceQuery) -> SourceAnswer:
    """What the source finds, behind the works whose identifiers the query holds: a search by words need not know them.

    The library's graph finds those by itself. One of a service's strategies looks them up; that it cannot is no reason to lose the rest.
    """
    named = [pair for pair in find_identifiers(query.text)[:MAX_IDENTIFIERS] if pair[0] in source.capabilities.identifiers]
    if not named or source.name == LIBRARY or query.strategy != source.strategies[0]:
        return await source.search(query)
    lookups = [_look_up(source, *pair, query.within_s) for pair in named]
    # all are awaited before an error is raised: no look-up goes on behind its search
    looking_up = asyncio.gather(*lookups, return_exceptions=True)
    answer, works = await asyncio.gather(source.search(query), looking_up, return_exceptions=True)
    if isinstance(answer, BaseException):
        raise answer
    if isinstance(works, BaseException):
        raise works
    records: list[Record] = []
    for work in works:
        if isinstance(work, BaseException):
            raise work
        records += [work] if work else []
    ids = {record.doc_id for record in records}
    best = max((result.score for result in answer.results), default=1.0)
    first = tuple(Scored(record, best, NAMED) for record in records)
    return replace(answer, results=first + tuple(result for result in answer.results if result.record.doc_id not in ids))


async def _look_up(source: Source, scheme: str, value: str, within_s: float) -> Record | None:
    with suppress(SearchError, TimeoutError):  # the search of the same service reports why it cannot be reached
        return await source.get(scheme, value, within_s)
    return None


def _retrieve_error(search: asyncio.Future[SourceAnswer]) -> None:
    """Prevents asyncio's warning about an error that nobody retrieved."""
    if not search.cancelled():
        search.exception()


def collect_records(answers: Iterable[tuple[str, Iterable[Record]]]) -> dict[str, Record]:
    """One record per id, from sources and what they gave: the user's own from the library, else the service's.

    A record of a service that an earlier search saved in the library is older than the service's answer, and only fills what that leaves
    out, without the values that it has from a page.
    """
    records: dict[str, Record] = {}
    saved: set[str] = set()
    for name, given in answers:
        for record in given:
            known = records.get(record.doc_id)
            if known is None and name == LIBRARY and record.source != LIBRARY:
                records[record.doc_id] = strip_page_values(record)
                saved.add(record.doc_id)
            elif known is None:
                records[record.doc_id] = record
            elif name != LIBRARY and record.doc_id in saved:
                records[record.doc_id] = fill_missing(record, [known])
                saved.remove(record.doc_id)
    return records


def make_constraint_filter(strategy: SearchStrategy) -> Filter | None:
    """Years and stars that the request's words name, applied before the cut; a record without the field passes.

    The default minimum of stars is left to the coarse filter, which reports what it removes.
    """
    constraints = strategy.constraints
    years = _range_or_missing("year", constraints.years)
    stars = _range_or_missing("stars", constraints.stars) if constraints.stars_named else None
    return combine(years, Or((Not(Compare("kind", "$eq", "repository")), stars)) if stars else None)


def _range_or_missing(field: str, bounds: NumberRange) -> Filter | None:
    low: Filter | None = Compare(field, "$gte", bounds.min) if bounds.min is not None else None
    high: Filter | None = Compare(field, "$lte", bounds.max) if bounds.max is not None else None
    inside = combine(low, high)
    return Or((inside, Not(Compare(field, "$exists", True)))) if inside else None


def make_ranked_list(source: str, strategy: str, query: str, results: Sequence[Scored | Ranked]) -> RankedList:
    """The results without their records."""
    places = tuple(one if isinstance(one, Ranked) else Ranked(one.doc_id, one.score, one.why, one.paths) for one in results)
    return RankedList(source=source, strategy=strategy, query=query, results=places)


def make_candidates(fused: Mapping[str, float], lists: Sequence[RankedList], records: Mapping[str, Record]) -> tuple[Candidate, ...]:
    """One candidate per record, best fused score first, with every list that has it and the best score of each strategy.

    Until a ranker judges it, its score is the fused one divided by the best.
    """
    found_by: dict[str, list[FoundBy]] = {}
    scores: dict[str, dict[str, float]] = {}
    for ranking in lists:
        source, strategy, query = ranking.source, ranking.strategy, ranking.query
        for rank, place in enumerate(ranking.results, start=1):
            doc_id = place.doc_id
            if doc_id not in fused:
                continue
            origin = FoundBy(source, strategy, query, rank, place.why, place.paths)
            if doc_id not in found_by:
                found_by[doc_id], scores[doc_id] = [origin], {strategy: place.score}
                continue
            found_by[doc_id].append(origin)
            own = scores[doc_id]
            own[strategy] = max(place.score, own.get(strategy, place.score))
    best = max(fused.values(), default=0.0) or 1.0
    candidates: list[Candidate] = []
    for doc_id in order_by_score(fused):
        score = max(0.0, fused[doc_id] / best)
        scores[doc_id]["fused"] = score
        candidates.append(Candidate(record=records[doc_id], found_by=tuple(found_by[doc_id]), scores=scores[doc_id], score=score))
    return tuple(candidates)
