from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from outrider.interfaces.cli import run

ROWS = [
    {"id": "1", "title": "Sorting", "authors": ["Knuth, D."], "mesh": ["Aspirin", "Liver"], "doi": "10.1234/one"},
    {"id": "2", "title": "Searching", "authors": ["Donald Knuth"], "mesh": ["Aspirin"], "references": ["1", "10.1234/gone"]},
    {"id": "3", "title": "Elsewhere", "mesh": ["Bleeding"], "references": ["https://doi.org/10.1234/ONE"]},
]


@pytest.fixture
def library(tmp_path: Path) -> str:
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    target = str(tmp_path / "library")
    assert run(["ingest", str(tmp_path / "rows.jsonl"), "-l", target]) == 0
    return target


def find_neighbours(library: str, capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    capsys.readouterr()
    assert run(["library", "neighbours", *arguments, "--json", "-l", library]) == 0
    return json.loads(capsys.readouterr().out)


def test_neighbours_of_a_record_with_reasons(library: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The graph contains works cited by own id or DOI; names are found in any spelling order."""
    works = {row["title"]: row for row in find_neighbours(library, capsys, "Knuth, Donald")}
    assert {title: row["why"] for title, row in works.items()} == {"Sorting": "author knuth, d", "Searching": "author knuth, d"}
    around = {row["title"]: row["why"] for row in find_neighbours(library, capsys, works["Sorting"]["doc_id"])}
    assert around == {"Searching": "cites it; shares author knuth, d with it; shares mesh aspirin with it", "Elsewhere": "cites it"}
    assert len(find_neighbours(library, capsys, works["Sorting"]["doc_id"], "--limit", "1")) == 1


def test_connected_entities_of_a_type(library: str, capsys: pytest.CaptureFixture[str]) -> None:
    (connected,) = find_neighbours(library, capsys, "aspirin", "--type", "author")
    assert (connected["entity"], len(connected["records"])) == ("author:knuth, d", 2)
    first = find_neighbours(library, capsys, "mesh:liver")[0]["doc_id"]
    assert [row["entity"] for row in find_neighbours(library, capsys, first, "--type", "mesh")] == ["mesh:aspirin", "mesh:liver"]
    assert find_neighbours(library, capsys, "aspirin", "--type", "venue") == []
    assert run(["library", "neighbours", "aspirin", "--type", "venue", "-l", library]) == 0
    assert capsys.readouterr().err == "No record of aspirin names anything of type venue.\n0 found\n"


def test_people_see_a_table(library: str, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert run(["library", "neighbours", "aspirin", "-l", library]) == 0
    assert run(["library", "neighbours", "aspirin", "-t", "mesh", "-l", library]) == 0
    output = capsys.readouterr()
    assert "mesh aspirin" in output.out
    assert "mesh:liver" in output.out
    assert "2 found" in output.err


@pytest.mark.parametrize(
    ("name", "message"), [("asprin", "did you mean 'aspirin'?"), ("mesh:asprin", "did you mean 'aspirin'?"), ("zzz", "no entity 'zzz'")]
)
def test_an_unknown_name_is_reported(library: str, capsys: pytest.CaptureFixture[str], name: str, message: str) -> None:
    capsys.readouterr()
    assert run(["library", "neighbours", name, "-l", library]) == 2
    assert message in capsys.readouterr().err
