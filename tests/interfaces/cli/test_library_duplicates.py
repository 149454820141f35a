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


def dedup(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[str, str]:
    """The last line of the output, and the note."""
    capsys.readouterr()
    assert run(["library", "dedup", *arguments]) == 0
    output = capsys.readouterr()
    return output.out.splitlines()[-1], " ".join(output.err.split())


def test_the_summary_says_what_is_one_work_and_what_would_happen(library: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["library", "dedup", "--dry-run", "-l", library]) == 0
    assert TITLE in capsys.readouterr().out
    summary = "3 of 4 records describe 1 work."
    would = "Nothing was stored. Without --dry-run the library remembers 1 new work, and searches show it as one hit."
    assert dedup(capsys, "--dry-run", "-l", library) == (summary, would)
    assert dedup(capsys, "-l", library) == (summary, "1 new work is remembered; `outrider library split ID` undoes it.")
    assert dedup(capsys, "-l", library) == (summary, "The library remembers all of this already.")
    assert dedup(capsys, "--dry-run", "-l", library) == (summary, "The library remembers all of this already; nothing would change.")
    rows = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]
    (tmp_path / "more.jsonl").write_text(json.dumps({**rows[3], "doc_id": "e", "year": 2020}) + "\n")
    assert run(["ingest", "more.jsonl", "--offline", "-l", library]) == 0
    summary = "5 of 5 records describe 2 works."
    assert dedup(capsys, "--dry-run", "-l", library) == (summary, would)
    for doc_id in "abcd":
        assert run(["library", "decisions", "--forget", doc_id, "-l", library]) == 0
    would = "Nothing was stored. Without --dry-run the library remembers 2 new works, and searches show each as one hit."
    assert dedup(capsys, "--dry-run", "-l", library) == (summary, would)
    assert dedup(capsys, "-l", library) == (summary, "2 new works are remembered; `outrider library split ID` undoes one.")


def test_a_library_without_duplicates(library: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["library", "split", "a", "-l", library]) == 0
    assert run(["library", "split", "b", "-l", library]) == 0
    assert dedup(capsys, "--dry-run", "-l", library) == ("No two of 4 records describe one work.", "")
    assert run(["library", "remove", "b", "c", "d", "-l", library]) == 0
    assert dedup(capsys, "-l", library) == ("The library has 1 record, so there is nothing to compare.", "")


def test_without_a_library(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["library", "dedup", "-l", str(tmp_path / "none")]) == 3
    assert "no library" in capsys.readouterr().err.lower()
