"""Reading of a fetched text: JATS, PDF or HTML, told by its content

A PDF is read in a process of its own, the others in a thread. Damaged, encrypted and truncated files, and pages that are a barrier or hold
no full text, are refused with the reason.
"""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from outrider.full_text.licences import is_reusable, normal_licence
from outrider.ingest.entry import Entry, ReadOptions
from outrider.ingest.isolated_reader import read_pdf
from outrider.runtime.threads_and_loops import run_in_thread
from outrider.sources.web.access_barriers import find_page_barrier, find_page_licence
from outrider.sources.web.fetch import read_page
from outrider.state.errors import Malformed, SourceError, UnreadableFile
from outrider.state.full_text import NAMES, TextForm
from outrider.state.records import Record

PDF_MARK, PDF_END = b"%PDF-", b"%%EOF"
MARK_BYTES, END_BYTES = 1_024, 4_096
"""Readers accept the marks anywhere in the first, and the last, so many bytes; the end may be followed by other bytes."""
FIRST_TAG = re.compile(rb"<([A-Za-z][\w:.-]*)")
FIRST_BYTES = 16_384
"""A document type and comments stand before the first element."""
JATS_ROOTS = frozenset({b"article", b"pmc-articleset"})
HTML_ROOTS = frozenset(b"html head body title meta link script style div main header h1 p".split())
LEAST_CHARS = 1_500
"""A text that is no longer than this beyond its abstract is none: a landing page, or the front matter of an article that is not open."""
MOST_CHARS = 4_000_000
LICENCE_START = 200_000
LICENCE = re.compile(r"<license\b[^>]{0,1000}>(.{0,3000}?)</license>", re.DOTALL)
STATED = re.compile(r"https?://creativecommons\.org/[^\s\"'<>]+|creative commons attribution[\w\s-]{0,60}", re.IGNORECASE)
PRINTED_CHARS = 12_000
"""Of a PDF, where its licence is printed: the first pages."""


class NotRead(SourceError):
    """A text that is not taken, for a reason that another attempt would not change."""


class ParsedText(NamedTuple):
    """What was read from a text alone."""

    record: Record
    form: TextForm
    licence: str
    """As the text states it; empty if it states none."""


async def parse_text(body: bytes, content_type: str, expected: TextForm, url: str, within_s: float, options: ReadOptions) -> ParsedText:
    """Raises `NotRead`, and `SourceTimeout` for a PDF that takes too long. Runs on the background loop."""
    form = find_form(body)
    if not body.strip():
        raise NotRead("the file is empty")
    if form is None:
        raise NotRead(f"it is no text that can be read: {content_type or 'its type is not stated'}")
    if form == "html" and expected != "html":
        barrier = find_page_barrier(body.decode(errors="replace"), 0)
        raise NotRead(barrier or f"it is a web page, not {NAMES[expected]}")
    try:
        if form == "pdf":
            if PDF_END not in body[-END_BYTES:]:
                raise NotRead("the PDF is truncated: it has no end")
            record, licence = await read_pdf(body, within_s, options), ""
        elif form == "jats":
            record, licence = await run_in_thread(lambda: read_jats(body, options), "outrider-jats")
        else:
            record, licence = await _read_html(body, content_type, url)
    except (UnreadableFile, Malformed) as error:
        raise NotRead(str(error)) from error
    if len(record.text) > MOST_CHARS:
        raise NotRead(f"its text has {len(record.text):,} characters, more than {MOST_CHARS:,}")
    if len(record.text) < LEAST_CHARS + (len(record.abstract) if form == "html" else 0):
        raise NotRead(f"it holds no full text: {len(record.text):,} characters")
    if form == "pdf" and (printed := STATED.search(record.text[:PRINTED_CHARS])):
        licence = printed[0]
    return ParsedText(record, form, licence)


def find_form(body: bytes) -> TextForm | None:
    if PDF_MARK in body[:MARK_BYTES]:
        return "pdf"
    first = FIRST_TAG.search(body[:FIRST_BYTES])
    root = first[1].lower() if first else b""
    return "jats" if root in JATS_ROOTS else "html" if root in HTML_ROOTS else None


def read_jats(body: bytes, options: ReadOptions) -> tuple[Record, str]:
    """The one article of a file, and its licence. Raises `UnreadableFile`."""
    from outrider.ingest.readers import jats

    with tempfile.TemporaryDirectory(prefix="outrider-jats-") as folder:
        path = Path(folder, "text.xml")
        path.write_bytes(body)
        try:
            entries = [entry for entry in jats.read(path, options) if isinstance(entry, Entry)]
        except UnreadableFile as error:
            raise UnreadableFile(str(error).replace(f"{path}: ", "").replace(str(path), "the file")) from error
    if len(entries) != 1:
        raise UnreadableFile(f"it holds {len(entries)} articles, not one")
    record = entries[0].record
    named = str(record.metadata.get("licence") or "")
    if not is_reusable(normal_licence(named)) and (match := LICENCE.search(body[:LICENCE_START].decode(errors="replace"))):
        stated = STATED.search(match[0])
        named = stated[0] if stated else named or " ".join(re.sub(r"<[^>]*>", " ", match[1]).split())
    return record, named


async def _read_html(body: bytes, content_type: str, url: str) -> tuple[Record, str]:
    """The record of an open page, and its licence. Raises `NotRead`, `Malformed`."""
    markup = body.decode(errors="replace")
    # an identifier in the address is that of the link, and says nothing about the page
    host = urlsplit(url).hostname or ""
    page = (await read_page(host, body, content_type if content_type == "application/xhtml+xml" else "text/html")).page
    if barrier := find_page_barrier(markup, len(page.text)):
        raise NotRead(barrier)
    return page, find_page_licence(markup)
