"""Exports of a review: records with their labels, and the counts of screening for PRISMA

CSV, RIS and CSL-JSON carry the label as ASReview reads it (`included`, `ASReview_relevant` in a note); the CSV has the decision in words,
the reason, reviewers and notes in further columns. `maybe`, conflicts and waiting records are unlabelled there.
"""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from typing import Final

from outrider.ingest.export import FORMATS as RECORD_FORMATS
from outrider.ingest.export import make_writer
from outrider.ingest.export.base_writer import list_own_notes
from outrider.ingest.export.csv_json import ScreeningWriter
from outrider.reviews.asreview import write_project
from outrider.state.records import Record
from outrider.state.reviews import ReviewRecord, ReviewStatus, list_reasons
from outrider.text.screening_labels import LABEL_CELLS, LABEL_NOTES, REASON, drop_labels

PRISMA = ("prisma-markdown", "prisma-json")
FORMATS: Final = (*RECORD_FORMATS, "asreview", *PRISMA)
SUFFIXES: Final = {
    ".csv": "csv", ".ris": "ris", ".asreview": "asreview", ".bib": "bibtex", ".csljson": "csl", ".jsonl": "jsonl",
    ".md": "prisma-markdown", ".json": "prisma-json",
}  # fmt: skip
COLUMNS: Final = ("record", "decision", "reason", "reviewers", "decided_at", "review_notes", "duplicate_of")
NOTE_FIELDS: Final = {"ris": "N1", "csl": "note"}
"""Formats that have notes and no further fields."""


def export_views(status: ReviewStatus, views: Sequence[ReviewRecord], form: str) -> bytes:
    """The content of a file in one of `FORMATS`."""
    if form == "prisma-markdown":
        return write_flow(status).encode()
    if form == "prisma-json":
        return (json.dumps(make_flow(status), ensure_ascii=False, indent=2) + "\n").encode()
    if form == "asreview":
        return write_project(status.name, views, status.created)
    stream = io.StringIO(newline="")
    writer = ScreeningWriter(stream, COLUMNS) if form == "csv" else make_writer(form, stream)
    writer.begin()
    for view in views:
        writer.record(_label_record(view, form))
    writer.end()
    return stream.getvalue().encode()


def _label_record(view: ReviewRecord, form: str) -> Record:
    """The record with the label and what was decided in its metadata; a label that it came with is replaced."""
    record = view.record
    metadata = drop_labels(record.metadata)
    decisions, reasons = view.decisions, list_reasons(view.state, view.decisions)
    if field := NOTE_FIELDS.get(form):
        excluded = (f"{REASON}{one}" for one in reasons if view.state == "exclude")
        labels = [LABEL_NOTES.get(view.state, "ASReview_not_seen"), *excluded]
        metadata[field] = [*labels, *list_own_notes(metadata, (field,)), *(note.text for note in view.notes)]
        return record.model_copy(update={"metadata": metadata})
    values = {
        "included": LABEL_CELLS.get(view.state, ""),
        "record": str(view.number),
        "decision": view.state,
        "reason": "; ".join(reasons),
        "reviewers": "; ".join(dict.fromkeys(one.by for one in decisions)),
        "decided_at": max((one.at for one in decisions), default=""),
        "review_notes": "; ".join(note.text for note in view.notes),
        "duplicate_of": str(view.duplicate_of or ""),
    }
    return record.model_copy(update={"metadata": {**metadata, **{name: value for name, value in values.items() if value}}})


def make_flow(status: ReviewStatus) -> dict[str, object]:
    """The counts of screening in PRISMA 2020's words."""
    return {
        "review": status.name,
        "records_identified": status.records,
        "sources": [{"source": one.source, "records": one.records} for one in status.imports],
        "duplicates_removed": status.duplicates,
        "records_to_screen": status.works,
        "records_screened": status.screened,
        "records_excluded": status.excluded,
        "excluded_by_reason": status.excluded_by_reason,
        "records_included": status.included,
        "records_undecided": status.maybe,
        "records_in_conflict": len(status.conflicts),
        "records_waiting_for_reviewers": status.waiting,
        "records_not_screened": status.unscreened,
        "reviewers_a_record": status.reviewers,
    }


def write_flow(status: ReviewStatus) -> str:
    rows = [
        ("Records identified", status.records),
        *((f"- from {one.source}", one.records) for one in status.imports),
        ("Duplicate records removed before screening", status.duplicates),
        ("Records to screen", status.works),
        ("Records screened", status.screened),
        ("Records excluded", status.excluded),
        *((f"- {reason}", number) for reason, number in status.excluded_by_reason.items()),
        ("Records included for retrieval", status.included),
        ("Records undecided (maybe)", status.maybe),
        ("Records in conflict", len(status.conflicts)),
        ("Records waiting for further reviewers", status.waiting),
        ("Records not screened", status.unscreened),
    ]
    table = "\n".join(f"| {_escape(name)} | {number:,} |" for name, number in rows)
    about = f"\n{status.question}\n" if status.question else ""
    return f"# Screening of {status.name}\n{about}\n| PRISMA 2020 | records |\n|---|---:|\n{table}\n"


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;")
