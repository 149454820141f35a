"""The works among candidates: what evidence shows to be one, what a person decided, and a preprint with its publication, folded."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from io import BytesIO
from typing import Any

from outrider.nodes.dedup.group import NO_DETAILS, CompatibleGroups, PairJudge, find_versions, group_works
from outrider.nodes.dedup.merge import link_related_works, merge_members, sort_by_fused_score
from outrider.nodes.dedup.model_proposals import Pair
from outrider.runtime.workers import NoWorker, Workers
from outrider.state.decisions import NO_DECISIONS, Decisions
from outrider.state.hits import Candidate


@dataclass(frozen=True, slots=True)
class Clusters:
    works: tuple[Candidate, ...]
    """In the order of their fused scores; where any has none, each at the place of its first member."""
    ambiguous_pairs: tuple[Pair, ...]
    """Places of two works that may be one, surest first."""
    judge: PairJudge


def deduplicate(
    candidates: Sequence[Candidate], decisions: Decisions = NO_DECISIONS, *, fold_versions: bool = True
) -> tuple[Candidate, ...]:
    """The works among the candidates, in the order of their fused scores; where any has none, each at the place of its first member.

    Depends on no order but that; done again it changes nothing. Each candidate keeps the records that it was made of.
    """
    return cluster_candidates(candidates, decisions, fold_versions=fold_versions).works


def cluster_candidates(candidates: Sequence[Candidate], decisions: Decisions = NO_DECISIONS, *, fold_versions: bool = True) -> Clusters:
    """`deduplicated`, with the pairs that may be one.

    Until nothing changes, since a work with the identifiers of two records may share one with a third.
    """
    judging = PairJudge(decisions)
    works: Sequence[Candidate] = candidates
    now = group_works(works, judging)
    while len(now.groups) < len(works):
        works = [merge_members([works[at] for at in members], judging.explain) for members in now.groups]
        if not now.needs_another_pass:
            break
        now = group_works(works, judging)
    pairs = find_versions(works, now.links, judging) if fold_versions else {}
    ordered = sort_by_fused_score(link_related_works(_folded(works, pairs, judging), now.links, works))
    at = {record.doc_id: place for place, work in enumerate(ordered) for record in (work.record, *work.members)}
    grey = (((min(at[one], at[other]), max(at[one], at[other]))) for one, other in now.ambiguous_pairs)
    return Clusters(ordered, tuple(dict.fromkeys(pair for pair in grey if pair[0] != pair[1])), judging)


def merge_pairs(works: Sequence[Candidate], pairs: Mapping[Pair, str], judging: PairJudge | None = None) -> tuple[Candidate, ...]:
    """The works with these pairs, and what hangs together through them, folded; `pairs` says why. Order as of `deduplicated`.

    Where two of a group would contradict, it does not grow. A preprint and its publication are linked, not merged: neither fills the
    other's fields.
    """
    return sort_by_fused_score(_folded(works, pairs, judging or PairJudge(NO_DECISIONS)))


def _folded(works: Sequence[Candidate], pairs: Mapping[Pair, str], judging: PairJudge) -> list[Candidate]:
    if not pairs:
        return list(works)
    joins = CompatibleGroups(works, judging.contradicts)
    kept = {pair: why for pair, why in pairs.items() if joins.join(*pair)}
    whys = {frozenset((works[one].record.doc_id, works[other].record.doc_id)): why for (one, other), why in kept.items()}

    def why(leader: Candidate, other: Candidate, group: Sequence[Candidate]) -> str:
        names = (frozenset((one.record.doc_id, other.record.doc_id)) for one in (leader, *group) if one is not other)
        return next((whys[name] for name in names if name in whys), NO_DETAILS)

    return [merge_members([works[at] for at in members], why, versions=True) for members in joins.groups.members()]


WORKER_MODULES = (__name__,)
"""What a worker needs loaded."""


async def offload_clustering(
    workers: Workers | None, candidates: Sequence[Candidate], decisions: Decisions, *, fold_versions: bool = True
) -> Clusters:
    """`found_in`, in a worker where that is sooner, else in a thread."""
    if workers is not None and workers.available():
        with suppress(NoWorker):
            return await _found_there(workers, candidates, decisions, fold_versions)
    return await asyncio.to_thread(cluster_candidates, candidates, decisions, fold_versions=fold_versions)


async def _found_there(workers: Workers, candidates: Sequence[Candidate], decisions: Decisions, fold_versions: bool) -> Clusters:
    given = await asyncio.to_thread(pickle.dumps, (candidates, decisions, fold_versions), pickle.HIGHEST_PROTOCOL)
    answer = await workers.run(cluster_pickled, given)
    works, grey = await asyncio.to_thread(_Reader(answer, candidates).load)
    return Clusters(works, grey, PairJudge(decisions))


def cluster_pickled(given: bytes) -> bytes:
    """In the worker."""
    candidates, decisions, fold_versions = pickle.loads(given)  # noqa: S301 - of the process that started this one
    found = cluster_candidates(candidates, decisions, fold_versions=fold_versions)
    answer = BytesIO()
    _Writer(answer, candidates).dump((found.works, found.ambiguous_pairs))
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
