"""`outrider dedup`: works of files, by the records' own ids."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path

import pytest

from outrider.interfaces.cli import run

ROWS = """record_id,title,author,year,journal,doi,pages,abstract
1,Aspirin and acute liver injury in adults,"Smith, Ann; Bell, J.",2020,J Hepatol,10.1000/x,123-129,
2,ASPIRIN AND ACUTE LIVER INJURY IN ADULTS.,"Smith A; Bell J",2020,J. Hepatol.,https://doi.org/10.1000/X,123-9,Aspirin harms the liver.
3,Statins and chronic kidney disease,"Roe, R.",2001,Lancet,,,
"""
RIS = "TY  - JOUR\nID  - 1\nTI  - Aspirin and acute liver injury in adults\nAU  - Smith, Ann\nPY  - 2020\nSP  - 123\nER  - \n"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "refs.csv"
    path.write_text(ROWS)
    return path


def test_every_record_is_in_one_group_by_its_own_id(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["dedup", str(table), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["groups"] == [["1", "2"], ["3"]]
    assert [len(why) for why in report["reasons"]] == [1, 0]
    assert "title equal" in report["reasons"][0][0]


def test_one_record_for_each_work(table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "works.ris"
    assert run(["dedup", str(table), "-o", str(target)]) == 0
    assert "2 works of 3 records written" in capsys.readouterr().err
    assert target.read_text().count("TY  - ") == 2
    assert run(["dedup", str(table), "-o", str(tmp_path / "works.jsonl")]) == 0
    first, second = map(json.loads, (tmp_path / "works.jsonl").read_text().splitlines())
    assert (first["metadata"]["merged"], first["abstract"], first["pages"]) == (["2", "1"], "Aspirin harms the liver.", "123-9")
    assert "merged" not in second["metadata"]
    assert run(["dedup", str(target), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["groups"] == [["2"], ["3"]]


def test_input_files_are_never_overwritten(table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "link.csv").symlink_to(table)
    for source, output in ((table, table), (tmp_path, table), (table, tmp_path / "link.csv")):
        assert run(["dedup", str(source), "-o", str(output)]) == 2
        assert "one of the input files, which are not changed" in capsys.readouterr().err
    assert table.read_text() == ROWS


@pytest.mark.parametrize(
    ("arguments", "code", "problem"),
    [
        (["dedup", "none.csv"], 2, "none.csv: there is no such file"),
        (["dedup", "refs.csv", "--map", "nothing=x"], 2, "unknown field 'nothing'"),
        (["ingest", "refs.csv", "-l", "new", "--map", "nothing=x"], 2, "unknown field 'nothing'"),
        (["library", "dedup", "-l", "none"], 3, "no library"),
    ],
)
def test_a_mistake_is_told_before_a_cluster_is_started(
    table: Path, arguments: list[str], code: int, problem: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(table.parent)
    monkeypatch.setitem(sys.modules, "ray", None)
    assert run([*arguments, "--on", "ray"]) == code
    assert problem in capsys.readouterr().err.replace("\n", " ")
    assert [path.name for path in table.parent.iterdir()] == [table.name]


def test_files_that_share_ids_name_their_file(table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = tmp_path / "other.ris"
    other.write_text(RIS)
    assert run(["dedup", str(table), str(other), "--json"]) == 0
    output = capsys.readouterr()
    assert json.loads(output.out)["groups"] == [["refs.csv:1", "refs.csv:2", "other.ris:1"], ["refs.csv:3"]]
    assert "Files share ids" in output.err


def test_records_without_id_and_duplicate_ids(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.ris").write_text(RIS.replace("ID  - 1\n", "") + RIS + RIS)
    assert run(["dedup", "a.ris", "--json"]) == 0
    output = capsys.readouterr()
    assert json.loads(output.out)["groups"] == [["a.ris#1", "1", "1#2"]]
    assert "1 records have no id of their own" in output.err


def test_a_summary_for_people(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["dedup", str(table)]) == 0
    out = capsys.readouterr().out
    assert "3 records of 1 file: 2 works, 1 of several records." in out
    assert "Aspirin harms" not in out


def test_escape_sequences_in_files_do_not_reach_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.ris").write_text(RIS.replace("Aspirin", "\x1b[31mAspirin") * 2)
    assert run(["dedup", "a.ris"]) == 0
    assert "\x1b" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["missing.ris"], "there is no such file"),
        (["refs.csv", "-o", "x.docx"], "has no known suffix; use one of .bib, .ris, .csljson, .csv, .json, .jsonl, .md"),
        (["refs.csv", "-o", "no/folder/x.ris"], "cannot write to"),
        (["refs.csv", "--map", "colour=x"], "unknown field"),
        (["empty.ris"], "empty.ris"),
        (["photo.png"], "no reader for .png"),
        (["broken.xlsx"], "nothing was compared"),
        (["folder"], "no record in"),
    ],
)
def test_bad_input(table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str) -> None:
    for name in ("empty.ris", "photo.png"):
        (tmp_path / name).write_bytes(b"")
    (tmp_path / "broken.xlsx").write_bytes(b"PK not a workbook")
    (tmp_path / "folder").mkdir()
    assert run(["dedup", *arguments]) == 2
    output = capsys.readouterr()
    assert message in output.err
    assert output.out == ""


def test_an_unreadable_entry_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.bib").write_text("@article{a, title={Wings}}\n@article{b, title={Tails\n@article{c, title={Fins}}\n")
    assert run(["dedup", "a.bib", "--json"]) == 0
    output = capsys.readouterr()
    assert ["a"] in json.loads(output.out)["groups"]
    assert "Not read: a.bib" in output.err


DOUBTFUL = """record_id,title,author,year,journal
1,Vitamin D and bone density in an urban cohort,"Smith, Ann; Bell, J.",2020,J Hepatol
2,Vitamin E and bone density in an urban cohort,"Smith, Ann; Bell, J.",2020,J Hepatol
=3,"Treatment of asthma in schools of rural districts","Roe, R.; Poe, E.",2001,Lancet
4,"Treatment of severe asthma in schools of rural districts","Roe, R.; Poe, E.",2001,Lancet
"""


def read_rows(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.read_text(encoding="utf-8-sig").splitlines()))


def test_review_writes_doubtful_pairs_and_reads_decisions_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A person decides in the table; the next run follows, keeps the decisions, and asks only for what is left."""
    refs, review = tmp_path / "refs.csv", tmp_path / "pairs.csv"
    refs.write_text(DOUBTFUL)
    assert run(["dedup", str(refs), "--review", str(review), "--json"]) == 0
    output = capsys.readouterr()
    assert json.loads(output.out)["groups"] == [["1"], ["2"], ["=3"], ["4"]]
    assert "2 pairs in doubt" in output.err
    rows = read_rows(review)
    assert sorted((row["id_1"], row["id_2"]) for row in rows) == [("'=3", "4"), ("1", "2")]
    assert all(row["title_1"] and row["authors_2"] and row["why"] and not row["decision"] for row in rows)
    for row in rows:
        row["decision"] = "Same" if row["id_2"] == "4" else "different"
    with review.open("w", newline="", encoding="utf-8") as stream:  # as a spreadsheet of another country saves it
        writer = csv.DictWriter(stream, rows[0], delimiter=";")
        writer.writeheader()
        writer.writerows(rows)
    assert run(["dedup", str(refs), "--review", str(review), "--json"]) == 0
    output = capsys.readouterr()
    assert json.loads(output.out)["groups"] == [["1"], ["2"], ["=3", "4"]]
    assert json.loads(output.out)["unsure"] == []
    assert "0 pairs in doubt, 2 decided" in output.err
    assert sorted(row["decision"] for row in read_rows(review)) == ["Same", "different"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("decision,id_1,id_2\nperhaps,1,2\n", "line 2: 'perhaps' is no decision; write same or different"),
        ("decision,id_1,id_2\nsame,1,\n", "line 2: a decision needs two ids"),
        ("title,year\na,2000\n", "is no review file: it has no column decision, id_1, id_2"),
        ("decision,id_1,id_2\nsame,1,2\nsame,2,=3\ndifferent,1,=3\n", "contradict each other"),
        ("", "is no review file"),
        ("decision,id_1,id_2\nsame,1,2\ndifferent,2,1\n", "contradict each other: 1 and 2 in line 3 and in pairs.csv, line 2"),
    ],
)
def test_unreadable_review_is_refused_and_stays(text: str, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    refs, review = tmp_path / "refs.csv", tmp_path / "pairs.csv"
    refs.write_text(DOUBTFUL)
    review.write_text(text)
    assert run(["dedup", str(refs), "--review", str(review)]) == 2
    assert says in capsys.readouterr().err
    assert review.read_text() == text


def test_review_keeps_decisions_about_other_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    refs, review = tmp_path / "refs.csv", tmp_path / "pairs.csv"
    refs.write_text(DOUBTFUL)
    review.write_text("decision,id_1,id_2\nsame,a,b\nsame,1,2\n")
    assert run(["dedup", str(refs), "--review", str(review), "--json"]) == 0
    output = capsys.readouterr()
    assert ["1", "2"] in json.loads(output.out)["groups"]
    assert "2 records with a decision in" in output.err
    assert [(row["decision"], row["id_1"]) for row in read_rows(review)][:2] == [("same", "a"), ("same", "1")]


def test_review_is_never_among_the_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "refs.csv").write_text(DOUBTFUL)
    assert run(["dedup", str(tmp_path), "--review", str(tmp_path / "pairs.csv")]) == 2
    assert "put it somewhere else with --review" in capsys.readouterr().err


def test_decisions_survive_a_spreadsheet_that_takes_ids_for_numbers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    refs, review = tmp_path / "refs.csv", tmp_path / "pairs.csv"
    refs.write_text("record_id,title,year\n007,Care of men,2001\n008,Care of women,2001\n8,Statins and kidneys,2001\n")
    review.write_text("decision,id_1,id_2\nsame,7,008\n")
    assert run(["dedup", str(refs), "--review", str(review), "--json"]) == 0
    output = capsys.readouterr()
    assert json.loads(output.out)["groups"] == [["007", "008"], ["8"]]
    assert "not in these files" not in output.err


def test_review_that_is_a_folder_is_refused(table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "pairs").mkdir()
    assert run(["dedup", str(table), "--review", str(tmp_path / "pairs")]) == 2
    assert "pairs cannot be read as a review file: Is a directory" in capsys.readouterr().err
