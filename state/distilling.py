"""Types of the distiller: readings, kept units, results, calibrations.

Here because nodes and the distiller both need them and may not import each other.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from outrider.state.errors import BadRequest

UnitKind = Literal["sentence", "heading", "item", "row", "code", "text"]
"""A `text` is a whole text, passed on unchanged."""
Why = Literal["relevant", "best", "context", "heading", "passed"]
"""Why a unit was kept: its own score; best of a text in which none reached the threshold, so that it may not answer; the next unit refers
to it; heading of a kept unit, in answers of earlier versions; nothing was left out."""
Frame = Callable[[str], str]
"""Puts the kept lines into their frame; the frame counts towards the budget."""


def no_frame(lines: str) -> str:
    return lines


@dataclass(frozen=True, slots=True)
class Reading:
    """One text to distil. `key` is its citation key; the title tells a model the subject, and is never cut. `rank` is its place among the
    hits of a search, from 1; 0 for a text that was given. `kind` is that of its record, if there is one.
    """

    doc_id: str
    text: str
    title: str = ""
    key: str = ""
    rank: int = 0
    kind: str = ""


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
    """P(relevant | unit, query) in [0, 1]; for a unit kept because of another one, that one's; 1 if nothing was left out."""
    kind: UnitKind = "sentence"
    why: Why = "relevant"
    key: str = ""
    support: tuple[Span, ...] = ()
    """Places that repeat the unit and are left out."""
    compressed: str = ""
    """Not verbatim: the words of `text` that LLMLingua-2 kept. Never quote them."""


@dataclass(frozen=True, slots=True)
class Promise:
    """The share of texts in which every answer is kept, and its data; `why_not` says why it does not apply here."""

    keep_rate: float
    fitted_on: str
    pairs: int
    why_not: str = ""

    @property
    def given(self) -> bool:
        return not self.why_not


@dataclass(frozen=True, slots=True)
class Distilled:
    """Units in the order of the given texts, then of their positions."""

    units: tuple[KeptUnit, ...]
    text: str
    """The units, each on a new line after its text's citation key, in the frame; a shortened unit as shortened."""
    tokens: int
    """Tokens of `text` by the given counter, else an upper estimate."""
    engine: str
    threshold: float
    calibrated: bool
    promise: Promise | None = None
    chars: int = 0
    kept_chars: int = 0
    over_budget: int = 0
    """Units above the threshold that did not fit the budget."""
    unanswered: tuple[str, ...] = ()
    """Ids of the texts in which nothing answers."""
    notes: tuple[str, ...] = ()
    bypassed: str = ""
    """Why the texts were passed on unchanged; empty if they were distilled."""
    answering: tuple[KeptUnit, ...] | None = None
    """What would have been kept of short texts that were passed on unchanged; None where they were not read for it."""

    @property
    def judged(self) -> tuple[KeptUnit, ...] | None:
        """The units that answer; None where nobody looked for them."""
        return self.answering if self.bypassed else self.units

    @property
    def verbatim(self) -> bool:
        return not any(unit.compressed for unit in self.units)

    @property
    def removed_share(self) -> float:
        """Share of the texts' characters that were left out, in [0, 1]."""
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
    """Description of the fitting data, shown in responses."""
    removed: float
    """Share of those texts' characters below this threshold."""
    function_words: Range
    """Share of English function words among a text's words, which indicates the language."""
    latin: Range
    """Share of Latin letters among a text's letters."""
    best: Range
    """The score of a text's best unit."""
    most_units: int
    structured: bool = False
    """Whether it was fitted on texts with sections, such as READMEs and full papers, too."""
    fitted_at: str = ""
    """ISO 8601, if a user fitted it."""
    version: int = FORMAT

    def promise(self, why_not: str = "") -> Promise:
        return Promise(self.keep_rate, self.fitted_on, self.pairs, why_not)


def parse_calibration(text: str, where: str) -> Calibration:
    """Read the JSON form; `BadRequest` for anything else, and for a newer format."""
    problem = f"{where} is not a calibration of this distiller; create one with `outrider library calibrate-distiller`"
    try:
        values: dict[str, Any] = json.loads(text)
        ranges = {name: Range(**values[name]) for name in ("function_words", "latin", "best")}
        calibration = Calibration(**{**values, **ranges})
        is_valid = calibration.version == FORMAT and 0 <= calibration.threshold <= 1
    except (ValueError, TypeError, KeyError) as error:
        raise BadRequest(problem) from error
    if not is_valid:
        raise BadRequest(problem)
    return calibration
