"""One work, one candidate: what evidence shows to be one, what a person decided; then what a model takes for one and nothing contradicts.

A preprint and its publication are folded into one hit, and linked; what is only related to a work is linked. Nothing is lost: a candidate
keeps the records that it was made of (`records_in`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from outrider.nodes.dedup.cluster import Clusters, merge_pairs, offload_clustering
from outrider.nodes.dedup.group import make_blocks
from outrider.nodes.dedup.model_proposals import MAX_BLOCK, Pair, propose_pairs
from outrider.nodes.run_settings import end_rejected_run, run_budget, time_left
from outrider.prompts import Prompt
from outrider.runtime.workers import Workers
from outrider.settings.model import IdentitySettings, LlmSettings, RunSettings
from outrider.state.chat import Chat
from outrider.state.decisions import NO_DECISIONS, DecisionsProvider, load_no_decisions
from outrider.state.errors import KeyRejected, SearchError
from outrider.state.hits import Candidate
from outrider.state.pipeline import PipelineState, RunContext, Update
from outrider.state.ports import Clock
from outrider.state.response import Failure
from outrider.text.injection import suspicious

if TYPE_CHECKING:
    from langgraph.runtime import Runtime

TIME_SHARE = 0.5
"""Of the time that is left to the run, what the model may take here: scoring comes after."""


@dataclass(frozen=True, slots=True)
class Dedup:
    """Reads candidates, usage; writes candidates, total_candidates, and where a model is asked usage, failures, bypassed."""

    chat: Chat | None
    prompt: Prompt
    llm: LlmSettings
    run: RunSettings
    clock: Clock
    identity: IdentitySettings = field(default_factory=IdentitySettings)
    load_decisions: DecisionsProvider = load_no_decisions
    workers: Workers | None = None

    async def __call__(self, state: PipelineState, runtime: Runtime[RunContext]) -> Update:
        failures: tuple[Failure, ...] = ()
        decisions = NO_DECISIONS
        try:
            decisions = await self.load_decisions()
        except SearchError as error:  # works are found all the same
            failures = (Failure(node="dedup", error=type(error).__name__, message=f"what was split and merged is not known: {error}"),)
        found = await offload_clustering(self.workers, state.candidates, decisions, fold_versions=self.identity.fold_versions)
        blocks = make_blocks([pair for pair in found.ambiguous_pairs if _shown(found.works, pair)], MAX_BLOCK) if self.chat else []
        update = _update(found.works)
        if self.chat and blocks:
            update = await self._asked(self.chat, state, runtime, found, blocks)
        return {**update, "failures": (*update.get("failures", state.failures), *failures)} if failures else update

    async def _asked(
        self, chat: Chat, state: PipelineState, runtime: Runtime[RunContext], found: Clusters, blocks: Sequence[Sequence[int]]
    ) -> Update:
        budget = run_budget(runtime, self.llm, state.usage)
        left_s = time_left(runtime, self.run, self.clock, state)
        records = [work.record for work in found.works]
        try:
            said = await propose_pairs(chat, self.prompt, records, blocks, budget, left_s * TIME_SHARE)
        except KeyRejected as error:
            return {**_update(found.works), **end_rejected_run(state, "dedup", error, budget.spent)}
        return {
            **_update(merge_pairs(found.works, said.accepted, found.judge)),
            "usage": budget.spent,
            "failures": state.failures + said.failures,
            "bypassed": state.bypassed + said.bypassed,
        }


def _update(works: tuple[Candidate, ...]) -> Update:
    return {"candidates": works, "total_candidates": len(works)}


def _shown(works: Sequence[Candidate], pair: Pair) -> bool:
    """A model is shown titles: no repository's, and none that gives orders."""
    return not any(works[at].record.kind == "repository" or suspicious(works[at].record.title) for at in pair)
