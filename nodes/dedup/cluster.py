"""The works among candidates: what evidence shows to be one, what a person decided, and a preprint with its publication, folded."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from io import BytesIO
from typing import Any

from outrider.nodes.dedup.group import NO_MORE, Joins, Judging, grouped, versions
from outrider.nodes.dedup.merge import in_order, linked, merged
from outrider.nodes.dedup.model_proposals import Pair
from outrider.runtime.workers import NoWorker, Workers
from outrider.state.decisions import NO_DECISIONS, Decisions
from outrider.state.hits import Candidate


@dataclass(frozen=True, slots=True)
class Found:
    works: tuple[Candidate, ...]
    """In the order of their fused scores; where any has none, each at the place of its first member."""
    grey: tuple[Pair, ...]
    """Places of two works that may be one, surest first."""
    judging: Judging


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


MODULES = (__name__,)
"""What a worker needs loaded."""


async def found_beside(
    workers: Workers | None, candidates: Sequence[Candidate], decisions: Decisions, *, fold_versions: bool = True
) -> Found:
    """`found_in`, in a worker where that is sooner, else in a thread."""
    if workers is not None and workers.available():
        with suppress(NoWorker):
            return await _found_there(workers, candidates, decisions, fold_versions)
    return await asyncio.to_thread(found_in, candidates, decisions, fold_versions=fold_versions)


async def _found_there(workers: Workers, candidates: Sequence[Candidate], decisions: Decisions, fold_versions: bool) -> Found:
    given = await asyncio.to_thread(pickle.dumps, (candidates, decisions, fold_versions), pickle.HIGHEST_PROTOCOL)
    answer = await workers.run(answered, given)
    works, grey = await asyncio.to_thread(_Reader(answer, candidates).load)
    return Found(works, grey, Judging(decisions))


def answered(given: bytes) -> bytes:
    """In the worker."""
    candidates, decisions, fold_versions = pickle.loads(given)  # noqa: S301 - of the process that started this one
    found = found_in(candidates, decisions, fold_versions=fold_versions)
    answer = BytesIO()
    _Writer(answer, candidates).dump((found.works, found.grey))
    return answer.getvalue()


class _Writer(pickle.Pickler):
    def __init__(self, into: BytesIO, sent: Sequence[Candidate]) -> None:
        super().__init__(into, pickle.HIGHEST_PROTOCOL)
        self._place = {id(part): place for place, part in enumerate(_parts(sent))}

    def persistent_id(self, obj: Any) -> int | None:
        return self._place.get(id(obj))


class _Reader(pickle.Unpickler):
    """Of what a worker of this process wrote."""

    def __init__(self, answer: bytes, sent: Sequence[Candidate]) -> None:
        super().__init__(BytesIO(answer))
        self._sent = list(_parts(sent))

    def persistent_load(self, pid: int) -> object:
        return self._sent[pid]


def _parts(sent: Sequence[Candidate]) -> Iterator[object]:
    """What candidates are made of and works keep, in one order on both sides."""
    for one in sent:
        yield one.record
        yield from one.found_by
        yield from one.members
        yield from one.duplicates
        yield from one.related
