"""Messages after Ctrl-C: only a resumable command promises to continue."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
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


STARTING = """
import sys
from outrider.__main__ import main

sys.argv[1:] = ["search", "aspirin", "--offline", "-l", sys.argv[2]]


class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == INTERRUPTED_AT:
            import os, signal

            os.kill(os.getpid(), signal.SIGINT)


INTERRUPTED_AT = {at!r}
sys.meta_path.insert(0, Interrupt())
main()
"""


@pytest.mark.parametrize(
    "at",
    [
        "outrider.interfaces.cli", "typer", "rich.console", "outrider.interfaces.cli.terminal", "outrider.interfaces.cli.search",
        "outrider.services", "outrider.settings.load", "outrider.graph.pipeline", "lancedb", "outrider.library.search_engine",
        "outrider.interfaces.cli.answer",
    ],
)  # fmt: skip
def test_ctrl_c_at_any_moment_of_the_start_is_no_traceback(shelved: Path, at: str) -> None:
    """The module that is about to be imported is the moment. A shell reports 130 both for this code and for an end by the signal, which
    Python chooses if the interrupt came while a dataclass was made.
    """
    script = STARTING.replace("{at!r}", repr(at))
    done = subprocess.run([sys.executable, "-c", script, "-", str(shelved)], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode in (130, -signal.SIGINT), done.stderr
    assert done.stderr.splitlines()[-1] == "Interrupted."
    assert "Traceback" not in done.stderr
    assert not done.stdout


@pytest.mark.parametrize("command", [["search", "aspirin"], ["search", "aspirin", "--json"], ["search", "--help"], ["--help"]])
def test_a_reader_that_ends_early_is_no_error_message(shelved: Path, command: list[str]) -> None:
    own = [] if "--help" in command else ["--offline", "-l", str(shelved)]
    reads, writes = os.pipe()
    os.close(reads)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "outrider", *command, *own], stdout=writes, stderr=subprocess.PIPE, text=True, check=False, timeout=300
        )
    finally:
        os.close(writes)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "Broken" not in done.stderr
    assert "Exception ignored" not in done.stderr
