"""One work, one candidate: the same identifier and an agreeing title; then what a model takes for one work and evidence bears out.

Supplements of a conference share one DOI, packages of one repository its address; a preprint and its publication share none.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations
from typing import TYPE_CHECKING

from pydantic import JsonValue

from outrider.identity.groups import Groups
from outrider.identity.titles import normal_title
from outrider.identity.works import addressed, alike, preprint_server, same_work, shared_identifier
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

FILLED = ("abstract", "description", "text", "url", "year", "venue", "citations", "stars", "language", "authors", "tags")
"""What a leader that lacks it takes from its duplicates, beside identifiers."""
NOTICES = ("update_to", "updated_by", "notices")
"""Metadata that says what corrects or retracts the work."""
EMPTY: tuple[object, ...] = (None, "", (), {})

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
    """Groups merged, in the order of their fused scores; where any has none, each group at the place of its first member.

    Until nothing changes, since a work with the identifiers of two records may share one with a third.
    """
    works = candidates
    while len(merged := [_merged([works[at] for at in members], same_work) for members in _groups(works)]) < len(works):
        works = merged
    return _in_order(works)


def richness(record: Record) -> tuple[int, bool, int, int, str]:
    """Smaller is richer: filled fields, then a DOI, a longer abstract, more citations; the id breaks ties (smaller first)."""
    filled = sum(1 for name in type(record).model_fields if getattr(record, name) not in EMPTY)
    filled += len(record.identifiers.pairs())
    return (-filled, not record.identifiers.doi, -len(record.abstract), -(record.citations or 0), record.doc_id)


def leading(record: Record) -> tuple[bool, bool, bool, tuple[int, bool, int, int, str]]:
    """Smallest leads: the user's own text, then abstract; what an interface gave before what stood on a page; then the richest."""
    own = record.source == "library"
    return (not (own and record.text), not (own and record.abstract), record.kind == "page", richness(record))


def filled(leader: Record, others: Sequence[Record]) -> Record:
    """The leader with what it lacks from the first of the others that has it; `metadata["filled_from"]` names the source of each field.

    Nothing it says changes, but that notices of all are its own, and that it is retracted where any says so.
    """
    taken, known, sources = dict[str, object](), dict[str, str](), dict[str, JsonValue]()
    for other in others:
        for name in FILLED:
            about = name != "language" or (leader.kind == "repository") == (other.kind == "repository")  # else another language is meant
            if about and name not in taken and getattr(leader, name) in EMPTY and (value := getattr(other, name)) not in EMPTY:
                taken[name], sources[name] = value, _source(other, name)
        for scheme, value in other.identifiers.pairs():
            if scheme not in known and not getattr(leader.identifiers, scheme):
                known[scheme], sources[f"identifiers.{scheme}"] = value, _source(other, f"identifiers.{scheme}")
    metadata = {**leader.metadata, **_notices([leader, *others])}
    if sources:
        metadata["filled_from"] = {**_filled_from(leader), **sources}
    return leader.model_copy(update={**taken, "identifiers": leader.identifiers.model_copy(update=known), "metadata": metadata})


def _filled_from(record: Record) -> Mapping[str, JsonValue]:
    said = record.metadata.get("filled_from")
    return said if isinstance(said, dict) else {}


def _source(record: Record, name: str) -> JsonValue:
    return _filled_from(record).get(name, record.source)


def _notices(records: Sequence[Record]) -> dict[str, JsonValue]:
    """What any of them knows of retractions and corrections, each once."""
    united: dict[str, JsonValue] = {}
    if any(record.metadata.get("retracted") is True for record in records):
        united["retracted"] = True
    for name in NOTICES:
        lists = [said for record in records if isinstance(said := record.metadata.get(name), list)]
        once = {json.dumps(notice, sort_keys=True): notice for said in lists for notice in said}
        if once and isinstance(records[0].metadata.get(name) or [], list):
            united[name] = list(once.values())
    return united


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
    _join_pages(groups, candidates, by_identifier)
    return groups.members()


