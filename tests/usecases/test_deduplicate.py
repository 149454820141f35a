"""A person's word goes before evidence, by command and by Python, until it is taken back."""

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


def found(library: str) -> set[frozenset[str]]:
    hits = outrider.execute("HYBRID", "aspirin", library=library)
    return {frozenset((hit.doc_id, *(one.doc_id for one in hit.duplicates))) for hit in hits}


APART = {frozenset("a"), frozenset("b"), frozenset("c")}
TOGETHER = {frozenset("ab"), frozenset("c")}


def test_split_and_merge_count_for_later_searches(library: str) -> None:
    assert found(library) == TOGETHER
    done = outrider.split("b", why="other cohort", by="ann", library=library)
    assert (done.decision.by, done.decision.ids, done.unknown) == ("ann", ("b",), ())
    assert found(library) == APART
    assert {
        frozenset((hit.doc_id, *(one.doc_id for one in hit.duplicates))) for hit in outrider.search("aspirin", library=library).hits
    } == APART
    outrider.merge("b", "c", library=library)
    assert found(library) == {frozenset("a"), frozenset("bc")}
    outrider.split("b", "c", library=library)
    assert found(library) == APART


def test_the_command(library: str, capsys: pytest.CaptureFixture[str]) -> None:
    def said(*arguments: str, code: int = 0) -> str:
        assert run(["library", *arguments, "-l", library]) == code
        return capsys.readouterr().out

    assert json.loads(said("split", "a", "b", "--by", "ann", "--why", "no", "--json"))["what"] == "split"
    assert found(library) == APART
    assert "are one work" in said("merge", "c", "openalex:W1")
    log = json.loads(said("decisions", "--json"))
    assert [(one["what"], one["ids"]) for one in log] == [("split", ["a", "b"]), ("merge", ["c", "openalex:W1"])]
    assert "other" not in said("decisions")
    said("decisions", "--forget", "a")
    assert found(library) == TOGETHER


@pytest.mark.parametrize(
    ("arguments", "says"),
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
def test_bad_input_is_one_line(library: str, arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["library", *arguments, "-l", library]) == 2
    told = capsys.readouterr()
    assert says in told.err
    assert "\x1b" not in told.err
    assert not told.out


def test_what_was_split_is_not_merged_through_others(library: str) -> None:
    outrider.split("a", "b", library=library)
    outrider.merge("a", "c", library=library)
    with pytest.raises(BadRequest, match="split by"):
        outrider.merge("b", "c", library=library)
    assert found(library) == {frozenset("ac"), frozenset("b")}


def test_without_a_library(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["library", "merge", "a", "b", "-l", str(tmp_path / "none")]) == 3
    assert "no library" in capsys.readouterr().err
