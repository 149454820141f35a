"""The harness itself: collections, scores and tables, without the collections of the benchmarks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench import data, quality, report
from bench.__main__ import NAMES


def test_only_judged_queries_are_measured(tiny: data.Collection) -> None:
    """A query without a judgement would count as a failure of both."""
    assert list(tiny.queries) == ["a"]
    assert tiny.qrels == {"a": {"2": 1, "3": 1}}


def test_a_missing_collection_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The message names the missing file and the variable to set; a run continues with the others."""
    monkeypatch.setenv("OUTRIDER_DATA", str(tmp_path))
    with pytest.raises(data.Absent, match=r"ir/scifact/corpus\.jsonl\.gz is not there; set OUTRIDER_DATA"):
        data.collection("scifact")
    skipped = quality.run()
    assert skipped.rows == ()
    assert [note.split(" ")[0] for note in skipped.notes] == list(data.COLLECTIONS)


def test_scores_follow_the_order_of_the_results(tiny: data.Collection) -> None:
    """Both found first: 1 and 1. The second of two found second: DCG 1/log2(3) over 1 + 1/log2(3); a lost query counts as 0."""
    assert quality.scores(tiny, {"a": ["3", "2", "1"]}) == (1.0, 1.0)
    ndcg, recall = quality.scores(tiny, {"a": ["1", "2"]})
    assert ndcg == pytest.approx(0.6309 / 1.6309, abs=1e-4)
    assert recall == 0.5
    assert quality.scores(tiny, {}) == (0.0, 0.0)


def test_both_engines_find_the_same_documents(tiny: data.Collection) -> None:
    """The same words, stemmed alike, find the same two documents."""
    name, documents, queries, *figures = quality.row(tiny)
    assert (name, documents, queries) == ("tiny", 3, 1)
    assert figures == [1.0, 1.0, 0.0, 1.0, 1.0]


def test_only_ranked_queries_have_scores(tiny: data.Collection) -> None:
    """A stage that ran on some of the queries is averaged over these; the average over all is the usual figure."""
    assert quality.each_score(tiny, {"a": ["1", "2"]}) == {"a": quality.scores(tiny, {"a": ["1", "2"]})}
    assert quality.each_score(tiny, {"a": []}) == {"a": (0.0, 0.0)}
    assert quality.each_score(tiny, {}) == {}


def test_the_later_document_cites_the_earlier(tiny: data.Collection) -> None:
    """CACM links both ends to each other; the graph gets one edge, from the later one."""
    assert [[edge.target for edge in record.edges] for record in tiny.documents] == [[], [], ["doc:1", "doc:2"]]


def test_queries_are_thinned_evenly() -> None:
    """Every third of ten for a limit of four, with their judgements."""
    names = [f"{place}" for place in range(10)]
    source = data.Collection("ten", (), dict.fromkeys(names, "text"), {name: {"1": 1} for name in names})
    sample = data.thinned(source, 4)
    assert list(sample.queries) == list(sample.qrels) == ["0", "3", "6", "9"]
    assert data.thinned(source, 10) == source


def test_a_report_is_a_markdown_table_and_json(tmp_path: Path) -> None:
    """Numbers are rounded in the table and exact in JSON, with versions and cores."""
    sample = report.Report("sample", ("what", "ms"), (("a", 1234.56), ("b", 0.12345), ("c", None), ("d", 12345)), ("a note",))
    assert report.table(sample).splitlines()[2:] == [
        "| what | ms |", "|---|---|", "| a | 1,234.6 |", "| b | 0.123 |", "| c | - |", "| d | 12,345 |", "", "- a note",
    ]  # fmt: skip
    written = json.loads(report.write(sample, tmp_path).read_text(encoding="utf-8"))
    assert written["rows"][1] == ["b", 0.12345]
    assert {"python", "cores", "lancedb", "outrider"} <= set(written["surroundings"])


def test_every_benchmark_is_documented() -> None:
    """Its name is a heading of the page that explains it."""
    page = (data.ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    assert all(f"## `{name}`" in page for name in NAMES)
