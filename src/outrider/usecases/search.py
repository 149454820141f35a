"""`outrider.search` by the whole graph; `translate`, `score` and `organize` as single steps."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from os import PathLike
from typing import Any

from outrider.graph.pipeline import build
from outrider.nodes.fine_scorer.fine_scorer import NODE, ScoringResult
from outrider.nodes.fine_scorer.judgement import Question
from outrider.nodes.organizer import count_facets, select_and_sort, to_hit
from outrider.nodes.rule_ranker import rank_by_rules
from outrider.nodes.run_settings import run_budget
from outrider.nodes.translator.translator import Translation
from outrider.runtime.spans import run_named
from outrider.runtime.threads_and_loops import run_in_background
from outrider.services import Services, open_services
from outrider.services.make_nodes import make_scorer, make_translator
from outrider.state.hits import Candidate, Hit
from outrider.state.pipeline import RunContext
from outrider.state.records import Record
from outrider.state.request import check_request
from outrider.state.response import Bypass, Facets, SearchResponse, Usage
from outrider.usecases.threads import collect_response, open_threads


async def asearch(
    query: str | dict[str, str],
    *,
    library: str | PathLike[str] | None = None,
    services: Services | None = None,
    context: RunContext | None = None,
    thread: str | None = None,
    **request: Any,
) -> SearchResponse:
    """Answer a request, whose other fields (`top_k`, `filters`, ...) are those of `SearchRequest`.

    On a `thread`, each step is saved (`threads.uri`): the next search of that name continues from it, and a killed search can be resumed
    (`outrider threads resume`).

    Raises `BadRequest` for a request that cannot be understood. A run that could search nothing returns an answer without hits and the
    reason in `failures`.
    """
    search_request = check_request({"query": query, **request})
    with open_services(services, library) as opened, run_named():
        await opened.warm()
        if thread is not None:
            async with open_threads(opened) as threads:
                return await collect_response(threads.search(thread, search_request, context))
        state = await build(opened).ainvoke(search_request, context=context or RunContext())
    return SearchResponse.model_validate(state)


def search(query: str | dict[str, str], **options: Any) -> SearchResponse:
    """`asearch` for callers without an event loop, or inside one that they do not want to wait on."""
    return run_in_background(asearch(query, **options))


@dataclass(frozen=True, slots=True)
class Organized:
    """The first hits in order, and counts of all works that passed the threshold."""

    hits: tuple[Hit, ...]
    facets: Facets
    total_found: int


async def translate(query: str, *, services: Services | None = None, **request: Any) -> Translation:
    """What a request means and the searches to run for it, without running them: `.intent`, `.strategy`, `.failures`, `.bypassed`,
    `.usage`.

    By the model where one is configured, else by rules. `request` are fields of `SearchRequest`, such as `search_mode`,
    `previous_strategies`, `user_feedback`. Raises `BadRequest`, `NothingSearchable`, `KeyRejected`.
    """
    search_request = check_request({"query": query, **request})
    with open_services(services) as opened:
        await opened.warm(searches=False)
        settings = opened.settings
        return await make_translator(opened).translate(search_request, run_budget(None, settings.llm, Usage()), settings.run.run_timeout_s)


async def score(query: str, records: Sequence[Record], *, top_k: int = 10, services: Services | None = None) -> ScoringResult:
    """Records by how well they answer, best first: `.candidates`, each with `score` and `scored_by`, `.scoring`, `.failures`, `.usage`.

    A configured model reads them until the first `top_k` are settled (`llm.max_risk`). Without one, rules score them, and `.bypassed`
    gives the reason. Raises `BadRequest`, `KeyRejected`.
    """
    search_request = check_request({"query": query, "top_k": top_k})
    text = str(search_request.query)
    with open_services(services) as opened:
        await opened.warm(searches=False)
        settings = opened.settings
        this_year = datetime.fromtimestamp(opened.clock(), UTC).year
        works = [Candidate(record=record) for record in records]
        ordered = await asyncio.to_thread(rank_by_rules, works, text, settings.ranking, this_year, max(len(works), 1))
        if not ordered:
            return ScoringResult(())
        if opened.chat is None:
            return ScoringResult(ordered, bypassed=(Bypass(step=NODE, why=opened.chat_says),))
        budget = run_budget(None, settings.llm, Usage())
        scored = await make_scorer(opened).score(ordered, Question(text), top_k, budget, settings.run.run_timeout_s)
        return scored if scored.candidates else replace(scored, candidates=ordered)


async def organize(
    candidates: Iterable[Candidate], *, top_k: int = 10, threshold: float | None = None, services: Services | None = None
) -> Organized:
    """Scored works as hits: threshold (by default that of the settings), one total order, facets. `.hits`, `.facets`, `.total_found`."""
    with open_services(services) as opened:
        settings = opened.settings.organizer
        works = select_and_sort(candidates, settings.relevance_threshold if threshold is None else threshold)
        hits = tuple(to_hit(work, rank) for rank, work in enumerate(works[:top_k], start=1))
        return Organized(hits, count_facets(works, settings), len(works))
