"""Forecasts from made-up histories whose rule is known."""

from __future__ import annotations

import random
from dataclasses import replace

from outrider.planner.calibration import calibrate
from outrider.planner.forecaster import Forecaster, complete_features, list_quantities
from outrider.planner.intervals import baseline_interval
from outrider.planner.run_row import RunRow

FRESH_S = 3_600.0


def make_row(number: int, draw: random.Random, *, slow: float = 1.0, request: int | None = None) -> RunRow:
    """A run of the library alone (0.2 s) or of one of two services (1 s and 3 s), which may have become slower. Services return all that
    is asked, the library what it has.
    """
    name, seconds = draw.choice((("library", 0.2), ("quick", 1.0 * slow), ("slow", 3.0 * slow)))
    features = {f"tasks:{name}": 1.0, f"asked:{name}": 100.0, "remote": float(name != "library"), "top_k": 10.0, "tasks": 1.0}
    took = seconds * draw.lognormvariate(0.0, 0.1)
    hits = 100.0 if name != "library" else float(draw.randint(20, 40))
    outcome = {"seconds": took + 0.05, f"took:{name}": took, f"hits:{name}": hits}
    if name != "library":
        features[f"calls:{name}"] = 1.0
        outcome |= {"calls": 1.0, f"calls:{name}": 1.0}
    return RunRow(number * 10.0, number * 10.0 + took, number if request is None else request, features, outcome)


def predict_in_turn(rows: list[RunRow]) -> list[RunRow]:
    """The rows with their own predictions, each from the ones before."""
    seen: list[RunRow] = []
    for row in rows:
        features = complete_features(row.features, row.begun, row.request, seen, FRESH_S)
        forecasts = Forecaster(seen).forecast(features, list_quantities(features, seen))
        seen.append(replace(row, features=features, predicted={name: one.interval for name, one in forecasts.items()}))
    return seen


def covered(rows: list[RunRow], name: str) -> float:
    held = [row.predicted[name].covers(row.outcome[name]) for row in rows if name in row.predicted]
    return sum(held) / len(held)


def test_seconds_follow_the_source_that_is_asked_and_are_narrower_than_all_history() -> None:
    draw = random.Random(3)
    rows = predict_in_turn([make_row(number, draw) for number in range(120)])
    late = rows[40:]
    assert covered(late, "seconds") >= 0.75
    base = baseline_interval(row.outcome["seconds"] for row in rows)
    widths = sorted(row.predicted["seconds"].high - row.predicted["seconds"].low for row in late)
    assert widths[len(widths) // 2] < (base.high - base.low) / 4
    for name, low, high in (("library", 0.15, 0.4), ("quick", 0.8, 1.4), ("slow", 2.5, 3.8)):
        last = next(row for row in reversed(rows) if f"tasks:{name}" in row.features)
        assert low < last.predicted["seconds"].middle < high


def test_services_that_become_slower_are_followed() -> None:
    draw = random.Random(4)
    rows = predict_in_turn([make_row(number, draw, slow=1.0 if number < 80 else 3.0) for number in range(180)])
    assert covered(rows[20:], "seconds") >= 0.75
    last = next(row for row in reversed(rows) if "tasks:slow" in row.features)
    assert 7.0 < last.predicted["seconds"].middle < 11.0


def test_a_quantity_that_never_varies_has_no_width() -> None:
    draw = random.Random(5)
    rows = predict_in_turn([make_row(number, draw) for number in range(120)])
    last = next(row for row in reversed(rows) if "tasks:quick" in row.features)
    assert last.predicted["hits:quick"] == (100.0, 100.0, 100.0)
    assert last.predicted["calls:quick"] == (1.0, 1.0, 1.0)


def test_without_a_run_priors_stand_in_and_hits_stay_below_what_is_asked() -> None:
    features = complete_features({"tasks:a": 2.0, "asked:a": 60.0, "calls:a": 2.0, "remote": 1.0}, 0.0, 1, [], FRESH_S)
    forecasts = Forecaster([]).forecast(features, list_quantities(features, []))
    assert set(forecasts) == {"seconds", "calls", "calls:a", "hits:a"}
    assert all(one.runs == 0 and one.interval.low < one.interval.high for one in forecasts.values())
    assert forecasts["hits:a"].interval.high <= 60


def test_a_request_is_a_repeat_only_while_caches_hold_its_answers() -> None:
    draw = random.Random(6)
    before = [make_row(0, draw, request=77)]
    repeats = [
        complete_features({}, begun, request, before, FRESH_S)["repeated"] for begun, request in ((100.0, 77), (100.0, 78), (5e3, 77))
    ]
    assert repeats == [1.0, 0.0, 0.0]


def test_offline_and_without_a_model_neither_calls_nor_cost_are_uncertain() -> None:
    assert list_quantities({"tasks:library": 3.0, "asked:library": 600.0}, []) == ["seconds", "hits:library"]
    exact = {"tasks:library": 1.0, "asked:library": 100.0, "systematic": 1.0}
    assert list_quantities(exact, []) == ["seconds"]
    assert "cost_usd" in list_quantities({**exact, "model": 1.0, "priced": 1.0}, [])
    assert "cost_usd" not in list_quantities({**exact, "model": 1.0}, [])


def test_calibration_counts_what_the_stored_predictions_covered() -> None:
    draw = random.Random(7)
    rows = predict_in_turn([make_row(number, draw) for number in range(60)])
    figures = {one.quantity: one for one in calibrate(rows)}
    assert figures["seconds"].predictions == 60
    assert figures["seconds"].coverage == covered(rows, "seconds")
    assert figures["hits by source"].predictions == 60
    assert "cost" not in figures
