"""Texts that prompts add for a field of knowledge.

A heading `Planning` or `Judging` begins a section for that step only; the text before both goes to both.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

from outrider.prompts import Prompt, load
from outrider.state.errors import SettingsError, did_you_mean

DOMAINS = ("general", "biomedical", "computer_science", "software")
"""The first adds nothing."""
MAX_DOMAIN_CHARS = 20_000
SECTION = re.compile(r"^#+[ \t]*(planning|judging)[ \t]*$", re.MULTILINE | re.IGNORECASE)


def load_domain(name: str) -> Prompt | None:
    """The text of `llm.domain`, None for general. `SettingsError` for an unknown name or an unusable file."""
    if name == DOMAINS[0]:
        return None
    if name in DOMAINS:
        return load(f"domain_{name}", frozenset())
    if not name.lower().endswith((".md", ".markdown")):
        known = f"known: {', '.join(DOMAINS)}, or the path of a Markdown file (.md)"
        raise SettingsError(f"llm.domain names the unknown field {name!r}{did_you_mean(name, DOMAINS)}; {known}")
    return Prompt("domain", _read_domain_file(Path(name).expanduser()), frozenset())


def select_section(field: Prompt | None, step: Literal["planning", "judging"]) -> str:
    """The part of a field's text for one step; all of a text without sections."""
    before, *sections = SECTION.split(field.text) if field else [""]
    own = (text for name, text in zip(sections[::2], sections[1::2], strict=True) if name.lower() == step)
    return "\n\n".join(text.strip() for text in (before, *own) if text.strip())


def _read_domain_file(path: Path) -> str:
    try:
        text = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"llm.domain: {path} cannot be read as text: {error}") from error
    if not text:
        raise SettingsError(f"llm.domain: {path} is empty; write what a prompt should know of your field, or take general")
    if len(text) > MAX_DOMAIN_CHARS:
        raise SettingsError(f"llm.domain: {path} has {len(text):,} characters; every call would pay for them. At most {MAX_DOMAIN_CHARS:,}")
    return text
