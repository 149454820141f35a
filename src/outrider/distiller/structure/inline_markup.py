"""Words of a unit without the marks of Markdown, reStructuredText and HTML around them."""

from __future__ import annotations

import html
import re

IMAGE = re.compile(r"!\[([^\]\n]*)\]\([^)\n]*\)")
LINK = re.compile(r"\[([^\]\n]*)\](?:\([^)\n]*\)|\[[^\]\n]*\])")
RST_LINK = re.compile(r"`([^`<\n]+?)\s*<[^>\n]+>`_{1,2}")
ROLE = re.compile(r":[a-zA-Z:]+:`([^`\n]*)`")
TAG = re.compile(r"</?[a-zA-Z][^<>\n]*>")
EMPHASIS = re.compile(r"`+|\*\*|__(?=\w)|(?<=\w)__|\\(?=[*_`])|(?<!\w)\*(?=\w)|(?<=\w)\*(?!\w)")


def strip_inline_markup(text: str) -> str:
    """The text on one line: of links and images their words, of tags and emphasis nothing. Offsets are lost."""
    if "](" in text or "][" in text:
        text = LINK.sub(r"\1", IMAGE.sub(r"\1", text))
    if "`" in text:
        text = ROLE.sub(r"\1", RST_LINK.sub(r"\1", text))
    if "<" in text:
        text = TAG.sub("", text)
    if "&" in text:
        text = html.unescape(text)
    return " ".join(EMPHASIS.sub("", text).split())
