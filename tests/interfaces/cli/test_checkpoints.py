"""Searches that wait for a person, in the command: asked in the terminal, or saved and answered with a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from outrider.interfaces.cli import checkpoints as review_module
from outrider.interfaces.cli import run
from outrider.interfaces.cli.checkpoints import WAITS, ask, parse_years
from outrider.state.checkpoints import EditedQuery, PlanReview, ResultsReview, ReviewedWork


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OUTRIDER_SOURCES__OFFLINE", "true")
    monkeypatch.setenv("OUTRIDER_THREADS__URI", str(tmp_path / "threads.sqlite"))


def test_without_a_terminal_it_is_saved_and_answered_with_files(shelved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["search", "aspirin liver", "--review-plan", "--review-results", "-l", str(shelved)]
    assert run([*command, "--thread", "one"]) == WAITS
    out, err = capsys.readouterr()
    assert "aspirin liver" in out
    assert f"outrider threads resume one --library {shelved}, in a script" in err
    file = tmp_path / "answer.json"
    file.write_text(json.dumps({"queries": [{"text": "statins cholesterol"}]}))
    assert run(["threads", "resume", "one", "--answer", str(file), "-l", str(tmp_path / "none")]) == 2
    assert f"read the library {shelved}" in capsys.readouterr().err
    assert run(["threads", "resume", "one", "--answer", str(file), "-l", str(shelved), "--json"]) == WAITS
    waiting = json.loads(capsys.readouterr().out)["waiting"]
    assert (waiting["review"], waiting["works"][0]["doc_id"]) == ("results", "b")
    file.write_text('{"drop": ["nothing"]}')
    assert run(["threads", "resume", "one", "--answer", str(file), "-l", str(shelved)]) == 2
    assert "'nothing' is none of" in capsys.readouterr().err
    assert run(["threads", "list"]) == 0
    assert "waiting for you" in capsys.readouterr().out
    file.write_text('{"keep": ["b"]}')
    assert run(["threads", "resume", "one", "--answer", str(file), "-l", str(shelved), "--json"]) == 0
    done = json.loads(capsys.readouterr().out)
    assert (done["hits"][0]["doc_id"], done["waiting"]) == ("b", None)
    assert run(["threads", "resume", "one", "--answer", str(file), "-l", str(shelved)]) == 2
    assert "waits for no answer" in capsys.readouterr().err


def test_in_a_terminal_it_asks(shelved: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    lines = iter(["1 statins cholesterol", "", "k 1", ""])
    monkeypatch.setattr(review_module, "is_interactive", lambda: True)
    monkeypatch.setattr(review_module, "ask", lambda review: ask(review, lambda _: next(lines)))
    assert run(["search", "aspirin", "--review-plan", "--review-results", "-l", str(shelved), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["strategy"]["queries"][0]["text"], answer["hits"][0]["doc_id"]) == ("statins cholesterol", "b")


PLAN = PlanReview(
    query="aspirin",
    queries=(EditedQuery(text="aspirin", boolean_query="aspirin"), EditedQuery(text="liver")),
    sources=("library", "pubmed"),
    available_sources=("library", "pubmed"),
)
RESULTS = ResultsReview(
    query="aspirin",
    works=tuple(
        ReviewedWork(rank=at, doc_id=f"w{at}", kind="paper", title=f"Work {at} \x1b[31m", score=0.5, scored_by="rules") for at in (1, 2, 3)
    ),
    total=3,
)


@pytest.mark.parametrize(
    ("waiting", "lines", "answer"),
    [
        (PLAN, [], {}),
        (PLAN, ["- 2", "+ blood", "s pubmed", "y 2015-"], {
            "queries": [{"text": "aspirin", "boolean_query": "aspirin"}, {"text": "blood", "boolean_query": ""}],
            "sources": ["pubmed"], "years": {"min": 2015},
        }),
        (PLAN, ["b 2 liver OR hepatic", "9 x", "nonsense", 'f {"year": 2020}'], {
            "queries": [{"text": "aspirin", "boolean_query": "aspirin"}, {"text": "liver", "boolean_query": "liver OR hepatic"}],
            "filters": {"year": 2020},
        }),
        (PLAN, ["s nowhere", "", "s library"], {"sources": ["library"]}),
        (RESULTS, [], {}),
        (RESULTS, ["k 1 2", "d 2", "m 3", "d 7", "w newer"], {"keep": ["w1"], "drop": ["w2"], "more_like": ["w3"], "feedback": "newer"}),
    ],
)  # fmt: skip
def test_lines_become_an_answer(waiting: Any, lines: list[str], answer: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    given = iter([*lines, ""])
    assert ask(waiting, lambda _: next(given)) == answer
    assert "\x1b" not in capsys.readouterr().err


def test_the_end_of_input_leaves_it_waiting() -> None:
    def end(_: str) -> str:
        raise EOFError

    assert ask(PLAN, end) is None


@pytest.mark.parametrize(("text", "years"), [("2015", {"min": 2015, "max": 2015}), ("-2020", {"max": 2020}), ("", {})])
def test_years(text: str, years: dict[str, int]) -> None:
    assert parse_years(text) == years


@pytest.mark.parametrize("content", ["{", "[" * 100_000])
def test_an_answer_that_is_no_json_is_bad_input(content: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "answer.json"
    file.write_text(content)
    assert run(["threads", "resume", "one", "--answer", str(file)]) == 2
    assert "cannot be read as JSON" in capsys.readouterr().err
