"""`outrider.execute`: the library's search engine without the graph."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from typing import TYPE_CHECKING, Any

from pydantic_core import to_jsonable_python

from outrider.boolean.parser import parse, uses_boolean_syntax
from outrider.nodes.dedup.cluster import deduplicate
from outrider.nodes.distiller import add_spans, distil_readings, flag_hits
from outrider.nodes.organizer import to_hit
from outrider.nodes.reranker import rerank_candidates
from outrider.nodes.scout import TaskResult, find_depth, fuse_answers, make_candidates, make_ranked_list
from outrider.runtime.run_reads import share_reads
from outrider.runtime.threads_and_loops import run_in_background, run_in_thread
from outrider.services import Services, open_services
from outrider.services.distiller import load_frames, prepare_distillers
from outrider.state.distilling import Reading
from outrider.state.duplicate_decisions import Decisions
from outrider.state.errors import BadRequest, MissingExtra, ModelError, ModelUnavailable, NoVectors
from outrider.state.filters import parse_filter
from outrider.state.hits import Candidate, Hit, RankedList, Scored
from outrider.state.ports import SourceAnswer, SourceQuery
from outrider.state.records import LIBRARY, Record
from outrider.state.request import MAX_TOP_K, SYNONYMS, RetrieverType, SearchRequest, check_request
from outrider.state.response import provenance_hash
from outrider.systematic_search.library_remarks import find_missing_values

if TYPE_CHECKING:
    from outrider.library.search_engine import Engine

HYBRID = tuple(RetrieverType)
KNOWN_STRATEGIES = ("hybrid", *SYNONYMS, *RetrieverType)
TOLERATED = (NoVectors, ModelError, MissingExtra)
"""Errors of one strategy that the others make up for. Vectors of another model are no such error: the user has to correct that."""

log = logging.getLogger(__name__)


class HitList(list[Hit]):
    """The hits of one `execute`, best first, with what a plain list cannot tell. A slice of it is a plain list."""

    def __init__(
        self,
        hits: Iterable[Hit],
        *,
        total: int | None,
        complete: bool,
        took_ms: float,
        provenance_hash: str,
        remarks: Sequence[str] = (),
    ) -> None:
        super().__init__(hits)
        self.total = total
        """Of an exact query all matching records, None where they are too many to count; of a ranked one the works that its strategies
        returned, at most `run.candidates` (or `top_k`, if that is more) each.
        """
        self.complete = complete
        """False if more records match, or may match, than the list holds."""
        self.took_ms = took_ms
        self.provenance_hash = provenance_hash
        """Sha-256 over request, version of the library, versions of tool and models, and ids and contents of the hits in their order."""
        self.remarks = tuple(remarks)
        """Where the query may not mean what it seems to, what could not be searched, and what was left out."""


@dataclass(frozen=True, slots=True)
class Ranking:
    """Works in their order."""

    works: Sequence[Candidate]
    total: int | None
    """As in `HitList`."""
    complete: bool
    """Whether these are all works that match."""
    snapshot: str = ""
    models: Mapping[str, str] | None = None
    """Models that affected the order, by step."""
    remarks: tuple[str, ...] = ()


async def aexecute(  # noqa: PLR0913 - the options of one call
    strategy: str,
    query: str | Mapping[str, str],
    *,
    filters: Mapping[str, Any] | None = None,
    top_k: int = 10,
    rerank: bool = False,
    distill: bool = False,
    library: str | PathLike[str] | None = None,
    services: Services | None = None,
) -> HitList:
    """The library's engine without the graph: the first `top_k` hits of "SPARSE", "DENSE", "GRAPH" or, all fused, "HYBRID".

    The result is a list with `total`, `complete`, `took_ms`, `provenance_hash` and `remarks`. Scores are divided by the best. SPARSE ranks
    by words. A query with AND, OR, NOT or field tags, or a mapping of fields to texts, is run exactly: only matching records, best words
    first. If more than `top_k` match, `complete` is False, `total` is their number, and a remark says so (`systematic` returns all of
    them); if fewer match, remarks name the values that records lack and the query reads. HYBRID returns each work once; where the library
    has no vectors or no model can be loaded, it searches without vectors, and a remark, which is also logged as a warning, says so. With
    `rerank`, the reranker of the settings reorders the first works; the rest keeps its order. With `distill`, each hit has the sentences
    that answer in `distilled_text`, as far as `distiller.max_context_tokens` goes. Of a very long query, the first `MAX_QUERY_TERMS`
    different words are searched.

    Raises `BadRequest` for a request that cannot be understood, `LibraryError` where there is no library, and `NoVectors`,
    `EmbeddingSpaceMismatch` or `ModelError` where required vectors or a required reranker are not available.
    """
    started = time.perf_counter()
    name = str(strategy).lower()
    if isinstance(top_k, bool) or not isinstance(top_k, int) or not 1 <= top_k <= MAX_TOP_K:
        raise BadRequest(f"top_k takes a whole number from 1 to {MAX_TOP_K:,}, not {top_k!r}")
    if name not in KNOWN_STRATEGIES:
        raise BadRequest(f"strategy takes SPARSE, DENSE, GRAPH or HYBRID, not {strategy!r}")
    fields = {"query": dict(query) if isinstance(query, Mapping) else query}
    if is_exact := _runs_exactly(name, query):
        parse_filter(filters or {})
        request = check_request({**fields, "mode": "systematic"})
        request = request.model_copy(update={"filters": to_jsonable_python(filters)})  # which only a systematic run refuses
    else:
        strategies = [kind.value for kind in HYBRID] if name == "hybrid" else [strategy]
        request = check_request({**fields, "strategies": strategies, "filters": filters})
    request = request.model_copy(update={"top_k": top_k, "rerank_enabled": rerank, "distill_enabled": distill})
    async with open_services(services, library, keep=True) as opened:
        with share_reads():
            ranking = await (_rank_exactly if is_exact else _rank_by_strategies)(opened, request)
        remarks = list(ranking.remarks)
        for remark in remarks:
            log.warning("%s", remark)
        first = ranking.works[:top_k]
        hits = [to_hit(work, rank) for rank, work in enumerate(first, start=1)]
        if (where := parse_filter(request.filters or {})) is not None:
            engine = await opened.engine()
            remarks += await (engine.explain_filter if len(hits) < top_k else engine.name_retracted)(where)
        if distill and hits:
            hits = await _distill(opened, request, hits, remarks)
        contents = [(work.record.doc_id, work.record.content_hash()) for work in first]
        proof = provenance_hash(request, None, ranking.snapshot, {**opened.versions, **(ranking.models or {})}, contents)
    complete = ranking.complete and len(hits) == len(ranking.works)
    if is_exact and not complete:
        number = "more than are counted here" if ranking.total is None else f"{ranking.total:,}"
        remarks.append(f"cut: these are the first {top_k:,} of {number} matching records; systematic(query) returns all of them")
    took_ms = round((time.perf_counter() - started) * 1000, 3)
    return HitList(hits, total=ranking.total, complete=complete, took_ms=took_ms, provenance_hash=proof, remarks=remarks)


def execute(strategy: str, query: str | Mapping[str, str], **options: Any) -> HitList:
    """`aexecute` for callers without an event loop."""
    return run_in_background(aexecute(strategy, query, **options))


def _runs_exactly(strategy: str, query: str | Mapping[str, str]) -> bool:
    """Whether the query is Boolean, and goes to the library's words."""
    by_words = SYNONYMS.get(strategy, strategy) == RetrieverType.LANCE_FTS
    return by_words and (isinstance(query, Mapping) or (isinstance(query, str) and uses_boolean_syntax(query)))


