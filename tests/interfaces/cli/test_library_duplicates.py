"""`outrider library dedup`: reports which records are one work, and stores the decisions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from outrider.interfaces.cli import run

TITLE = "Aspirin and acute liver injury in adults"


@pytest.fixture
def library(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    common = {"title": TITLE, "authors": ["Smith, Ann"], "year": 2020, "doi": "10.1000/x"}
    rows = [
        {"doc_id": name, **common, "schema": "outrider.record/1", "kind": "paper", "identifiers": {"doi": "10.1000/x"}} for name in "abc"
    ]
    for row in rows:
        row.pop("doi")
    rows.append({**rows[0], "doc_id": "d", "title": "Statins and chronic kidney disease", "identifiers": {}})
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    path = str(tmp_path / "library")
    assert run(["ingest", "rows.jsonl", "--offline", "-l", path]) == 0
    capsys.readouterr()
    return path


def find_groups(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, object]:
    capsys.readouterr()
    assert run(["library", "dedup", "--json", *arguments]) == 0
    report: dict[str, object] = json.loads(capsys.readouterr().out)
    return report


def test_a_dry_run_stores_nothing(library: str, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        report = find_groups(capsys, "--dry-run", "-l", library)
        assert (report["groups"], report["records"], report["remembered"]) == ([["a", "b", "c"]], 4, 0)
    assert run(["library", "decisions", "--json", "-l", library]) == 0
    assert json.loads(capsys.readouterr().out) == []


def test_a_decision_is_stored_once(library: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert find_groups(capsys, "-l", library)["remembered"] == 1
    assert find_groups(capsys, "-l", library)["remembered"] == 0
    assert run(["library", "decisions", "--json", "-l", library]) == 0
    (decision,) = json.loads(capsys.readouterr().out)
    assert (decision["what"], decision["ids"], decision["by"]) == ("merge", ["a", "b", "c"], "outrider library dedup")


def test_records_split_by_hand_stay_separate(library: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["library", "split", "b", "-l", library]) == 0
    assert find_groups(capsys, "-l", library)["groups"] == [["a", "c"]]


def test_the_summary_counts_records_and_works(library: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["library", "dedup", "--dry-run", "-l", library]) == 0
    output = capsys.readouterr()
    assert TITLE in output.out
    assert "3 of 4 records are 1 works." in output.out
    assert "without --dry-run they are remembered" in output.err


def test_without_a_library(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["library", "dedup", "-l", str(tmp_path / "none")]) == 3
    assert "no library" in capsys.readouterr().err.lower()
