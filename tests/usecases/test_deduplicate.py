"""Decisions of a person override evidence until they are withdrawn, by command and by Python; `outrider.dedup` of files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import outrider
from outrider.interfaces.cli import run
from outrider.library.library import Library
from outrider.runtime.threads_and_loops import run_in_background
from outrider.state.errors import BadRequest
from support.fakes import doi, paper

LIVER = "Aspirin and acute liver injury in adults"
TABLE = """id,title,authors,year,doi,journal
1,Aspirin and acute liver injury in adults,"Bell, A.",2020,10.1000/x,BMJ
2,Aspirin and acute liver injury in adults.,"Bell, Ann",2020,https://doi.org/10.1000/X,
3,Rain over Bergen,"Dahl, B.",2019,,Weather
"""


@pytest.fixture
def library(tmp_path: Path) -> str:
    known: dict[str, Any] = {"authors": ["Smith, Ann"], "year": 2020, "identifiers": doi("10.1000/x")}
    records = [paper("a", LIVER, **known), paper("b", f"{LIVER}.", abstract="Long.", **known), paper("c", "Aspirin for everybody")]

    async def fill() -> None:
        opened = await Library.open(tmp_path / "library", create=True)
        await opened.upsert(records)
        opened.close()

    run_in_background(fill())
    return str(tmp_path / "library")


def find_groups(library: str) -> set[frozenset[str]]:
    hits = outrider.execute("HYBRID", "aspirin", library=library)
    return {frozenset((hit.doc_id, *(one.doc_id for one in hit.duplicates))) for hit in hits}


SEPARATE = {frozenset("a"), frozenset("b"), frozenset("c")}
TOGETHER = {frozenset("ab"), frozenset("c")}


def test_split_and_merge_apply_to_later_searches(library: str) -> None:
    assert find_groups(library) == TOGETHER
    done = outrider.split("b", why="other cohort", by="ann", library=library)
    assert (done.decision.by, done.decision.ids, done.unknown) == ("ann", ("b",), ())
    assert find_groups(library) == SEPARATE
    assert {
        frozenset((hit.doc_id, *(one.doc_id for one in hit.duplicates))) for hit in outrider.search("aspirin", library=library).hits
    } == SEPARATE
    outrider.merge("b", "c", library=library)
    assert find_groups(library) == {frozenset("a"), frozenset("bc")}
    outrider.split("b", "c", library=library)
    assert find_groups(library) == SEPARATE


def test_the_command(library: str, capsys: pytest.CaptureFixture[str]) -> None:
    def run_library(*arguments: str, code: int = 0) -> str:
        assert run(["library", *arguments, "-l", library]) == code
        return capsys.readouterr().out

    assert json.loads(run_library("split", "a", "b", "--by", "ann", "--why", "no", "--json"))["what"] == "split"
    assert find_groups(library) == SEPARATE
    assert "are one work" in run_library("merge", "c", "openalex:W1")
    log = json.loads(run_library("decisions", "--json"))
    assert [(one["what"], one["ids"]) for one in log] == [("split", ["a", "b"]), ("merge", ["c", "openalex:W1"])]
    assert "other" not in run_library("decisions")
    run_library("decisions", "--forget", "a")
    assert find_groups(library) == TOGETHER


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["merge", "a"], "two or more"),
        (["merge", "a", "a"], "two or more"),
        (["merge", "a", "b", "a"], "twice"),
        (["split", ""], "no id"),
        (["split", "a\x1b[31m"], "no id"),
        (["split", "a" * 2_000], "no id"),
        (["decisions", "--forget", " "], "no id"),
    ],
)
def test_bad_input_is_one_line(library: str, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["library", *arguments, "-l", library]) == 2
    output = capsys.readouterr()
    assert message in output.err
    assert "\x1b" not in output.err
    assert not output.out


def test_split_records_are_not_merged_through_others(library: str) -> None:
    outrider.split("a", "b", library=library)
    outrider.merge("a", "c", library=library)
    with pytest.raises(BadRequest, match="split by"):
        outrider.merge("b", "c", library=library)
    assert find_groups(library) == {frozenset("ac"), frozenset("b")}


def test_without_a_library(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["library", "merge", "a", "b", "-l", str(tmp_path / "none")]) == 3
    assert "no library" in capsys.readouterr().err


def test_groups_reasons_and_works(tmp_path: Path) -> None:
    (tmp_path / "refs.csv").write_text(TABLE, encoding="utf-8")
    report = outrider.dedup(tmp_path / "refs.csv")
    assert report.groups == (("1", "2"), ("3",))
    assert [bool(lines) for lines in report.reasons] == [True, False]
    assert report.works[0].metadata["merged"] == ["1", "2"]
    assert not report.unsure


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match=r"none\.csv"):
        outrider.dedup(tmp_path / "none.csv")
