"""Lists of references, of notes and of links elsewhere, which never answer.

The form of the entries decides, not the title alone: a README's `References` may say which paper describes the software.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from outrider.distiller.structure.block import Block

EDIT_LINK = re.compile(r"[ \t]*\[edit(?: \| edit source)?\][ \t]*$")
"""Wikipedia's link behind a title."""
REFERENCES = re.compile(
    r"(?:\d+\.? )?(?:references(?: and notes)?|bibliography|literature(?: cited)?|works cited|reference list|further reading"
    r"|références|literatur(?:verzeichnis)?)[ :]*",
    re.IGNORECASE,
)
LINKS_ELSEWHERE = re.compile(r"external links|see also|further reading|bibliography", re.IGNORECASE)
"""Titles below which Wikipedia lists other pages."""
BACK_LINK = re.compile(r"\^(?:[ \t]+|$)|\[\^\]\(")
"""Wikipedia's link from a note to its place in the text."""
ENTRY_CHARS = 600
"""Of an entry, its beginning decides."""
INITIALS = r"(?:[A-ZÀ-Þ](?:\.[ -]?|\b ?|(?=[A-Z]))){1,4}"
SURNAME = r"(?:(?:van|von|de[rn]?|la|le|di|da) ){0,2}[A-ZÀ-Þ][\w'’-]{1,40}"
AUTHOR = re.compile(
    rf"(?:\[?\d{{1,3}}[\].)]+\s{{0,3}}|\[[\w+-]{{1,30}}\]:?\s{{1,3}})?"
    rf"(?:{SURNAME},? {INITIALS}(?:[,.;:&( ]|$)|{INITIALS}{SURNAME}|{SURNAME},? (?:and .{{1,40}} )?et al|{SURNAME}, [A-ZÀ-Þ]\w+"
    rf"|{SURNAME}(?: [A-ZÀ-Þ][\w.'’-]{{0,40}}){{1,3}}(?:,| and | & |\.))"
)
"""An author at the beginning: `Smith, J.`, `Smith JA,`, `J. Smith`, `Smith et al`, `Jane Smith and`."""
NUMBER = re.compile(r"\[\d{1,3}\]|\d{1,3}\.\s")
DATED = re.compile(r"(?<!\d)(?:1[5-9]|20)\d\d[a-z]?(?!\d)|\bin press\b|\bforthcoming\b")
PUBLISHED = re.compile(
    r"\bISBN\b|\bISSN\b|\bdoi\b ?[:.]|doi\.org/|\bpp?\. ?\d|\b(?:Retrieved|Accessed|Archived from)\b"
    r"|\b\d{1,4} ?(?:\(\d{1,3}\))? ?: ?e?\d{1,6}[-–]\d"
)
LINK_FIRST = re.compile(r"\[[^\]\n]{0,300}\]\(|`[^`\n]{1,300}`_|<?https?://")


def mark_references(text: str, blocks: Sequence[Block]) -> list[Block]:
    """Entries of lists of references become furniture: notes with a link back, and all below a title of references whose entries mostly
    have the form of references, up to the next heading of the same or a higher level.
    """
    is_note = [block.kind in ("item", "paragraph") and BACK_LINK.match(text, block.start, block.end) is not None for block in blocks]
    has_notes = any(is_note)
    result = [replace(block, kind="furniture") if note else block for block, note in zip(blocks, is_note, strict=True)]
    for first, last, title in _list_sections(text, blocks):
        numbers = [at for at in range(first, last) if blocks[at].kind not in ("heading", "badge", "links", "furniture")]
        entries = sum(is_note[at] or _is_reference(text[blocks[at].start : blocks[at].end][:ENTRY_CHARS]) for at in numbers)
        if REFERENCES.fullmatch(title) and 2 * entries >= len(numbers) > 0:
            for at in range(first, last):
                result[at] = replace(blocks[at], kind="furniture")
        elif has_notes and LINKS_ELSEWHERE.fullmatch(title):
            for at in numbers:
                result[at] = replace(blocks[at], kind="furniture" if blocks[at].kind == "item" else blocks[at].kind)
    return result


def _list_sections(text: str, blocks: Sequence[Block]) -> list[tuple[int, int, str]]:
    """Numbers of the first block and of the one after the last, and the title, of sections that may hold references."""
    sections: list[tuple[int, int, str]] = []
    begin, level, title = 0, 0, ""
    for at, block in enumerate(blocks):
        if block.kind != "heading" or (level and block.level > level):
            continue
        if level:
            sections.append((begin, at, title))
        title = EDIT_LINK.sub("", text[block.start : block.end][:200].strip().split("\n")[0].strip("#*_= \t"))
        title = re.sub(r"<[^<>]{0,200}>", "", title).strip("*_ \t")
        begin, level = at + 1, block.level if REFERENCES.fullmatch(title) or LINKS_ELSEWHERE.fullmatch(title) else 0
    if level:
        sections.append((begin, len(blocks), title))
    return sections


def _is_reference(entry: str) -> bool:
    if LINK_FIRST.match(entry):
        return False
    is_published = PUBLISHED.search(entry) is not None
    return (is_published or DATED.search(entry) is not None) and (
        is_published or AUTHOR.match(entry) is not None or NUMBER.match(entry) is not None
    )
