"""Clustering of candidates into works, in a worker process or a thread.

`offload_clustering` keeps the event loop free: it runs in a worker process while a server answers several searches, else in a thread.
The worker's answer refers by position to what it was sent, so only new objects travel back, and unmerged candidates return as the same
objects.
"""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from io import BytesIO
from typing import Any

from outrider.linkage.lookup_match import page_identifier
from outrider.nodes.dedup.group import NO_DETAILS, CompatibleGroups, PairJudge, find_versions, group_works
from outrider.nodes.dedup.merge import link_related_works, merge_members, sort_by_fused_score
from outrider.nodes.dedup.model_proposals import Pair
from outrider.runtime.workers import NoWorker, Workers
from outrider.state.duplicate_decisions import NO_DECISIONS, Decisions
from outrider.state.hits import Candidate


@dataclass(frozen=True, slots=True)
class Clusters:
    works: tuple[Candidate, ...]
    """In the order of their fused scores; if any has none, each at the position of its first member."""
    ambiguous_pairs: tuple[Pair, ...]
    """Positions of two works that may be the same, most likely first."""
    judge: PairJudge


def deduplicate(
    candidates: Sequence[Candidate], decisions: Decisions = NO_DECISIONS, *, fold_versions: bool = True
) -> tuple[Candidate, ...]:
    """The works among the candidates, in the order of their fused scores; if any has none, each at the position of its first member.

    The result depends on no other order, and a second pass changes nothing. Each work keeps the records that it was merged from.
    """
    return cluster_candidates(candidates, decisions, fold_versions=fold_versions).works


def cluster_candidates(candidates: Sequence[Candidate], decisions: Decisions = NO_DECISIONS, *, fold_versions: bool = True) -> Clusters:
    """`deduplicate`, with the ambiguous pairs."""
    return _cluster(candidates, PairJudge(decisions), fold_versions=fold_versions)


def _cluster(candidates: Sequence[Candidate], judge: PairJudge, *, fold_versions: bool) -> Clusters:
    works: Sequence[Candidate] = candidates
    grouping = group_works(works, judge)
    # Repeated until nothing changes: a work with the identifiers of two records may share one of them with a third.
    while len(grouping.groups) < len(works):
        works = [merge_members([works[at] for at in members], judge.explain) for members in grouping.groups]
        if not grouping.needs_another_pass:
            break
        grouping = group_works(works, judge)
    versions = find_versions(works, grouping.links, judge) if fold_versions else {}
    ordered = sort_by_fused_score(link_related_works(_merge_groups(works, versions, judge), grouping.links, works))
    if versions and any(page_identifier(work.record) for work in ordered):
        # A page of an identifier that only the versions had in common has one work now.
        return _cluster(ordered, judge, fold_versions=fold_versions)
    at = {record.doc_id: position for position, work in enumerate(ordered) for record in (work.record, *work.members)}
    pairs = ((min(at[one], at[other]), max(at[one], at[other])) for one, other in grouping.ambiguous_pairs)
    return Clusters(ordered, tuple(dict.fromkeys(pair for pair in pairs if pair[0] != pair[1])), judge)


def merge_pairs(works: Sequence[Candidate], pairs: Mapping[Pair, str], judge: PairJudge | None = None) -> tuple[Candidate, ...]:
    """Merge these pairs and whatever they connect; `pairs` gives the reasons. Order as of `deduplicate`.

    A group does not grow where two of its works would contradict each other. A preprint and its publication are linked, not merged:
    neither fills the other's fields.
    """
    return sort_by_fused_score(_merge_groups(works, pairs, judge or PairJudge(NO_DECISIONS)))


def _merge_groups(works: Sequence[Candidate], pairs: Mapping[Pair, str], judge: PairJudge) -> list[Candidate]:
    if not pairs:
        return list(works)
    groups = CompatibleGroups(works, judge.contradicts)
    joined = {pair: reason for pair, reason in pairs.items() if groups.join(*pair)}
    reasons = {frozenset((works[one].record.doc_id, works[other].record.doc_id)): reason for (one, other), reason in joined.items()}

    def explain(leader: Candidate, other: Candidate, group: Sequence[Candidate]) -> str:
        ids = (frozenset((work.record.doc_id, other.record.doc_id)) for work in (leader, *group) if work is not other)
        return next((reasons[pair] for pair in ids if pair in reasons), NO_DETAILS)

    return [merge_members([works[at] for at in members], explain, versions=True) for members in groups.groups.members()]


WORKER_MODULES = (__name__,)
"""Modules that a worker loads before its first task."""


async def offload_clustering(
    workers: Workers | None, candidates: Sequence[Candidate], decisions: Decisions, *, fold_versions: bool = True
) -> Clusters:
    """`cluster_candidates` in a worker process if that is faster, else in a thread."""
    if workers is not None and workers.available():
        with suppress(NoWorker):
            payload = await asyncio.to_thread(pickle.dumps, (candidates, decisions, fold_versions), pickle.HIGHEST_PROTOCOL)
            answer = await workers.run(cluster_pickled, payload)
            works, ambiguous_pairs = await asyncio.to_thread(_Reader(answer, candidates).load)
            return Clusters(works, ambiguous_pairs, PairJudge(decisions))
    return await asyncio.to_thread(cluster_candidates, candidates, decisions, fold_versions=fold_versions)


def cluster_pickled(payload: bytes) -> bytes:
    """The worker's side of `offload_clustering`."""
    candidates, decisions, fold_versions = pickle.loads(payload)  # noqa: S301 - from the process that started this one
    clusters = cluster_candidates(candidates, decisions, fold_versions=fold_versions)
    answer = BytesIO()
    _Writer(answer, candidates).dump((clusters.works, clusters.ambiguous_pairs))
    return answer.getvalue()


class _Writer(pickle.Pickler):
    """Replaces every part of the candidates by its position."""

    def __init__(self, file: BytesIO, candidates: Sequence[Candidate]) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self._positions = {id(part): position for position, part in enumerate(_parts(candidates))}

    def persistent_id(self, obj: Any) -> int | None:
        return self._positions.get(id(obj))


class _Reader(pickle.Unpickler):
    """Reads the answer of a worker of this process."""

    def __init__(self, answer: bytes, candidates: Sequence[Candidate]) -> None:
        super().__init__(BytesIO(answer))
        self._parts = list(_parts(candidates))

    def persistent_load(self, pid: int) -> object:
        return self._parts[pid]


def _parts(candidates: Sequence[Candidate]) -> Iterator[object]:
    """The parts of candidates that works keep, in the same order on both sides."""
    for candidate in candidates:
        yield candidate.record
        yield from candidate.found_by
        yield from candidate.members
        yield from candidate.duplicates
        yield from candidate.related
