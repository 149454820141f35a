"""One work, one candidate: the same identifier, no other that contradicts, *and* an agreeing title.

Supplements of a conference share one DOI, packages of one repository its address.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from functools import cache
from typing import TYPE_CHECKING

from outrider.identity.titles import normal_title
from outrider.state.hits import Candidate, Duplicate, FoundBy
from outrider.state.pipeline import PipelineState, RunContext, Update
from outrider.state.records import Record

if TYPE_CHECKING:
    from langgraph.runtime import Runtime

AGREEING_TITLES = 0.85
"""Least likeness (Indel similarity, which is difflib's ratio) of two titles under one identifier."""


async def dedup(state: PipelineState, runtime: Runtime[RunContext]) -> Update:
    """Reads candidates; writes candidates, total_candidates."""
    works = await asyncio.to_thread(deduplicated, state.candidates)
    return {"candidates": works, "total_candidates": len(works)}


def deduplicated(candidates: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """Groups merged, each at the place of its first member."""
    groups = _groups(candidates)
    return tuple(_merged([candidates[at] for at in members]) for members in groups)


def same_work(one: Record, other: Record) -> str | None:
    """Why two records are the same work, None where that is not certain."""
    shared = _shared_identifier(one, other)
    if shared is None or not titles_agree(one.title, other.title):
        return None
    return f"same {shared[0]} {shared[1]} and agreeing titles"


def _shared_identifier(one: Record, other: Record) -> tuple[str, str] | None:
    """The strongest identifier that both have, None where another scheme contradicts: packages of one repository are not one work."""
    theirs = dict(other.identifiers.pairs())
    both = [(scheme, value, theirs[scheme]) for scheme, value in one.identifiers.pairs() if scheme in theirs]
    if not both or any(value != their for _, value, their in both):
        return None
    return both[0][:2]


def titles_agree(one: str, other: str) -> bool:
    """Both have a title, and they are alike; a missing title is unknown, not agreement."""
    return _alike(normal_title(one), normal_title(other))


def _alike(first: str, second: str) -> bool:
    if not first or not second:
        return False
    from rapidfuzz.distance import Indel

    return first == second or Indel.normalized_similarity(first, second, score_cutoff=AGREEING_TITLES) > 0


def richness(record: Record) -> tuple[int, bool, int, int, str]:
    """Larger is richer: filled fields, then a DOI, a longer abstract, more citations; the id breaks ties (smaller first)."""
    filled = sum(1 for name in type(record).model_fields if getattr(record, name) not in (None, "", (), {}))
    filled += len(record.identifiers.pairs())
    return (-filled, not record.identifiers.doi, -len(record.abstract), -(record.citations or 0), record.doc_id)


def _groups(candidates: Sequence[Candidate]) -> list[list[int]]:
    """Connected candidates, each group ordered as they came."""
    by_identifier: dict[tuple[str, str], list[int]] = {}
    for at, candidate in enumerate(candidates):
        for pair in candidate.record.identifiers.pairs():
            by_identifier.setdefault(pair, []).append(at)
    title = cache(lambda at: normal_title(candidates[at].record.title))  # few share an identifier
    leader = list(range(len(candidates)))

    def root(at: int) -> int:
        while leader[at] != at:
            leader[at] = leader[leader[at]]
            at = leader[at]
        return at

    for members in by_identifier.values():
        for place, first in enumerate(members):
            for second in members[place + 1 :]:
                if root(first) == root(second) or not _alike(title(first), title(second)):
                    continue
                if _shared_identifier(candidates[first].record, candidates[second].record):
                    leader[max(root(first), root(second))] = min(root(first), root(second))
    groups: dict[int, list[int]] = {}
    for at in range(len(candidates)):
        groups.setdefault(root(at), []).append(at)
    return list(groups.values())


def _merged(group: list[Candidate]) -> Candidate:
    if len(group) == 1:
        return group[0]
    leader, *others = sorted(group, key=lambda candidate: richness(candidate.record))
    folded = tuple(_duplicate(leader.record, other) for other in others)
    fused = _fused(group)
    return leader.model_copy(
        update={
            "found_by": _once(place for candidate in group for place in candidate.found_by),
            "duplicates": leader.duplicates + folded,
            "scores": {**leader.scores, "fused": fused},
            "score": fused,
        }
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


def _duplicate(leader: Record, other: Candidate) -> Duplicate:
    record = other.record
    why = same_work(leader, record) or "same work as another duplicate"
    return Duplicate(doc_id=record.doc_id, source=record.source, origin=record.origin, why=why)


def _once(places: Iterable[FoundBy]) -> tuple[FoundBy, ...]:
    return tuple(dict.fromkeys(places))
