"""Learning from use: what was done with hits, and the weights that follow from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from pydantic import Field

from outrider.state.model import Model
from outrider.state.records import BaseRecord

FeedbackAction = Literal["keep", "drop", "open", "undo"]
MAX_BOOST = 0.05
"""Most that use adds to a score or takes from it. Scores are in [0, 1]."""
STRONGEST = 3
"""Features of a work that count."""
MOST_AUTHORS, MOST_TAGS, MAX_NAME_CHARS = 6, 12, 100


class Feature(NamedTuple):
    """A venue, an author or a keyword, in one spelling."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


class JudgedWork(Model):
    """A hit of a list as it stood there, and what was done with it."""

    doc_id: str
    score: float = Field(description="Without what use had added.")
    features: tuple[Feature, ...] = ()
    action: FeedbackAction | None = None


class FeedbackList(Model):
    """The first hits of one search of which at least one was opened, kept or dropped."""

    id: str
    query: str
    works: tuple[JudgedWork, ...]


class Proof(Model):
    """Leave-one-out over the recorded searches: each is ordered by what was learned from the others."""

    searches: int = Field(description="Searches with a work that was kept or opened, and another one.")
    needed: int
    before: float = Field(0.0, description="Mean nDCG@10 without what was learned.")
    after: float = Field(0.0, description="With it.")
    at_least: float = Field(0.0, description="Lower bound of the mean difference, one-sided at .95.")

    @property
    def is_proven(self) -> bool:
        return self.searches >= self.needed and self.after > self.before and self.at_least >= 0

    @property
    def why(self) -> str:
        if self.searches < self.needed:
            return f"it needs {self.needed} searches in which works were kept or opened, and has {self.searches}"
        change = f"nDCG@10 {self.before:.3f} -> {self.after:.3f} over {self.searches} searches, at least {self.at_least:+.3f}"
        return change if self.is_proven else f"it is not proven to help: {change}"


@dataclass(frozen=True, slots=True)
class Preferences:
    """Weights in (-1, 1) of features, learned from use."""

    weights: Mapping[Feature, float] = field(default_factory=dict)
    version: str = ""
    """Part of the provenance hash of an answer that they ordered."""

    def weigh(self, features: tuple[Feature, ...]) -> tuple[float, str]:
        """What use adds to the score of a work, within `MAX_BOOST`, and why."""
        weighed = sorted(((self.weights[one], one) for one in features if one in self.weights), key=lambda pair: (-abs(pair[0]), pair[1]))
        strongest = weighed[:STRONGEST]
        boost = MAX_BOOST * max(-1.0, min(1.0, sum(weight for weight, _ in strongest)))
        if abs(boost) < 1e-6:
            return 0.0, ""
        names = ", ".join(str(one) for weight, one in strongest if (weight > 0) == (boost > 0))
        return boost, f"{'raised' if boost > 0 else 'lowered'} by what you kept and dropped before ({names})"


def list_features(record: BaseRecord) -> tuple[Feature, ...]:
    """Venue, authors and keywords of a record."""
    return name_features(record.venue, record.authors, record.tags)


def name_features(venue: str | None, authors: Sequence[str], tags: Sequence[str] = ()) -> tuple[Feature, ...]:
    names = [("venue", venue or "")] + [("author", name) for name in authors[:MOST_AUTHORS]]
    names += [("keyword", tag) for tag in tags[:MOST_TAGS]]
    return tuple(dict.fromkeys(Feature(kind, " ".join(name.lower().split())[:MAX_NAME_CHARS]) for kind, name in names if name.strip()))