async def _rank_by_strategies(services: Services, request: SearchRequest) -> Ranking:
    """The works of the request's strategies; the first `top_k` with their whole records."""
    depth = max(request.top_k, services.settings.reranker.depth if request.rerank_enabled else 0)
    engine = await services.engine()
    ranking = await search_strategies(services, engine, request, max(depth, services.settings.run.candidates))
    works: Sequence[Candidate] = [replace(work, reason=_format_reason(work)) for work in ranking.works]
    models = {**(ranking.models or {})}
    if request.rerank_enabled:
        works = await _rerank(services, str(request.query), works, models)
    first = works[: request.top_k]
    records = await engine.whole([work.record for work in first])  # what the index returned may be cut
    first = [replace(work, record=record) for work, record in zip(first, records, strict=True)]
    return replace(ranking, works=[*first, *works[request.top_k :]], models=models)


async def _rank_exactly(services: Services, request: SearchRequest) -> Ranking:
    """All records that a Boolean query matches exactly, as far as asked for: by BM25 of its words, the rest by id."""
    parsed = parse(request.query)
    depth = max(request.top_k, services.settings.reranker.depth if request.rerank_enabled else 0)
    library = await services.library()
    where = await library.resolve(parse_filter(request.filters or {}))
    pinned = await library.pinned()
    try:
        results, total = await pinned.best(parsed.tree, where, depth)
        remarks = [*parsed.warnings]
        if len(results) < request.top_k:  # a full list is not shorter for what records lack
            remarks += await find_missing_values(parsed.tree, parsed.text, pinned)
        snapshot = f"{pinned.snapshot.library}@{pinned.snapshot.version}"
    finally:
        pinned.close()
    text = request.query if isinstance(request.query, str) else " ".join(request.query.values())
    works: Sequence[Candidate] = _make_candidates(SourceQuery(text, RetrieverType.LANCE_FTS, None, depth), results)
    works = [replace(work, reason=f"matches exactly, {_format_reason(work)}") for work in works]
    models: dict[str, str] = {}
    if request.rerank_enabled:
        works = await _rerank(services, text, works, models)
    return Ranking(works, total, total == len(works), snapshot, models, tuple(f"{remark.code}: {remark}" for remark in remarks))


