"""Out-of-core deduplication: the same groups as `resolve`, with keys on disk.

In memory, a million records take 15 GiB (`docs/benchmarks.md`). Here the keys stay on disk (`disk_keys.py`) and memory grows by
about 1.2 KB a record. Each connected component of the candidate pairs is clustered on its own, because no group reaches beyond one. Reasons
are computed on demand.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from outrider.linkage.clustering import Clustering, Groups, OverriddenClustering, make_overrides
from outrider.linkage.disk_keys import KeyCollector, OnStep, SortedKeys, encode_record_keys, find_pairs, no_progress, split_chunks
from outrider.linkage.evidence_weights import WEIGHTS
from outrider.linkage.judge_pair import Judgement, Weights, judge_keys
from outrider.linkage.normalized_record import decode_keys
from outrider.linkage.relations import Relation, find_links
from outrider.linkage.resolve import COPIES, Pair, Related
from outrider.runtime.task_map import TaskMap, map_here
from outrider.state.duplicate_decisions import NO_DECISIONS, Decisions
from outrider.state.records import Record

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

REPORT_EVERY = 5_000
"""Components between two progress reports."""
MOST_COPIES = 10_000
"""Records whose judgement against their own copy is kept, of 1 kB each; among millions it is made again."""
RECORDS_AT_ONCE, PAIRS_AT_ONCE = 500, 2_000
"""Of one task."""


@dataclass(frozen=True, slots=True)
class Group:
    """The records of one work."""

    places: tuple[int, ...]
    """Indexes into the input, ascending."""
    reasons: tuple[str, ...]
    """One line for each join; empty for a single record."""


class OutOfCoreResolver:
    """Resolves the records that are added.

    `folder` needs about 2 KB of disk space a record, and must exist until `close`.
    """

    def __init__(
        self,
        folder: Path,
        on_step: OnStep = no_progress,
        weights: Weights = WEIGHTS,
        decisions: Decisions = NO_DECISIONS,
        tasks: TaskMap = map_here,
    ) -> None:
        """`tasks` makes the keys of records, puts them into blocks and judges pairs."""
        self._folder, self._on_step, self._weights, self._decisions = folder, on_step, weights, decisions
        self._tasks = tasks
        self._collector = KeyCollector(folder / "keys", on_step)
        self._named = decisions.decided_ids()
        self._ids: list[str] = []

    def add_records(self, records: Iterable[tuple[str, Record]]) -> None:
        """Add records with their ids; the tasks make their keys."""

        def give_names() -> Iterator[tuple[str, Record]]:
            for doc_id, record in records:
                self._ids.append(doc_id)
                is_named = doc_id in self._named or self._decisions.alone
                yield doc_id if is_named else "", record

        for keys in self._tasks(encode_record_keys, split_chunks(give_names(), RECORDS_AT_ONCE), None):
            for key in keys:
                self._collector.add(key)

    def resolve(self) -> OutOfCoreResolution:
        import numpy as np

        keys = self._collector.sort()
        pairs = find_pairs(keys, self._folder, self._on_step, self._tasks)
        judge = _PairJudge(keys, self._weights)
        ranks, scores, same = array("q"), array("d"), array("b")
        related: list[tuple[int, int, Relation]] = []
        chunks = (_pick_keys(pairs[start : start + PAIRS_AT_ONCE], keys) for start in range(0, len(pairs), PAIRS_AT_ONCE))
        for number, judged_chunk in enumerate(self._tasks(_judge_pairs, chunks, self._weights)):
            self._on_step("comparing", number * PAIRS_AT_ONCE, len(pairs))
            numbers = [judge.number(judgement) for judgement in judged_chunk.judgements]
            for (one, other), at in zip(judged_chunk.pairs.tolist(), judged_chunk.judged, strict=True):
                judgement = judged_chunk.judgements[at]
                if judgement.relation:
                    related.append((one, other, judgement.relation))
                if judgement.verdict != "different":
                    judge.remember(one, other, numbers[at])
                    ranks.extend((one, other))
                    scores.append(judgement.score)
                    same.append(judgement.verdict == "same")
        stated = _find_stated_links(keys)
        judged = _JudgedPairs(np.array(ranks, np.int64).reshape(-1, 2), np.array(scores), np.array(same, bool), (*stated, *related))
        grouping = _Grouping(keys, judged, judge, self._ids, self._decisions).run(self._on_step)
        return OutOfCoreResolution(keys, judged, judge, grouping, self._ids)

    def close(self) -> None:
        self._collector.file.close()


class _PairChunk(NamedTuple):
    """Some candidate pairs with what their judgement needs."""

    pairs: NDArray[np.int64]
    """Of ranks, shape (pairs, 2)."""
    places: NDArray[np.int64]
    """The same pairs as indexes into `encoded_keys`."""
    encoded_keys: list[bytes]


class _JudgedChunk(NamedTuple):
    """The pairs that may be one work, or are related."""

    pairs: NDArray[np.int64]
    judged: list[int]
    """In parallel, the index of the judgement."""
    judgements: list[Judgement]
    """Each once."""


def _pick_keys(pairs: NDArray[np.int64], keys: SortedKeys) -> _PairChunk:
    import numpy as np

    ranks, places = np.unique(pairs, return_inverse=True)
    return _PairChunk(pairs, places.reshape(-1, 2), [keys.read_encoded(rank) for rank in ranks.tolist()])


def _judge_pairs(chunk: _PairChunk, weights: Weights) -> _JudgedChunk:
    """A task of a `TaskMap`. Judgements are shared as `judge_keys` shares them, so that few of them travel."""
    import numpy as np

    keys = [decode_keys(encoded_key) for encoded_key in chunk.encoded_keys]
    judgements, number_of = list[Judgement](), dict[int, int]()
    kept, judged = list[int](), list[int]()
    for at, (one, other) in enumerate(chunk.places.tolist()):
        judgement = judge_keys(keys[one], keys[other], weights)
        if judgement.relation or judgement.verdict != "different":
            number = number_of.setdefault(id(judgement), len(judgements))
            if number == len(judgements):
                judgements.append(judgement)
            kept.append(at)
            judged.append(number)
    return _JudgedChunk(chunk.pairs[np.array(kept, np.int64)], judged, judgements)


def _find_stated_links(keys: SortedKeys) -> list[tuple[int, int, Relation]]:
    """Links that records state: only records that state one, or are named by one, are loaded."""
    if not keys.linked:
        return []
    linked = sorted((rank, key) for rank, key in keys.each() if key.links or not keys.linked.isdisjoint(key.identifiers))
    return [(linked[one][0], linked[other][0], relation) for one, other, relation in find_links([key for _, key in linked])]


@dataclass(slots=True)
class _PairJudge:
    """Judges two ranks. The pairs that are or may be one work are judged once: most share one of few judgements, which are kept."""

    _keys: SortedKeys
    _weights: Weights
    _pairs: array[int] = field(default_factory=lambda: array("Q"))
    """Remembered pairs, each as one number, ascending."""
    _numbers: array[int] = field(default_factory=lambda: array("I"))
    """In parallel, the number of the judgement."""
    _judgements: list[Judgement] = field(default_factory=list)
    _number_of: dict[Judgement, int] = field(default_factory=dict)
    _copies: dict[int, Judgement] = field(default_factory=dict)
    """By rank, the judgement of a record against its own copy."""

    def number(self, judgement: Judgement) -> int:
        number = self._number_of.setdefault(judgement, len(self._judgements))
        if number == len(self._judgements):
            self._judgements.append(judgement)
        return number

    def remember(self, one: int, other: int, number: int) -> None:
        """The number of a pair's judgement; for pairs in ascending order."""
        self._pairs.append(one << 32 | other)
        self._numbers.append(number)

    def __call__(self, one: int, other: int) -> Judgement:
        pair = min(one, other) << 32 | max(one, other)
        at = bisect_left(self._pairs, pair)
        if at < len(self._pairs) and self._pairs[at] == pair:
            return self._judgements[self._numbers[at]]
        if one != other:
            return judge_keys(self._keys.key(one), self._keys.key(other), self._weights)
        if one not in self._copies:
            if len(self._copies) >= MOST_COPIES:
                self._copies.clear()
            key = self._keys.key(one)
            self._copies[one] = judge_keys(key, key, self._weights)
        return self._copies[one]


