"""The command `outrider jobs`."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from outrider.interfaces.cli import jobs, run
from outrider.jobs.job_table import JobTable
from outrider.state.citations import CitationsResult, GraphReport, ServiceUse


@pytest.fixture(autouse=True)
def table(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> JobTable:
    monkeypatch.setenv("OUTRIDER_SOURCES__OFFLINE", "true")
    monkeypatch.setenv("OUTRIDER_JOBS__URI", str(tmp_path / "jobs.sqlite"))
    monkeypatch.setattr(os, "nice", lambda _: 0)  # this process goes on with other tests
    monkeypatch.setattr(jobs, "AUTOGROUP", tmp_path / "autogroup")
    return JobTable(str(tmp_path / "jobs.sqlite"))


def call(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    assert run(["jobs", *arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_jobs_are_listed_shown_paused_resumed_and_stopped(table: JobTable, capsys: pytest.CaptureFixture[str]) -> None:
    fetch = table.queue("fetch", "aspirin liver", "", {"works": ["a"]})
    citations = table.queue("citations", "aspirin liver", "", {"works": ["a"]})
    assert run(["jobs", "list"]) == 0
    out, err = capsys.readouterr()
    assert ("aspirin liver" in out, fetch in out, "Nothing runs them now" in err) == (True, True, True)
    assert [job["id"] for job in call(capsys, "list", "--status", "queued", "--target", "aspirin liver")["jobs"]] == [citations, fetch]
    assert call(capsys, "show", fetch)["request"] == {"works": ["a"]}
    assert [job["id"] for job in call(capsys, "pause", "aspirin liver")["changed"]] == [fetch]
    assert run(["jobs", "list"]) == 0
    assert "Paused: aspirin liver" in capsys.readouterr().err
    assert [job["status"] for job in call(capsys, "resume", "aspirin liver")["changed"]] == ["queued"]
    stopped = call(capsys, "stop", "aspirin liver", "--scope", "target_queue_only")
    assert ([job["id"] for job in stopped["changed"]], [job["id"] for job in stopped["unchanged"]]) == ([fetch], [citations])
    assert run(["jobs", "stop", citations]) == 0
    assert "1 job cancelled" in capsys.readouterr().err
    assert call(capsys, "run") == {"run": 0, "failed": 0, "left": 0}


def test_a_list_that_is_cut_says_so(table: JobTable, capsys: pytest.CaptureFixture[str]) -> None:
    table.queue("citations", "liver", "", {})
    columns = "id, kind, target, library, request, status, created"
    copy = f"INSERT INTO outrider_jobs ({columns}) SELECT ?, kind, ?, '', '{{}}', status, ? FROM outrider_jobs"
    with closing(sqlite3.connect(table.uri)) as connection, connection:
        connection.executemany(f"{copy} WHERE target = 'liver'", [(f"n{number}", "kidney", number) for number in range(1_000)])
    assert run(["jobs", "list"]) == 0
    assert "The newest 1,000 jobs; --target or --status shows others" in capsys.readouterr().err
    assert run(["jobs", "list", "--target", "liver"]) == 0
    assert "1 job\n" in capsys.readouterr().err


def test_a_run_takes_its_jobs_to_an_end(table: JobTable, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = table.queue("citations", "liver", "", {"works": []})
    contacting = table.queue("citations", "liver", "", {"targets": ["10.1/x"]})
    assert run(["jobs", "run", "--limit", "2", "--json"]) == 3
    assert json.loads(capsys.readouterr().out) == {"run": 2, "failed": 2, "left": 0}
    assert run(["jobs", "show", wrong]) == 0
    capsys.readouterr()
    assert [table.get(number).status for number in (wrong, contacting)] == ["failed", "failed"]
    assert [table.get(number).attempts for number in (wrong, contacting)] == [1, 1]
    assert "targets" in table.get(wrong).error
    assert "sources.offline" in table.get(contacting).error
    assert call(capsys, "run") == {"run": 0, "failed": 0, "left": 0}, "one that had failed before is no failure of this run"


def test_the_result_of_a_citation_job_is_shown_in_words(table: JobTable, capsys: pytest.CaptureFixture[str]) -> None:
    crossref = ServiceUse(
        name="crossref", calls=4, links=1, failures=3, failure="crossref answered 503\x1b[2J", stopped="it failed 3 times"
    )
    report = GraphReport(seeds=2, works=9, links=2, services=(crossref,), cut=("the budget of 4 calls: 1 work",), unknown_total=7)
    number = table.queue("citations", "liver", "", {"targets": ["a", "b"]})
    table.start(number, 0)
    result = CitationsResult(targets=("a", "b"), missing=("b",), report=report).model_dump(mode="json")
    table.finish(number, "done", result)
    assert call(capsys, "show", number)["result"] == result
    assert run(["jobs", "show", number]) == 0
    out = capsys.readouterr().out
    for line in (
        "result: 2 new links among 9 works, in 0 s",
        "crossref: 4 calls, 1 new link; failed 3 times, first: crossref answered 503",
        "left alone: it failed 3 times",
        "left out: the budget of 4 calls: 1 work",
        "targets are no works of the library and no identifiers: 1 (b)",
        "works are known to no service: 7",
    ):
        assert line in " ".join(out.split()), out
    assert "\x1b" not in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["show", "none"], "no job 'none'"),
        (["pause", "none"], "no target or job 'none'"),
        (["resume", "none"], "no target or job 'none'"),
        (["stop", "none"], "no target or job 'none'"),
        (["stop", "none", "--scope", "all_job"], "all_jobs, target_queue_only, not 'all_job'; did you mean 'all_jobs'"),
        (["list", "--status", "quued"], "did you mean 'queued'"),
    ],
)
def test_bad_input_is_one_clear_error(table: JobTable, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    table.queue("fetch", "liver", "", {})
    assert run(["jobs", *arguments]) == 2
    out, err = capsys.readouterr()
    assert (message in err, "Traceback" in err, out) == (True, False, "")


def test_a_damaged_file_is_one_clear_error(table: JobTable, capsys: pytest.CaptureFixture[str]) -> None:
    Path(table.uri).write_bytes(b"no database" * 1_000)
    for arguments in (["list"], ["run"], ["stop", "x"]):
        assert run(["jobs", *arguments]) == 3
        assert "jobs.uri" in capsys.readouterr().err


@pytest.mark.parametrize("has_own_session", [True, False])
def test_the_niceness_of_a_session_is_set_where_it_is_our_own(
    has_own_session: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "getsid", lambda _: os.getpid() if has_own_session else 1)
    jobs.take_lowest_priority()
    written = tmp_path / "autogroup"
    assert (written.read_text() if written.exists() else "") == ("19" if has_own_session else "")


def test_ctrl_c_ends_a_waiting_run_cleanly(table: JobTable) -> None:
    table.create()
    process = subprocess.Popen([sys.executable, "-m", "outrider", "jobs", "run", "--wait"], stderr=subprocess.PIPE, text=True)
    until = time.monotonic() + 60
    while not table.is_worked() and time.monotonic() < until:
        time.sleep(0.05)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (130, "Interrupted.\n")
    assert not table.is_worked()