async def search_strategies(
    services: Services, engine: Engine, request: SearchRequest, limit: int, phrases: tuple[str, ...] = ()
) -> Ranking:
    """Results of the strategies, at most `limit` each, fused where they are several; scores are divided by the best.

    `phrases` raise what the search by words finds, as those of a plan do.
    """
    where = parse_filter(request.filters or {})
    strategies = request.strategies or HYBRID
    is_deep = len(strategies) > 1 and await engine.library.space() is not None
    queries = [
        SourceQuery(
            str(request.query),
            strategy,
            where,
            find_depth(strategy, limit) if is_deep else limit,
            phrases=phrases if strategy is RetrieverType.LANCE_FTS else (),
        )
        for strategy in strategies
    ]
    tolerated = TOLERATED if len(queries) > 1 else ()
    remarks: list[str] = []
    models: dict[str, str] = {}
    lost: list[str] = []

    async def search(query: SourceQuery) -> SourceAnswer:
        try:
            answer = await engine.search(query)
        except tolerated as error:
            remarks.append(f"searched without {query.strategy}: {error}")
            lost.append(query.strategy)
            return SourceAnswer(())
        if answer.message:
            remarks.append(f"{query.strategy}: {answer.message}")
        if answer.model:
            models[query.strategy] = answer.model
        return answer

    snapshot = await engine.snapshot()
    answers = await asyncio.gather(*map(search, queries))
    works: Sequence[Candidate]
    if len(queries) == 1:
        works = _make_candidates(queries[0], answers[0].results)
    else:
        lists = [_make_list(query, answer.results) for query, answer in zip(queries, answers, strict=True)]
        found = [TaskResult(answer.results, places, answer.compare_again) for answer, places in zip(answers, lists, strict=True)]
        records = _collect_records([answer.results for answer in answers])
        works = make_candidates(fuse_answers(found, services.fuse, limit), lists, records)
        decisions = Decisions.from_log(await engine.library.decisions())
        works = await asyncio.to_thread(deduplicate, works, decisions, fold_versions=services.settings.identity.fold_versions)
    complete = not lost and all(len(answer.results) < query.limit for query, answer in zip(queries, answers, strict=True))
    return Ranking(works, len(works), complete, snapshot, models, tuple(sorted(remarks)))


def _make_candidates(query: SourceQuery, results: Sequence[Scored]) -> list[Candidate]:
    """One strategy's own list, in its order."""
    best = max((result.score for result in results), default=0.0)
    order = {result.record.doc_id: 1.0 / rank for rank, result in enumerate(results, start=1)}
    works = make_candidates(order, [_make_list(query, results)], _collect_records([results]))
    return [replace(work, score=max(0.0, result.score / best) if best > 0 else 0.0) for work, result in zip(works, results, strict=True)]


def _collect_records(answers: Sequence[Sequence[Scored]]) -> dict[str, Record]:
    return {result.record.doc_id: result.record for results in answers for result in results}


def _make_list(query: SourceQuery, results: Sequence[Scored]) -> RankedList:
    return make_ranked_list(LIBRARY, query.strategy, query.text, results)


def _format_reason(work: Candidate) -> str:
    """Such as `rank 3 by lance_fts, rank 1 by graph_neighbor (cites 3 of the first 10)`."""
    return ", ".join(f"rank {by.rank} by {by.strategy}" + (f" ({by.why})" if by.why else "") for by in work.found_by)


async def _rerank(services: Services, query: str, works: Sequence[Candidate], models: dict[str, str]) -> Sequence[Candidate]:
    """Reorder the first works, and add the reranker to the models. Raises `ModelUnavailable` where there is none."""
    reranker, why = await services.reranker(asked=True)
    if reranker is None:
        raise ModelUnavailable(f"rerank was requested, but there is no reranker: {why}")
    models["reranker"] = reranker.name
    settings = services.settings.reranker
    return await run_in_thread(lambda: rerank_candidates(works, query, reranker, settings.depth, settings.weight))


async def _distill(services: Services, request: SearchRequest, hits: Sequence[Hit], remarks: list[str]) -> list[Hit]:
    """The hits with their sentences that answer; whatever limits that is added to the remarks."""
    query = request.query
    if request.mode == "systematic":  # without operators and field tags, which are no words of an answer
        from outrider.library.exact.pinned_library import list_words

        query = " ".join(dict.fromkeys(list_words(parse(query).tree)))
    readings = [Reading(hit.doc_id, hit.original_text, hit.title, f"[{hit.rank}]", hit.rank, hit.kind) for hit in hits]
    budget = services.settings.distiller.max_context_tokens
    result, failures = await distil_readings(await prepare_distillers(services), str(query), readings, load_frames(), budget)
    remarks += [f"distiller: {text}" for text in (*(failure.message for failure in failures), result.bypassed, *result.notes) if text]
    return list(flag_hits(add_spans(hits, result)))
