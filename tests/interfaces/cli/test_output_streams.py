"""Standard output that has another encoding than UTF-8, or is closed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest


def run_command(*arguments: str, closed: str = "", **environment: str) -> subprocess.CompletedProcess[bytes]:
    """The command in a process of its own; `closed` are redirections of the shell."""
    environ = {**os.environ, "OUTRIDER_SOURCES__OFFLINE": "true", **environment}
    command = ["sh", "-c", f'exec "$@" {closed}', "sh", sys.executable, "-m", "outrider", *arguments]
    return subprocess.run(command, capture_output=True, check=False, env=environ, stdin=subprocess.DEVNULL)


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_json_and_files_of_records_are_utf_8_whatever_the_terminal_takes(shelved: Path, encoding: str) -> None:
    def run(*arguments: str) -> bytes:
        done = run_command(*arguments, "-l", str(shelved), PYTHONIOENCODING=encoding)
        assert (done.returncode, done.stderr) == (0, b"")
        return done.stdout

    assert json.loads(run("search", "深度学习", "--json"))["hits"][0]["title"] == "深度学习与图像"
    assert "深度学习与图像".encode() in run("export", "--format", "ris")


def test_what_has_no_utf_8_is_escaped_as_in_json(shelved: Path) -> None:
    """An argument that is no UTF-8, in an error."""
    done = run_command("search", os.fsdecode(b"aspirin \xff"), "-l", str(shelved), "--json")
    assert (done.returncode, "error" in json.loads(done.stdout)) == (2, True)


@pytest.mark.parametrize("closed", [">&-", "<&- >&- 2>&-"])
def test_closed_streams_end_no_command(shelved: Path, closed: str) -> None:
    for arguments in (["--version"], ["search", "aspirin", "-l", str(shelved), "--json"]):
        done = run_command(*arguments, closed=closed)
        assert done.returncode == 0
        assert b"Traceback" not in done.stderr
