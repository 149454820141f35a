from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from outrider.interfaces.cli import run

PROSE = (
    "The weather in the north was fine on that day, and we were there for a while with all of them. In conclusion, {} harms the liver of "
    "adults at high doses. It was not seen in mice, and it was in the barn for most of the time. The sea was as blue as ever. They had to "
    "go back to the house before it was dark, and so did the others who were with us at the time."
)
QUERY = "does aspirin harm the liver"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OUTRIDER_LIBRARY", str(tmp_path / "library"))
    monkeypatch.setenv("OUTRIDER_EMBEDDING__MODEL_NAME", "none")
    (tmp_path / "a.txt").write_text(PROSE.format("aspirin"))
    return tmp_path


def out(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> tuple[str, str]:
    capsys.readouterr()
    assert run(list(arguments)) == code
    said = capsys.readouterr()
    return said.out, said.err


def test_the_context_goes_out_and_what_it_is_worth_beside_it(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text, about = out(capsys, "distill", QUERY, "a.txt")
    assert "[1] In conclusion, aspirin harms the liver of adults at high doses." in text
    assert "weather" not in text
    assert "left out" in about
    assert "SciFact" in about


def test_text_markdown_html_are_read_and_named(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "b.md").write_text(f"# Liver\n\n{PROSE.format('Aspirin')}\n")
    (here / "c.html").write_text(f"<html><head><title>T</title></head><body><p>{PROSE.format('Too much aspirin')}</p></body></html>")
    found: dict[str, Any] = json.loads(out(capsys, "distill", QUERY, "a.txt", "b.md", "c.html", "--json")[0])
    places = {span["doc_id"] for unit in found["units"] for span in (unit, *unit["support"])}
    assert places == {"a.txt", "b.md", "c.html"}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((QUERY, "none.txt"), "there is no such file"),
        ((QUERY, "x.docx"), "no reader for .docx"),
        ((QUERY, "empty.txt"), "empty.txt"),
        ((" ", "a.txt"), "the query is empty"),
        ((QUERY, "a.txt", "--engine", "lexicl"), "did you mean 'lexical'?"),
        ((QUERY, "a.txt", "--engine", "ensemble"), "embedding is switched off"),
        ((QUERY, "a.txt", "--engine", "classifier", "--model", "/no/such", "--no-bypass"), "no model at /no/such"),
    ],
)
def test_what_cannot_be_is_one_line(arguments: tuple[str, ...], says: str, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "x.docx").write_bytes(b"PK")
    (here / "empty.txt").write_text(" \n")
    capsys.readouterr()
    assert run(["distill", *arguments]) in (2, 3)
    said = capsys.readouterr()
    assert said.out == ""
    assert says in " ".join(said.err.split())
    assert "Traceback" not in said.err


def test_controls_of_the_terminal_do_not_reach_it(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "a.txt").write_text("Aspirin harms \x1b[31mthe liver. \x07")
    assert "\x1b" not in out(capsys, "distill", QUERY, "a.txt")[0]


def test_short_texts_pass_and_the_budget_holds(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "s.txt").write_text("Aspirin harms the liver. It rains.")
    assert "short already" in out(capsys, "distill", QUERY, "s.txt")[1]
    assert "short already" not in out(capsys, "distill", QUERY, "s.txt", "--no-bypass")[1]
    assert out(capsys, "distill", QUERY, "a.txt", "-n", "5")[0] == ""


def test_a_threshold_is_fitted_kept_and_shown(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer = "In conclusion, drug{} harms the liver of adults at high doses."
    rows = [{"query": QUERY, "text": PROSE.format(f"drug{at}"), "answers": [answer.format(at)]} for at in range(40)]
    (here / "mine.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert "no library" in out(capsys, "library", "calibrate-distiller", "--judgements", "mine.jsonl", code=3)[1]
    run(["ingest", "a.txt"])
    assert json.loads(out(capsys, "library", "calibrate-distiller", "--json")[0])[0]["from"] == "shipped with the engine"
    fitted = json.loads(out(capsys, "library", "calibrate-distiller", "--judgements", "mine.jsonl", "--json")[0])
    assert (fitted["pairs"], fitted["fitted_on"]) == (40, "mine.jsonl")
    assert "mine.jsonl" in out(capsys, "library", "calibrate-distiller")[0]
    assert json.loads(out(capsys, "distill", QUERY, "a.txt", "--json")[0])["fitted_on"] == "mine.jsonl"


def test_bad_judgements_are_one_line(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "bad.jsonl").write_text('{"query": "x"}\n')
    (here / "few.jsonl").write_text(json.dumps({"query": QUERY, "text": PROSE, "answers": [[0, 90]]}))
    run(["ingest", "a.txt"])
    for file, says in (("none.jsonl", "No such file"), ("bad.jsonl", "line 1"), ("few.jsonl", "too few")):
        assert says in out(capsys, "library", "calibrate-distiller", "--judgements", file, code=2)[1]
