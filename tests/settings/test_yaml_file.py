"""Reading of a settings file."""

from __future__ import annotations

from pathlib import Path

import pytest

from outrider.settings import yaml_file
from outrider.settings.yaml_file import read_yaml


def test_a_text_is_parsed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command reads the file for the graph of the process and with its own flags."""
    parsed = []

    class Loader(yaml_file._Loader):
        def __init__(self, text: str) -> None:
            parsed.append(text)
            super().__init__(text)

    monkeypatch.setattr(yaml_file, "_Loader", Loader)
    file = tmp_path / "search_config.yaml"
    file.write_text("run:\n  candidates: 41  # of this test\n", encoding="utf-8")
    entries = [read_yaml(file, {}) for _ in range(2)]
    file.write_text("run:\n  candidates: 42  # of this test\n", encoding="utf-8")
    changed = read_yaml(file, {})
    assert entries[0] == entries[1]
    assert (entries[0]["run.candidates"].value, changed["run.candidates"].value, len(parsed)) == (41, 42, 2)
