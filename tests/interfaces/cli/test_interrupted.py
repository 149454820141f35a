"""Messages after Ctrl-C: only a resumable command promises to continue."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

import outrider.usecases.health  # noqa: F401  (to be patched there)
from outrider.interfaces.cli import run


async def pressed(*_: object, **__: object) -> None:
    os.kill(os.getpid(), signal.SIGINT)
    await asyncio.sleep(30)


@pytest.mark.parametrize(
    ("command", "at", "goes_on"),
    [
        (["search", "liver"], "search._answer", False),
        (["export"], "export._write", False),
        (["library", "probe"], "library_training._probe", False),
        (["doctor"], "config.health", False),
        (["ingest", "."], "ingest._ingest", True),
        (["library", "reindex"], "library._reindex", True),
    ],
)
def test_an_interruption_promises_only_what_is_so(
    shelved: Path, command: list[str], at: str, goes_on: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    module, name = at.split(".")
    of = sys.modules["outrider.usecases.health" if name == "health" else f"outrider.interfaces.cli.{module}"]
    monkeypatch.setattr(of, name, pressed)
    assert run([*command, "-l", str(shelved)]) == 130
    last = capsys.readouterr().err.splitlines()[-1]
    assert last == ("Interrupted. The results so far are saved; run the same command to continue." if goes_on else "Interrupted.")
