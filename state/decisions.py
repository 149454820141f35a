"""What a person decided about works: these records are one, these are not. Remembered in the library, respected by every search."""

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
    """One entry of the log; later ones go before earlier ones."""

    what: Literal["merge", "split", "forget"]
    ids: tuple[str, ...] = Field(
        min_length=1,
        description="merge: all are one work. split: the first is none of the others, or, alone, none of any. forget: nothing was said.",
    )
    by: str = Field("", description="Who decided.")
    at: str = Field("", description="When, ISO 8601 in UTC.")
    why: str = ""

    def describe(self) -> str:
        """`merged by ann on 2026-11-22`."""
        said = {"merge": "merged", "split": "split", "forget": "forgotten"}[self.what]
        return (
            said
            + (f" by {self.by}" if self.by else "")
            + (f" on {self.at[:10]}" if self.at else "")
            + (f": {self.why}" if self.why else "")
        )


@dataclass(frozen=True, slots=True)
class Decisions:
    """What stands of a log of decisions."""

    same: Mapping[Pair, str] = field(default_factory=dict)
    """With who said so, and when."""
    different: Mapping[Pair, str] = field(default_factory=dict)
    alone: Mapping[str, str] = field(default_factory=dict)
    """Records that are no other's work but those which they were merged with since."""
    merged: Mapping[str, str] = field(default_factory=dict)
    """The smallest id of all that an id was merged with, directly or through others."""

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
            else:
                alone.pop(one.ids[0], None)
        return cls(same, different, alone, _united(same))

    def __bool__(self) -> bool:
        return bool(self.same or self.different or self.alone)

    def decided_ids(self) -> frozenset[str]:
        """Every id that something was decided of."""
        return frozenset((*(name for pair in (*self.same, *self.different) for name in pair), *self.alone))

    def are_apart(self, one: str, other: str) -> bool:
        """Whether two records must not be one work."""
        if make_pair(one, other) in self.different:
            return True
        if one == other or not (one in self.alone or other in self.alone):
            return False
        return one not in self.merged or self.merged[one] != self.merged.get(other)

    def conflicts(self) -> tuple[str, ...]:
        """Merges that a split speaks against: through others, they would bring together what must stay apart."""
        return tuple(
            f"{one} and {other} ({said}), which merges with others would make one"
            for (one, other), said in sorted(self.different.items())
            if one in self.merged and self.merged[one] == self.merged.get(other)
        )


NO_DECISIONS = Decisions()


class DecisionsProvider(Protocol):
    """What was decided, as it stands now; raises `SearchError`."""

    async def __call__(self) -> Decisions: ...


async def load_no_decisions() -> Decisions:
    return NO_DECISIONS


def make_pair(one: str, other: str) -> Pair:
    return (one, other) if one < other else (other, one)


def _pairs(decision: Decision) -> list[Pair]:
    """Merged are all with all; split is the first from each of the others."""
    first, *others = decision.ids
    if decision.what == "merge":
        return [make_pair(one, other) for one, other in combinations(sorted({*decision.ids}), 2)]
    return [] if decision.what == "forget" else [make_pair(first, other) for other in others if other != first]


def _united(same: Mapping[Pair, str]) -> dict[str, str]:
    """By id the smallest one that it is connected with."""
    found: dict[str, str] = {}
    members: dict[str, list[str]] = {}
    for one, other in sorted(same):
        first, second = sorted((found.get(one, one), found.get(other, other)))
        if first != second or one not in found:
            joined = members.pop(first, [first]) + (members.pop(second, [second]) if first != second else [])
            members[first] = joined
            found |= dict.fromkeys(joined, first)
    return found
