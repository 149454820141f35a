"""The node that merges candidates of the same work, by evidence, decisions and a model.

A preprint and its publication become one hit and stay linked; a work that is only related is linked. Nothing is lost: a candidate keeps
the records that it was merged from (`list_records`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from outrider.nodes.dedup.cluster import Clusters, merge_pairs, offload_clustering
from outrider.nodes.dedup.group import make_blocks
from outrider.nodes.dedup.model_proposals import MAX_BLOCK, propose_pairs
from outrider.nodes.run_settings import end_rejected_run, run_budget, time_left
from outrider.prompts import Prompt
from outrider.runtime.workers import Workers
from outrider.settings.model import IdentitySettings, LlmSettings, RunSettings
from outrider.state.chat import Chat
from outrider.state.duplicate_decisions import NO_DECISIONS, DecisionsProvider, load_no_decisions
from outrider.state.errors import KeyRejected, SearchError
from outrider.state.pipeline import PipelineState, RunContext, Update
from outrider.state.ports import Clock
from outrider.state.response import Failure
from outrider.text.injection import suspicious

if TYPE_CHECKING:
    from langgraph.runtime import Runtime

TIME_SHARE = 0.5
"""Share of the run's remaining time that the model may take here: scoring comes after."""


@dataclass(frozen=True, slots=True)
class Dedup:
    """Reads candidates, usage; writes candidates, total_candidates, and with a model usage, failures, bypassed."""

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
        except SearchError as error:  # deduplication works without decisions
            message = f"your decisions about duplicates could not be read: {error}"
            failures = (Failure(node="dedup", error=type(error).__name__, message=message),)
        clusters = await offload_clustering(self.workers, state.candidates, decisions, fold_versions=self.identity.fold_versions)
        update: Update = {"candidates": clusters.works, "total_candidates": len(clusters.works)}
        pairs = clusters.ambiguous_pairs if self.chat else ()
        # A model sees no title of a repository, and none with instructions to a model.
        records = {at: clusters.works[at].record for pair in pairs for at in pair}
        hidden = {at for at, record in records.items() if record.kind == "repository" or suspicious(record.title)}
        pairs = tuple(pair for pair in pairs if hidden.isdisjoint(pair))
        if self.chat and (blocks := make_blocks(pairs, MAX_BLOCK)):
            update |= await self._merge_by_model(self.chat, state, runtime, clusters, blocks)
        return {**update, "failures": (*update.get("failures", state.failures), *failures)} if failures else update

    async def _merge_by_model(
        self, chat: Chat, state: PipelineState, runtime: Runtime[RunContext], clusters: Clusters, blocks: Sequence[Sequence[int]]
    ) -> Update:
        budget = run_budget(runtime, self.llm, state.usage)
        left_s = time_left(runtime, self.run, self.clock, state)
        records = [work.record for work in clusters.works]
        try:
            proposal = await propose_pairs(chat, self.prompt, records, blocks, budget, left_s * TIME_SHARE)
        except KeyRejected as error:
            return end_rejected_run(state, "dedup", error, budget.spent)
        works = merge_pairs(clusters.works, proposal.accepted, clusters.judge)
        return {
            "candidates": works,
            "total_candidates": len(works),
            "usage": budget.spent,
            "failures": state.failures + proposal.failures,
            "bypassed": state.bypassed + proposal.bypassed,
        }
