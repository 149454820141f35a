"""Reading of a text's structure, in the format that its marks show."""

from __future__ import annotations

import logging
import re
from functools import lru_cache
from typing import Literal

from outrider.distiller.structure.block import Block
from outrider.distiller.structure.plain_text import read_plain_text
from outrider.distiller.structure.questions import introduce_answers
from outrider.distiller.structure.references import mark_references

TextFormat = Literal["plain", "markdown", "rst", "html"]
MAX_CHARS = 400_000
"""A longer text is read as plain text, whose parser takes a millisecond where the others take a hundred."""
RST = re.compile(
    r"^\.\. (?:[\w+.-]+::|_[^:\n]+:|\|[^|\n]+\| \w+::)|^\S.*\n([=~^\"+*#-])\1{2,}[ \t]*$|[^:]::[ \t]*$|:[\w:]{1,40}:`|``[^`\n]+``"
    r"|`[^`<\n]+<[^<>`\n]+>`_|[^\W_]{2}_{1,2}(?!\w)|[^`\s]`__?(?!\w)|^:[A-Z]\w+: ",
    re.MULTILINE,
)
MARKDOWN = re.compile(
    r"^\#{1,6} \S|^[ \t]*(?:```|~~~)|!?\[[^\[\]\n]*\]\([^()\n]*\)|^ {0,3}\[[^\]\n]+\]:[ \t]|\*\*[^*\n]+\*\*"
    r"|^\|.*\|[ \t]*\n\|[ :|-]+\|[ \t]*$|(?<!`)`[^`\n]+`(?![`_])|^[^\s:][^\n]*\n:[ \t]+\S",
    re.MULTILINE,
)
# no class of these patterns crosses what the pattern begins with: a row of beginnings takes linear time
HTML = re.compile(r"<(?:!doctype html|html|head|body|div|p|section|article|table|ul|ol|h[1-6])\b[^<>]*>", re.IGNORECASE)
RST_CHARS = 200_000
"""docutils takes several times as long."""
LOG = logging.getLogger(__name__)


def detect_format(text: str) -> TextFormat:
    """The format whose marks are more frequent; `plain` where there are none."""
    if "<" in text and text.lstrip()[:1] == "<" and len(HTML.findall(text)) > len(MARKDOWN.findall(text)):
        return "html"
    markdown, rst = len(MARKDOWN.findall(text)), len(RST.findall(text))
    if not markdown and not rst:
        return "html" if len(HTML.findall(text)) > 2 else "plain"
    return "rst" if rst > markdown else "markdown"


def read_structure(text: str) -> list[Block]:
    """The blocks of a text in order, without overlap; offsets are in characters.

    Lists of references are furniture, and questions introduce their answers.
    """
    return introduce_answers(text, mark_references(text, _read_format(text)))


def _read_format(text: str) -> list[Block]:
    form = detect_format(text) if len(text) <= MAX_CHARS else "plain"
    if form == "html":
        from outrider.distiller.structure.html import read_html

        return read_html(text)
    if form == "markdown":
        from outrider.distiller.structure.markdown import read_markdown

        return read_markdown(text)
    if form == "rst" and len(text) <= RST_CHARS:
        from outrider.distiller.structure.restructured_text import read_restructured_text

        try:
            return read_restructured_text(text)
        except Exception:
            LOG.debug("docutils cannot read the text; it is read as plain text", exc_info=True)
    return read_plain_text(text)


def find_header(text: str, start: int) -> str:
    """The header of the table in which a row begins at `start`; empty if it has none."""
    return next((header for first, end, header in _list_headers(text) if first <= start < end), "")


@lru_cache(maxsize=4)
def _list_headers(text: str) -> tuple[tuple[int, int, str], ...]:
    """Start, end and header of each row: several rows of one text are shown, and to read a long one takes a second."""
    return tuple((block.start, block.end, block.introduced_by) for block in read_structure(text) if block.kind == "row")
