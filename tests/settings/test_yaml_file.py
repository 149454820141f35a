"""Reading of a settings file."""

from __future__ import annotations

from pathlib import Path

import pytest

from outrider.settings import yaml_file
from outrider.settings.load import load
from outrider.settings.yaml_file import read_yaml
from outrider.state.errors import SettingsError


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


def load_candidates(value: str, folder: Path, *, as_variable: bool) -> int:
    environ = {"OUTRIDER_RUN__CANDIDATES": value} if as_variable else {}
    (folder / "search_config.yaml").write_text("" if as_variable else f"run:\n  candidates: {value}\n", encoding="utf-8")
    return load(environ=environ, cwd=folder, user_dir=folder / "none").settings.run.candidates


@pytest.mark.parametrize("as_variable", [False, True])
def test_a_number_with_another_base_than_it_seems_is_refused(tmp_path: Path, as_variable: bool) -> None:
    """YAML 1.1 reads 010 as 8 and 1:30 as 90."""
    values = {text: load_candidates(text, tmp_path, as_variable=as_variable) for text in ("10", "1_00", "0x40")}
    assert values == {"10": 10, "1_00": 100, "0x40": 64}
    for text in ("010", "1:30", "-010"):
        with pytest.raises(SettingsError, match=rf"run\.candidates takes a whole number, not '{text}'"):
            load_candidates(text, tmp_path, as_variable=as_variable)
