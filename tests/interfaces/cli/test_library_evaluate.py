from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from outrider.interfaces.cli import library_evaluation, run
from outrider.interfaces.cli.terminal import Progress
from outrider.training.measures import Interval
from outrider.usecases.evaluate import Comparison, Evaluation

JUDGED = (
    "query,doc_id,relevance\naspirin liver,10.1000/x,2\naspirin liver,b,0\naspirin liver,gone,1\ncholesterol,b,1\nfog,gone,1\nsnow,c,0\n"
)
TRIED = "Best of 28 other fusions, cross-validated"


@pytest.fixture(autouse=True)
def _without_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTRIDER_EMBEDDING__MODEL_NAME", "none")


def list_files(folder: Path) -> list[tuple[str, int]]:
    return sorted((str(path), path.stat().st_mtime_ns) for path in folder.rglob("*") if path.is_file())


def test_figures_and_what_was_left_out(shelved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("judged.csv").write_text(JUDGED)
    before = list_files(shelved)
    assert run(["library", "evaluate", "judged.csv", "-l", str(shelved)]) == 0
    output = capsys.readouterr()
    rows = [line.split("  ") for line in output.out.splitlines()]
    assert [row[0].strip() for row in rows[1:-1] if row[0].strip()] == ["words", "fusion", "whole search"]
    assert "1.000" in output.out
    assert "1.00-1.00" in output.out
    assert output.out.splitlines()[-1] == "No other settings to compare: this library is searched by words alone."
    for line in (
        "2 queries, 3 judgements, 2 of them relevant.",
        "1 judged record of judged.csv not in the library, left out: gone",
        "1 query without a judged record in the library, left out: fog",
        "1 query without a relevant record in the library, left out: snow",
        "With fewer than 20 queries the intervals are too narrow to trust, and no setting is suggested.",
    ):
        assert line in output.err.splitlines()
    assert list_files(shelved) == before


def test_qrels_with_a_file_of_queries_as_json(shelved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("qrels.txt").write_text("1 0 10.1000/x 1\n2 0 b 1\n")
    Path("queries.tsv").write_text("1\taspirin liver\n2\tcholesterol\n")
    assert run(["library", "evaluate", "qrels.txt", "--queries", "queries.tsv", "-l", str(shelved), "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["queries"], result["relevant"], result["unknown"]) == (2, 2, [])
    (words, *_, whole) = result["stages"]
    assert words["stage"] == "words"
    assert words["mrr"] == {"mean": 1.0, "low": 1.0, "high": 1.0}
    assert set(words["to_search"]) == {"mean", "low", "high"}
    assert whole["to_search"] is None


@pytest.mark.parametrize(
    ("text", "more", "message"),
    [
        ("aspirin,a,1\naspirin,b\n", [], "judged.csv:2: 2 columns, not 3"),
        ("aspirin,a,-1\n", [], "judged.csv:1: relevance"),
        ("", [], "judged.csv holds no judgement"),
        ("1 0 a 1\n", [], "give a file of their texts with --queries"),
        ("1 0 a 1\n", ["--queries", "none.tsv"], "the queries none.tsv cannot be read"),
        ("aspirin,gone,1\n", [], "none of the judged records, such as gone, is in the library"),
    ],
)
def test_bad_input_is_one_line(shelved: Path, text: str, more: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("judged.csv").write_text(text)
    before = list_files(shelved)
    assert run(["library", "evaluate", "judged.csv", "-l", str(shelved), *more]) == 2
    output = capsys.readouterr()
    assert message in output.err
    assert output.err.count("\n") == 1
    assert output.out == ""
    assert list_files(shelved) == before


def test_without_a_reranker_or_a_library_nothing_can_be_measured(shelved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("judged.csv").write_text(JUDGED)
    assert run(["library", "evaluate", "judged.csv", "-l", str(shelved), "--rerank"]) == 3
    assert "no reranker can be measured" in capsys.readouterr().err
    assert run(["library", "evaluate", "judged.csv", "-l", str(tmp_path / "none")]) == 3
    assert "no library" in capsys.readouterr().err


def test_ctrl_c_ends_it(shelved: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    Path("judged.csv").write_text(JUDGED)
    show = Progress.show

    def press(bar: Progress, doing: str, current: int, total: int | None, detail: str = "") -> None:
        show(bar, doing, current, total, detail)
        if doing == "searching" and current == 1:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(Progress, "show", press)
    before = list_files(shelved)
    assert run(["library", "evaluate", "judged.csv", "-l", str(shelved)]) == 130
    output = capsys.readouterr()
    assert output.err == "Interrupted.\n"
    assert output.out == ""
    assert list_files(shelved) == before


@pytest.mark.parametrize(
    ("comparison", "line", "described"),
    [
        (
            Comparison("fusion", 28, {"ranking.dense_weight": 0.2}, Interval(0.02, 0.01, 0.03), Interval(0.015, 0.005, 0.025), True),
            "Clearly better: ranking.dense_weight: 0.2 (nDCG@10 +.015, +.005 to +.025)",
            f"{TRIED}: nDCG@10 of the fused list +.020 (+.010 to +.030), whole search +.015 (+.005 to +.025)",
        ),
        (
            Comparison("reranker", 1, {"reranker.model_name": "none"}, None, Interval(0.1, 0.05, 0.15), True),
            "Clearly better: reranker.model_name: none (nDCG@10 +.100, +.050 to +.150)",
            "Without the reranker that runs today: nDCG@10 of the whole search +.100 (+.050 to +.150)",
        ),
        (
            Comparison("reranker", 1, {}, None, Interval(0.1, 0.05, 0.15), True),
            "Clearly better: search with --rerank (nDCG@10 +.100, +.050 to +.150)",
            "With the reranker: nDCG@10 of the whole search +.100 (+.050 to +.150)",
        ),
        (
            Comparison("fusion", 28, {"ranking.fusion": "rrf"}, Interval(0.02, -0.01, 0.05), None, False),
            "No other setting is clearly better than today's.",
            f"{TRIED}: nDCG@10 of the fused list +.020 (-.010 to +.050)",
        ),
    ],
)
def test_a_suggestion_names_the_setting_and_its_gain(
    comparison: Comparison, line: str, described: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("judged.csv").write_text(JUDGED)
    left_out: dict[str, Any] = dict.fromkeys(("unknown", "ambiguous", "without_records", "without_relevant", "remarks"), ())
    result = Evaluation(40, 40, 40, (), (comparison,), reranker="", seed=0, **left_out)

    async def evaluate(*_: object, **__: object) -> Evaluation:
        return result

    monkeypatch.setattr(library_evaluation, "_evaluate", evaluate)
    assert run(["library", "evaluate", "judged.csv"]) == 0
    output = capsys.readouterr()
    assert output.out.splitlines()[-1] == line
    assert described in output.err.splitlines()
