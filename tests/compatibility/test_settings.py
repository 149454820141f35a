"""Settings as their reference lists them: keys, defaults, variables and files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from compatibility.machine import Command
from compatibility.shapes import frozen

SETTINGS: dict[str, Any] = frozen("settings")
OF_THE_MACHINE = ("library.uri",)


def test_every_setting_has_its_key_and_default(outrider_command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SOURCES__OFFLINE", "EMBEDDING__MODEL_NAME", "RERANKER__MODEL_NAME"):
        monkeypatch.delenv(f"OUTRIDER_{name}")
    current = outrider_command("config", "show", "--json").json
    assert {"value", "from"} <= set(current["library.uri"])
    for key, default in SETTINGS.items():
        assert key in current
        if key not in OF_THE_MACHINE:
            assert (key, current[key]["value"], current[key]["from"]) == (key, default, "default")


def test_every_setting_can_stand_in_a_file(outrider_command: Command, tmp_path: Path) -> None:
    nested: dict[str, Any] = {}
    for key, default in SETTINGS.items():
        *above, last = key.split(".")
        place = nested
        for name in above:
            place = place.setdefault(name, {})
        if key not in OF_THE_MACHINE and default != "********":
            place[last] = default
    path = tmp_path / "own.yaml"
    path.write_text(json.dumps(nested), encoding="utf-8")  # JSON is YAML
    shown = outrider_command("--config", path, "config", "show", "--json")
    assert shown.code == 0, shown.err
    assert "own.yaml" in shown.json["run.candidates"]["from"]


def test_variables_set_them(outrider_command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    simple = {key: default for key, default in SETTINGS.items() if isinstance(default, bool | int | float)}
    for key, default in simple.items():
        monkeypatch.setenv("OUTRIDER_" + key.upper().replace(".", "__"), json.dumps(default))
    current = outrider_command("config", "show", "--json").json
    for key in simple:
        assert "OUTRIDER_" + key.upper().replace(".", "__") in current[key]["from"]


def test_the_file_in_the_working_folder_comes_before_the_users(outrider_command: Command, tmp_path: Path) -> None:
    own = tmp_path / "config" / "outrider" / "search_config.yaml"
    own.parent.mkdir(parents=True)
    own.write_text("run: {candidates: 30, run_timeout_s: 9}\n", encoding="utf-8")
    (tmp_path / "search_config.yaml").write_text("run: {candidates: 20}\n", encoding="utf-8")
    shown = outrider_command("config", "show", "--json").json
    assert (shown["run.candidates"]["value"], shown["run.run_timeout_s"]["value"]) == (20, 9)


def test_an_unknown_key_is_refused(outrider_command: Command, tmp_path: Path) -> None:
    (tmp_path / "search_config.yaml").write_text("run: {candidatess: 20}\n", encoding="utf-8")
    assert outrider_command("config", "check").code == 2
