"""Export of records: formats by file suffix, and a hit as the record that a writer takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from outrider.state.errors import BadRequest

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path
    from typing import TextIO

    from outrider.ingest.export.base_writer import Writer
    from outrider.state.hits import Hit
    from outrider.state.records import Record

SUFFIXES = {".bib": "bibtex", ".ris": "ris", ".csljson": "csl", ".csv": "csv", ".json": "json", ".jsonl": "jsonl", ".md": "markdown"}
RUN_FORMATS = {".ris": "ris", ".bib": "bibtex", ".csv": "csv", ".jsonl": "jsonl"}
"""Formats of systematic runs, by suffix; their CSV is for screening tools."""


def find_run_format(path: Path) -> str:
    """The format of an exported run by its suffix. Raises `BadRequest`."""
    if path.suffix.lower() not in RUN_FORMATS:
        raise BadRequest(f"{path} has no known suffix; a run is exported to {', '.join(RUN_FORMATS)}")
    return RUN_FORMATS[path.suffix.lower()]


def make_run_writer(form: str, stream: TextIO, *, whole: bool = False) -> Writer:
    """The writer of a run in one of `RUN_FORMATS`; `whole` is for a CSV with all fields, as runs were exported at first."""
    from outrider.ingest.export import make_writer
    from outrider.ingest.export.csv_json import ScreeningWriter

    return ScreeningWriter(stream) if form == "csv" and not whole else make_writer(form, stream)


def is_whole_csv(path: Path) -> bool:
    """Whether a CSV has the columns of whole records; false for a file that cannot be read, which its reader reports."""
    from outrider.ingest.exported_rows import FORMER_COLUMNS

    try:
        with path.open("rb") as stream:
            return stream.readline(1_000).strip().startswith(",".join(FORMER_COLUMNS).encode())
    except OSError:
        return False


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
    _keep_linked_notices(hit, fields["metadata"])
    moved = {name: fields["metadata"].pop(name) for name in sorted(own & fields["metadata"].keys())}
    return RECORD.validate_python({**fields, **moved})


def _keep_linked_notices(hit: Hit, metadata: dict[str, Any]) -> None:
    """Of a notice that is a work of its own among the results, the record alone knows nothing."""
    from outrider.state.notices import CHECKS

    linked = [notice for notice in hit.notices if "linked-record" in notice.reported_by]
    if linked:
        checks = metadata.get(CHECKS)
        former = [one for one in checks if isinstance(one, dict)] if isinstance(checks, list) else []
        last = former[-1] if former else {}
        notices = [notice.model_dump(mode="json", exclude_defaults=True) for notice in hit.notices]
        metadata[CHECKS] = [*former, {**last, "services": ["search"], "notices": notices}]
