"""What a service said, read without trust: a value of another type than the documented one counts as not said.

Nothing here guesses, and nothing fails: adapters read the fields of an answer through these.
"""

from __future__ import annotations

import html
import math
import re
from collections.abc import Mapping
from typing import Any

UNSTORABLE = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")
"""Controls, and halves of surrogate pairs, which JSON can hold and UTF-8 cannot."""
LINK = re.compile(r"https?://[^\s<>\"\\]+", re.IGNORECASE)

MARKUP = re.compile(r"[<&]|\]\]>")
"""What any markup has."""
ENTITY = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")

SKIPPED = re.compile(r"<(?:\w+:)?tex-math\b[^<>]*>[^<]*</(?:\w+:)?tex-math>|<!--[^<>]*-->|<!\[CDATA\[|\]\]>")
"""TeX beside MathML of the same formula, and what is no text."""
TAG = re.compile(
    r"""(?P<left>\s?)<(?P<end>/?)(?:(?:jats|mml|m|xhtml):(?P<prefixed>[A-Za-z][\w-]*)|(?P<bare>[A-Za-z][\w-]*))
        (?:\s+[\w:.-]+\s*=\s*(?:"[^"<>]*"|'[^'<>]*')){0,20}\s*/?>(?P<right>\s?)""",
    re.VERBOSE,
)
GLUED = frozenset({"sub", "sup", "sc", "scp", "math", "mtext", "mi", "mn", "mo", "mrow", "msub", "msup", "msubsup", "styled-content"})
"""Within a word or a formula, as in H<sub>2</sub>O."""
BLOCKS = frozenset({"p", "title", "sec", "br", "break", "div", "list", "list-item", "li", "ul", "ol", "label", "abstract"})
INLINE = frozenset(
    """
    i b u em strong italic bold underline small big span font tt roman monospace sans-serif abbr a uri ext-link xref named-content
    inline-formula disp-formula alternatives tex-math mfrac msqrt mover munder mfenced mstyle mspace mtable mtr mtd semantics annotation
    h1 h2 h3 h4 h5 h6
    """.split()
)
OPENING, CLOSING = frozenset("([{"), frozenset(",.;:!?)]}")
KNOWN = GLUED | BLOCKS | INLINE
"""Without a prefix, other words in angle brackets are text: vector<int>."""


def mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def text(value: Any) -> str:
    """On one line; empty for anything but a text."""
    if not isinstance(value, str):
        return ""
    return " ".join((value if value.isprintable() else UNSTORABLE.sub(" ", value)).split())  # what is printable can be stored


def code(value: Any) -> str:
    """What is an identifier, or names one: a text of at most 2,000 characters, else empty."""
    return text(value) if isinstance(value, str) and len(value) <= 2_000 else ""


def first(value: Any) -> str:
    """The first text of a list that holds one; some services write a list of one as the text itself."""
    return next(filter(None, map(text, items(value))), "") if isinstance(value, list) else text(value)


def whole(value: Any, least: int = 0, most: int = 2**53) -> int | None:
    """A whole number within bounds; beyond 2**53 no JSON reader need agree (RFC 8259 §6)."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and least <= value <= most else None


def number(value: Any) -> float | None:
    """A finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:
        return None


def year(value: Any) -> int | None:
    return whole(value, 1, 9999)


def link(value: Any) -> str | None:
    """A web address, exactly as it was said."""
    return value if isinstance(value, str) and LINK.fullmatch(value) and not UNSTORABLE.search(value) else None


def plain(markup: Any) -> str:
    """The words of a text with HTML, JATS or MathML in it: one paragraph a line. Text without markup stays as it is."""
    if not isinstance(markup, str):
        return ""
    lines = (text(line) for line in (_bare(markup) if MARKUP.search(markup) else markup).split("\n"))
    return "\n".join(line for line in lines if line)


def _bare(markup: str) -> str:
    bare = " ".join(markup.split()) if TAG.search(markup) else markup  # where there are tags, they part the paragraphs
    bare = TAG.sub(_gap, SKIPPED.sub("", bare))
    for _ in range(2):  # some publishers escape twice, markup included
        bare = TAG.sub(_gap, ENTITY.sub(lambda entity: html.unescape(entity.group()), bare))
    return bare


def title(markup: Any) -> str:
    """The same on one line."""
    return text(plain(markup))


def _gap(found: re.Match[str]) -> str:
    """What stands for a tag: nothing where a gap would tear something apart."""
    name = (found["prefixed"] or found["bare"]).lower()
    if name in BLOCKS:
        return "\n"
    if found["bare"] and name not in KNOWN:
        return found.group()
    if found["end"]:
        after = found.string[found.end() : found.end() + 1]
        return "" if after in CLOSING or _within(found, name) else " "
    before = found.string[max(found.start() - 1, 0) : found.start()]
    return "" if before in OPENING or _within(found, name) else " "


def _within(found: re.Match[str], name: str) -> bool:
    return name in GLUED and not (found["left"] or found["right"])
