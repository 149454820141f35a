"""One work, one candidate: the same identifier and an agreeing title; then what a model takes for one work and evidence bears out.

Supplements of a conference share one DOI, packages of one repository its address; a preprint and its publication share none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations
from typing import TYPE_CHECKING

from outrider.identity.groups import Groups
from outrider.identity.titles import normal_title
from outrider.identity.works import alike, same_work, shared_identifier
from outrider.nodes.dedup_blocks import Pair, suspicious_blocks
from outrider.nodes.dedup_model import proposed
from outrider.nodes.runtime import rejected, run_budget, time_left
from outrider.prompts import Prompt
from outrider.settings.model import LlmSettings, RunSettings
from outrider.state.chat import Chat
from outrider.state.errors import KeyRejected
from outrider.state.hits import Candidate, Duplicate, FoundBy
from outrider.state.pipeline import PipelineState, RunContext, Update
from outrider.state.ports import Clock
from outrider.state.records import Record

if TYPE_CHECKING:
    from langgraph.runtime import Runtime

TIME_SHARE = 0.5
"""Of the time that is left to the run, what the model may take here: scoring comes after."""

Why = Callable[[Record, Record], str | None]


@dataclass(frozen=True, slots=True)
class Dedup:
    """Reads candidates, usage; writes candidates, total_candidates, and where titles look alike usage, failures, bypassed."""

    chat: Chat | None
    prompt: Prompt
    llm: LlmSettings
    run: RunSettings
    clock: Clock

    async def __call__(self, state: PipelineState, runtime: Runtime[RunContext]) -> Update:
        works = await asyncio.to_thread(deduplicated, state.candidates)
        blocks = await asyncio.to_thread(suspicious_blocks, [work.record for work in works]) if self.chat else ()
        if self.chat is None or not blocks:
            return _found(works)
        return await self._asked(self.chat, state, runtime, works, blocks)

    async def _asked(
        self, chat: Chat, state: PipelineState, runtime: Runtime[RunContext], works: tuple[Candidate, ...], blocks: Sequence[Sequence[int]]
    ) -> Update:
        budget = run_budget(runtime, self.llm, state.usage)
        left_s = time_left(runtime, self.run, self.clock, state)
        records = [work.record for work in works]
        try:
            said = await proposed(chat, self.prompt, records, blocks, budget, left_s * TIME_SHARE)
        except KeyRejected as error:
            return {**_found(works), **rejected(state, "dedup", error, budget.spent)}
        return {
            **_found(joined(works, said.accepted)),
            "usage": budget.spent,
            "failures": state.failures + said.failures,
            "bypassed": state.bypassed + said.bypassed,
        }


def _found(works: tuple[Candidate, ...]) -> Update:
    return {"candidates": works, "total_candidates": len(works)}


def deduplicated(candidates: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """Groups merged, each at the place of its first member."""
    groups = _groups(candidates)
    return tuple(_merged([candidates[at] for at in members], same_work) for members in groups)


def richness(record: Record) -> tuple[int, bool, int, int, str]:
    """Larger is richer: filled fields, then a DOI, a longer abstract, more citations; the id breaks ties (smaller first)."""
    filled = sum(1 for name in type(record).model_fields if getattr(record, name) not in (None, "", (), {}))
    filled += len(record.identifiers.pairs())
    return (-filled, not record.identifiers.doi, -len(record.abstract), -(record.citations or 0), record.doc_id)


def _groups(candidates: Sequence[Candidate]) -> Sequence[list[int]]:
    """Connected candidates, each group ordered as they came."""
    by_identifier: dict[tuple[str, str], list[int]] = {}
    for at, candidate in enumerate(candidates):
        for pair in candidate.record.identifiers.pairs():
            by_identifier.setdefault(pair, []).append(at)
    title = cache(lambda at: normal_title(candidates[at].record.title))  # few share an identifier
    groups = Groups(len(candidates))
    for first, second in (pair for members in by_identifier.values() for pair in combinations(members, 2)):
        if groups.together(first, second) or not alike(title(first), title(second)):
            continue
        if shared_identifier(candidates[first].record, candidates[second].record):
            groups.join(first, second)
    return groups.members()


def joined(works: Sequence[Candidate], pairs: Mapping[Pair, str]) -> tuple[Candidate, ...]:
    """The works with these pairs, and what hangs together through them, folded; `pairs` says why."""
    groups = Groups(len(works))
    for one, other in pairs:
        groups.join(one, other)
    whys = {frozenset((works[one].record.doc_id, works[other].record.doc_id)): why for (one, other), why in pairs.items()}
    return tuple(
        _merged([works[at] for at in members], lambda one, other: whys.get(frozenset((one.doc_id, other.doc_id))))
        for members in groups.members()
    )


def _merged(group: list[Candidate], why: Why) -> Candidate:
    if len(group) == 1:
        return group[0]
    leader, *others = sorted(group, key=lambda candidate: richness(candidate.record))
    folded = tuple(fold for other in others for fold in (_duplicate(leader.record, other.record, why), *other.duplicates))
    fused = _fused(group)
    return replace(
        leader,
        found_by=_once(place for candidate in group for place in candidate.found_by),
        duplicates=leader.duplicates + folded,
        scores={**leader.scores, "fused": fused},
        score=fused,
    )


def _fused(group: Sequence[Candidate]) -> float:
    """The work's fused score, at most 1: as in RRF a list counts once, by its best record; further copies there add nothing."""
    counted: set[tuple[str, str, str]] = set()
    total = 0.0
    for candidate in sorted(group, key=lambda one: (-one.scores.get("fused", 0.0), one.record.doc_id)):
        lists = {(place.source, place.strategy, place.query) for place in candidate.found_by}
        if counted.isdisjoint(lists):
            total += candidate.scores.get("fused", 0.0)
        counted |= lists
    return min(1.0, total)


def _duplicate(leader: Record, record: Record, why: Why) -> Duplicate:
    said = why(leader, record) or "same work as another duplicate"
    return Duplicate(doc_id=record.doc_id, source=record.source, origin=record.origin, why=said)


def _once(places: Iterable[FoundBy]) -> tuple[FoundBy, ...]:
    return tuple(dict.fromkeys(places))
