"""The command `outrider cite`."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import outrider
from outrider.interfaces.cli import run
from outrider.jobs.job_table import JobTable
from outrider.library.library import Library
from outrider.state.citations import CitationLink
from support.fakes import doi, paper
from support.http_server import Answer, serving

TARGET = "label:otters"


def make_work(number: int, **fields: Any) -> Any:
    return paper(f"w{number}", f"Study {number} of otters", identifiers=doi(f"10.5555/w.{number}"), **fields)


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Works 1 and 2 are the target's; 1 cites 3 and 4, which 2 cites, too; the library has 4. Everything is offline."""
    folder = tmp_path / "library"

    async def fill() -> None:
        store = await Library.open(folder, create=True)
        await store.upsert([make_work(1), make_work(2), make_work(4, abstract="Otters eat fish in the river. It rained.")])
        await store.label(["w1", "w2"], ["otters"])
        pairs = ((1, 3), (1, 4), (2, 4))
        links = [CitationLink(f"doi:10.5555/w.{one}", f"doi:10.5555/w.{other}", "openalex", "2026-11-26") for one, other in pairs]
        await store.citations.add([make_work(number) for number in range(1, 5)], links)
        store.close()

    asyncio.run(fill())
    monkeypatch.setenv("OUTRIDER_SOURCES__OFFLINE", "true")
    monkeypatch.setenv("OUTRIDER_LIBRARY__URI", str(folder))
    monkeypatch.setenv("OUTRIDER_JOBS__URI", str(tmp_path / "jobs.sqlite"))
    monkeypatch.setenv("OUTRIDER_THREADS__URI", str(tmp_path / "threads.sqlite"))
    return folder


def call(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    assert run(["cite", *arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_round_from_its_candidates_to_its_export(library: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["cite", "candidates", TARGET, "-r", "what do otters eat"]) == 0
    out, err = capsys.readouterr()
    assert "label:otters: 2 works, 2 candidates; round 1" in out
    assert "1. Study 4 of otters" in out
    assert "cited by 2 works of the target" in out
    assert "8% to 94%" in err
    both = call(capsys, "candidates", TARGET, TARGET, "--limit", "1")
    assert [(one["total"], one["candidates"][0]["key"]) for one in both] == [(2, "w4"), (2, "w4")]
    assert call(capsys, "candidates", TARGET)["target"] == TARGET
    assert call(capsys, "queue", TARGET, "--include", "w4", "10.5555/w.3", "--dry-run")["queued"] == ["w4", "doi:10.5555/w.3"]
    queued = call(capsys, "queue", TARGET, "--exclude", "10.5555/W.3", "--wait")
    assert (queued["queued"], queued["excluded"]) == (["w4"], ["doi:10.5555/w.3"])
    (job,) = queued["results"]
    assert job["result"]["works"][0]["sentences"] == ["Otters eat fish in the river."]
    assert "citations of these works were not read" in job["result"]["remarks"][0]
    state = call(capsys, "status", TARGET)
    assert (state["chase"]["request"], state["yield_curve"][0]["included"]) == ("what do otters eat", 1)
    assert {job["kind"] for job in state["jobs"]} == {"fetch"}, "without a network a job that reads citations could only fail"
    assert (state["recall"]["recall"], state["recall"]["refused"]) == (None, "fewer than 5 works are found")
    assert run(["cite", "status", TARGET]) == 0
    out, err = capsys.readouterr()
    assert ("2 works, 1 round" in out, "fetch" in out, "37% to 100%" in err) == (True, True, True)
    assert "The recall of the searches cannot be bounded: fewer than 5 works are found." in " ".join(err.split())
    for file, start in (
        ("round.ris", "TY  - "),
        ("round.bib", "@"),
        ("flow.svg", "<svg"),
        ("flow.md", "# PRISMA 2020"),
        ("flow.json", "{"),
    ):
        prisma = ["--prisma"] if file.startswith("flow") else []
        assert run(["cite", "export", TARGET, "-o", str(tmp_path / file), *prisma]) == 0
        assert (tmp_path / file).read_text(encoding="utf-8").startswith(start)
    assert run(["cite", "export", TARGET, "--round", "1"]) == 0
    assert "ID  - w4" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["queue", TARGET], "exactly one of these: include"),
        (["queue", TARGET, "--include", "w4", "--exclude", "10.5555/w.3"], "exactly one of these: include"),
        (["queue", TARGET, "--all", "--include", "w4"], "exactly one of these: include"),
        (["queue", TARGET, "w4"], "'w4': ids belong to --include or to --exclude"),
        (["queue", TARGET, "--include", "w4", "w9"], "no candidates of label:otters: 'w9'; nothing was queued"),
        (["queue", TARGET, "--all", "--dry-run", "--wait"], "--dry-run queues nothing"),
        (["queue"], "Missing argument 'TARGET'"),
        (["candidates"], "Missing argument 'TARGET...'"),
        (["candidates", "nothing"], "there is no target 'nothing'"),
        (["candidates", TARGET, "--direction", "refs"], "direction takes references or citations"),
        (["status", "label:oters"], "did you mean 'otters'"),
        (["export", TARGET, "-o", "round.doc"], "no known suffix"),
        (["export", TARGET, "--prisma", "-o", "flow.ris"], "no suffix of a flow diagram"),
        (["export", TARGET, "--round", "3"], "has no round 3"),
    ],
)
def test_bad_input_is_one_clear_error(
    library: Path, tmp_path: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["cite", *arguments]) == 2
    out, err = capsys.readouterr()
    assert (message in " ".join(err.split()), "Traceback" in err, out) == (True, False, "")
    assert JobTable(str(tmp_path / "jobs.sqlite")).list_jobs() == ()


