"""One work, one candidate: what evidence shows to be one, what a person decided; then what a model takes for one and nothing contradicts.

A preprint and its publication are folded into one hit, and linked; what is only related to a work is linked. Nothing is lost: a candidate
keeps the records that it was made of (`records_in`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from outrider.nodes.dedup_groups import NO_MORE, Joins, Judging, blocks_of, grouped, versions
from outrider.nodes.dedup_links import linked
from outrider.nodes.dedup_merging import in_order, leading, merged, records_in, richness
from outrider.nodes.dedup_model import BLOCK, Pair, proposed
from outrider.nodes.runtime import rejected, run_budget, time_left
from outrider.prompts import Prompt
from outrider.settings.model import IdentitySettings, LlmSettings, RunSettings
from outrider.state.chat import Chat
from outrider.state.decisions import NO_DECISIONS, Decisions, DecisionsProvider, nothing_decided
from outrider.state.errors import KeyRejected, SearchError
from outrider.state.hits import Candidate
from outrider.state.pipeline import PipelineState, RunContext, Update
from outrider.state.ports import Clock
from outrider.state.response import Failure
from outrider.text.injection import suspicious

if TYPE_CHECKING:
    from langgraph.runtime import Runtime

__all__ = ["Dedup", "Found", "deduplicated", "found_in", "joined", "leading", "records_in", "richness"]

TIME_SHARE = 0.5
"""Of the time that is left to the run, what the model may take here: scoring comes after."""


@dataclass(frozen=True, slots=True)
class Found:
    works: tuple[Candidate, ...]
    """In the order of their fused scores; where any has none, each at the place of its first member."""
    grey: tuple[Pair, ...]
    """Places of two works that may be one, surest first."""
    judging: Judging


@dataclass(frozen=True, slots=True)
class Dedup:
    """Reads candidates, usage; writes candidates, total_candidates, and where a model is asked usage, failures, bypassed."""

    chat: Chat | None
    prompt: Prompt
    llm: LlmSettings
    run: RunSettings
    clock: Clock
    identity: IdentitySettings = field(default_factory=IdentitySettings)
    decided: DecisionsProvider = nothing_decided

    async def __call__(self, state: PipelineState, runtime: Runtime[RunContext]) -> Update:
        failures: tuple[Failure, ...] = ()
        decisions = NO_DECISIONS
        try:
            decisions = await self.decided()
        except SearchError as error:  # works are found all the same
            failures = (Failure(node="dedup", error=type(error).__name__, message=f"what was split and merged is not known: {error}"),)
        found = await asyncio.to_thread(found_in, state.candidates, decisions, fold_versions=self.identity.fold_versions)
        blocks = blocks_of([pair for pair in found.grey if _shown(found.works, pair)], BLOCK) if self.chat else []
        update = _update(found.works)
        if self.chat and blocks:
            update = await self._asked(self.chat, state, runtime, found, blocks)
        return {**update, "failures": (*update.get("failures", state.failures), *failures)} if failures else update

    async def _asked(
        self, chat: Chat, state: PipelineState, runtime: Runtime[RunContext], found: Found, blocks: Sequence[Sequence[int]]
    ) -> Update:
        budget = run_budget(runtime, self.llm, state.usage)
        left_s = time_left(runtime, self.run, self.clock, state)
        records = [work.record for work in found.works]
        try:
            said = await proposed(chat, self.prompt, records, blocks, budget, left_s * TIME_SHARE)
        except KeyRejected as error:
            return {**_update(found.works), **rejected(state, "dedup", error, budget.spent)}
        return {
            **_update(joined(found.works, said.accepted, found.judging)),
            "usage": budget.spent,
            "failures": state.failures + said.failures,
            "bypassed": state.bypassed + said.bypassed,
        }


def _update(works: tuple[Candidate, ...]) -> Update:
    return {"candidates": works, "total_candidates": len(works)}


def _shown(works: Sequence[Candidate], pair: Pair) -> bool:
    """A model is shown titles: no repository's, and none that gives orders."""
    return not any(works[at].record.kind == "repository" or suspicious(works[at].record.title) for at in pair)


def deduplicated(
    candidates: Sequence[Candidate], decisions: Decisions = NO_DECISIONS, *, fold_versions: bool = True
) -> tuple[Candidate, ...]:
    """The works among the candidates, in the order of their fused scores; where any has none, each at the place of its first member.

    Depends on no order but that; done again it changes nothing. Each candidate keeps the records that it was made of.
    """
    return found_in(candidates, decisions, fold_versions=fold_versions).works


def found_in(candidates: Sequence[Candidate], decisions: Decisions = NO_DECISIONS, *, fold_versions: bool = True) -> Found:
    """`deduplicated`, with the pairs that may be one.

    Until nothing changes, since a work with the identifiers of two records may share one with a third.
    """
    judging = Judging(decisions)
    works: Sequence[Candidate] = candidates
    now = grouped(works, judging)
    while len(now.groups) < len(works):
        works = [merged([works[at] for at in members], judging.why) for members in now.groups]
        if not now.again:
            break
        now = grouped(works, judging)
    pairs = versions(works, now.links, judging) if fold_versions else {}
    ordered = in_order(linked(_folded(works, pairs, judging), now.links, works))
    at = {record.doc_id: place for place, work in enumerate(ordered) for record in (work.record, *work.members)}
    grey = (((min(at[one], at[other]), max(at[one], at[other]))) for one, other in now.grey)
    return Found(ordered, tuple(dict.fromkeys(pair for pair in grey if pair[0] != pair[1])), judging)


def joined(works: Sequence[Candidate], pairs: Mapping[Pair, str], judging: Judging | None = None) -> tuple[Candidate, ...]:
    """The works with these pairs, and what hangs together through them, folded; `pairs` says why. Order as of `deduplicated`.

    Where two of a group would contradict, it does not grow. A preprint and its publication are linked, not merged: neither fills the
    other's fields.
    """
    return in_order(_folded(works, pairs, judging or Judging(NO_DECISIONS)))


def _folded(works: Sequence[Candidate], pairs: Mapping[Pair, str], judging: Judging) -> list[Candidate]:
    if not pairs:
        return list(works)
    joins = Joins(works, judging.contradicts)
    kept = {pair: why for pair, why in pairs.items() if joins.join(*pair)}
    whys = {frozenset((works[one].record.doc_id, works[other].record.doc_id)): why for (one, other), why in kept.items()}

    def why(leader: Candidate, other: Candidate, group: Sequence[Candidate]) -> str:
        names = (frozenset((one.record.doc_id, other.record.doc_id)) for one in (leader, *group) if one is not other)
        return next((whys[name] for name in names if name in whys), NO_MORE)

    return [merged([works[at] for at in members], why, versions=True) for members in joins.groups.members()]
