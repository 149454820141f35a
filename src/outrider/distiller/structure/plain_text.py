"""Blocks of plain text, by their shape, and what frames a printed page.

PDFs and articles give such text. Running heads, page numbers and lists of authors are furniture: they never answer.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from outrider.distiller.structure.block import Block, BlockKind, Lines, in_order

ITEM = re.compile(r"[ \t]*(?:[-*+•‣◦–]|\(?\d{1,3}[.)]|\(?[a-z]\))[ \t]+(?=\S)")
ROW = re.compile(r"[ \t]*\|.*\|[ \t]*$|[^\t\n]+(?:\t[^\t\n]*){2,}")
MARKED_HEADING = re.compile(r"(\#{1,6})[ \t]+\S")
NUMBERED_HEADING = re.compile(r"(\d+(?:\.\d+)*)\.?[ \t]+[^\W\d_]")
SUBSECTION = re.compile(r"^[ \t]*\d{1,3}(?:\.\d{1,3})+\.?[ \t]+[\"“(]?[A-ZÀ-Þ]", re.MULTILINE)
NUMBERED_TITLE = re.compile(r"(\d{1,3}(?:\.\d{1,3})*)\.?[ \t]+(?![a-z\d])([^\n]*[^\W\d_][\"'”’)]?)\.")
"""A heading with a number and a full stop: `3.2. Availability of Source Code.`"""
SMALL_WORDS = frozenset("a an and as at by due for from in into of on or the this to upon with".split())
WORD_AND_STOP = re.compile(r"[^\W\d_]{3,}[.!?:;]$")
ENDS_SENTENCE = re.compile(r"[.!?…。！？;,:]['\"”’)\]]*(?: >)?$")
"""The help of Vim writes `>` before an example."""
CAPTION = re.compile(
    r"(?:supplementary |additional |extended data )?(?:fig(?:ure|\.)?|table|scheme|box|chart|plate|algorithm|listing)\.? ?S?\d+[a-z]?\b"
    r" ?[.:|–—]",
    re.IGNORECASE,
)
PAGE_NUMBER = re.compile(r"[ \t]*(?:(?:page|p\.) ?)?\d{1,4}(?: ?(?:of|/) ?\d{1,4})?[ \t]*", re.IGNORECASE)
EMAIL = re.compile(r"[\w.+-]+@[\w-]+\.\w+")
NAME = re.compile(r"(?:[A-ZÀ-Þ][\w'’.-]*[ ,]*){2,4}(?:[\d*†‡§,]*)(?:,|;| and | & |$)")
INDENTED = re.compile(r"(?: {4}|\t)[ \t]*\S")
MAX_HEADING_CHARS, MAX_HEADING_WORDS = 90, 12
RUNNING_HEAD_CHARS = 100
REPEATS = 3
"""Times that a short line stands alone in a text before it counts as a running head."""
AUTHOR_NAMES = 3
MAX_AUTHORS_CHARS = 1_500
PLAIN_LEVEL = 7
"""Level of a heading that is recognised only by its shape; its section ends at the next heading of any kind."""


def read_plain_text(text: str) -> list[Block]:
    """The blocks in order, without overlap, in time linear in the length of the text."""
    lines = Lines(text).spans()
    heads = _running_heads(text, lines)
    has_sections = SUBSECTION.search(text) is not None
    paragraphs = (lines[first:last] for first, last in _paragraphs(text, lines, heads))
    blocks = [block for paragraph in paragraphs for block in _read_paragraph(text, paragraph, has_sections=has_sections)]
    furniture = [
        Block(start, end, "furniture") for start, end in lines if _shape(text[start:end]) in heads or _is_page_number(text, start, end)
    ]
    return in_order(text, [*blocks, *furniture])


def _shape(line: str) -> str:
    return re.sub(r"\d+", "0", " ".join(line.split()))


def _is_page_number(text: str, start: int, end: int) -> bool:
    line = text[start:end].strip()
    return bool(line) and PAGE_NUMBER.fullmatch(line) is not None


def _running_heads(text: str, lines: Sequence[tuple[int, int]]) -> frozenset[str]:
    """Short lines that repeat with other numbers at most: a journal's name, a title, a page."""
    counts = Counter(_shape(text[start:end]) for start, end in lines if 0 < end - start <= RUNNING_HEAD_CHARS)
    return frozenset(shape for shape, count in counts.items() if count >= REPEATS and len(shape) > 8 and not ITEM.match(shape))


