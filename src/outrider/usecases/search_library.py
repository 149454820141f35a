"""`outrider.execute`: the library's search engine without the graph."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from os import PathLike
from typing import TYPE_CHECKING, Any

from outrider.boolean.parser import parse, uses_boolean_syntax
from outrider.nodes.dedup.cluster import deduplicate
from outrider.nodes.organizer import to_hit
from outrider.nodes.reranker import rerank_candidates
from outrider.nodes.scout import make_candidates, make_ranked_list
from outrider.runtime.threads_and_loops import run_in_background, run_in_thread
from outrider.services import Services, open_services
from outrider.state.duplicate_decisions import Decisions
from outrider.state.errors import BadRequest, MissingExtra, ModelError, ModelUnavailable, NoVectors
from outrider.state.filters import parse_filter
from outrider.state.hits import Candidate, Hit, RankedList, Scored
from outrider.state.ports import SourceQuery
from outrider.state.records import LIBRARY, Record
from outrider.state.request import MAX_TOP_K, SYNONYMS, RetrieverType, SearchRequest, check_request

if TYPE_CHECKING:
    from outrider.library.search_engine import Engine

HYBRID = tuple(RetrieverType)
KNOWN_STRATEGIES = ("hybrid", *SYNONYMS, *RetrieverType)
TOLERATED = (NoVectors, ModelError, MissingExtra)
"""Errors of one strategy that the others make up for. Vectors of another model are no such error: the user has to correct that."""

log = logging.getLogger(__name__)


async def aexecute(
    strategy: str,
    query: str | Mapping[str, str],
    *,
    filters: Mapping[str, Any] | None = None,
    top_k: int = 10,
    rerank: bool = False,
    library: str | PathLike[str] | None = None,
    services: Services | None = None,
) -> list[Hit]:
    """The library's engine without the graph: the first `top_k` hits of "SPARSE", "DENSE", "GRAPH" or, all fused, "HYBRID".

    Scores are divided by the best. SPARSE ranks by words. A query with AND, OR, NOT or field tags, or a mapping of fields to texts,
    is run exactly: only matching records, best words first (`systematic` returns all of them); remarks on it are logged as warnings.
    HYBRID returns each work once; where the library has no vectors or no model can be loaded, it searches without vectors and logs a
    warning. With `rerank`, the reranker of the settings reorders the first works; the rest keeps its order. Of a very long query, the
    first `MAX_QUERY_TERMS` different words are searched.

    Raises `BadRequest` for a request that cannot be understood, `LibraryError` where there is no library, and `NoVectors`,
    `EmbeddingSpaceMismatch` or `ModelError` where required vectors or a required reranker are not available.
    """
    name = str(strategy).lower()
    if isinstance(top_k, bool) or not isinstance(top_k, int) or not 1 <= top_k <= MAX_TOP_K:
        raise BadRequest(f"top_k takes a whole number from 1 to {MAX_TOP_K:,}, not {top_k!r}")
    if name not in KNOWN_STRATEGIES:
        raise BadRequest(f"strategy takes SPARSE, DENSE, GRAPH or HYBRID, not {strategy!r}")
    if _runs_exactly(name, query):
        check_request({"query": query, "mode": "systematic"})
        with open_services(services, library) as opened:
            return await _execute_boolean(opened, query, filters, top_k, rerank=rerank)
    strategies = [kind.value for kind in HYBRID] if name == "hybrid" else [strategy]
    request = check_request({"query": dict(query) if isinstance(query, Mapping) else query, "strategies": strategies, "filters": filters})
    with open_services(services, library) as opened:
        return await _execute_ranked(opened, request, top_k, rerank=rerank)


def list_remarks(strategy: str, query: str | Mapping[str, str]) -> tuple[str, ...]:
    """Remarks on how `execute` reads a query that it runs exactly. They need no library: `systematic` counts what records lack."""
    if not _runs_exactly(strategy.lower(), query):
        return ()
    return tuple(f"{remark.code}: {remark}" for remark in parse(query).warnings)


def _runs_exactly(strategy: str, query: str | Mapping[str, str]) -> bool:
    """Whether the query is Boolean, and goes to the library's words."""
    by_words = SYNONYMS.get(strategy, strategy) == RetrieverType.LANCE_FTS
    return by_words and (isinstance(query, Mapping) or (isinstance(query, str) and uses_boolean_syntax(query)))


