"""Clustering of records: union-find, correlation clustering of judged pairs, overrides.

Correlation clustering (Elsner and Schudy 2009): pairs are joined in order of decreasing score. Two groups are joined if the mean score of
their pairs is high enough and no pair contradicts.

Decisions override evidence: they name records that are one work, and records that must not be. They come from a person or from an earlier
step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from outrider.linkage.judge_pair import Judgement
from outrider.state.duplicate_decisions import Decisions

MIN_MEAN_SCORE = 0.0
"""Least mean log-odds of the pairs between two groups that become one."""
MAX_PAIRS_COMPARED = 64
"""Between two groups. Of larger groups so many pairs are compared, spread evenly over both, so that joining stays cheap."""
Judge = Callable[[int, int], Judgement]
"""Judges two records by their places, or one against its own copy."""
SAME_ID = "the same record"


class Groups:
    """Disjoint groups of the numbers below `size`, each alone at first (Tarjan's union-find with path halving)."""

    def __init__(self, size: int) -> None:
        self._leader = list(range(size))
        self._size = [1] * size

    def root(self, at: int) -> int:
        """The smallest member of the group of `at`."""
        while self._leader[at] != at:
            self._leader[at] = self._leader[self._leader[at]]
            at = self._leader[at]
        return at

    def together(self, one: int, other: int) -> bool:
        return self.root(one) == self.root(other)

    def size(self, at: int) -> int:
        return self._size[self.root(at)]

    def join(self, one: int, other: int) -> None:
        first, second = sorted((self.root(one), self.root(other)))
        if first != second:
            self._leader[second] = first
            self._size[first] += self._size[second]

    def members(self) -> Sequence[list[int]]:
        """Every number once: groups ordered by their smallest member, members in ascending order."""
        groups: dict[int, list[int]] = {}
        for at in range(len(self._leader)):
            groups.setdefault(self.root(at), []).append(at)
        return list(groups.values())


class Clustering:
    """Groups of distinct records, with a cache of the judgements made on the way."""

    def __init__(self, size: int, pairs: Sequence[tuple[int, int]], judge: Judge) -> None:
        self.pairs = pairs
        self._judge = judge
        self._judged: dict[tuple[int, int], Judgement] = {}
        self.group_of = list(range(size))
        self.members: dict[int, list[int]] = {at: [at] for at in range(size)}
        self.joins: list[tuple[int, int]] = []
        self._own: dict[int, Judgement] = {}

    def run(self) -> None:
        same = [pair for pair in self.pairs if self.judgement(*pair).verdict == "same"]
        for one, other in sorted(same, key=lambda pair: (-round(self.judgement(*pair).score, 6), pair)):
            first, second = sorted((self.group_of[one], self.group_of[other]))
            if first != second and self._agree(first, second):
                self._join(first, second)
                self.joins.append((one, other))

    def judgement(self, one: int, other: int) -> Judgement:
        pair = (one, other) if one < other else (other, one)
        if pair not in self._judged:
            self._judged[pair] = self._judge(*pair)
        return self._judged[pair]

    def explain_join(self, one: int, other: int) -> str:
        """The reason for a join."""
        judgement = self.judgement(one, other)
        return f"{judgement.score:.1f}: {judgement.why()}"

    def judge_copy(self, at: int) -> Judgement:
        """The judgement of a record against its own copy. A record with too little data, such as "Editorial", does not match itself."""
        if at not in self._own:
            self._own[at] = self._judge(at, at)
        return self._own[at]

    def _agree(self, first: int, second: int) -> bool:
        """Whether the mean score is high enough and no pair contradicts."""
        members, others = self.members[first], self.members[second]
        pairs = len(members) * len(others)
        count, total = min(pairs, MAX_PAIRS_COMPARED), 0.0
        for step in range(count):
            at, other_at = divmod(step * pairs // count, len(others))
            judgement = self.judgement(members[at], others[other_at])
            if judgement.contradicts:
                return False
            total += judgement.score
        return total >= MIN_MEAN_SCORE * count

    def _join(self, first: int, second: int) -> None:
        moved = self.members.pop(second)
        for at in moved:
            self.group_of[at] = first
        self.members[first] = sorted(self.members[first] + moved)


@dataclass(frozen=True, slots=True)
class Overrides:
    """Pairs of records whose verdict is known without evidence."""

    names: Sequence[str]
    """The name of each record that `must_differ` expects; "" for a record without a decision."""
    same: Mapping[tuple[int, int], str]
    """Places of two records that are one work, with the reason."""
    must_differ: Callable[[str, str], bool]
    """Whether two names must not be one work; takes precedence over `same`."""


def make_overrides(decisions: Decisions, doc_ids: Sequence[str], same: Mapping[tuple[int, int], str] | None = None) -> Overrides | None:
    """Decisions on the records with these ids, together with the caller's `same` pairs; None if there are neither."""
    named = decisions.decided_ids() & {*doc_ids}
    if not named and not same:
        return None
    places: dict[str, list[int]] = {}
    for at, doc_id in enumerate(doc_ids):
        if doc_id in named:
            places.setdefault(doc_id, []).append(at)
    merged = {(places[first][0], places[second][0]): why for (first, second), why in decisions.same.items() if {first, second} <= named}
    copies = {(first, at): SAME_ID for first, *others in places.values() for at in others}
    return Overrides(
        [doc_id if doc_id in named or decisions.alone else "" for doc_id in doc_ids],
        {**(same or {}), **merged, **copies},
        decisions.are_apart,
    )


class OverriddenClustering(Clustering):
    """Clustering that joins the `same` pairs first, and never joins records that must differ."""

    def __init__(self, pairs: Sequence[tuple[int, int]], names: Sequence[str], overrides: Overrides, judge: Judge) -> None:
        """`names` are the records' names, as in `overrides`."""
        super().__init__(len(names), pairs, judge)
        self._names, self._must_differ = names, overrides.must_differ
        self._reasons: dict[tuple[int, int], str] = {}

    def join_pairs(self, pairs: Mapping[tuple[int, int], str]) -> None:
        """Join these pairs regardless of the evidence."""
        for (one, other), why in sorted({(min(pair), max(pair)): why for pair, why in pairs.items()}.items()):
            first, second = sorted((self.group_of[one], self.group_of[other]))
            if first != second and not self._must_stay_apart(first, second):
                self._join(first, second)
                self.joins.append((one, other))
                self._reasons[one, other] = why

    def explain_join(self, one: int, other: int) -> str:
        return self._reasons.get((one, other)) or super().explain_join(one, other)

    def _must_stay_apart(self, first: int, second: int) -> bool:
        names = ({self._names[at] for at in self.members[group]} - {""} for group in (first, second))
        return any(self._must_differ(one, other) for one, other in product(*names))

    def _agree(self, first: int, second: int) -> bool:
        return not self._must_stay_apart(first, second) and super()._agree(first, second)
