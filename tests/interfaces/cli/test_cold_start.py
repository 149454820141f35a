"""What a command imports before it answers, in processes of their own."""

from __future__ import annotations

import subprocess
import sys

import pytest
import typer.main

from outrider.interfaces.cli import COMMANDS, make_app


def run_python(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done


def test_the_overview_shows_the_help_of_all_commands(capsys: pytest.CaptureFixture[str]) -> None:
    texts = []
    for overview in (False, True):
        typer.main.get_command(make_app(overview=overview)).main(["--help"], prog_name="outrider", standalone_mode=False)
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1]
    assert all(name in texts[0] for name in COMMANDS)


def test_a_command_alone_has_the_same_help(capsys: pytest.CaptureFixture[str]) -> None:
    for name in COMMANDS:
        texts = []
        for only in ("", name):
            typer.main.get_command(make_app(only)).main([name, "--help"], prog_name="outrider", standalone_mode=False)
            texts.append(capsys.readouterr().out)
        assert texts[0] == texts[1]


def test_a_misspelt_command_is_corrected(capsys: pytest.CaptureFixture[str]) -> None:
    from outrider.interfaces.cli import run

    assert run(["serach", "x"]) == 2
    assert "search" in capsys.readouterr().err


def test_the_help_imports_neither_a_library_nor_an_event_loop() -> None:
    script = "import sys; from outrider.interfaces.cli import run; run(['--help']); print(*sys.modules, file=sys.stderr)"
    loaded = set(run_python(script).stderr.split())
    assert not loaded & {"asyncio", "pydantic", "httpx", "numpy", "importlib.metadata", "outrider.services"}