def execute(strategy: str, query: str | Mapping[str, str], **options: Any) -> list[Hit]:
    """`aexecute` for callers without an event loop."""
    return run_in_background(aexecute(strategy, query, **options))


async def _execute_ranked(services: Services, request: SearchRequest, top_k: int, *, rerank: bool) -> list[Hit]:
    depth = max(top_k, services.settings.reranker.depth if rerank else 0)
    limit = max(depth, services.settings.run.candidates) if len(request.strategies or ()) > 1 else depth
    engine = await services.engine()
    works: Sequence[Candidate] = (await search_strategies(services, engine, request, limit))[:depth]
    works = [replace(work, reason=_format_reason(work)) for work in works]
    if rerank:
        works = await _rerank(services, str(request.query), works)
    first = works[:top_k]
    records = await engine.whole([work.record for work in first])  # what the index returned may be cut
    return [to_hit(replace(work, record=record), rank) for rank, (work, record) in enumerate(zip(first, records, strict=True), start=1)]


async def _execute_boolean(
    services: Services, query: str | Mapping[str, str], filters: Mapping[str, Any] | None, top_k: int, *, rerank: bool
) -> list[Hit]:
    """The first `top_k` of all records that a Boolean query matches exactly: by BM25 of its words, the rest by id."""
    tree = parse(query).tree
    for remark in list_remarks(RetrieverType.LANCE_FTS, query):  # no response carries them
        log.warning("%s", remark)
    depth = max(top_k, services.settings.reranker.depth if rerank else 0)
    pinned = await (await services.library()).pinned()
    try:
        results = await pinned.best(tree, parse_filter(filters or {}), depth)
    finally:
        pinned.close()
    text = query if isinstance(query, str) else " ".join(query.values())
    works: Sequence[Candidate] = _make_candidates(SourceQuery(text, RetrieverType.LANCE_FTS, None, top_k), results)
    works = [replace(work, reason=f"matches exactly, {_format_reason(work)}") for work in works]
    if rerank:
        works = await _rerank(services, text, works)
    return [to_hit(work, rank) for rank, work in enumerate(works[:top_k], start=1)]


async def search_strategies(services: Services, engine: Engine, request: SearchRequest, limit: int) -> Sequence[Candidate]:
    """Results of the strategies, at most `limit` each, fused where they are several; scores are divided by the best."""
    where = parse_filter(request.filters or {})
    queries = [SourceQuery(str(request.query), strategy, where, limit) for strategy in request.strategies or HYBRID]
    tolerated = TOLERATED if len(queries) > 1 else ()

    async def search(query: SourceQuery) -> tuple[Scored, ...]:
        try:
            answer = await engine.search(query)
        except tolerated as error:
            log.warning("searched without %s: %s", query.strategy, error)
            return ()
        if answer.message:  # no response carries it
            log.warning("%s: %s", query.strategy, answer.message)
        return answer.results

    if len(queries) == 1:
        return _make_candidates(queries[0], await search(queries[0]))
    answers = await asyncio.gather(*map(search, queries))
    lists = [_make_list(query, results) for query, results in zip(queries, answers, strict=True)]
    works = make_candidates(services.fuse(lists), lists, _collect_records(answers))
    decisions = Decisions.from_log(await engine.library.decisions())
    return await asyncio.to_thread(deduplicate, works, decisions, fold_versions=services.settings.identity.fold_versions)


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


async def _rerank(services: Services, query: str, works: Sequence[Candidate]) -> Sequence[Candidate]:
    """Reorder the first works. Raises `ModelUnavailable` where there is no reranker."""
    reranker, why = await services.reranker(asked=True)
    if reranker is None:
        raise ModelUnavailable(f"rerank was requested, but there is no reranker: {why}")
    settings = services.settings.reranker
    return await run_in_thread(lambda: rerank_candidates(works, query, reranker, settings.depth, settings.weight))
