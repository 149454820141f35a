"""Words of a unit without the marks of Markdown, reStructuredText and HTML around them."""

from __future__ import annotations

import html
import re

# The bounds keep the search linear where a mark is opened again and again.
IMAGE = re.compile(r"!\[([^\]\n]{0,500})\]\([^)\n]{0,1000}\)")
LINK = re.compile(r"\[([^\]\n]{0,500})\](?:\([^)\n]{0,1000}\)|\[[^\]\n]{0,500}\])")
RST_LINK = re.compile(r"`([^`<\n]{1,500})(?<!\s)\s{0,9}<[^>\n]{1,1000}>`_{1,2}")
ROLE = re.compile(r":[a-zA-Z:]{1,60}:`([^`\n]{0,500})`")
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
