"""What a person decided about records, or an earlier step did, goes before evidence: some are one work, some must not be."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from outrider.identity.clustering import Clustering, Judge
from outrider.identity.judging import Weights, judged
from outrider.identity.keys import Keys
from outrider.state.decisions import Decisions

SAME_ID = "the same record"


@dataclass(frozen=True, slots=True)
class Fixed:
    """What is not judged."""

    names: Sequence[str]
    """Of each record, by which `apart` knows it; "" for one of which nothing was decided."""
    one: Mapping[tuple[int, int], str]
    """Places of two that are one work, and why."""
    apart: Callable[[str, str], bool]
    """Whether two names must not be one work; stronger than `one`."""


def fixed_by(decisions: Decisions, doc_ids: Sequence[str], one: Mapping[tuple[int, int], str] | None = None) -> Fixed | None:
    """What was decided of the records with these ids, and what the caller knows to be `one`; None where that is nothing."""
    named = decisions.names() & {*doc_ids}
    if not named and not one:
        return None
    places: dict[str, list[int]] = {}
    for at, doc_id in enumerate(doc_ids):
        if doc_id in named:
            places.setdefault(doc_id, []).append(at)
    merged = {(places[first][0], places[second][0]): why for (first, second), why in decisions.same.items() if {first, second} <= named}
    copies = {(held[0], at): SAME_ID for held in places.values() for at in held[1:]}
    return Fixed(
        [doc_id if doc_id in named or decisions.alone else "" for doc_id in doc_ids], {**(one or {}), **merged, **copies}, decisions.apart
    )


class FixedClustering(Clustering):
    """Joins what is fixed first, and never what must stay apart."""

    def __init__(
        self,
        keys: Sequence[Keys],
        pairs: Sequence[tuple[int, int]],
        weights: Weights,
        names: Sequence[str],
        fixed: Fixed,
        judge: Judge = judged,
    ) -> None:
        super().__init__(keys, pairs, weights, judge)
        self._names, self._apart = names, fixed.apart
        self._whys: dict[tuple[int, int], str] = {}

    def tie(self, pairs: Mapping[tuple[int, int], str]) -> None:
        """Join these, whatever the evidence says."""
        for (one, other), why in sorted({(min(pair), max(pair)): why for pair, why in pairs.items()}.items()):
            first, second = sorted((self.group_of[one], self.group_of[other]))
            if first != second and not self._parted(first, second):
                self._join(first, second)
                self.joins.append((one, other))
                self._whys[one, other] = why

    def said(self, one: int, other: int) -> str:
        return self._whys.get((one, other)) or super().said(one, other)

    def _parted(self, first: int, second: int) -> bool:
        names = ({self._names[at] for at in self.members[group]} - {""} for group in (first, second))
        return any(self._apart(one, other) for one, other in product(*names))

    def _agree(self, first: int, second: int) -> bool:
        return not self._parted(first, second) and super()._agree(first, second)
