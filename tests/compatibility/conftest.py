"""Fixtures of the compatibility tests: an isolated folder, notes, and a library made from them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from compatibility.machine import NOTES, Command, isolate, run_command


@pytest.fixture(autouse=True)
def isolated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    isolate(monkeypatch, tmp_path)


@pytest.fixture
def outrider_command() -> Command:
    return run_command


@pytest.fixture(scope="session")
def notes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of JSON lines, as the guide to ingestion describes it."""
    path = tmp_path_factory.mktemp("notes") / "notes.jsonl"
    path.write_text("".join(json.dumps(note) + "\n" for note in NOTES), encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def made_library(notes: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library with the notes; tests copy it."""
    folder = tmp_path_factory.mktemp("made")
    with pytest.MonkeyPatch.context() as monkeypatch:
        isolate(monkeypatch, folder)
        assert run_command("ingest", notes, "--library", folder / "library").code == 0
    return folder / "library"


@pytest.fixture
def library(made_library: Path, tmp_path: Path) -> Path:
    """A library of the test's own with the notes."""
    return Path(shutil.copytree(made_library, tmp_path / "library"))


@pytest.fixture(scope="module")
def module_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A working folder for what all tests of a module share; isolated while the fixtures that use it are set up."""
    folder = tmp_path_factory.mktemp("shared")
    with pytest.MonkeyPatch.context() as monkeypatch:
        isolate(monkeypatch, folder)
        yield folder
