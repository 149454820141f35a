"""Export of records to BibTeX, RIS, CSL-JSON, CSV, JSON or Markdown, one at a time."""

from __future__ import annotations

from typing import Final, TextIO

from outrider.ingest.export.base_writer import Writer
from outrider.ingest.export.bibtex import BibtexWriter
from outrider.ingest.export.csl_json import CslJsonWriter
from outrider.ingest.export.csv_json import CsvWriter, JsonLinesWriter, JsonWriter
from outrider.ingest.export.markdown import MarkdownWriter
from outrider.ingest.export.ris import RisWriter
from outrider.state.errors import BadRequest, did_you_mean

__all__ = ["FORMATS", "Writer", "make_writer"]

FORMATS: Final[dict[str, type[Writer]]] = {
    "bibtex": BibtexWriter,
    "ris": RisWriter,
    "csl": CslJsonWriter,
    "csv": CsvWriter,
    "json": JsonWriter,
    "jsonl": JsonLinesWriter,
    "markdown": MarkdownWriter,
}


def make_writer(name: str, stream: TextIO) -> Writer:
    """The writer of a format. Raises `BadRequest` for an unknown format."""
    if name not in FORMATS:
        raise BadRequest(f"cannot export to {name!r}{did_you_mean(name, FORMATS)}; known formats: {', '.join(FORMATS)}")
    return FORMATS[name](stream)
