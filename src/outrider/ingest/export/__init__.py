"""Export of records to BibTeX, RIS, CSL-JSON, CSV, JSON or Markdown, one at a time."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, TextIO

from outrider.state.errors import BadRequest, did_you_mean

if TYPE_CHECKING:
    from outrider.ingest.export.base_writer import Writer

FORMATS: Final = {
    "bibtex": "bibtex:BibtexWriter",
    "ris": "ris:RisWriter",
    "csl": "csl_json:CslJsonWriter",
    "csv": "csv_json:CsvWriter",
    "json": "csv_json:JsonWriter",
    "jsonl": "csv_json:JsonLinesWriter",
    "markdown": "markdown:MarkdownWriter",
}
"""Module and class of each writer. A module is imported when its format is needed: readers import this package."""


def make_writer(name: str, stream: TextIO) -> Writer:
    """The writer of a format. Raises `BadRequest` for an unknown format."""
    if name not in FORMATS:
        raise BadRequest(f"cannot export to {name!r}{did_you_mean(name, FORMATS)}; known formats: {', '.join(FORMATS)}")
    module, _, attribute = FORMATS[name].partition(":")
    writer: Any = getattr(import_module(f"{__name__}.{module}"), attribute)
    made: Writer = writer(stream)
    return made
