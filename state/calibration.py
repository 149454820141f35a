"""The fitted threshold of a distilling engine, and its JSON form."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from outrider.state.distilling import Promise
from outrider.state.errors import BadRequest

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
