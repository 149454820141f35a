"""The node that reorders the first works by a model that reads query and text together.

Without a reranker, or without time, the order stays.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from outrider.nodes.run_settings import time_left
from outrider.runtime.threads_and_loops import run_in_thread
from outrider.settings.model import RerankerSettings, RunSettings
from outrider.state import ports
from outrider.state.errors import SearchError
from outrider.state.hits import Candidate
from outrider.state.pipeline import PipelineState, RunContext, Update
from outrider.state.ports import Clock, RerankerProvider
from outrider.state.reranking import blend_scores, make_reranker_text, order_by_score, scale_to_earlier
from outrider.state.response import Bypass, Failure

if TYPE_CHECKING:
    from langgraph.runtime import Runtime

STEP = "reranker"
SWITCHED_OFF = "switched off by the request"
LISTS_APART = "the lists keep their own order, since fusion is switched off"


@dataclass(frozen=True, slots=True)
class Reranker:
    """Reads candidates, strategy; writes candidates, the first `depth` reordered, and reranked_by; or bypassed (and failures)."""

    provider: RerankerProvider
    settings: RerankerSettings
    run: RunSettings
    clock: Clock

    async def __call__(self, state: PipelineState, runtime: Runtime[RunContext]) -> Update:
        if len(state.candidates) < 2:
            return {}
        if state.rerank_enabled is False or not (state.fusion_enabled or state.rerank_enabled):
            return _bypass(state, SWITCHED_OFF if state.rerank_enabled is False else LISTS_APART)
        left_s = time_left(runtime, self.run, self.clock, state)
        try:
            async with asyncio.timeout(left_s):
                reranker, why = await self.provider(asked=bool(state.rerank_enabled))
                if reranker is None:
                    return _bypass(state, why)
                query = state.strategy.queries[0].text if state.strategy else str(state.query)
                depth, weight = self.settings.depth, self.settings.weight
                work = partial(rerank_candidates, state.candidates, query, reranker, depth, weight)
                return {"candidates": await run_in_thread(work, STEP), "reranked_by": f"{reranker.name}: {why}"}
        except (TimeoutError, SearchError) as error:
            late = f"not done within the {left_s:.3g} s that were left of the run; the order is as before"
            message = late if isinstance(error, TimeoutError) else str(error)
            failure = Failure(node=STEP, error=type(error).__name__, message=message)
            return {**_bypass(state, message), "failures": (*state.failures, failure)}


def rerank_candidates(
    candidates: Sequence[Candidate], query: str, reranker: ports.Reranker, depth: int, weight: float
) -> tuple[Candidate, ...]:
    """The first `depth` sorted by the reranker's score, weighted against their own (see `blend_scores`), the rest behind them. Blocking.

    `score` shows the order: the mixed score on the scale of the earlier ones (see `scale_to_earlier`), and no work of the rest exceeds
    it. Works that a model left unread stay at the end; they are not shown.
    """
    first = [candidate for candidate in candidates[:depth] if not candidate.unread]
    if len(first) < 2:
        return tuple(candidates)
    raw = reranker.scores(query, [make_reranker_text(candidate.record) for candidate in first])
    before = [candidate.score for candidate in first]
    blended = blend_scores(before, raw, weight)
    ordering = scale_to_earlier(blended, before)
    reordered: list[Candidate] = []
    for place, at in enumerate(order_by_score(blended), start=1):
        candidate = first[at]
        why = f"place {place} by {reranker.name}" + (f", {at + 1} before" if at + 1 != place else "")
        scores = {**candidate.scores, "reranker": raw[at], "reranked": blended[at]}
        reason = "; ".join(part for part in (candidate.reason, why) if part)
        reordered.append(replace(candidate, score=ordering[at], scores=scores, reranked=place, reason=reason))
    lowest = reordered[-1].score
    return (*reordered, *(replace(one, score=min(one.score, lowest)) for one in candidates[len(first) :]))


def _bypass(state: PipelineState, why: str) -> Update:
    return {"bypassed": (*state.bypassed, Bypass(step=STEP, why=why))}
