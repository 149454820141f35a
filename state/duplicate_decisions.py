"""A user's decisions about duplicates: which records are the same work, and which are not.

The library stores them, and every search applies them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import combinations
from typing import Literal, Protocol

from pydantic import Field

from outrider.state.model import Model

Pair = tuple[str, str]
"""Two ids, the smaller first."""


class Decision(Model):
    """One entry of the log; later entries override earlier ones."""

    what: Literal["merge", "split", "forget"]
    ids: tuple[str, ...] = Field(
        min_length=1,
        description="merge: all are one work. split: the first is another work than the rest, or, alone, than all. forget: undo what was "
        "decided about the first and each of the rest, or, alone, everything about it.",
    )
    by: str = Field("", description="Author of the decision.")
    at: str = Field("", description="Time, ISO 8601 in UTC.")
    why: str = ""

    def describe(self) -> str:
        """`merged by ann on 2026-11-22`."""
        verb = {"merge": "merged", "split": "split", "forget": "forgotten"}[self.what]
        return (
            verb
            + (f" by {self.by}" if self.by else "")
            + (f" on {self.at[:10]}" if self.at else "")
            + (f": {self.why}" if self.why else "")
        )


@dataclass(frozen=True, slots=True)
class Decisions:
    """The decisions in effect, from a log."""

    same: Mapping[Pair, str] = field(default_factory=dict)
    """With the author and the time of the decision."""
    different: Mapping[Pair, str] = field(default_factory=dict)
    alone: Mapping[str, str] = field(default_factory=dict)
    """Records that are a work of their own, except with records that they were merged with later."""
    merged: Mapping[str, str] = field(default_factory=dict)
    """By id the smallest id that it was merged with, directly or through others."""

    @classmethod
    def from_log(cls, log: Iterable[Decision]) -> Decisions:
        """`log` from the first decision to the last."""
        same: dict[Pair, str] = {}
        different: dict[Pair, str] = {}
        alone: dict[str, str] = {}
        for one in log:
            pairs = _pairs(one)
            for pair in pairs or [pair for pair in (*same, *different) if one.ids[0] in pair]:
                same.pop(pair, None)
                if one.what != "split" or pairs:
                    different.pop(pair, None)
            if one.what == "merge":
                same |= dict.fromkeys(pairs, one.describe())
            elif one.what == "split" and pairs:
                different |= dict.fromkeys(pairs, one.describe())
            elif one.what == "split":
                alone[one.ids[0]] = one.describe()
            elif one.what == "forget" and not pairs:
                alone.pop(one.ids[0], None)
        return cls(same, different, alone, _smallest_ids(same))

    def __bool__(self) -> bool:
        return bool(self.same or self.different or self.alone)

    def rename(self, names: Mapping[str, str]) -> Decisions:
        """The decisions with other ids for some records."""
        same, different = (
            {make_pair(names.get(one, one), names.get(other, other)): why for (one, other), why in pairs.items()}
            for pairs in (self.same, self.different)
        )
        return Decisions(same, different, {names.get(one, one): why for one, why in self.alone.items()}, _smallest_ids(same))

    def decided_ids(self) -> frozenset[str]:
        """Every id with a decision."""
        return frozenset((*(name for pair in (*self.same, *self.different) for name in pair), *self.alone))

    def are_apart(self, one: str, other: str) -> bool:
        """Whether two records must not be the same work."""
        if make_pair(one, other) in self.different:
            return True
        if one == other or not (one in self.alone or other in self.alone):
            return False
        return one not in self.merged or self.merged[one] != self.merged.get(other)

    def conflicts(self) -> tuple[str, ...]:
        """Splits that merges contradict: through other records, the merges would join what must stay apart."""
        return tuple(
            f"{one} and {other} ({decision}), which merges with others would make one"
            for (one, other), decision in sorted(self.different.items())
            if one in self.merged and self.merged[one] == self.merged.get(other)
        )


NO_DECISIONS = Decisions()


class DecisionsProvider(Protocol):
    """Loads the current decisions; raises `SearchError`."""

    async def __call__(self) -> Decisions: ...


async def load_no_decisions() -> Decisions:
    return NO_DECISIONS


def make_pair(one: str, other: str) -> Pair:
    return (one, other) if one < other else (other, one)


def _pairs(decision: Decision) -> list[Pair]:
    """A merge concerns all pairs, the others the first id with each of the others."""
    first, *others = decision.ids
    if decision.what == "merge":
        return [make_pair(one, other) for one, other in combinations(sorted({*decision.ids}), 2)]
    return [make_pair(first, other) for other in others if other != first]


def _smallest_ids(same: Mapping[Pair, str]) -> dict[str, str]:
    """By id the smallest one that it is connected with."""
    smallest: dict[str, str] = {}
    members: dict[str, list[str]] = {}
    for one, other in sorted(same):
        first, second = sorted((smallest.get(one, one), smallest.get(other, other)))
        if first != second or one not in smallest:
            joined = members.pop(first, [first]) + (members.pop(second, [second]) if first != second else [])
            members[first] = joined
            smallest |= dict.fromkeys(joined, first)
    return smallest
