from __future__ import annotations

import json
import math
import random
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.distiller.calibration import (
    CONFIDENCE,
    FAR_BELOW,
    LOOK_RISK,
    LOOKS,
    MAX_EXCESS,
    LabelledText,
    calibrate,
    chance_below,
    conformal_rank,
    conformal_threshold,
    explain_mismatch,
    find_answering_units,
    parse_labelled_lines,
    read_calibration,
    write_calibration,
)
from outrider.distiller.engines.lexical import Lexical
from outrider.distiller.units import segment_text
from outrider.state.distilling import Calibration, Reading
from outrider.state.errors import BadRequest
from support.distiller_fakes import Fixed

TEXT = "Mice sleep. Aspirin lowers risk. Cats purr."
CASE = LabelledText("aspirin", Reading("a", TEXT), ((12, 32),))


@given(st.integers(0, 400), st.floats(0.5, 0.99))
def test_the_rank_holds_with_confidence_and_is_the_largest_that_is_seldom_far_below(cases: int, rate: float) -> None:
    def at_least(k: int) -> float:
        return 1 - sum(math.comb(cases, j) * (1 - rate) ** j * rate ** (cases - j) for j in range(k))

    def expected_above(k: int) -> float:
        return 1 - k / (cases + 1) - rate

    k = conformal_rank(cases, rate)
    assert k == 0 or at_least(k) >= CONFIDENCE - 1e-9
    if k < cases and at_least(k + 1) > CONFIDENCE + 1e-9:  # another condition limits the rank
        assert (1 - chance_below(rate - FAR_BELOW, k + 1, cases, cases)) ** LOOKS < 1 - LOOK_RISK + 1e-9
        assert expected_above(k) <= MAX_EXCESS + 1e-9


def test_the_chance_to_fall_far_below_matches_a_simulation() -> None:
    """Of 30 scores in any order the 3rd smallest of 10 is below at least 15 of the other 20 with the computed chance."""
    rng = random.Random(2)
    drawn = [rng.sample(range(30), 30) for _ in range(4_000)]
    fell = sum(sum(one > sorted(row[:10])[2] for one in row[10:]) < 15 for row in drawn) / len(drawn)
    assert fell == pytest.approx(chance_below(0.75, 3, 10, 20), abs=0.03)


def test_both_bounds_hold_at_282_cases_and_one_at_137() -> None:
    def compute_risk(cases: int) -> float:
        return 1 - (1 - chance_below(0.91, conformal_rank(cases, 0.95), cases, cases)) ** LOOKS

    assert 1 - conformal_rank(282, 0.95) / 283 <= 0.965
    assert compute_risk(282) <= LOOK_RISK
    assert 1 - conformal_rank(137, 0.95) / 138 <= 0.965
    assert compute_risk(137) > LOOK_RISK


def test_new_cases_are_kept_at_the_promised_rate_with_any_engine() -> None:
    """200 calibrations on 300 cases with random scores: the rate holds on average, and as often as the confidence states."""
    rng = random.Random(1)
    rates = [1 - conformal_threshold([rng.random() for _ in range(300)], 0.9) for _ in range(200)]  # of a uniform score
    assert 0.9 <= sum(rates) / 200 <= 0.93
    assert sum(rate >= 0.9 for rate in rates) / 200 >= CONFIDENCE - 0.05


def test_too_few_cases_keep_everything() -> None:
    assert conformal_threshold([0.9] * 31, 0.95) == 0
    assert conformal_threshold([0.9] * 32, 0.95) == 0.9


@given(st.lists(st.floats(0, 1), min_size=1, max_size=60), st.floats(0.5, 0.9), st.floats(0.5, 0.9))
def test_a_higher_promise_never_raises_the_threshold(weakest: list[float], one: float, other: float) -> None:
    low, high = sorted((one, other))
    assert conformal_threshold(weakest, high) <= conformal_threshold(weakest, low)


def test_a_calibration_names_its_cases() -> None:
    calibration = calibrate(Fixed([0.1, 0.8, 0.2]), [CASE] * 40, "forty cases")
    assert (calibration.engine, calibration.revision, calibration.pairs, calibration.fitted_on, calibration.keep_rate) == (
        "fixed",
        "1",
        40,
        "forty cases",
        0.95,
    )
    assert calibration.threshold == 0.8
    assert calibration.removed == 1 - 20 / len(TEXT)


def test_sentences_that_an_answer_refers_to_count_as_kept() -> None:
    """Thresholds are fitted on kept units, so a lifted score counts."""
    case = LabelledText("q", Reading("a", "Aspirin thins. It lowers risk. Cats purr."), ((0, 14),))
    assert calibrate(Fixed([0.1, 0.8, 0.2]), [case] * 40, "").threshold == 0.8


def test_answers_are_the_units_that_share_half_of_them() -> None:
    assert find_answering_units(segment_text(CASE.reading), CASE) == [1]
    assert find_answering_units(segment_text(CASE.reading), replace(CASE, answers=((0, 32),))) == [0, 1]
    with pytest.raises(BadRequest, match="match none of its sentences"):
        find_answering_units(segment_text(CASE.reading), replace(CASE, answers=((11, 11),)))


def test_a_calibration_is_read_back_unchanged(tmp_path: Path) -> None:
    calibration = calibrate(Lexical(), [CASE] * 40, "größer")
    write_calibration(calibration, tmp_path / "calibration.json")
    assert read_calibration(tmp_path / "calibration.json") == calibration


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"engine": "x"}', "null"])
def test_a_file_that_is_no_calibration_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "c.json").write_text(content)
    with pytest.raises(BadRequest, match="not a calibration"):
        read_calibration(tmp_path / "c.json")
    with pytest.raises(BadRequest, match="cannot be read"):
        read_calibration(tmp_path / "absent.json")


@pytest.mark.parametrize(("field", "value"), [("version", 2), ("threshold", 1.5), ("unknown", 1)])
def test_a_calibration_of_another_format_is_refused(tmp_path: Path, field: str, value: float) -> None:
    file = tmp_path / "c.json"
    write_calibration(calibrate(Lexical(), [CASE] * 40, ""), file)
    file.write_text(json.dumps({**json.loads(file.read_text()), field: value}))
    with pytest.raises(BadRequest):
        read_calibration(file)


def test_bad_requests_are_reported() -> None:
    with pytest.raises(BadRequest, match="between 0 and 1"):
        calibrate(Lexical(), [CASE] * 40, "", 95)
    with pytest.raises(BadRequest, match="too few"):
        calibrate(Lexical(), [CASE] * 3, "")


def test_lines_may_mark_answers_by_offsets_or_by_their_words() -> None:
    lines = [
        json.dumps({"query": "aspirin", "text": TEXT, "answers": [[12, 32]], "id": "a"}),
        "",
        json.dumps({"query": "aspirin", "text": TEXT, "answers": ["Aspirin lowers risk."], "id": "a"}),
    ]
    assert parse_labelled_lines(lines) == [CASE, CASE]


@pytest.mark.parametrize(
    "line",
    [
        "no json",
        "[]",
        '{"query": "q"}',
        '{"query": "q", "text": "t", "answers": [[0, 9]]}',
        '{"query": "q", "text": "t", "answers": ["u"]}',
    ],
)
def test_an_invalid_line_is_named(line: str) -> None:
    with pytest.raises(BadRequest, match="line 2"):
        parse_labelled_lines(["", line])


def test_a_calibration_of_this_engine_only() -> None:
    calibration: Calibration = calibrate(Fixed([0.5]), [CASE] * 40, "")
    assert "not for" in explain_mismatch(calibration, Lexical(), [], [])
