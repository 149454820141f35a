from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from outrider.interfaces.cli import distill as command
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


def run_command(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> tuple[str, str]:
    capsys.readouterr()
    assert run(list(arguments)) == code
    output = capsys.readouterr()
    return output.out, output.err


def test_the_context_is_standard_output_and_its_figures_are_standard_error(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text, about = run_command(capsys, "distill", QUERY, "a.txt")
    assert "[1] In conclusion, aspirin harms the liver of adults at high doses." in text
    assert "weather" not in text
    assert "1 piece, " in about
    assert "left out" in about
    assert "promise" not in about
    assert "SciFact" in run_command(capsys, "distill", QUERY, "a.txt", "--max-sentences", "0")[1]


def test_text_markdown_html_are_read_and_named(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "b.md").write_text(f"# Liver\n\n{PROSE.format('Aspirin')}\n")
    (here / "c.html").write_text(f"<html><head><title>T</title></head><body><p>{PROSE.format('Too much aspirin')}</p></body></html>")
    context: dict[str, Any] = json.loads(run_command(capsys, "distill", QUERY, "a.txt", "b.md", "c.html", "--json")[0])
    places = {span["doc_id"] for unit in context["units"] for span in (unit, *unit["support"])}
    assert places == {"a.txt", "b.md", "c.html"}


def test_of_a_folder_what_can_be_read_is_and_the_rest_is_named(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "notes").mkdir()
    (here / "notes" / "b.md").write_text(f"# Liver\n\n{PROSE.format('Aspirin')}\n")
    for name in ("c.odt", "d.odt", "e.odt", "f.odt"):
        (here / "notes" / name).write_bytes(b"PK")
    text, about = run_command(capsys, "distill", QUERY, "notes")
    assert "Aspirin harms the liver" in text
    assert about.count("Not read: ") == 3
    assert "c.odt: no reader for .odt" in about
    assert "And 1 more that could not be read" in about
    notes = json.loads(run_command(capsys, "distill", QUERY, "notes", "--json")[0])["notes"]
    assert len(notes) == 4
    (here / "notes" / "b.md").unlink()
    assert "no reader for .odt" in run_command(capsys, "distill", QUERY, "notes", code=2)[1]


def test_a_broken_entry_costs_itself(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = "@article{a, title={Aspirin}, abstract={Aspirin harms the liver of adults at high doses. The weather was fine.}}"
    (here / "refs.bib").write_text(good + "\n@article{b, title={No end}\n")
    text, about = run_command(capsys, "distill", QUERY, "refs.bib")
    assert "Aspirin harms the liver" in text
    assert "Not read: " in about
    assert "cannot be parsed" in about


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((QUERY, "none.txt"), "there is no such file"),
        ((QUERY, "x.odt"), "no reader for .odt"),
        ((QUERY, "empty.txt"), "empty.txt"),
        ((" ", "a.txt"), "the query is empty"),
        ((QUERY, "a.txt", "--engine", "lexicl"), "did you mean 'lexical'?"),
        ((QUERY, "a.txt", "--engine", "ensemble"), "embedding is switched off"),
        ((QUERY, "a.txt", "--engine", "classifier", "--model", "/no/such", "--no-bypass"), "no model at /no/such"),
    ],
)
def test_bad_input_is_one_line(arguments: tuple[str, ...], message: str, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "x.odt").write_bytes(b"PK")
    (here / "empty.txt").write_text(" \n")
    capsys.readouterr()
    assert run(["distill", *arguments]) in (2, 3)
    output = capsys.readouterr()
    assert output.out == ""
    assert message in " ".join(output.err.split())
    assert "Traceback" not in output.err


def test_escape_sequences_do_not_reach_the_terminal(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "a.txt").write_text("Aspirin harms \x1b[31mthe liver. \x07")
    assert "\x1b" not in run_command(capsys, "distill", QUERY, "a.txt")[0]


def test_short_texts_pass_and_the_budget_holds(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "s.txt").write_text("Aspirin harms the liver. It rains.")
    assert "texts are short:" in run_command(capsys, "distill", QUERY, "s.txt")[1]
    assert "texts are short:" not in run_command(capsys, "distill", QUERY, "s.txt", "--no-bypass")[1]
    assert run_command(capsys, "distill", QUERY, "a.txt", "-n", "5")[0] == ""


def test_a_threshold_is_fitted_stored_and_shown(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer = "In conclusion, drug{} harms the liver of adults at high doses."
    rows = [{"query": QUERY, "text": PROSE.format(f"drug{at}"), "answers": [answer.format(at)]} for at in range(40)]
    (here / "mine.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert "no library" in run_command(capsys, "library", "calibrate-distiller", "--judgements", "mine.jsonl", code=3)[1]
    run(["ingest", "a.txt"])
    assert json.loads(run_command(capsys, "library", "calibrate-distiller", "--json")[0])[0]["from"] == "shipped with the engine"
    fitted = json.loads(run_command(capsys, "library", "calibrate-distiller", "--judgements", "mine.jsonl", "--json")[0])
    assert (fitted["pairs"], fitted["fitted_on"]) == (40, "mine.jsonl")
    assert "mine.jsonl" in run_command(capsys, "library", "calibrate-distiller")[0]
    assert json.loads(run_command(capsys, "distill", QUERY, "a.txt", "--json")[0])["fitted_on"] == "mine.jsonl"


def test_bad_judgements_are_one_line(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "bad.jsonl").write_text('{"query": "x"}\n')
    (here / "few.jsonl").write_text(json.dumps({"query": QUERY, "text": PROSE, "answers": [[0, 90]]}))
    run(["ingest", "a.txt"])
    for file, message in (("none.jsonl", "No such file"), ("bad.jsonl", "line 1"), ("few.jsonl", "too few")):
        assert message in run_command(capsys, "library", "calibrate-distiller", "--judgements", file, code=2)[1]


def test_code_keeps_its_lines_and_its_indentation(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = "for call in calls:\n    if call.failed:\n        retry_the_call(call, after_a_delay=True)"
    (here / "retry.md").write_text(f"# Calls\n\n{PROSE.format('Nothing')}\n\n```python\n{code}\n```\n")
    text, _ = run_command(capsys, "distill", "how do I retry a failed call after a delay", "retry.md", "--no-bypass")
    assert code in text


@pytest.mark.parametrize(("threshold", "remark"), [("0.05", ""), (None, ": may not answer")])
def test_sources_and_what_may_not_answer_are_named(
    threshold: str | None, remark: str, here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A number in the context leads to its file. The context itself stays within its budget. One sentence of b.txt has most words of the
    question, and answers for certain."""
    if threshold is not None:
        monkeypatch.setenv("OUTRIDER_DISTILLER__THRESHOLD", threshold)
    (here / "c.txt").write_text("The train leaves at noon. " * 30)
    (here / "b.txt").write_text(PROSE.format("too much aspirin of one kind"))
    arguments = ("distill", QUERY, "c.txt", "a.txt", "b.txt")
    out, err = run_command(capsys, *arguments)
    assert out == json.loads(run_command(capsys, *arguments, "--json")[0])["text"] + "\n"
    assert err.splitlines()[:3] == [f"[2] a.txt{remark}", "[3] b.txt", "No sentence answers in c.txt"]


@pytest.mark.parametrize("arguments", [("-",), (), ("a.txt", "-")])
def test_a_piped_text_is_read(
    arguments: tuple[str, ...], here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(PROSE.format("paracetamol").encode())))
    out, err = run_command(capsys, "distill", QUERY, *arguments)
    assert "[1] In conclusion, paracetamol harms the liver of adults at high doses." in out
    assert "[1] standard input" in err
    assert ("[2] a.txt" in err) is ("a.txt" in arguments)


def test_a_pipe_that_holds_no_text_is_one_line(here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for data, message in ((b"", "standard input: is empty"), (b"%PDF-1.7\x00\x01\x02" * 50, "standard input: ")):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))
        assert message in run_command(capsys, "distill", QUERY, "-", code=3 if run(["distill", QUERY, "-"]) == 3 else 2)[1]


def test_without_a_file_and_without_a_pipe_the_command_says_what_it_takes(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Keyboard(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr("sys.stdin", Keyboard())
    assert "name the files to read, or pipe a text in" in run_command(capsys, "distill", QUERY, code=2)[1]


def test_a_budget_that_is_too_small_is_no_text_without_an_answer(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, err = run_command(capsys, "distill", QUERY, "a.txt", "-n", "50")
    assert out == ""
    assert "No sentence" not in err
    needed = re.search(r"The budget of 50 tokens holds none of the .* sentences? that .* chosen; the best one needs (\d+)", err)
    assert needed is not None
    assert "aspirin harms the liver" in run_command(capsys, "distill", QUERY, "a.txt", "-n", needed[1])[0]


def test_lines_break_between_words_on_a_terminal(here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    output = io.StringIO()
    terminal = Console(file=output, force_terminal=True, color_system=None, width=40, highlight=False, legacy_windows=False)
    monkeypatch.setattr(command, "console", lambda: terminal)
    whole = run_command(capsys, "distill", QUERY, "a.txt", "--json")[0]
    run(["distill", QUERY, "a.txt"])
    shown = output.getvalue().splitlines()
    assert max(map(len, shown)) <= 40
    assert " ".join(output.getvalue().split()) == " ".join(json.loads(whole)["text"].split())
    assert "[1] In conclusion, aspirin harms the" in shown
    assert "  liver of adults at high doses." in shown
