"""Prompts for models, one Markdown file each, with checked placeholders and a version.

The version is part of every provenance hash. Untrusted text (titles, abstracts, READMEs, feedback) is never part of a prompt: it is sent
beside it, between fences (`fence`).
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
"""`<` and its look-alikes, controls, line separators, overrides of the writing direction, surrogates, tags (invisible ASCII)."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """A text with `{{placeholders}}`; placeholders inside a value are not replaced."""

    name: str
    text: str
    placeholders: frozenset[str]

    @property
    def version(self) -> str:
        """The first 12 hex digits of the text's sha-256."""
        return hashlib.sha256(self.text.encode()).hexdigest()[:12]

    def fill(self, **values: str) -> str:
        if values.keys() != self.placeholders:
            raise KeyError(f"prompt {self.name!r} takes {sorted(self.placeholders)}, not {sorted(values)}")
        return PLACEHOLDER.sub(lambda match: values[match.group(1)], self.text)


def load(name: str, placeholders: frozenset[str]) -> Prompt:
    """The prompt `NAME.md`; `ValueError` if its placeholders differ from the given ones."""
    text = resources.files(__package__).joinpath(f"{name}.md").read_text(encoding="utf-8").strip()
    present = frozenset(PLACEHOLDER.findall(text))
    if present != placeholders:
        raise ValueError(f"prompts/{name}.md has the placeholders {sorted(present)}; the code fills {sorted(placeholders)}")
    return Prompt(name, text, placeholders)


def fence(data: JsonValue) -> str:
    """JSON between `<data>` and `</data>`. No text in it can close the fence, since `<` is written as a numeric escape.

    So are invisible or misleading characters, and halves of surrogate pairs, which no request can carry.
    """
    opening, closing = FENCE
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))  # blanks after each mark would cost a tenth of the tokens
    return f"{opening}\n{ESCAPED.sub(_escape, text)}\n{closing}"


def _escape(match: re.Match[str]) -> str:
    return "".join(f"\\u{unit}" for unit in re.findall("....", match.group().encode("utf-16-be", "surrogatepass").hex()))


def parse_fence(text: str) -> JsonValue:
    """The data in the first fence of a text."""
    opening, closing = FENCE
    data: JsonValue = json.loads(text.split(opening, 1)[1].split(closing, 1)[0])
    return data
