from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from outrider.interfaces.cli import run


@pytest.fixture
def library(tmp_path: Path) -> str:
    source = tmp_path / "source"
    source.mkdir()
    rows = [{"id": n, "title": f"Liver study {n}", "abstract": "Doses of aspirin.", "year": 2000 + n} for n in range(5)]
    (source / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    target = str(tmp_path / "library")
    assert run(["ingest", str(source), "-l", target]) == 0
    return target


@pytest.fixture
def out(capsys: pytest.CaptureFixture[str]) -> Any:
    def read(*arguments: str, code: int = 0) -> Any:
        capsys.readouterr()
        assert run(list(arguments)) == code
        return json.loads(capsys.readouterr().out)

    return read


def test_info_check_list_show(library: str, out: Any) -> None:
    assert out("library", "info", "--json", "-l", library)["records"] == 5
    assert out("library", "check", "--json", "-l", library) == {"sound": True, "problems": []}
    listed = out("library", "list", "--json", "-n", "2", "-f", '{"year": {"$gte": 2002}}', "-l", library)
    assert (listed["total"], len(listed["records"])) == (3, 2)
    first = listed["records"][0]["doc_id"]
    assert out("library", "show", first, "--json", "-l", library)["title"].startswith("Liver study")
    assert out("library", "list", "--phrase", "study 3", "--json", "-l", library)["total"] == 1


def test_a_record_is_shown_by_its_identifier(out: Any, tmp_path: Path) -> None:
    (tmp_path / "a.bib").write_text("@article{a, title={Deep learning}, doi={10.1000/D.1}}", encoding="utf-8")
    target = str(tmp_path / "target")
    out("ingest", str(tmp_path / "a.bib"), "--json", "-l", target)
    for name in ("10.1000/d.1", "doi:10.1000/d.1", "https://doi.org/10.1000/d.1"):
        assert out("library", "show", name, "--json", "-l", target)["title"] == "Deep learning"


def test_remove_and_read_again(library: str, out: Any, tmp_path: Path) -> None:
    doc_id = out("library", "list", "--json", "-l", library)["records"][0]["doc_id"]
    assert out("library", "remove", doc_id, "nobody", "--json", "-l", library) == {"removed": 1, "unknown": ["nobody"]}
    assert out("library", "info", "--json", "-l", library)["records"] == 4
    assert run(["library", "remove", "nobody", "-l", library]) == 2
    assert run(["library", "list", "--phrase", "?", "-l", library]) == 2
    again = out("ingest", str(tmp_path / "source"), "--json", "-l", library)
    assert (again["added"], again["unchanged"]) == (1, 4)


def test_tags(library: str, out: Any) -> None:
    assert set(out("library", "tag", "review-2026", "--json", "-l", library)) == {"review-2026"}
    assert out("library", "tag", "review-2026", "--delete", "--json", "-l", library) == {}


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["library", "show", "nobody"], 2, "nobody"),
        (["library", "tag", "--delete"], 2, "--delete needs"),
        (["library", "tag", "nobody", "--delete"], 2, "nobody"),
        (["library", "list", "-f", '{"yeer": 1}'], 2, "yeer"),
        (["library", "list", "-n", "0"], 2, "--limit"),
    ],
)
def test_bad_input(library: str, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, message: str) -> None:
    assert run([*arguments, "-l", library]) == code
    err = capsys.readouterr().err
    assert message in err
    assert "Traceback" not in err


def test_a_missing_library(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command in (["info"], ["check"], ["list"], ["tag"]):
        assert run(["library", *command, "-l", str(tmp_path / "none")]) == 3
        assert "outrider ingest" in capsys.readouterr().err


def test_people_see_tables(library: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["library", "info", "-l", library]) == 0
    assert run(["library", "list", "-l", library]) == 0
    output, notes = capsys.readouterr()
    assert "Liver study 3" in output
    assert "5 of 5 records" in notes


def test_labels_text_and_order(library: str, out: Any, capsys: pytest.CaptureFixture[str]) -> None:
    listed = out("library", "list", "--text", "STUDY 2003 rows.jsonl", "--json", "-l", library)
    # digits may also stand in the id of another record, which is a hash of its path
    (doc_id,) = [one["doc_id"] for one in listed["records"] if one["year"] == 2003 or "2003" not in one["doc_id"]]
    assert out("library", "label", doc_id, "--add", "to read", "--add", "x", "--json", "-l", library) == {doc_id: ["to read", "x"]}
    assert out("library", "label", doc_id, "--remove", "x", "--json", "-l", library) == {doc_id: ["to read"]}
    assert [one["labels"] for one in out("library", "list", "--label", "to read", "--json", "-l", library)["records"]] == [["to read"]]
    found = out("search", "study", "--label", "to read", "--offline", "--json", "-l", library)
    assert [one["doc_id"] for one in found["hits"]] == [doc_id]
    found = out("search", "study", "--label", "to reed", "--offline", "--json", "-l", library)
    assert any("no record of the library has the label 'to reed'; did you mean 'to read'?" in one["why"] for one in found["bypassed"])
    years = [one["year"] for one in out("library", "list", "--order", "year", "--json", "-l", library)["records"]]
    assert years == [2004, 2003, 2002, 2001, 2000]
    capsys.readouterr()
    assert run(["library", "label", "nobody", "--add", "x", "-l", library, "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["error"]["message"] == "not in the library: nobody"
    assert run(["library", "label", doc_id, "-l", library]) == 2
    assert run(["library", "list", "--order", "yeer", "-l", library]) == 2
    assert "did you mean 'year'" in capsys.readouterr().err


def test_duplicates_in_doubt_are_listed_until_they_are_decided(out: Any, tmp_path: Path) -> None:
    titles = ("Aspirin and liver injury in adults", "Aspirin and liver injury in adults and children")
    rows = [{"id": at, "title": title, "year": 2020, "authors": ["Doe, J"]} for at, title in enumerate(titles)]
    (tmp_path / "refs.json").write_text(json.dumps(rows))
    library = str(tmp_path / "own")
    assert run(["ingest", str(tmp_path / "refs.json"), "-l", library]) == 0
    (pair,) = out("library", "duplicates", "--json", "-l", library)
    assert run(["library", "duplicates", "-l", library]) == 0
    assert run(["library", "split", *pair["ids"], "-l", library]) == 0
    assert out("library", "duplicates", "--json", "-l", library) == []


def test_a_program_gets_a_line_for_each_record(library: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["library", "list", "-l", library]) == 0
    rows = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert [len(row) for row in rows] == [5] * 5
    assert min(row[3] for row in rows).startswith("Liver study")


def test_optimize_compacts_and_indexes_every_row(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = str(tmp_path / "library")
    for number in range(3):
        source = tmp_path / f"{number}.jsonl"
        source.write_text(json.dumps({"id": number, "title": f"Liver study {number}"}))
        assert run(["ingest", str(source), "-l", target]) == 0
    capsys.readouterr()
    assert run(["library", "optimize", "-l", target, "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["records"], facts["unindexed"]) == (3, 0)
    assert run(["library", "optimize", "-l", target]) == 0
    assert "3 records, 0 of them not indexed." in capsys.readouterr().out
