"""Pairs into groups, from the surest down (greedy correlation clustering, Elsner and Schudy 2009).

Two groups become one if their pairs speak for it on the whole, and none of them against it beyond doubt.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice, product

from outrider.identity.judging import Judgement, Weights, judged
from outrider.identity.keys import Keys

ON_THE_WHOLE = 0.0
"""Least mean log-odds of the pairs between two groups that become one."""
PAIRS_LOOKED_AT = 64
"""Between two groups: of larger ones the first of each, in order."""
Judge = Callable[[Keys, Keys, Weights], Judgement]


class Clustering:
    """Groups of distinct keys, and all that was judged on the way."""

    def __init__(self, keys: Sequence[Keys], pairs: Sequence[tuple[int, int]], weights: Weights, judge: Judge = judged) -> None:
        self.keys, self.pairs = keys, pairs
        self._weights, self._judge = weights, judge
        self._judged: dict[tuple[int, int], Judgement] = {}
        self.group_of = list(range(len(keys)))
        self.members: dict[int, list[int]] = {at: [at] for at in range(len(keys))}
        self.joins: list[tuple[int, int]] = []
        self._own: dict[int, Judgement] = {}

    def run(self) -> None:
        for one, other in sorted((pair for pair in self.pairs if self.of(*pair).verdict == "same"), key=self._surest):
            first, second = sorted((self.group_of[one], self.group_of[other]))
            if first != second and self._agree(first, second):
                self._join(first, second)
                self.joins.append((one, other))

    def of(self, one: int, other: int) -> Judgement:
        pair = (one, other) if one < other else (other, one)
        if pair not in self._judged:
            self._judged[pair] = self._judge(self.keys[pair[0]], self.keys[pair[1]], self._weights)
        return self._judged[pair]

    def said(self, one: int, other: int) -> str:
        """Why a join was made."""
        judgement = self.of(one, other)
        return f"{judgement.score:.1f}: {judgement.why()}"

    def as_copy(self, at: int) -> Judgement:
        """Whether a copy of it would be known for one: "Editorial" alone would not."""
        if at not in self._own:
            self._own[at] = self._judge(self.keys[at], self.keys[at], self._weights)
        return self._own[at]

    def _surest(self, pair: tuple[int, int]) -> tuple[float, tuple[int, int]]:
        return (-round(self.of(*pair).score, 6), pair)

    def _agree(self, first: int, second: int) -> bool:
        """On the whole, and without one that contradicts."""
        total, count = 0.0, 0
        for one, other in islice(product(self.members[first], self.members[second]), PAIRS_LOOKED_AT):
            judgement = self.of(one, other)
            if judgement.contradicts:
                return False
            total, count = total + judgement.score, count + 1
        return total >= ON_THE_WHOLE * count

    def _join(self, first: int, second: int) -> None:
        moved = self.members.pop(second)
        for at in moved:
            self.group_of[at] = first
        self.members[first] = sorted(self.members[first] + moved)
