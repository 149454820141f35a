"""Typed access to untrusted JSON: a value of another type counts as missing

Nothing here guesses, and nothing fails: adapters read the fields of a response through these functions.
"""

from __future__ import annotations

import html
import math
import re
from collections.abc import Mapping
from typing import Any

UNSTORABLE = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")
"""Controls, and halves of surrogate pairs, which JSON can hold and UTF-8 cannot."""
MOST_CHARS = 250_000
"""Of one text: longer than any abstract. The rest is left out: a pattern holds the interpreter for a second a million characters."""
MOST_TITLE_CHARS = 5_000
"""Titles are compared with each other, at a cost that grows with the square of their length."""
LINK = re.compile(r"https?://[^\s<>\"\\]+", re.IGNORECASE)

MARKUP = re.compile(r"[<&]|\]\]>")
"""Characters of any markup."""
ENTITY = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")

SKIPPED = re.compile(r"<(?:\w+:)?tex-math\b[^<>]*>[^<]*</(?:\w+:)?tex-math>|<!--[^<>]*-->|<!\[CDATA\[|\]\]>")
"""TeX next to MathML of the same formula, comments and CDATA markers."""
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
"""Other words in angle brackets without a prefix are text: vector<int>."""


def mapping(value: Any) -> Mapping[str, Any]:
    """An object; empty for anything else."""
    return value if isinstance(value, dict) else {}


def items(value: Any) -> list[Any]:
    """A list; empty for anything else."""
    return value if isinstance(value, list) else []


def text(value: Any) -> str:
    """On one line; empty for anything but a text."""
    if not isinstance(value, str):
        return ""
    value = value[:MOST_CHARS]
    return " ".join((value if value.isprintable() else UNSTORABLE.sub(" ", value)).split())  # printable text can be stored


def code(value: Any) -> str:
    """An identifier, or text that contains one: at most 2,000 characters, else empty."""
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
    """A year from 1 to 9999; None for anything else."""
    return whole(value, 1, 9999)


def link(value: Any) -> str | None:
    """A web address, unchanged."""
    return value if isinstance(value, str) and LINK.fullmatch(value) and not UNSTORABLE.search(value) else None


def plain(markup: Any) -> str:
    """Text without its HTML, JATS or MathML: one paragraph a line. Text without markup stays as it is."""
    if not isinstance(markup, str):
        return ""
    markup = markup[:MOST_CHARS]
    bare = _strip_markup(markup) if MARKUP.search(markup) else markup
    return "\n".join(filter(None, map(text, bare.split("\n"))))


def _strip_markup(markup: str) -> str:
    bare = " ".join(markup.split()) if TAG.search(markup) else markup  # tags, if any, separate the paragraphs
    bare = TAG.sub(_replace_tag, SKIPPED.sub("", bare))
    for _ in range(2):  # some publishers escape twice, markup included
        bare = TAG.sub(_replace_tag, ENTITY.sub(lambda entity: html.unescape(entity.group()), bare))
    return bare


def title(markup: Any) -> str:
    """The result of `plain` on one line, at most `MOST_TITLE_CHARS`."""
    return text(plain(markup))[:MOST_TITLE_CHARS]


def _replace_tag(tag: re.Match[str]) -> str:
    """White space for a tag, or nothing if a gap would split a word or formula."""
    name = (tag["prefixed"] or tag["bare"]).lower()
    if name in BLOCKS:
        return "\n"
    if tag["bare"] and name not in KNOWN:
        return tag.group()
    if tag["end"]:
        after = tag.string[tag.end() : tag.end() + 1]
        return "" if after in CLOSING or _is_within_word(tag, name) else " "
    before = tag.string[max(tag.start() - 1, 0) : tag.start()]
    return "" if before in OPENING or _is_within_word(tag, name) else " "


def _is_within_word(tag: re.Match[str], name: str) -> bool:
    return name in GLUED and not (tag["left"] or tag["right"])
