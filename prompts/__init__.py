"""Prompts for models, one Markdown file each, with checked placeholders and a version.

The texts `domain_*.md` are added for a field of knowledge. A heading `Planning` or `Judging` begins a section for that step only; the text
before both goes to both.

The version is part of every provenance hash. Untrusted text (titles, abstracts, READMEs, feedback) is never part of a prompt: it is sent
beside it, between fences (`fence`).
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Literal

from pydantic import JsonValue

from outrider.state.errors import SettingsError, did_you_mean

PLACEHOLDER = re.compile(r"\{\{(\w+)\}\}")
FENCE = ("<data>", "</data>")
ESCAPED = re.compile(r"[<\uff1c\ufe64\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff\U000e0000-\U000e007f]")
"""`<` and its look-alikes, controls, line separators, overrides of the writing direction, surrogates, tags (invisible ASCII)."""
DOMAINS = ("general", "biomedical", "computer_science", "software")
"""The first adds nothing."""
OWN_DOMAIN = "domain"
"""The name of the prompt that a file of one's own is read as."""
MAX_DOMAIN_CHARS = 20_000
SECTION = re.compile(r"^#+[ \t]*(planning|judging)[ \t]*$", re.MULTILINE | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Prompt:
    """A text with `{{placeholders}}`; placeholders inside a value are not replaced."""

    name: str
    text: str
    placeholders: frozenset[str]

    @property
    def version(self) -> str:
        """The first 12 hex digits of the text's sha-256."""
        return _digest(self.text)

    def fill(self, **values: str) -> str:
        if values.keys() != self.placeholders:
            raise KeyError(f"prompt {self.name!r} takes {sorted(self.placeholders)}, not {sorted(values)}")
        return PLACEHOLDER.sub(lambda match: values[match.group(1)], self.text)


@cache
def _digest(text: str) -> str:
    """Kept: every search states the versions of all prompts."""
    return hashlib.sha256(text.encode()).hexdigest()[:12]


@cache
def load(name: str, placeholders: frozenset[str]) -> Prompt:
    """The prompt `NAME.md`; `ValueError` if its placeholders differ from the given ones."""
    text = resources.files(__package__).joinpath(f"{name}.md").read_text(encoding="utf-8").strip()
    present = frozenset(PLACEHOLDER.findall(text))
    if present != placeholders:
        raise ValueError(f"prompts/{name}.md has the placeholders {sorted(present)}; the code fills {sorted(placeholders)}")
    return Prompt(name, text, placeholders)


def load_domain(name: str) -> Prompt | None:
    """The text of `llm.domain`, None for general. `SettingsError` for an unknown name or an unusable file."""
    if name == DOMAINS[0]:
        return None
    if name in DOMAINS:
        return load(f"domain_{name}", frozenset())
    if not name.lower().endswith((".md", ".markdown")):
        known = f"known: {', '.join(DOMAINS)}, or the path of a Markdown file (.md)"
        raise SettingsError(f"llm.domain names the unknown field {name!r}{did_you_mean(name, DOMAINS)}; {known}")
    path = Path(name).expanduser()
    try:
        text = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"llm.domain: {path} cannot be read as text: {error}") from error
    if not text:
        raise SettingsError(f"llm.domain: {path} is empty; write what a prompt should know of your field, or take general")
    if len(text) > MAX_DOMAIN_CHARS:
        raise SettingsError(f"llm.domain: {path} has {len(text):,} characters; every call would pay for them. At most {MAX_DOMAIN_CHARS:,}")
    return Prompt(OWN_DOMAIN, text, frozenset())


def select_section(field: Prompt | None, step: Literal["planning", "judging"]) -> str:
    """The part of a field's text for one step; all of a text without sections."""
    before, *sections = SECTION.split(field.text) if field else [""]
    own = (text for name, text in zip(sections[::2], sections[1::2], strict=True) if name.lower() == step)
    return "\n\n".join(text.strip() for text in (before, *own) if text.strip())


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
