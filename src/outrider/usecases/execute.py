"""`execute`: the engine without the graph, by the same functions that the graph's nodes run.

Single steps of the pipeline without the graph, by the same nodes: `translate`, `score`, `organize`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from outrider.boolean.parser import parse
from outrider.nodes.dedup.cluster import deduplicate
from outrider.nodes.fine_scorer.fine_scorer import NODE, ScoringResult
from outrider.nodes.fine_scorer.judgement import Question
from outrider.nodes.organizer import count_facets, select_and_sort, to_hit
from outrider.nodes.reranker import rerank_candidates
from outrider.nodes.rule_ranker import rank_by_rules
from outrider.nodes.run_settings import run_budget
from outrider.nodes.scout import make_candidates, make_ranked_list
from outrider.nodes.translator.translator import Translation
from outrider.runtime.threads import run_in_thread
from outrider.services.nodes import scorer_of, translator_of
from outrider.state.chat import Budget
from outrider.state.decisions import Decisions
from outrider.state.errors import MissingExtra, ModelError, ModelUnavailable, NoVectors
from outrider.state.filters import parse_filter
from outrider.state.hits import Candidate, Hit, RankedList, Scored
from outrider.state.ports import SourceQuery
from outrider.state.records import LIBRARY, Record
from outrider.state.request import RetrieverType, SearchRequest
from outrider.state.response import Bypass, Facets, Usage

if TYPE_CHECKING:
    from outrider.library.search_engine import Engine
    from outrider.services import Services


HYBRID = tuple(RetrieverType)
DISPENSABLE = (NoVectors, ModelError, MissingExtra)
"""What one strategy of several may lack; another model's vectors are a mistake that must be mended."""

log = logging.getLogger(__name__)


async def executed(services: Services, asked: SearchRequest, top_k: int, *, rerank: bool) -> list[Hit]:
    """The first `top_k` hits of the strategies that `asked` names."""
    depth = services.settings.reranker.depth if rerank else 0
    several = len(asked.strategies or ()) > 1
    limit = max(top_k, depth, services.settings.run.candidates if several else 0)
    engine = await services.engine()
    found = (await first_stage(services, engine, asked, limit))[: max(top_k, depth)]
    found = [replace(one, reason=_reason(one)) for one in found]
    if rerank:
        found = await reranked(services, str(asked.query), found)
    first = found[:top_k]
    records = await engine.whole([one.record for one in first])
    whole = [replace(one, record=record) for one, record in zip(first, records, strict=True)]
    return [to_hit(one, rank) for rank, one in enumerate(whole, start=1)]


async def matched(
    services: Services, query: str | Mapping[str, str], filters: Mapping[str, Any] | None, top_k: int, *, rerank: bool
) -> list[Hit]:
    """The first `top_k` of all records that a Boolean query matches exactly: by BM25 of its words, the rest by id."""
    tree = parse(query).tree
    depth = services.settings.reranker.depth if rerank else 0
    pinned = await (await services.library()).pinned()
    try:
        found = await pinned.best(tree, parse_filter(filters or {}), max(top_k, depth))
    finally:
        pinned.close()
    text = query if isinstance(query, str) else " ".join(query.values())
    works = _single(SourceQuery(text, RetrieverType.LANCE_FTS, None, top_k), found)
    works = [replace(one, reason=f"matches exactly, {_reason(one)}") for one in works]
    if rerank:
        works = list(await reranked(services, text, works))
    return [to_hit(one, rank) for rank, one in enumerate(works[:top_k], start=1)]


async def first_stage(services: Services, engine: Engine, asked: SearchRequest, limit: int) -> Sequence[Candidate]:
    """What the strategies found, fused where they are several, with scores divided by the best."""
    strategies = asked.strategies or HYBRID
    where = parse_filter(asked.filters or {})
    queries = [SourceQuery(str(asked.query), strategy, where, limit) for strategy in strategies]
    if len(queries) == 1:
        return _single(queries[0], await _results(engine, queries[0]))
    answers = await asyncio.gather(*(_unless_off(engine, query) for query in queries))
    lists = [_listed(query, answer) for query, answer in zip(queries, answers, strict=True)]
    found = make_candidates(services.fuse(lists), lists, _records(answers))
    decisions = Decisions.from_log(await engine.library.decisions())
    fold_versions = services.settings.identity.fold_versions
    return await asyncio.to_thread(deduplicate, found, decisions, fold_versions=fold_versions)


