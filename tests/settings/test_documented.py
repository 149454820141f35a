"""`search_config.yaml` in the repository agrees with the models."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from outrider.settings.load import load
from outrider.settings.model import Settings
from outrider.settings.setting_names import Leaf, leaves

FILE = Path(__file__).parents[2] / "search_config.yaml"
COMPUTED = "library.uri"  # its default depends on the platform, so the file shows an example in a comment


def _lines() -> dict[str, tuple[int, str]]:
    """Dotted name -> (line index, line), also for keys in comments."""
    line_by_name, groups = {}, []
    for index, line in enumerate(FILE.read_text(encoding="utf-8").splitlines()):
        text = line.replace("# uri:", "uri:", 1)
        key, colon, rest = text.strip().partition(":")
        if text.strip().startswith("#") or not colon:
            continue
        del groups[(len(text) - len(text.lstrip())) // 2 :]
        groups.append(key)
        line_by_name[".".join(groups)] = (index, rest.split("#")[0].strip())
    return line_by_name


@pytest.mark.parametrize("leaf", leaves().values(), ids=leaves())
def test_the_file_has_every_setting_with_its_description(leaf: Leaf) -> None:
    """The comment above a key begins with the model's description."""
    lines = FILE.read_text(encoding="utf-8").splitlines()
    index, _ = _lines()[leaf.name]
    above = []
    while index and lines[index - 1].strip().startswith("#"):
        index -= 1
        above.insert(0, lines[index].strip().removeprefix("# "))
    assert leaf.field.description
    assert " ".join(above).startswith(leaf.field.description)


def test_the_file_holds_the_defaults_and_nothing_else(tmp_path: Path) -> None:
    """Loading it changes no value, and it gives every value but the platform's folder."""
    loaded = load(environ={}, cwd=FILE.parent, user_dir=tmp_path)
    assert loaded.settings.model_dump() == Settings().model_dump()
    unset = {name for name, origin in loaded.origins.items() if origin == "default"}
    assert unset == {COMPUTED, "library.storage_options", "llm.prices", "serve.api_keys", "sources.extra"}
    assert set(yaml.safe_load(FILE.read_text(encoding="utf-8"))) == set(Settings.model_fields)


def test_reading_settings_is_light() -> None:
    """No LangGraph, LanceDB or Arrow is loaded for it."""
    script = "import sys, outrider.settings.load, outrider.settings.redact; print(*sorted(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert not {"langgraph", "langchain_core", "lancedb", "pyarrow", "torch", "httpx"} & set(loaded)
