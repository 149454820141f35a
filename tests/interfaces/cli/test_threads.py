"""The commands `outrider search --thread` and `outrider threads`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from outrider.interfaces.cli import run


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OUTRIDER_SOURCES__OFFLINE", "true")
    monkeypatch.setenv("OUTRIDER_THREADS__URI", str(tmp_path / "threads.sqlite"))


def test_two_searches_on_a_thread_are_listed_shown_resumed_and_deleted(shelved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for feedback in ("", "newer"):
        assert run(["search", "aspirin liver", "--thread", "one", "--feedback", feedback, "-l", str(shelved), "--json"]) == 0
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert second["strategy"]["earlier"][0]["queries"][0]["text"] == first["strategy"]["queries"][0]["text"]
    assert run(["threads", "list"]) == 0
    assert "aspirin liver" in capsys.readouterr().out
    assert run(["threads", "show", "one", "-l", str(shelved), "--json"]) == 0
    thread = json.loads(capsys.readouterr().out)
    assert [one["asked"].get("user_feedback") for one in thread["runs"]] == [None, "newer"]
    assert thread["answer"] == second
    assert run(["threads", "show", "one", "-l", str(shelved)]) == 0
    assert "newer" in capsys.readouterr().out
    assert run(["threads", "resume", "one", "-l", str(shelved), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == second
    assert run(["threads", "delete", "one"]) == 0
    assert run(["threads", "list", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["threads", "show", "none"], "no thread 'none'"),
        (["threads", "resume", "none"], "no thread 'none'"),
        (["threads", "delete"], "--expired"),
        (["threads", "delete", "none", "--expired"], "--expired"),
        (["search", "x", "--thread", ""], "1 to 200"),
    ],
)
def test_bad_input_is_one_clear_error(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(arguments) == 2
    out, err = capsys.readouterr()
    assert message in err
    assert ("Traceback" in err, out) == (False, "")


def test_without_a_thread_nothing_is_stored(shelved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["search", "aspirin", "-l", str(shelved), "--json"]) == 0
    assert not (tmp_path / "threads.sqlite").exists()