async def _unless_off(engine: Engine, query: SourceQuery) -> tuple[Scored, ...]:
    try:
        return await _results(engine, query)
    except DISPENSABLE as error:
        log.warning("searched without %s: %s", query.strategy, error)
        return ()


async def _results(engine: Engine, query: SourceQuery) -> tuple[Scored, ...]:
    """What was found; what the engine says beside it is logged, for there is no response to carry it."""
    answer = await engine.search(query)
    if answer.message:
        log.warning("%s: %s", query.strategy, answer.message)
    return answer.results


def _single(query: SourceQuery, found: Sequence[Scored]) -> list[Candidate]:
    """One strategy's own list, untouched."""
    best = max((one.score for one in found), default=0.0)
    works = make_candidates(
        {one.record.doc_id: 1.0 / at for at, one in enumerate(found, start=1)}, [_listed(query, found)], _records([found])
    )
    return [replace(one, score=max(0.0, scored.score / best) if best > 0 else 0.0) for one, scored in zip(works, found, strict=True)]


def _records(answers: Sequence[Sequence[Scored]]) -> dict[str, Record]:
    return {one.record.doc_id: one.record for answer in answers for one in answer}


def _listed(query: SourceQuery, found: Sequence[Scored]) -> RankedList:
    return make_ranked_list(LIBRARY, query.strategy, query.text, found)


def _reason(one: Candidate) -> str:
    """`rank 3 by lance_fts, rank 1 by graph_neighbor (cites 3 of the first 10)`."""
    return ", ".join(f"rank {by.rank} by {by.strategy}" + (f" ({by.why})" if by.why else "") for by in one.found_by)


async def reranked(services: Services, query: str, found: Sequence[Candidate]) -> Sequence[Candidate]:
    """The first works reordered; `ModelUnavailable` where no reranker can be had."""
    reranker, why = await services.reranker(asked=True)
    if reranker is None:
        raise ModelUnavailable(f"rerank was asked for, but there is no reranker: {why}")
    settings = services.settings.reranker
    return await run_in_thread(lambda: rerank_candidates(found, query, reranker, settings.depth, settings.weight))


@dataclass(frozen=True, slots=True)
class Organized:
    """The first hits in order, and what there is of all that passed the threshold."""

    hits: tuple[Hit, ...]
    facets: Facets
    total_found: int


async def translated(services: Services, asked: SearchRequest) -> Translation:
    """By the model where there is one, else by rules. Raises `NothingSearchable`, `KeyRejected`."""
    return await translator_of(services).translate(asked, _budget(services), services.settings.run.run_timeout_s)


async def scored(services: Services, query: str, records: Sequence[Record], top_k: int) -> ScoringResult:
    """Works by how well they answer, best first; `scored_by` says who judged each. Raises `KeyRejected`."""
    this_year = datetime.fromtimestamp(services.clock(), UTC).year
    candidates = [Candidate(record=record) for record in records]
    ordered = await asyncio.to_thread(rank_by_rules, candidates, query, services.settings.ranking, this_year, max(len(candidates), 1))
    if not ordered:
        return ScoringResult(())
    if services.chat is None:
        return ScoringResult(ordered, bypassed=(Bypass(step=NODE, why=services.chat_says),))
    run_timeout_s = services.settings.run.run_timeout_s
    made = await scorer_of(services).score(ordered, Question(query), top_k, _budget(services), run_timeout_s)
    return made if made.candidates else replace(made, candidates=ordered)


def organized_hits(services: Services, candidates: Iterable[Candidate], top_k: int, threshold: float | None) -> Organized:
    """Threshold, total order and facets; `threshold` is the settings' where none is given."""
    settings = services.settings.organizer
    kept = select_and_sort(candidates, settings.relevance_threshold if threshold is None else threshold)
    hits = tuple(to_hit(one, rank) for rank, one in enumerate(kept[:top_k], start=1))
    return Organized(hits, count_facets(kept, settings), len(kept))


def _budget(services: Services) -> Budget:
    return run_budget(None, services.settings.llm, Usage())
