"""What every door that exports needs: the formats' suffixes, and a hit as the record that is written."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from outrider.state.hits import Hit
    from outrider.state.records import Record

SUFFIXES = {".bib": "bibtex", ".ris": "ris", ".csv": "csv", ".json": "json", ".jsonl": "jsonl", ".md": "markdown"}


def record_of(hit: Hit) -> Record:
    """What a hit holds of its record: its own fields, and those that stand in its metadata."""
    from outrider.state.records import RECORD, BaseRecord, Paper, Repository

    said = hit.model_dump(mode="json", include=BaseRecord.model_fields.keys() | {"kind"})
    kinds: dict[str, type[BaseRecord]] = {"paper": Paper, "repository": Repository}
    own = kinds.get(hit.kind, BaseRecord).model_fields.keys() - BaseRecord.model_fields.keys()
    moved = {name: said["metadata"].pop(name) for name in sorted(own & said["metadata"].keys())}
    return RECORD.validate_python({**said, **moved})
