"""Distiller: segments texts, scores and selects units, and states its guarantee."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import isinf
from typing import Protocol

from outrider.distiller.calibration import explain_mismatch
from outrider.distiller.engines.by_kind_of_text import ByKindOfText
from outrider.distiller.engines.ensemble import Engine
from outrider.distiller.selection import SelectionSettings, render_units, select_units
from outrider.distiller.units import SegmentedText, segment_text
from outrider.state.distilling import Calibration, Distilled, Frame, KeptUnit, Reading, no_frame

DEFAULT_REMOVED_SHARE = 0.3
"""Share of the text that an uncalibrated engine is expected to remove."""
MAX_CHARS_READ = 2_000_000
"""Characters read of one text, about a thousand pages; the rest is left out with a note."""
MAX_CHARS_PER_TOKEN = 20


@dataclass(frozen=True, slots=True)
class BypassRule:
    """When to pass texts unchanged. `units_a_second` is a fixed rate, not a measurement, so that equal texts are treated equally."""

    short_tokens: int = 100
    token_ms: float = 5.0
    """Milliseconds that removing one token may cost; 0 for no limit."""
    units_a_second: float = float("inf")
    removed_share: float = DEFAULT_REMOVED_SHARE


def explain_bypass(tokens: int, units: int, rule: BypassRule) -> str:
    """Why the texts should pass unchanged; empty if they should be distilled."""
    if tokens <= rule.short_tokens:
        return f"the texts are short: {tokens:,} tokens, and up to {rule.short_tokens:,} pass unchanged (distiller.bypass_tokens)"
    saved = tokens * rule.removed_share
    takes_s, worth_s = units / rule.units_a_second, saved * rule.token_ms / 1000
    if rule.token_ms and takes_s > worth_s:
        return (
            f"about {takes_s:.2g} s to leave out about {saved:,.0f} of {tokens:,} tokens, which are worth {worth_s:.2g} s "
            "(distiller.token_ms); bypass=False distils anyway"
        )
    return ""


def keep_whole_texts(readings: Sequence[Reading]) -> tuple[KeptUnit, ...]:
    """Each non-empty text as one unit, without surrounding white space."""
    units = []
    for reading in readings:
        if text := reading.text.strip():
            start = len(reading.text) - len(reading.text.lstrip())
            units.append(KeptUnit(reading.doc_id, start, start + len(text), text, 1.0, "text", "passed", reading.key))
    return tuple(units)


class Compressor(Protocol):
    """Shortens a kept unit; the result is no longer verbatim."""

    @property
    def name(self) -> str: ...

    def compress(self, text: str, rate: float) -> str: ...


@dataclass(frozen=True, slots=True)
class Distiller:
    """An engine with its calibration. Blocking; call it in a thread.

    A calibration of exactly this engine replaces the threshold; that of another engine is ignored with a note.
    """

    engine: Engine
    calibration: Calibration | None = None
    selection: SelectionSettings = field(default_factory=SelectionSettings)
    compressor: Compressor | None = None
    rate: float = 0.6
    """Share of a kept unit's words that the compressor keeps."""
    bypass_rule: BypassRule | None = None
    """None distils regardless of the cost."""

    def distil(self, query: str, readings: Sequence[Reading], max_tokens: int | None = None, frame: Frame = no_frame) -> Distilled:
        """Keep the units that answer the query. Raises the engine's errors: `ModelError`, `MissingExtra`."""
        settings = self.selection if max_tokens is None else replace(self.selection, max_tokens=max_tokens)
        segmented = [segment_text(replace(reading, text=reading.text[:MAX_CHARS_READ])) for reading in readings]
        if (whole := self._pass_unchanged(query, readings, segmented, settings, frame)) is not None:
            return whole
        calibration, notes, promise = self.calibration, [], None
        if calibration and (calibration.engine, calibration.revision) != (self.engine.name, self.engine.revision):
            fitted_for = f"{calibration.engine} at {calibration.revision}"
            notes.append(f"the calibration is for {fitted_for}, not for {self.engine.name} at {self.engine.revision}")
            calibration = None
        scores = self.engine.scores(query, segmented)
        if settings.max_units and isinstance(self.engine, ByKindOfText):
            scores = self.engine.judge_texts(query, segmented, scores)
        elif calibration and not settings.max_units:
            settings = replace(settings, threshold=calibration.threshold)
        selected = select_units(segmented, scores, settings, frame, self._shorten if self.compressor else None)
        if calibration:
            too_many = (
                f"the budget was too small for {selected.over_budget:,} units at or over the threshold" if selected.over_budget else ""
            )
            few = (
                f"at most {settings.max_units} sentences of a text are kept; with distiller.max_units=0 it holds"
                if settings.max_units
                else ""
            )
            promise = calibration.promise(few or too_many or explain_mismatch(calibration, self.engine, segmented, scores))
        long = {reading.doc_id: reading.title for reading in readings if len(reading.text) > MAX_CHARS_READ}
        names = [f"{doc_id} ({title})" if title else doc_id for doc_id, title in long.items()]
        notes += [f"of {name} only the first {MAX_CHARS_READ:,} characters were read" for name in names]
        if selected.least_tokens:
            notes.append(
                f"the budget of {settings.max_tokens:,} tokens holds none of the {selected.over_budget:,} sentences that were chosen; "
                f"the best one needs {selected.least_tokens:,}"
            )
        return Distilled(
            units=selected.units,
            text=selected.text,
            tokens=selected.tokens,
            engine=self.name,
            threshold=settings.threshold,
            calibrated=calibration is not None,
            promise=promise,
            chars=sum(len(reading.text) for reading in readings),
            kept_chars=sum(unit.end - unit.start for unit in selected.units),
            over_budget=selected.over_budget,
            unanswered=tuple(doc_id for doc_id in selected.unanswered if doc_id not in long),  # the rest of it may answer
            notes=tuple(notes),
        )

    @property
    def name(self) -> str:
        if self.compressor is None or self.compressor.name == self.engine.name:
            return self.engine.name
        return f"{self.engine.name}, shortened by {self.compressor.name}"

    def _pass_unchanged(
        self, query: str, readings: Sequence[Reading], segmented: Sequence[SegmentedText], settings: SelectionSettings, frame: Frame
    ) -> Distilled | None:
        """The texts unchanged, if they fit the budget and distilling them is not worth its time; of short ones also what answers."""
        rule, chars = self.bypass_rule, sum(len(reading.text) for reading in readings)
        if rule is None or any(len(reading.text) > MAX_CHARS_READ for reading in readings):
            return None
        if isinf(rule.units_a_second) and chars > MAX_CHARS_PER_TOKEN * rule.short_tokens:
            return None  # decided without counting tokens, which takes longer than a word-based engine
        if self.calibration:
            rule = replace(rule, removed_share=self.calibration.removed)
        tokens = sum(settings.count_tokens(reading.text) for reading in readings)
        why = explain_bypass(tokens, sum(len(text.units) for text in segmented), rule)
        if not why or tokens > settings.max_tokens:
            return None
        units = keep_whole_texts(readings)
        text = render_units(units, frame)
        total = settings.count_tokens(text) if text else 0
        if total > settings.max_tokens:
            return None
        whole = Distilled(units, text, total, "", 0.0, calibrated=False, chars=chars, kept_chars=chars, bypassed=why)
        if tokens > rule.short_tokens or not settings.max_units or not isinstance(self.engine, ByKindOfText):
            return whole
        selected = select_units(segmented, self.engine.judge_texts(query, segmented, self.engine.scores(query, segmented)), settings, frame)
        return replace(whole, answering=selected.units, unanswered=selected.unanswered)

    def _shorten(self, unit: KeptUnit) -> str:
        if self.compressor is None or unit.kind != "sentence":
            return ""
        shorter = self.compressor.compress(unit.text, self.rate)
        return "" if shorter == unit.text else shorter
