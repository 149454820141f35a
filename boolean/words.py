"""The words of a term: which are kept as written, and what the signs inside them stand for."""

from __future__ import annotations

import re

from outrider.text.tokens import tokens

WILD = re.compile(r"\*|\{\*\d{1,3}\}|\{\?\}|\{#\}")
"""Any characters, at most so many, one or none, exactly one."""
MOST_WILD = 4
"""Signs in one word; each more makes matching slower."""
QUOTES = '"“”„‟″«»'
"""What opens and closes a phrase, in any combination."""
_NOT_KEPT = re.compile(rf"[{QUOTES}\[\]\x00-\x1f\x7f-\x9f]")
_BRACE = re.compile(r"[{}]")


def kept_words(text: str) -> tuple[str, ...]:
    """The words of a term, without what could not be printed and read again, and without those that hold neither letter nor digit."""
    words = (_without_braces(word) for word in _NOT_KEPT.sub(" ", text).split())
    return tuple(word for word in words if tokens(WILD.sub("", word)))


def _without_braces(word: str) -> str:
    """Braces stay only where they are one of our signs."""
    signs = WILD.findall(word)
    parts = [_BRACE.sub("", part) for part in WILD.split(word)]
    return parts[0] + "".join(sign + part for sign, part in zip(signs, parts[1:], strict=True))


def wild(word: str) -> bool:
    """Whether a sign stands in the word."""
    return bool(WILD.search(word))


def stem_length(word: str) -> int:
    """Letters and digits before the first sign, in the word that it stands in."""
    before = WILD.split(word, maxsplit=1)[0]
    found = tokens(before)
    return len(found[-1]) if found and tokens(before[-1]) else 0
