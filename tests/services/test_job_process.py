"""A server's process of background jobs: an error that passes ends nothing, and what the process writes is logged."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic import SecretStr

from outrider.interfaces.logs import JsonFormatter
from outrider.jobs.job_table import JobTable
from outrider.services import job_process
from outrider.services.job_process import JobProcess
from outrider.settings.model import JobSettings, Settings
from outrider.settings.redact import Redactor
from outrider.settings.sections import SourcesSettings
from outrider.state.errors import JobError

SECRET = "a-secret-of-the-settings"


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    for name in ("LOOK_S", "RETRY_S"):
        monkeypatch.setattr(job_process, name, 0.01)
    settings = Settings(jobs=JobSettings(uri=str(tmp_path / "jobs.sqlite")))
    JobTable(settings.jobs.uri).queue("fetch", "liver", "", {})
    return settings


def run_instead(monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    monkeypatch.setattr(job_process, "make_command", lambda _: [sys.executable, "-c", program])


async def supervise_until(settings: Settings, condition: Callable[[], bool]) -> None:
    working = asyncio.create_task(JobProcess(settings, lambda: False).supervise())
    try:
        async with asyncio.timeout(20):
            while not condition():
                assert not working.done()
                await asyncio.sleep(0.01)
    finally:
        working.cancel()
        await asyncio.wait({working})


@pytest.mark.parametrize("error", [JobError("the database starts later"), OSError("too many processes")])
async def test_an_error_that_passes_ends_no_supervision(
    settings: Settings, error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    begun = tmp_path / "begun"
    run_instead(monkeypatch, f"open({str(begun)!r}, 'w').close()")
    left, count = [error], JobTable.count_open

    def count_open(table: JobTable) -> int:
        if left:
            raise left.pop()
        return count(table)

    monkeypatch.setattr(JobTable, "count_open", count_open)
    await supervise_until(settings, begun.exists)
    assert str(error) in caplog.text


async def test_jobs_that_another_server_works_start_no_process(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    begun, looks, is_worked = tmp_path / "begun", [0], JobTable.is_worked
    run_instead(monkeypatch, f"open({str(begun)!r}, 'w').close()")

    def count_looks(table: JobTable) -> bool:
        looks[0] += 1
        return is_worked(table)

    monkeypatch.setattr(JobTable, "is_worked", count_looks)
    claim = await asyncio.to_thread(JobTable(settings.jobs.uri).try_lock)
    assert claim
    await supervise_until(settings, lambda: looks[0] > 3)
    assert not begun.exists()
    assert caplog.text == ""
    await asyncio.to_thread(claim.release)
    await supervise_until(settings, begun.exists)


async def test_jobs_that_may_not_be_reached_are_given_up(caplog: pytest.LogCaptureFixture) -> None:
    settings = Settings(jobs=JobSettings(uri="postgresql://me@host.example/x"), sources=SourcesSettings(offline=True))
    await asyncio.wait_for(JobProcess(settings, lambda: False).supervise(), 20)
    assert "no background jobs are run" in caplog.text


async def test_the_traceback_of_a_job_is_logged_as_json_without_secrets(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = settings.model_copy(update={"llm": settings.llm.model_copy(update={"api_key": SecretStr(SECRET)})})
    program = f"""
import sys
sys.stderr.write("x" * 70_000 + {SECRET!r} + "\\n")
sys.stderr.buffer.write(b"line \\xff\\n" * 1_000)
raise KeyError({SECRET!r})
"""
    run_instead(monkeypatch, program)
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(JsonFormatter(Redactor()))
    monkeypatch.setattr(job_process.log, "handlers", [handler])
    await supervise_until(settings, lambda: "ended with" in written.getvalue())
    messages = [json.loads(line)["message"] for line in written.getvalue().splitlines()]
    traceback = [message for message in messages if "KeyError" in message]
    assert traceback
    assert SECRET not in written.getvalue()
    assert messages.index(traceback[0]) == job_process.MAX_LINES - 1, "the last lines, each a record, then the exit code"
