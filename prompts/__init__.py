"""Texts for models, one Markdown file each: loaded once, placeholders checked, the version part of every provenance hash."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from importlib import resources

PLACEHOLDER = re.compile(r"\{\{(\w+)\}\}")


@dataclass(frozen=True, slots=True)
class Prompt:
    """A text with `{{placeholders}}`; a value is set in as it is and never searched for placeholders again."""

    name: str
    text: str
    placeholders: frozenset[str]

    @property
    def version(self) -> str:
        """The first 12 hex digits of the text's sha-256."""
        return hashlib.sha256(self.text.encode()).hexdigest()[:12]

    def filled(self, **values: str) -> str:
        if values.keys() != self.placeholders:
            raise KeyError(f"prompt {self.name!r} wants {sorted(self.placeholders)}, not {sorted(values)}")
        return PLACEHOLDER.sub(lambda found: values[found.group(1)], self.text)


def load(name: str, placeholders: frozenset[str]) -> Prompt:
    """The prompt `NAME.md`; `ValueError` where its placeholders are not those that its user fills."""
    text = resources.files(__package__).joinpath(f"{name}.md").read_text(encoding="utf-8").strip()
    found = frozenset(PLACEHOLDER.findall(text))
    if found != placeholders:
        raise ValueError(f"prompts/{name}.md has the placeholders {sorted(found)}; its user fills {sorted(placeholders)}")
    return Prompt(name, text, placeholders)