@dataclass(frozen=True, slots=True)
class _JudgedPairs:
    """Pairs of ranks that are or may be one work, in parallel arrays, and pairs that are related."""

    pairs: NDArray[np.int64]
    scores: NDArray[np.float64]
    same: NDArray[np.bool_]
    related: tuple[tuple[int, int, Relation], ...]


class _Grouping:
    """Finds the group of each rank, and the pairs that joined it."""

    def __init__(self, keys: SortedKeys, judged: _JudgedPairs, judge: _PairJudge, ids: Sequence[str], decisions: Decisions) -> None:
        self._keys, self._judged, self._judge = keys, judged, judge
        self._ids, self._decisions = ids, decisions
        self.group_of = list(range(len(keys)))
        self.joins: dict[int, list[tuple[int, int, str]]] = {}
        self._done = 0

    def run(self, on_step: OnStep) -> _Grouping:
        import numpy as np

        same = self._decisions.same
        ids = {name for pair in same for name in pair}
        ranks = {doc_id: int(self._keys.rank_of[at]) for at, doc_id in enumerate(self._ids) if doc_id in ids} if ids else {}
        decided = [(ranks[one], ranks[other]) for one, other in same if one in ranks and other in ranks and ranks[one] != ranks[other]]
        pairs = np.concatenate([self._judged.pairs[self._judged.same], np.array(decided, np.int64).reshape(-1, 2)])
        components = Groups(len(self._keys))
        for one, other in pairs.tolist():
            components.join(one, other)
        roots = np.array([components.root(one) for one in pairs[:, 0].tolist()], np.int64)
        pairs, roots = pairs[(order := np.argsort(roots, kind="stable"))], roots[order]
        for component in np.split(pairs, np.flatnonzero(np.diff(roots)) + 1) if len(pairs) else ():
            self._cluster(sorted(set(component.ravel().tolist())), component.tolist())
            self._done += 1
            if self._done % REPORT_EVERY == 0:
                on_step("grouping", self._done, None)
        return self

    def _cluster(self, ranks: list[int], pairs: list[list[int]]) -> None:
        place = {rank: at for at, rank in enumerate(ranks)}
        local = sorted({(min(place[one], place[other]), max(place[one], place[other])) for one, other in pairs})
        names = [self._ids[int(self._keys.first[rank])] if self._decisions else "" for rank in ranks]

        def judge(one: int, other: int) -> Judgement:
            return self._judge(ranks[one], ranks[other])

        overrides = make_overrides(self._decisions, names) if self._decisions else None
        if overrides is None:
            work = Clustering(len(ranks), local, judge)
        else:
            work = OverriddenClustering(local, overrides.names, overrides, judge)
            work.join_pairs(overrides.same)
        work.run()
        for at, rank in enumerate(ranks):
            self.group_of[rank] = ranks[work.group_of[at]]
        for one, other in work.joins:
            # without decisions the reason can be computed again from the keys, so it is not stored
            reason = work.explain_join(one, other) if self._decisions else ""
            self.joins.setdefault(self.group_of[ranks[one]], []).append((ranks[one], ranks[other], reason))


