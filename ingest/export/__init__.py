"""Records into files: BibTeX, RIS, CSV, JSON, JSON Lines, Markdown, one record at a time."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Final, TextIO

from outrider.ingest.export.bibtex import BibtexWriter
from outrider.ingest.export.csv_rows import CsvWriter
from outrider.ingest.export.json_rows import JsonLinesWriter, JsonWriter
from outrider.ingest.export.markdown import MarkdownWriter
from outrider.ingest.export.ris import RisWriter
from outrider.ingest.export.writer import Writer
from outrider.state.errors import BadRequest
from outrider.state.records import BaseRecord

__all__ = ["FORMATS", "Writer", "write", "writer"]

FORMATS: Final[dict[str, type[Writer]]] = {
    "bibtex": BibtexWriter,
    "ris": RisWriter,
    "csv": CsvWriter,
    "json": JsonWriter,
    "jsonl": JsonLinesWriter,
    "markdown": MarkdownWriter,
}


def writer(form: str, stream: TextIO) -> Writer:
    """The writer of a format; `BadRequest` for one that there is not."""
    if form not in FORMATS:
        close = difflib.get_close_matches(form, FORMATS, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise BadRequest(f"cannot export to {form!r}{hint}; known formats: {', '.join(FORMATS)}")
    return FORMATS[form](stream)


def write(records: Iterable[BaseRecord], form: str, stream: TextIO) -> int:
    """Writes all records and returns how many they were."""
    out = writer(form, stream)
    out.begin()
    count = 0
    for count, record in enumerate(records, 1):  # noqa: B007 - the count is the result
        out.record(record)
    out.end()
    return count