def _join_pages(groups: Groups, candidates: Sequence[Candidate], by_identifier: Mapping[tuple[str, str], Sequence[int]]) -> None:
    """The page of an identifier that agrees with no title joins the work that has it, unless several have: supplements share one DOI.

    What shares is looked at before any page has joined, so that their order means nothing.
    """
    pages = {at: address for at, candidate in enumerate(candidates) if (address := addressed(candidate.record))}
    found = {root for at in range(len(candidates)) if pages.get(at) != pages.get(root := groups.root(at))}
    alone = [page for page in pages if groups.root(page) not in found]
    firsts: dict[object, int] = {}
    joins = [(page, firsts.setdefault((pages[page], candidates[page].record.identifiers.pairs()), page)) for page in alone]
    for page in firsts.values():
        address, record = pages[page], candidates[page].record
        others = [at for at in by_identifier[address] if groups.together(page, at) or shared_identifier(record, candidates[at].record)]
        works = [at for at in others if pages.get(at) != address]
        if len({groups.root(at) for at in works}) <= 1:
            joins += ((page, at) for at in works or others)
    for page, at in joins:
        groups.join(page, at)


def joined(works: Sequence[Candidate], pairs: Mapping[Pair, str]) -> tuple[Candidate, ...]:
    """The works with these pairs, and what hangs together through them, folded; `pairs` says why. Order as of `deduplicated`.

    A preprint and its publication are linked, not merged: neither fills the other's fields.
    """
    groups = Groups(len(works))
    for one, other in pairs:
        groups.join(one, other)
    whys = {frozenset((works[one].record.doc_id, works[other].record.doc_id)): why for (one, other), why in pairs.items()}
    return _in_order(
        [
            _merged([works[at] for at in members], lambda one, other: whys.get(frozenset((one.doc_id, other.doc_id))), versions=True)
            for members in groups.members()
        ]
    )


def _in_order(works: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """By fused score, then id, where all have one; divided by the best above 1. What comes after cuts, and trusts the order."""
    best = max((work.scores.get("fused", 0.0) for work in works), default=0.0)
    if best > 1.0:
        works = [_divided(work, best) for work in works]
    return tuple(sorted(works, key=_place) if all("fused" in work.scores for work in works) else works)


def _divided(work: Candidate, best: float) -> Candidate:
    if "fused" not in work.scores:
        return work
    return replace(work, scores={**work.scores, "fused": work.scores["fused"] / best}, score=work.score / best)


def _place(work: Candidate) -> tuple[float, str]:
    return (-work.scores.get("fused", 0.0), work.record.doc_id)


def _merged(members: Sequence[Candidate], why: Why, *, versions: bool = False) -> Candidate:
    """`versions`: those of another preprint server than the leader's fill nothing."""
    if len(members) == 1:
        return members[0]
    group = sorted(members, key=_place)
    leader = min(group, key=lambda candidate: leading(candidate.record))
    server = preprint_server(leader.record)
    others = sorted(
        (one for one in group if one is not leader), key=lambda one: (preprint_server(one.record) != server, leading(one.record))
    )
    fillers = [one.record for one in others if not versions or preprint_server(one.record) == server]
    folded = tuple(fold for other in others for fold in (_duplicate(leader.record, other.record, why), *other.duplicates))
    merged = replace(
        leader,
        record=filled(leader.record, fillers),
        found_by=_once(place for candidate in group for place in candidate.found_by),
        duplicates=leader.duplicates + folded,
        score=max(one.score for one in group),
    )
    if not any("fused" in one.scores for one in group):
        return merged
    fused = _fused(group)
    return replace(merged, scores={**leader.scores, "fused": fused}, score=fused)


def _fused(group: Sequence[Candidate]) -> float:
    """The work's fused score, `group` best first: as in RRF a list counts once, by its best record; further copies there add nothing."""
    counted: set[tuple[str, str, str]] = set()
    total = 0.0
    for candidate in group:
        lists = {(place.source, place.strategy, place.query) for place in candidate.found_by}
        if counted.isdisjoint(lists):
            total += candidate.scores.get("fused", 0.0)
        counted |= lists
    return total


def _duplicate(leader: Record, record: Record, why: Why) -> Duplicate:
    said = why(leader, record) or "same work as another duplicate"
    return Duplicate(doc_id=record.doc_id, source=record.source, origin=record.origin, why=said)


def _once(places: Iterable[FoundBy]) -> tuple[FoundBy, ...]:
    return tuple(dict.fromkeys(places))
