from __future__ import annotations

import json
from pathlib import Path

import pytest

from outrider.interfaces.cli import run


def test_the_library_as_ris_and_bibtex(shelved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "out.ris"
    assert run(["export", "-o", str(target), "-l", str(shelved)]) == 0
    assert "4 records written" in capsys.readouterr().err
    assert "Aspirin and the liver" in target.read_text()
    assert run(["export", "--format", "bibtex", "-f", '{"year": 2020}', "-l", str(shelved)]) == 0
    out = capsys.readouterr().out
    assert "Aspirin and the liver" in out
    assert "Statins" not in out


def test_an_answer_is_exported(shelved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["search", "aspirin", "--json", "-l", str(shelved)]) == 0
    answer = tmp_path / "answer.json"
    answer.write_text(capsys.readouterr().out)
    assert run(["export", str(answer), "--format", "jsonl"]) == 0
    (row,) = map(json.loads, capsys.readouterr().out.splitlines())
    assert (row["doc_id"], row["title"]) == ("a", "Aspirin and the liver")


def test_an_answer_keeps_the_fields_of_its_records(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "rows.jsonl").write_text(
        json.dumps({"title": "Liver", "volume": "3", "issue": "2", "pages": "1-9", "mesh": ["Liver"]}) + "\n"
    )
    library = str(tmp_path / "library")
    assert run(["ingest", str(tmp_path / "rows.jsonl"), "-l", library]) == 0
    capsys.readouterr()
    assert run(["search", "liver", "--json", "-l", library]) == 0
    answer = tmp_path / "answer.json"
    answer.write_text(capsys.readouterr().out)
    assert run(["export", str(answer), "--format", "jsonl"]) == 0
    row = json.loads(capsys.readouterr().out)
    assert (row["volume"], row["issue"], row["pages"], row["mesh"], row["metadata"]) == ("3", "2", "1-9", ["Liver"], {})


def test_an_export_of_the_library_reads_back_unchanged(shelved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "all.jsonl"
    assert run(["export", "-o", str(target), "-l", str(shelved)]) == 0
    copy = str(tmp_path / "copy")
    assert run(["ingest", str(target), "-l", copy]) == 0
    capsys.readouterr()
    assert run(["export", "--format", "jsonl", "-l", copy]) == 0
    again = [json.loads(line) | {"origin": None} for line in capsys.readouterr().out.splitlines()]  # they come from the export now
    first = [json.loads(line) | {"origin": None} for line in target.read_text().splitlines()]
    assert again == first


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--format", "docx"], "'docx'"),
        (["-o", "."], "has no known suffix"),
        (["-o", ".", "--format", "ris"], "cannot write ."),
        (["-o", "x.xlsx"], "has no known suffix"),
        (["missing.json"], "missing.json cannot be read"),
        (["-o", "no/such/folder/x.ris"], "cannot write to"),
        (["-f", "{"], "--filters is not JSON"),
    ],
)
def test_bad_input(shelved: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str) -> None:
    assert run(["export", *arguments, "-l", str(shelved)]) == 2
    assert message in capsys.readouterr().err


def test_a_file_that_is_no_answer_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.json").write_text("{}")
    assert run(["export", str(tmp_path / "x.json")]) == 2
    assert "is not an answer of `outrider search --json`" in capsys.readouterr().err
