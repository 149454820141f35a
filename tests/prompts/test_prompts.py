from __future__ import annotations

from pathlib import Path

import pytest

from outrider import prompts
from outrider.prompts import PLACEHOLDER, load


@pytest.mark.parametrize("path", sorted(Path(prompts.__path__[0]).glob("*.md")), ids=lambda path: path.stem)
def test_every_prompt_loads(path: Path) -> None:
    placeholders = frozenset(PLACEHOLDER.findall(path.read_text()))
    assert load(path.stem, placeholders).version


def test_a_wrong_placeholder_is_found_at_start() -> None:
    with pytest.raises(ValueError, match="placeholders"):
        load("context", frozenset({"query"}))


def test_a_value_is_never_searched_for_placeholders() -> None:
    prompt = load("context", frozenset({"query", "sentences"}))
    assert "{{sentences}}" in prompt.fill(query="{{sentences}}", sentences="s")
    with pytest.raises(KeyError):
        prompt.fill(query="q")