def _paragraphs(text: str, lines: Sequence[tuple[int, int]], heads: frozenset[str]) -> Iterator[tuple[int, int]]:
    """Ranges of lines without a blank line, a running head or a page number in them."""
    begin = 0
    for at, (start, end) in enumerate(lines):
        line = text[start:end]
        if not line.strip() or (heads and _shape(line) in heads) or _is_page_number(text, start, end):
            if begin < at:
                yield begin, at
            begin = at + 1
    if begin < len(lines):
        yield begin, len(lines)


def _read_paragraph(text: str, lines: Sequence[tuple[int, int]], *, has_sections: bool) -> Iterator[Block]:
    """The blocks of lines without a blank one. `has_sections`: numbers such as 3.2 stand in the text, so that `3.` may be a section."""
    whole = text[lines[0][0] : lines[-1][1]].strip()
    if len(lines) == 1 and (level := _heading_level(whole, alone=True) or (_numbered_level(whole) if has_sections else 0)):
        yield Block(*lines[0], "heading", level)
        return
    if (
        len(lines) > 1
        and (level := _numbered_level(text[slice(*lines[0])].strip())) > 1
        and not text[slice(*lines[1])].strip()[0].isdigit()
    ):
        yield Block(*lines[0], "heading", level)
        lines = lines[1:]
        whole = text[lines[0][0] : lines[-1][1]].strip()
    if kind := _kind_of_paragraph(whole, [text[start:end] for start, end in lines]):
        yield Block(lines[0][0], lines[-1][1], kind)
        return
    begin = 0
    current: BlockKind = "paragraph"
    for at in range(len(lines) + 1):
        line = text[slice(*lines[at])] if at < len(lines) else ""
        own: BlockKind | None = None
        if at == len(lines) or ITEM.match(line):
            own = "item"
        elif ROW.match(line):
            own = "row"
        elif _heading_level(line.strip(), alone=False):
            own = "heading"
        if own is None and current not in ("row", "heading"):
            continue
        if begin < at:
            marker = ITEM.match(text, lines[begin][0]) if current == "item" else None
            level = _heading_level(text[slice(*lines[begin])].strip(), alone=False) if current == "heading" else 0
            yield Block(marker.end() if marker else lines[begin][0], lines[at - 1][1], current, level)
        begin, current = at, own or "paragraph"


def _kind_of_paragraph(whole: str, lines: Sequence[str]) -> BlockKind | None:
    if CAPTION.match(whole):
        return "caption"
    if all(INDENTED.match(line) for line in lines) and not ITEM.match(lines[0]):
        return "code" if not ENDS_SENTENCE.search(whole) else None
    if len(whole) > MAX_AUTHORS_CHARS:
        return None
    names = len(NAME.findall(whole))
    if EMAIL.search(whole) and names >= 1 and len(whole.split()) < 60 and not re.search(r"[a-z]{3,}[.!?] [A-Z]", whole):
        return "furniture"
    if (
        names >= AUTHOR_NAMES
        and not ENDS_SENTENCE.search(whole)
        and sum(word[:1].islower() for word in whole.split()) <= len(whole.split()) // 8
    ):
        return "furniture"
    return None


def _numbered_level(line: str) -> int:
    """The level of a numbered heading with a full stop, whose words have capitals; 0 for another line."""
    match = NUMBERED_TITLE.fullmatch(line) if len(line) <= MAX_HEADING_CHARS else None
    words = match[2].split() if match else []
    if match is None or len(words) > MAX_HEADING_WORDS or any(WORD_AND_STOP.search(word) for word in words):
        return 0
    is_title = match[2].lstrip("\"'“‘(")[:1].isupper() and all(word in SMALL_WORDS or not re.match(r"\W*[a-z]", word) for word in words)
    return match[1].count(".") + 1 if is_title else 0


def _heading_level(line: str, *, alone: bool) -> int:
    """The level of a heading, 0 if the line is none. Within a paragraph only marks count."""
    if len(line) > MAX_HEADING_CHARS or not line:
        return 0
    if marked := MARKED_HEADING.match(line):
        return len(marked[1])
    if alone and line[-1] == "?" and line.isupper() and 1 < len(line.split()) <= MAX_HEADING_WORDS:
        return PLAIN_LEVEL
    if (
        not alone
        or ENDS_SENTENCE.search(line)
        or len(line.split()) > MAX_HEADING_WORDS
        or (ITEM.match(line) and not NUMBERED_HEADING.match(line))
    ):
        return 0
    if numbered := NUMBERED_HEADING.match(line):
        return numbered[1].count(".") + 1
    return PLAIN_LEVEL if line[0].isupper() and not ROW.match(line) else 0
