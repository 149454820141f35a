"""Invariants of every distillation, for any texts, scores, threshold and budget."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.distiller.distiller import MAX_CHARS_READ, BypassRule, Distiller, explain_bypass, keep_whole_texts
from outrider.distiller.engines.ensemble import Scores
from outrider.distiller.engines.lexical import Lexical
from outrider.distiller.selection import NOISE, SelectionSettings
from outrider.distiller.token_counter import estimate_tokens
from outrider.distiller.units import SegmentedText, segment_text
from outrider.state.distilling import Calibration, Distilled, Range, Reading
from support.distiller_fakes import ODD, Fixed, texts

WORDS = re.compile(r"\w\W*\w\W*\w")
"""What a unit has at least."""

scores = st.lists(st.floats(0, 1), min_size=1, max_size=9)
many = st.lists(texts, max_size=3)


def _readings(contents: Sequence[str]) -> list[Reading]:
    return [Reading(f"d{at}", text, key=f"[{at + 1}]") for at, text in enumerate(contents)]


def _distil(contents: Sequence[str], values: Sequence[float], threshold: float = 0.4, max_tokens: int = 10**6) -> Distilled:
    return Distiller(Fixed(values), selection=SelectionSettings(threshold)).distil("q", _readings(contents), max_tokens)


def _find_places(distilled: Distilled) -> set[tuple[str, int, int]]:
    return {(unit.doc_id, unit.start, unit.end) for unit in distilled.units}


@given(many, scores, st.floats(0, 1))
def test_units_are_verbatim_in_order_and_disjoint(contents: list[str], values: list[float], threshold: float) -> None:
    distilled = _distil(contents, values, threshold)
    original = {f"d{at}": text for at, text in enumerate(contents)}
    assert all(unit.text == original[unit.doc_id][unit.start : unit.end] and not unit.compressed for unit in distilled.units)
    assert [unit.doc_id for unit in distilled.units] == sorted(unit.doc_id for unit in distilled.units)
    assert all(one.end <= other.start for one, other in itertools.pairwise(distilled.units) if one.doc_id == other.doc_id)
    shown = (unit.text if unit.kind == "code" else " ".join(unit.text.split()) for unit in distilled.units)
    assert distilled.text == "\n".join(f"{unit.key} {text}" for unit, text in zip(distilled.units, shown, strict=True))
    assert distilled.kept_chars == sum(unit.end - unit.start for unit in distilled.units)
    assert 0 <= distilled.removed_share <= 1


@given(many, scores, st.floats(0, 1), st.floats(0, 1), st.integers(0, 150))
@settings(max_examples=200)
def test_a_higher_threshold_never_adds_a_unit(contents: list[str], values: list[float], one: float, other: float, max_tokens: int) -> None:
    low, high = sorted((one, other))
    assert _find_places(_distil(contents, values, high, max_tokens)) <= _find_places(_distil(contents, values, low, max_tokens))


@given(many, scores, st.floats(0, 1), st.integers(0, 120))
def test_the_budget_is_never_exceeded(contents: list[str], values: list[float], threshold: float, max_tokens: int) -> None:
    distilled = _distil(contents, values, threshold, max_tokens)
    assert estimate_tokens(distilled.text) == distilled.tokens <= max_tokens


@given(many, scores, st.integers(0, 60))
def test_the_budget_holds_with_a_counter_that_is_not_additive(contents: list[str], values: list[float], most: int) -> None:
    selection = SelectionSettings(0.0, max_tokens=most, count_tokens=lambda text: len(text.split()) + 3 * text.count("\n"))
    distilled = Distiller(Fixed(values), selection=selection).distil("q", _readings(contents))
    assert selection.count_tokens(distilled.text) == distilled.tokens <= most or not distilled.units


@given(many, st.text(max_size=30))
def test_distillation_is_deterministic(contents: list[str], query: str) -> None:
    distiller = Distiller(Lexical())
    assert distiller.distil(query, _readings(contents)) == distiller.distil(query, _readings(contents))


@given(many, scores)
def test_each_text_has_a_unit_or_is_noise_or_repeats_another(contents: list[str], values: list[float]) -> None:
    distilled = _distil(contents, values, threshold=1.1)
    supporting = {span.doc_id for unit in distilled.units for span in unit.support}
    for reading in _readings(contents):
        best = max(Fixed(values).scores("", [segment_text(reading)])[0], default=0.0)
        own_units = [unit for unit in distilled.units if unit.doc_id == reading.doc_id]
        assert len(own_units) == (1 if best >= NOISE and reading.doc_id not in supporting else 0)


@pytest.mark.parametrize("text", ODD, ids=range(len(ODD)))
def test_odd_texts_are_distilled(text: str) -> None:
    distilled = Distiller(Lexical(), selection=SelectionSettings(0.0)).distil("word نص 😀", [Reading("a", text)])
    assert all(unit.text == text[unit.start : unit.end] for unit in distilled.units)
    assert bool(distilled.units) == bool(WORDS.search(text))


def test_the_same_fact_counts_once_and_the_others_support_it() -> None:
    fact = "Aspirin lowers the risk of stroke by 12 % in adults."
    readings = _readings([f"Mice sleep. {fact}", fact, f"{fact} Mice dream."])
    distilled = Distiller(_Each({"Mice": 0.5, "Aspirin": 0.9})).distil("q", readings)
    (one,) = [unit for unit in distilled.units if unit.text == fact]
    assert (one.doc_id, one.start) == ("d0", 12)
    assert [(span.doc_id, span.start, span.end) for span in one.support] == [("d1", 0, len(fact)), ("d2", 0, len(fact))]


def test_the_best_of_all_texts_fit_the_budget() -> None:
    contents = ["Alpha one two three. Beta one two three.", "Gamma four five six. Delta four five six."]
    distilled = Distiller(_Each({"Alpha": 0.5, "Beta": 0.9, "Gamma": 0.8, "Delta": 0.95})).distil("q", _readings(contents), 26)
    assert [unit.text.split()[0] for unit in distilled.units] == ["Beta", "Delta"]
    assert distilled.over_budget == 2


def test_a_text_whose_best_unit_is_noise_gives_nothing() -> None:
    distilled = Distiller(_Each({"Alpha": 0.3, "Gamma": NOISE / 2})).distil("q", _readings(["Alpha.", "Gamma."]))
    assert [(unit.doc_id, unit.why) for unit in distilled.units] == [("d0", "best")]


def test_a_calibration_replaces_the_threshold_and_brings_its_promise() -> None:
    prose = "The mice of the house were in the barn for a day and it was cold there. " * 3
    distilled = Distiller(Fixed([0.3, 0.2]), CALIBRATION).distil("q", [Reading("a", prose)])
    assert (distilled.threshold, distilled.calibrated) == (0.25, True)
    assert distilled.promise is not None
    assert (distilled.promise.given, distilled.promise.keep_rate, distilled.promise.fitted_on) == (True, 0.95, "mice")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Die Maus ist im Haus und der Hund steht draußen vor der Tür, weil es dort kalt ist. " * 4, "language"),
        ("Мышь живёт в доме и спит днём, а ночью ищет еду. " * 4, "script"),
        ("The mouse was in the house and it was cold. " * 400, "longer"),
    ],
)
def test_a_missing_promise_has_a_reason(text: str, reason: str) -> None:
    promise = Distiller(Fixed([0.3]), CALIBRATION).distil("q", [Reading("a", text)]).promise
    assert promise is not None
    assert reason in promise.why_not
    assert not promise.given


def test_a_budget_that_drops_units_withdraws_the_promise() -> None:
    promise = Distiller(Fixed([0.3]), CALIBRATION).distil("q", [Reading("a", "One mouse. Two cats.")], 4).promise
    assert promise is not None
    assert "budget" in promise.why_not


def test_the_calibration_of_another_engine_is_ignored_and_reported() -> None:
    distilled = Distiller(Fixed([0.3], revision="2"), CALIBRATION).distil("q", [Reading("a", "One mouse.")])
    assert (distilled.threshold, distilled.calibrated, distilled.promise) == (0.4, False, None)
    assert "fixed" in distilled.notes[0]


def test_only_the_beginning_of_a_book_is_read_and_this_is_reported() -> None:
    distilled = Distiller(Lexical()).distil("stroke", [Reading("a", "Aspirin prevents a stroke in adults. " * 60_000)])
    assert len(distilled.units) == 1
    assert len(distilled.units[0].support) > 50_000
    assert distilled.notes == (f"of a only the first {MAX_CHARS_READ:,} characters were read",)


def test_a_book_of_which_only_the_beginning_was_read_is_not_said_to_hold_no_answer() -> None:
    book = Reading("a", "The weather was fine. " * 100_000 + "Aspirin prevents a stroke.", "A book")
    distilled = Distiller(Fixed([0.0])).distil("stroke", [book, Reading("b", "The weather was fine.")])
    assert (distilled.units, distilled.unanswered) == ((), ("b",))
    assert distilled.notes == (f"of a (A book) only the first {MAX_CHARS_READ:,} characters were read",)


def test_the_compressed_text_is_stored_with_the_verbatim_unit() -> None:
    distilled = Distiller(Fixed([0.9]), compressor=_FirstWord()).distil("q", [Reading("a", "One mouse.\n\n- an item")])
    assert [(unit.text, unit.compressed) for unit in distilled.units] == [("One mouse.", "One"), ("an item", "")]
    assert (distilled.verbatim, distilled.text) == (False, "One\nan item")


CALIBRATION = Calibration("fixed", "1", 0.95, 0.25, 100, "mice", 0.5, Range(0.2, 0.8), Range(0.9, 1.0), Range(0.1, 1.0), 10)


@dataclass
class _Each:
    """Scores units by their first word."""

    of: dict[str, float]
    name: str = "each"
    revision: str = "1"

    def scores(self, query: str, cuts: Sequence[SegmentedText]) -> Scores:
        return [[self.of[text.split()[0].rstrip(".")] for text in its.texts()] for its in cuts]


class _FirstWord:
    name = "first word"

    def compress(self, text: str, rate: float) -> str:
        return text.split(maxsplit=1)[0]


def test_readings_are_not_changed() -> None:
    readings = _readings(["One mouse."])
    before = [replace(one) for one in readings]
    Distiller(Lexical()).distil("mouse", readings)
    assert readings == before


def test_short_texts_and_expensive_engines_are_bypassed() -> None:
    assert "texts are short:" in explain_bypass(100, 5, BypassRule(short_tokens=100))
    assert explain_bypass(101, 5, BypassRule(short_tokens=100)) == ""
    dear = BypassRule(0, token_ms=5.0, units_a_second=50.0, removed_share=0.3)
    assert explain_bypass(1_000, 50, dear) == ""  # 1 s against 1.5 s
    assert "1.6 s" in explain_bypass(1_000, 80, dear)
    assert explain_bypass(1_000, 80, BypassRule(0, 0.0, 50.0)) == ""


@given(st.lists(texts, max_size=3), st.integers(0, 200), st.sampled_from([1.0, math.inf]))
def test_bypassed_texts_are_whole_and_fit_the_budget(contents: list[str], most: int, rate: float) -> None:
    readings = [Reading(f"d{at}", text, key=f"[{at + 1}]") for at, text in enumerate(contents)]
    distilled = Distiller(Fixed([0.9]), selection=SelectionSettings(max_tokens=most), bypass_rule=BypassRule(units_a_second=rate)).distil(
        "q", readings
    )
    assert estimate_tokens(distilled.text) == distilled.tokens <= most
    if distilled.bypassed:
        assert [unit.text for unit in distilled.units] == [text.strip() for text in contents if text.strip()]
        assert all(unit.text == contents[int(unit.doc_id[1:])][unit.start : unit.end] for unit in distilled.units)
        assert distilled.removed_share == 0


def test_a_text_of_blanks_gives_nothing() -> None:
    assert keep_whole_texts([Reading("a", " \n")]) == ()


@given(many, scores, st.integers(0, 60))
def test_a_budget_without_room_names_one_that_has_it(contents: list[str], values: list[float], most: int) -> None:
    distilled = _distil(contents, values, max_tokens=most)
    note = next((note for note in distilled.notes if "budget" in note), "")
    assert bool(note) == (not distilled.units and distilled.over_budget > 0)
    if note:
        needed = int(note.rpartition("needs ")[2].replace(",", ""))
        assert needed > most
        assert _distil(contents, values, max_tokens=needed).units


def test_a_sentence_over_several_lines_is_one_line_of_the_context_and_code_keeps_its_lines() -> None:
    text = "Aspirin harms\nthe liver.\n\n```\nretry(call)\n    wait()\n```\n"
    distilled = _distil([text], [0.9], threshold=0.1)
    assert distilled.text.splitlines() == ["[1] Aspirin harms the liver.", "[1] retry(call)", "    wait()"]
    assert all(unit.text == text[unit.start : unit.end] for unit in distilled.units)
