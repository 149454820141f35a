"""Decisions that override evidence: records that are one work, and records that must not be.

Decisions come from a person or from an earlier step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from outrider.linkage.clustering import Clustering, Judge
from outrider.linkage.judge import Weights, judge_keys
from outrider.linkage.keys import Keys
from outrider.state.decisions import Decisions

SAME_ID = "the same record"


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

    def __init__(
        self,
        keys: Sequence[Keys],
        pairs: Sequence[tuple[int, int]],
        weights: Weights,
        names: Sequence[str],
        overrides: Overrides,
        judge: Judge = judge_keys,
    ) -> None:
        super().__init__(keys, pairs, weights, judge)
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
