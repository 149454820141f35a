"""Prompt texts, one Markdown file each, and the loader that checks their placeholders.

A prompt's version is part of every provenance hash. Text from outside (titles, abstracts, READMEs, feedback) never becomes part of a
prompt: `fenced` marks it as data, and it is sent beside the prompt.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from importlib import resources

from pydantic import JsonValue

PLACEHOLDER = re.compile(r"\{\{(\w+)\}\}")
FENCE = ("<data>", "</data>")
ESCAPED = re.compile(r"[<\uff1c\ufe64\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff\U000e0000-\U000e007f]")
"""`<` and its look-alikes, controls, line separators, overrides of the writing direction, surrogates, tags (ASCII that no screen shows)."""


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

    def fill(self, **values: str) -> str:
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


def fence(data: JsonValue) -> str:
    """JSON between `<data>` and `</data>`. No text in it can close the fence, since JSON may write `<` by its number.

    So are other characters that a reader would not see for what they are, and halves of surrogate pairs, which no request can carry.
    """
    opening, closing = FENCE
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))  # blanks after each mark would cost a tenth of the tokens
    return f"{opening}\n{ESCAPED.sub(_by_number, text)}\n{closing}"


def _by_number(found: re.Match[str]) -> str:
    return "".join(f"\\u{unit}" for unit in re.findall("....", found.group().encode("utf-16-be", "surrogatepass").hex()))


def parse_fence(text: str) -> JsonValue:
    """What stands in the first fence of a text."""
    opening, closing = FENCE
    found: JsonValue = json.loads(text.split(opening, 1)[1].split(closing, 1)[0])
    return found
