"""The first works in the order of a model that reads query and text together; without one, or without time, they stay as they are."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from outrider.nodes.run_settings import time_left
from outrider.runtime.threads import run_in_thread
from outrider.settings.model import RerankerSettings, RunSettings
from outrider.state import ports
from outrider.state.errors import SearchError
from outrider.state.hits import Candidate
from outrider.state.pipeline import PipelineState, RunContext, Update
from outrider.state.ports import Clock, RerankerProvider
from outrider.state.reranking import blend_scores, make_reranker_text, order_by_score
from outrider.state.response import Bypass, Failure

if TYPE_CHECKING:
    from langgraph.runtime import Runtime

STEP = "reranker"
SWITCHED_OFF = "switched off by the request"
LISTS_APART = "the lists keep their own order, since fusion is switched off"


@dataclass(frozen=True, slots=True)
class Reranker:
    """Reads candidates, strategy; writes candidates, the first `depth` reordered, and by whom; or bypassed (and failures) with why not."""

    provider: RerankerProvider
    settings: RerankerSettings
    run: RunSettings
    clock: Clock

    async def __call__(self, state: PipelineState, runtime: Runtime[RunContext]) -> Update:
        if len(state.candidates) < 2:
            return {}
        if state.rerank_enabled is False:
            return _bypassed(state, SWITCHED_OFF)
        if not state.fusion_enabled and not state.rerank_enabled:
            return _bypassed(state, LISTS_APART)
        left_s = time_left(runtime, self.run, self.clock, state)
        try:
            async with asyncio.timeout(left_s):
                return await self._reranked(state)
        except TimeoutError:
            return _failed(
                state, TimeoutError.__name__, f"not done within the {left_s:.3g} s that were left of the run; the order is as before"
            )
        except SearchError as error:
            return _failed(state, type(error).__name__, str(error))

    async def _reranked(self, state: PipelineState) -> Update:
        reranker, why = await self.provider(asked=bool(state.rerank_enabled))
        if reranker is None:
            return _bypassed(state, why)
        text = state.strategy.queries[0].text if state.strategy else str(state.query)
        depth, weight = self.settings.depth, self.settings.weight
        candidates = await run_in_thread(lambda: rerank_candidates(state.candidates, text, reranker, depth, weight), STEP)
        return {"candidates": candidates, "reranked_by": f"{reranker.name}: {why}"}


def rerank_candidates(
    candidates: Sequence[Candidate], query: str, reranker: ports.Reranker, depth: int, weight: float
) -> tuple[Candidate, ...]:
    """The first `depth` by `weight` of the reranker's score beside their own (see `blended`), the rest as it was. Blocking.

    What a model left unread stands last and is not shown: nothing is to be reordered there.
    """
    first = [one for one in candidates[:depth] if not one.unread]
    if len(first) < 2:
        return tuple(candidates)
    raw = reranker.scores(query, [make_reranker_text(one.record) for one in first])
    mixed = blend_scores([one.score for one in first], raw, weight)
    order = order_by_score(mixed)
    moved = [_moved(first[at], at + 1, place, raw[at], mixed[at], reranker.name) for place, at in enumerate(order, start=1)]
    return (*moved, *candidates[len(first) :])


def _moved(one: Candidate, before: int, place: int, raw: float, mixed: float, name: str) -> Candidate:
    said = f"place {place} by {name}" + (f", {before} before" if before != place else "")
    scores = {**one.scores, "reranker": raw, "reranked": mixed}
    return replace(one, scores=scores, reranked=place, reason="; ".join(part for part in (one.reason, said) if part))


def _bypassed(state: PipelineState, why: str) -> Update:
    return {"bypassed": (*state.bypassed, Bypass(step=STEP, why=why))}


def _failed(state: PipelineState, error: str, message: str) -> Update:
    failure = Failure(node=STEP, error=error, message=message)
    return {**_bypassed(state, message), "failures": (*state.failures, failure)}