class OutOfCoreResolution:
    """A `Resolution` that is computed piece by piece, in the same order."""

    def __init__(self, keys: SortedKeys, judged: _JudgedPairs, judge: _PairJudge, grouping: _Grouping, ids: Sequence[str]) -> None:
        import numpy as np

        self.ids = ids
        self._keys, self._judged, self._judge = keys, judged, judge
        self._joins = grouping.joins
        self._group_of = np.array(grouping.group_of, np.int64)
        """The group of each rank."""
        _, first, inverse = np.unique(self._group_of[keys.rank_of], return_index=True, return_inverse=True)
        self._first = first[inverse]
        """The first place of the group of each place."""

    def groups(self) -> Iterator[Group]:
        """Every record once, singles included, ordered by first place."""
        import numpy as np

        order = np.argsort(self._first, kind="stable")
        ends = (np.flatnonzero(np.diff(self._first[order])) + 1).tolist()
        places = order.tolist()
        waiting: list[Group] = []
        for start, end in pairwise((0, *ends, len(places))) if places else ():
            group, *others = self._make_groups(places[start:end])
            while waiting and waiting[0].places < group.places:
                yield waiting.pop(0)
            yield group
            waiting = sorted((*waiting, *others), key=lambda one: one.places)
        yield from waiting

    def _make_groups(self, places: list[int]) -> list[Group]:
        if len(places) == 1:
            return [Group(tuple(places), ())]
        ranks = {int(self._keys.rank_of[at]) for at in places}
        if len(ranks) > 1:
            joins = self._joins[int(self._group_of[min(ranks)])]
            reasons = []
            for one, other, reason in joins:
                judgement = None if reason else self._judge(one, other)
                reasons.append(f"{judgement.score:.1f}: {judgement.why()}" if judgement else reason)
            return [Group(tuple(places), tuple(reasons))]
        rank = min(ranks)
        if self._judge(rank, rank).verdict == "same":
            return [Group(tuple(places), (COPIES,))]
        return [Group((at,), ()) for at in places]

    def ambiguous_pairs(self) -> list[Pair]:
        """As `Resolution.ambiguous_pairs`."""
        import numpy as np

        pairs: list[Pair] = []
        # between two groups, the pair of ranks with the highest score
        places = np.sort(self._first[self._keys.first[self._judged.pairs]], axis=1)
        order = np.lexsort((-self._judged.scores, places[:, 1], places[:, 0]))
        last = (-1, -1)
        for at in order.tolist():
            one, other = (int(place) for place in places[at])
            if one != other and last != (one, other):
                last = (one, other)
                pairs.append(Pair(one, other, self._judge(*self._judged.pairs[at].tolist())))
        # copies with too little content to be one work
        counts = np.bincount(self._keys.rank_of, minlength=len(self._keys))
        alone = np.bincount(self._first, minlength=len(self._first))[self._first[self._keys.first]] == counts
        for rank in np.flatnonzero((counts > 1) & alone).tolist():
            if (judgement := self._judge(rank, rank)).verdict == "unsure":
                first, *others = np.flatnonzero(self._keys.rank_of == rank).tolist()
                pairs += (Pair(first, other, judgement) for other in others)
        return sorted(pairs, key=lambda pair: (-round(pair.judgement.score, 6), pair.one, pair.other))

    def find_related(self) -> list[Related]:
        """As `Resolution.related`."""
        relations: dict[tuple[int, int], Relation] = {}
        for ranks in self._judged.related:
            one, other = (int(self._first[self._keys.first[rank]]) for rank in ranks[:2])
            if one != other:
                relations.setdefault((min(one, other), max(one, other)), ranks[2] if one < other else ranks[2].reverse())
        return [Related(one, other, relation) for (one, other), relation in sorted(relations.items(), key=lambda pair: pair[0])]
