"""Growth of a library: one small size measured, and the comparison of a prediction."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from bench import data, growth
from bench.growth import compare, count_distances, fill, forget_pages
from bench.synthetic import OpenVocabulary


def test_words_of_an_open_vocabulary_go_on_as_heaps_law_says() -> None:
    """Words of 2,000 documents of a closed vocabulary end; of an open one there are ever more, each spelt in its own way."""
    texts = ["a wing and a tail", "soil and wing", "flutter of a wing", "tail of soil", "a rare crosswind", "and a vortex"] * 3 + ["once"]
    vocabulary = OpenVocabulary.fitted(texts)
    assert 0.1 < vocabulary.heaps < 0.9
    assert vocabulary.unseen == pytest.approx(1 / sum(map(len, map(str.split, texts))))
    few, many = (
        {word for paper in vocabulary.papers(0, count) for word in f"{paper.title} {paper.abstract}".split()} for count in (500, 2_000)
    )
    assert len(vocabulary.closed.words) < len(few) < len(many)
    assert vocabulary.papers(0, 50) == OpenVocabulary.fitted(texts).papers(0, 50)


def test_a_size_is_filled_measured_and_searched(tiny: data.Collection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every step takes time, every table and index has its bytes, and a search reads something after its pages were dropped."""
    asked_for = replace(tiny, queries={"a": "wing", "b": "soil flutter"}, qrels={"a": {}, "b": {}})
    monkeypatch.setattr(growth, "collection", lambda _: asked_for)
    monkeypatch.setattr(growth, "read_texts", lambda: [f"{one.title} {one.abstract}" for one in tiny.documents])
    for name, value in (("ADDED", 20), ("BATCH", 50), ("WARM_UP", 1), ("QUERIES", 1)):
        monkeypatch.setattr(growth, name, value)
    folder = str(tmp_path / "library")
    measured = fill(folder, 120)
    assert {name for name in measured if name.startswith("cpu s: index")} == {
        f"cpu s: index {part}" for part in ("edges", "records", "vectors", "words for exact search")
    }
    assert measured["bytes: records, rows"] > 0
    parts = sum(size for name, size in measured.items() if name.startswith("bytes: ") and name != "bytes: all")
    assert parts == measured["bytes: all"]
    forget_pages(folder)
    asked = growth.ask(folder)
    assert asked["reads: hybrid, cold"] > asked["reads: words, warm"] > 0
    assert asked["cpu ms: hybrid, warm"] > 0


def test_a_prediction_is_judged_by_its_ratio() -> None:
    """Both smaller sizes lie on a line; the largest is half as large again as it says."""
    sizes = [{"records": n, "bytes: edges, rows": 5.0 * n, "bytes: all": 5.0 * n} for n in (1e4, 1e5)]
    report = compare([*sizes, {"records": 1e6, "bytes: edges, rows": 7.5e6, "bytes: all": 5e6}])
    ratios = {str(row[0]): row[-1] for row in report.rows}
    assert ratios["bytes: edges, rows"] == pytest.approx(2 / 3)
    assert ratios["bytes: all"] == pytest.approx(1)
    assert report.notes == ("predicted within 25%: 1 of 2 quantities", "outside: bytes: edges, rows (0.67)")
    assert compare(sizes).notes == ()


def test_distances_of_an_index_are_counted_for_at_least_two_partitions() -> None:
    assert count_distances(1_000) == 50 * 256 * 4 + 2_000 + 100_000
