"""Texts in, the units that answer out: cut, scored, chosen, with what may be promised about them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import isinf
from typing import Protocol

from outrider.distiller.calibration import explain_mismatch
from outrider.distiller.engines.ensemble import Engine
from outrider.distiller.selection import SelectionSettings, Shorten, render_units, select_units
from outrider.distiller.units import SegmentedText, segment_text
from outrider.state.distilling import Calibration, Distilled, Frame, KeptUnit, Reading, no_frame

DEFAULT_REMOVED_SHARE = 0.3
"""Of the text, by an engine that nobody has calibrated."""


@dataclass(frozen=True, slots=True)
class BypassRule:
    """`units_a_second` is a rate that the engine is known to reach, not one just measured: the same texts are treated alike."""

    short_tokens: int = 100
    token_ms: float = 5.0
    """Milliseconds that one token less is worth; 0 for any time."""
    units_a_second: float = float("inf")
    removed_share: float = DEFAULT_REMOVED_SHARE


def explain_bypass(tokens: int, units: int, rule: BypassRule) -> str:
    """Why the texts had better pass as they are; empty where they had not."""
    if tokens <= rule.short_tokens:
        return f"the texts are short already: {tokens:,} tokens, and up to {rule.short_tokens:,} pass as they are (distiller.bypass_tokens)"
    saved = tokens * rule.removed_share
    takes_s, worth_s = units / rule.units_a_second, saved * rule.token_ms / 1000
    if rule.token_ms and takes_s > worth_s:
        return (
            f"about {takes_s:.2g} s to leave out about {saved:,.0f} of {tokens:,} tokens, which are worth {worth_s:.2g} s "
            "(distiller.token_ms); bypass=False distils all the same"
        )
    return ""


def keep_whole_texts(readings: Sequence[Reading]) -> tuple[KeptUnit, ...]:
    """Each text whole, without white space around it."""
    return tuple(unit for one in readings for unit in _whole(one))


def _whole(one: Reading) -> list[KeptUnit]:
    said = one.text.strip()
    start = len(one.text) - len(one.text.lstrip())
    return [KeptUnit(one.doc_id, start, start + len(said), said, 1.0, "text", "passed", one.key)] if said else []


MAX_CHARS_READ = 2_000_000
"""Of one text, about a thousand pages; of a longer one the rest is left out, which is said."""


MAX_CHARS_PER_TOKEN = 20


class Compressor(Protocol):
    """What shortens a kept unit; its words are not the text's any more."""

    @property
    def name(self) -> str: ...

    def compress(self, text: str, rate: float) -> str: ...


@dataclass(frozen=True, slots=True)
class Distiller:
    """An engine with what was learned about it. Blocking; meant for a thread.

    A calibration of this very engine replaces the threshold; another engine's is passed over, which is said.
    """

    engine: Engine
    calibration: Calibration | None = None
    selection: SelectionSettings = field(default_factory=SelectionSettings)
    compressor: Compressor | None = None
    rate: float = 0.6
    """Share of a kept unit's words that the compressor leaves."""
    bypass_rule: BypassRule | None = None
    """None distils whatever it costs."""

    def distil(self, query: str, readings: Sequence[Reading], max_tokens: int | None = None, frame: Frame = no_frame) -> Distilled:
        """Raises what the engine raises: `ModelError`, `MissingExtra`."""
        keeping = self.selection if max_tokens is None else replace(self.selection, max_tokens=max_tokens)
        read = [replace(one, text=one.text[:MAX_CHARS_READ]) for one in readings]
        cuts = [segment_text(one) for one in read]
        if (whole := self._passed(readings, cuts, keeping, frame)) is not None:
            return whole
        fitting, said = self._fitting()
        scores = self.engine.scores(query, cuts)
        if fitting:
            keeping = replace(keeping, threshold=fitting.threshold)
        chosen = select_units(cuts, scores, keeping, frame, self._shorten())
        return Distilled(
            units=chosen.units,
            text=chosen.text,
            tokens=chosen.tokens,
            engine=self.name,
            threshold=keeping.threshold,
            calibrated=fitting is not None,
            promise=fitting.promise(
                (f"the budget had no room for {chosen.over_budget:,} units that reach the threshold" if chosen.over_budget else "")
                or explain_mismatch(fitting, self.engine, cuts, scores)
            )
            if fitting
            else None,
            chars=sum(len(one.text) for one in readings),
            kept_chars=sum(unit.end - unit.start for unit in chosen.units),
            over_budget=chosen.over_budget,
            notes=(*said, *(_cut_short(one) for one in readings if len(one.text) > MAX_CHARS_READ)),
        )

    @property
    def name(self) -> str:
        if self.compressor is None or self.compressor.name == self.engine.name:
            return self.engine.name
        return f"{self.engine.name}, shortened by {self.compressor.name}"

    def _fitting(self) -> tuple[Calibration | None, tuple[str, ...]]:
        own = self.calibration
        if own is None:
            return None, ()
        if (own.engine, own.revision) == (self.engine.name, self.engine.revision):
            return own, ()
        return None, (f"the calibration is of {own.engine} at {own.revision}, not of {self.engine.name} at {self.engine.revision}",)

    def _passed(
        self, readings: Sequence[Reading], cuts: Sequence[SegmentedText], keeping: SelectionSettings, frame: Frame
    ) -> Distilled | None:
        """The texts as they are, where they fit the budget and distilling them is not worth it."""
        if self.bypass_rule is None or any(len(one.text) > MAX_CHARS_READ for one in readings):
            return None
        if self._surely_worth_it(readings, self.bypass_rule):
            return None
        tokens = sum(keeping.count_tokens(one.text) for one in readings)
        why = explain_bypass(tokens, sum(len(its.units) for its in cuts), self._worth(self.bypass_rule))
        if not why or tokens > keeping.max_tokens:
            return None
        units = keep_whole_texts(readings)
        text = render_units(units, frame)
        whole = keeping.count_tokens(text) if text else 0
        if whole > keeping.max_tokens:
            return None
        chars = sum(len(one.text) for one in readings)
        return Distilled(units, text, whole, "", 0.0, calibrated=False, chars=chars, kept_chars=chars, bypassed=why)

    @staticmethod
    def _surely_worth_it(readings: Sequence[Reading], worth: BypassRule) -> bool:
        """Without counting tokens, which takes longer than an engine of words does."""
        return isinf(worth.units_a_second) and sum(len(one.text) for one in readings) > MAX_CHARS_PER_TOKEN * worth.short_tokens

    def _worth(self, worth: BypassRule) -> BypassRule:
        return replace(worth, removed_share=self.calibration.removed) if self.calibration else worth

    def _shorten(self) -> Shorten | None:
        return self._shortened if self.compressor else None

    def _shortened(self, unit: KeptUnit) -> str:
        if self.compressor is None or unit.kind != "sentence":
            return ""
        shorter = self.compressor.compress(unit.text, self.rate)
        return "" if shorter == unit.text else shorter


def _cut_short(reading: Reading) -> str:
    return f"of {reading.doc_id} only the first {MAX_CHARS_READ:,} characters were read"