def test_the_public_functions_do_the_same(library: Path) -> None:
    listing = outrider.cite_candidates(TARGET)
    assert [one.key for one in listing.candidates] == ["w4", "doi:10.5555/w.3"]
    assert outrider.cite_queue(TARGET, include=["w4"], library=library).round == 1
    assert outrider.cite_status(TARGET).included == ("w4",)
    assert "ID  - w4" in outrider.cite_export(TARGET)
    with pytest.raises(outrider.BadRequest, match="exactly one"):
        outrider.cite_queue(TARGET)


def test_ctrl_c_ends_the_wait_and_its_jobs_continue_later(library: Path, tmp_path: Path) -> None:
    """The service does not answer; the process is interrupted while the job waits for it."""
    asked: list[str] = []

    def hold(request: Any) -> Answer:
        asked.append(request.path)
        return Answer(after_s=60)

    with serving(hold) as server:
        services = {"openalex": {"base_url": server.base_url}} | {
            name: {"enabled": False}
            for name in ("semantic_scholar", "arxiv", "pubmed", "crossref", "github", "web", "opencitations", "europe_pmc")
        }
        (tmp_path / "config.json").write_text(json.dumps({"sources": services}), encoding="utf-8")
        environment = os.environ | {
            "OUTRIDER_CONFIG": str(tmp_path / "config.json"), "OUTRIDER_SOURCES__OFFLINE": "false", "OUTRIDER_CACHE__FOLDER": str(tmp_path),
        }  # fmt: skip
        command = [sys.executable, "-m", "outrider", "cite", "queue", TARGET, "--include", "10.5555/w.3", "--wait"]
        process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        until = time.monotonic() + 60
        while not asked and process.poll() is None and time.monotonic() < until:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert (process.returncode, "Traceback" in err) == (130, False), err
    assert "Interrupted. What was queued is kept" in err
    (job,) = JobTable(str(tmp_path / "jobs.sqlite")).list_jobs()
    assert (job.kind, job.status) == ("fetch", "running")  # the next process continues it
