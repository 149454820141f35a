from __future__ import annotations

from dataclasses import replace

import pytest

from bench import data, scoring


def test_the_same_calls_are_made_on_both_sides(tiny: data.Collection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scoring, "collection", lambda _: replace(tiny, documents=tiny.documents[:2]))
    monkeypatch.setattr(scoring, "LATENCY_S", 0.02)
    monkeypatch.setattr(scoring, "ROUNDS", 1)
    report = scoring.run()
    assert [row[:3] for row in report.rows] == [("2 papers", 1, 10), ("2 repositories", 2, 10)]
    assert all(isinstance(row[-1], float) and row[3] >= 0.02 and row[4] >= 0.02 for row in report.rows)
    assert "times the bare calls" in report.notes[0]
