"""`outrider library dedup`: says which records are one work, and remembers it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from outrider.interfaces.cli import run

TITLE = "Aspirin and acute liver injury in adults"


@pytest.fixture
def library(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    said = {"title": TITLE, "authors": ["Smith, Ann"], "year": 2020, "doi": "10.1000/x"}
    rows = [{"doc_id": name, **said, "schema": "outrider.record/1", "kind": "paper", "identifiers": {"doi": "10.1000/x"}} for name in "abc"]
    for row in rows:
        row.pop("doi")
    rows.append({**rows[0], "doc_id": "d", "title": "Statins and chronic kidney disease", "identifiers": {}})
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    place = str(tmp_path / "library")
    assert run(["ingest", "rows.jsonl", "--offline", "-l", place]) == 0
    capsys.readouterr()
    return place


def groups(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, object]:
    capsys.readouterr()
    assert run(["library", "dedup", "--json", *arguments]) == 0
    said: dict[str, object] = json.loads(capsys.readouterr().out)
    return said


def test_a_dry_run_remembers_nothing(library: str, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        said = groups(capsys, "--dry-run", "-l", library)
        assert (said["groups"], said["records"], said["remembered"]) == ([["a", "b", "c"]], 4, 0)
    assert run(["library", "decisions", "--json", "-l", library]) == 0
    assert json.loads(capsys.readouterr().out) == []


def test_what_is_remembered_is_remembered_once(library: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert groups(capsys, "-l", library)["remembered"] == 1
    assert groups(capsys, "-l", library)["remembered"] == 0
    assert run(["library", "decisions", "--json", "-l", library]) == 0
    (decision,) = json.loads(capsys.readouterr().out)
    assert (decision["what"], decision["ids"], decision["by"]) == ("merge", ["a", "b", "c"], "outrider library dedup")


def test_what_was_split_by_hand_stays_apart(library: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["library", "split", "b", "-l", library]) == 0
    assert groups(capsys, "-l", library)["groups"] == [["a", "c"]]


def test_for_people(library: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["library", "dedup", "--dry-run", "-l", library]) == 0
    said = capsys.readouterr()
    assert TITLE in said.out
    assert "3 of 4 records are 1 works." in said.out
    assert "without --dry-run they are remembered" in said.err


def test_without_a_library(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["library", "dedup", "-l", str(tmp_path / "none")]) == 3
    assert "no library" in capsys.readouterr().err.lower()
