"""Export of hits: formats by file suffix, and a hit as the record that a writer takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import TextIO

    from outrider.state.hits import Hit
    from outrider.state.records import Record

SUFFIXES = {".bib": "bibtex", ".ris": "ris", ".csljson": "csl", ".csv": "csv", ".json": "json", ".jsonl": "jsonl", ".md": "markdown"}


def write_records(records: Iterable[Record], form: str, stream: TextIO) -> int:
    """Write records in a format and return their number. Raises `BadRequest` for an unknown format."""
    from outrider.ingest.export import make_writer

    writing, count = make_writer(form, stream), 0
    writing.begin()
    for record in records:
        writing.record(record)
        count += 1
    writing.end()
    return count


def make_record(hit: Hit) -> Record:
    """The record of a hit: its own fields, and those that stand in its metadata."""
    from outrider.state.records import RECORD, BaseRecord, Paper, Repository

    fields = hit.model_dump(mode="json", include=BaseRecord.model_fields.keys() | {"kind"})
    kinds: dict[str, type[BaseRecord]] = {"paper": Paper, "repository": Repository}
    own = kinds.get(hit.kind, BaseRecord).model_fields.keys() - BaseRecord.model_fields.keys()
    moved = {name: fields["metadata"].pop(name) for name in sorted(own & fields["metadata"].keys())}
    return RECORD.validate_python({**fields, **moved})
