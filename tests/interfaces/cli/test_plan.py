"""`outrider plan`, `--dry-run`, and how plans held in `outrider doctor`."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from outrider.interfaces.cli import run
from outrider.services.planner import THREAD


@pytest.fixture
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OUTRIDER_PLANNER__FILE", str(tmp_path / "runs.sqlite"))
    return tmp_path / "runs.sqlite"


def search(shelved: Path, *words: str) -> None:
    assert run(["search", *words, "-l", str(shelved), "--json"]) == 0
    for thread in threading.enumerate():
        if thread.name == THREAD:
            thread.join()


def test_a_plan_shows_each_quantity_with_its_interval_and_what_it_rests_on(
    shelved: Path, record: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["plan", "aspirin liver", "-l", str(shelved)]) == 0
    out, err = capsys.readouterr()
    assert "0 calls, no cost" in out.splitlines()[0]
    assert "prior: no run yet" in out
    assert "known: no service and no model is asked" in out
    assert "recall not estimated" in err
    assert not record.exists(), "a plan leaves nothing behind"
    search(shelved, "aspirin")
    capsys.readouterr()
    assert run(["plan", "aspirin liver", "-l", str(shelved), "--json"]) == 0
    planned = json.loads(capsys.readouterr().out)
    assert planned["runs"] == 1
    assert {one["quantity"] for one in planned["estimates"]} == {"seconds", "calls", "cost_usd", "hits"}
    assert "from 1 run of this installation" in planned["estimates"][0]["basis"]


def test_a_dry_run_plans_what_the_same_command_would_run(shelved: Path, record: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plans = []
    for arguments in (["search", "aspirin", "--dry-run"], ["plan", "aspirin"]):
        assert run([*arguments, "-l", str(shelved), "--json"]) == 0
        plans.append(json.loads(capsys.readouterr().out))
    assert {name: value for name, value in plans[0].items() if name != "estimates"} == {
        name: value for name, value in plans[1].items() if name != "estimates"
    }
    assert run(["systematic", "aspirin[tiab]", "--dry-run", "-l", str(shelved), "--json"]) == 0
    exact = json.loads(capsys.readouterr().out)
    assert exact["mode"] == "systematic"
    assert [one["expected"] for one in exact["estimates"] if one["quantity"] == "hits"] == [1]
    assert not record.exists()


def test_bad_input_ends_with_2_and_the_reason(shelved: Path, record: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, reason in (
        (["plan"], "give a query"),
        (["plan", "x", "--clear"], "not both"),
        (["plan", "?!"], "no letter or digit"),
        (["plan", "x", "-s", "nowhere"], "unknown source"),
        (["plan", "aspirin[tiab] AND (", "--mode", "systematic"], "expected"),
        (["systematic", "--resume", "x", "--dry-run"], "--dry-run plans a query"),
        (["search", "x", "--dry-run", "--max-calls", "-1"], "--max-calls"),
    ):
        assert run([*arguments, "-l", str(shelved)]) == 2, arguments
        assert reason in capsys.readouterr().err
    assert run(["plan", "x", "-s", "pubmed", "-l", str(shelved)]) == 3


def test_doctor_shows_how_plans_held_and_clear_deletes_the_record(
    shelved: Path, record: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def read_doctor() -> str:
        capsys.readouterr()
        assert run(["doctor", "--json", "-l", str(shelved)]) == 0
        (row,) = [row for row in json.loads(capsys.readouterr().out)["checks"] if row["what"] == "plans"]
        return str(row["says"])

    assert "no search is recorded yet" in read_doctor()
    search(shelved, "aspirin")
    assert "of 1 run within their 80 % intervals: seconds" in read_doctor()
    capsys.readouterr()
    assert run(["plan", "--clear"]) == 0
    assert "1 run deleted" in capsys.readouterr().err
    assert "no search is recorded yet" in read_doctor()
    monkeypatch.setenv("OUTRIDER_PLANNER__ENABLED", "false")
    assert "planner.enabled" in read_doctor()
