"""Messages after Ctrl-C: only a resumable command promises to continue."""

from __future__ import annotations

import asyncio
import os
import signal
from importlib import import_module
from pathlib import Path

import pytest

from outrider.interfaces.cli import run


async def press_ctrl_c(*_: object, **__: object) -> None:
    os.kill(os.getpid(), signal.SIGINT)
    await asyncio.sleep(30)


@pytest.mark.parametrize(
    ("command", "at", "is_resumable"),
    [
        (["search", "liver"], "interfaces.cli.search._answer", False),
        (["export"], "interfaces.cli.export._write", False),
        (["library", "probe"], "interfaces.cli.library_training._probe", False),
        (["doctor"], "usecases.health.health", False),
        (["ingest", "."], "usecases.ingest.ingest_targets", True),
        (["library", "reindex"], "usecases.ingest.areindex", True),
    ],
)
def test_only_resumable_commands_promise_to_continue(
    shelved: Path, command: list[str], at: str, is_resumable: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    module, _, name = at.rpartition(".")
    monkeypatch.setattr(import_module(f"outrider.{module}"), name, press_ctrl_c)
    assert run([*command, "-l", str(shelved)]) == 130
    last = capsys.readouterr().err.splitlines()[-1]
    assert last == ("Interrupted. The results so far are saved; run the same command to continue." if is_resumable else "Interrupted.")
