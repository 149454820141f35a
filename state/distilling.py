"""What the distiller is given and what it gives back.

Here because the graph's nodes and the retrieval engine both need it and may not import each other.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from outrider.state.errors import BadRequest

UnitKind = Literal["sentence", "heading", "item", "row", "code", "text"]
"""A `text` is whole: it was passed on as it is."""
Why = Literal["relevant", "best", "context", "heading", "passed"]
"""Why a unit was kept: its own score; no other of its text reached the threshold; the next one refers to it; it heads a kept one; nothing
was left out."""
Frame = Callable[[str], str]
"""What the kept lines are set into to be pasted; it counts towards the budget."""


def no_frame(lines: str) -> str:
    return lines


@dataclass(frozen=True, slots=True)
class Reading:
    """One text to be distilled. `key` is what it is cited by; the title tells a model what the text is about, and is never cut."""

    doc_id: str
    text: str
    title: str = ""
    key: str = ""


@dataclass(frozen=True, slots=True)
class Span:
    """Half-open character offsets into the text of `doc_id`."""

    doc_id: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class KeptUnit:
    """`text == original[start:end]` of the text `doc_id`."""

    doc_id: str
    start: int
    end: int
    text: str
    score: float
    """P(relevant | unit, query) in [0, 1]; of a unit kept for another one's sake, that one's; 1 where nothing was left out."""
    kind: UnitKind = "sentence"
    why: Why = "relevant"
    key: str = ""
    support: tuple[Span, ...] = ()
    """Where the same is said again; those are left out."""
    compressed: str = ""
    """Not verbatim: the words of `text` that LLMLingua-2 left. Never to be quoted."""


@dataclass(frozen=True, slots=True)
class Promise:
    """How often everything that answers is kept, and where that was learned; `why_not` says why it cannot be given here."""

    keep_rate: float
    fitted_on: str
    pairs: int
    why_not: str = ""

    @property
    def given(self) -> bool:
        return not self.why_not


@dataclass(frozen=True, slots=True)
class Distilled:
    """Units in the order of the texts given, then of their places."""

    units: tuple[KeptUnit, ...]
    text: str
    """One line a unit, each after its text's citation key, in the frame; of a unit that was shortened what is left of it."""
    tokens: int
    """Of `text`, as counted by the counter that was given, else an upper estimate."""
    engine: str
    threshold: float
    calibrated: bool
    promise: Promise | None = None
    chars: int = 0
    kept_chars: int = 0
    over_budget: int = 0
    """Units that reached the threshold and that the budget had no room for."""
    notes: tuple[str, ...] = ()
    bypassed: str = ""
    """Why the texts were passed on as they are; empty where they were distilled."""

    @property
    def verbatim(self) -> bool:
        return not any(unit.compressed for unit in self.units)

    @property
    def removed_share(self) -> float:
        """Share of the texts' characters that was left out, in [0, 1]."""
        return 1 - self.kept_chars / self.chars if self.chars else 0.0


FORMAT = 1
"""Version of the JSON form."""


@dataclass(frozen=True, slots=True)
class Range:
    low: float
    high: float

    def holds(self, value: float) -> bool:
        return self.low <= value <= self.high


@dataclass(frozen=True, slots=True)
class Calibration:
    engine: str
    revision: str
    keep_rate: float
    threshold: float
    pairs: int
    fitted_on: str
    """What the cases were, for people: the response carries it."""
    removed: float
    """Share of those texts' characters that this threshold leaves out."""
    function_words: Range
    """Share of English function words among a text's words: tells its language."""
    latin: Range
    """Share of Latin letters among a text's letters."""
    best: Range
    """The score of a text's best unit."""
    most_units: int
    fitted_at: str = ""
    """ISO 8601, of one that a user made."""
    version: int = FORMAT

    def promise(self, why_not: str = "") -> Promise:
        return Promise(self.keep_rate, self.fitted_on, self.pairs, why_not)


def parse_calibration(text: str, where: str) -> Calibration:
    """`BadRequest` where it is something else, or was written by a newer Outrider."""
    try:
        return _from_json(json.loads(text))
    except (ValueError, TypeError, KeyError) as error:
        raise BadRequest(f"{where} is no calibration of this distiller; make one with `outrider library calibrate-distiller`") from error


def _from_json(values: Mapping[str, Any]) -> Calibration:
    ranges = {name: Range(**values[name]) for name in ("function_words", "latin", "best")}
    calibration = Calibration(**{**values, **ranges})
    if calibration.version != FORMAT or not 0 <= calibration.threshold <= 1:
        raise ValueError(calibration.version)
    return calibration
