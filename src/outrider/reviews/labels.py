"""Labels of screening in records of files: the columns and notes in which tools write them

Tables: the columns that ASReview reads (`ingest.export.csv_json.LABELS`), or one that is named. RIS notes: `ASReview_relevant` and
`ASReview_irrelevant` (ASReview), `RAYYAN-INCLUSION: {"ann"=>"Included"}` (Rayyan, of one or more reviewers). Repeated labels that
contradict each other are an error: nobody could say which one holds.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from pydantic import JsonValue

from outrider.ingest.column_mapping import fold_name
from outrider.ingest.export.csv_json import NO, YES, find_label
from outrider.state.errors import BadRequest
from outrider.state.records import Record
from outrider.state.reviews import VERDICTS, Verdict

NOTES = ("N1", "notes", "note", "RN", "AN")
RELEVANT = re.compile(r"\bASReview_(relevant|irrelevant|not_seen)\b")
RAYYAN = re.compile(r"RAYYAN-INCLUSION:\s*\{([^}]*)\}")
RAYYAN_VERDICT = re.compile(r'=>\s*"(Included|Excluded|Maybe)"')
RAYYAN_REASONS = re.compile(r"RAYYAN-EXCLUSION-REASONS:\s*([^|\n]+)")
RAYYAN_VERDICTS: Mapping[str, Verdict] = {"Included": "include", "Excluded": "exclude", "Maybe": "maybe"}
SHORT: Mapping[str, Verdict] = {"i": "include", "e": "exclude", "m": "maybe"}


class ConflictingLabels(BadRequest):
    pass


def parse_verdict(text: str) -> Verdict | None:
    """A decision as people and tools write it: `include`, `i`, `yes`, `1`; None for anything else."""
    word = text.strip().lower()
    if word in VERDICTS:
        return word
    if word in SHORT:
        return SHORT[word]
    return "include" if word in YES else "exclude" if word in NO else "maybe" if word in ("?", "undecided", "unclear") else None


def read_label(record: Record, column: str = "") -> tuple[Verdict, str] | None:
    """The label of a record with the reason; None for an unlabelled one. `column` names the field of the label.

    Raises `ConflictingLabels` where its notes contradict each other, `BadRequest` for an unknown label in a named column.
    """
    if column:
        value = find_field(record.metadata, column)
        if value is None or not str(value).strip():
            return None
        if (verdict := parse_verdict(str(value))) is None:
            raise BadRequest(f"{str(value)[:60]!r} in {column} is no label of a screening; it takes include, exclude, maybe, 1 or 0")
        return verdict, ""
    if label := find_label(record.metadata):
        return ("include" if label == "1" else "exclude"), ""
    notes = "\n".join(_list_texts(find_field(record.metadata, name)) for name in NOTES)
    verdicts: list[Verdict] = ["include" if name == "relevant" else "exclude" for name in RELEVANT.findall(notes) if name != "not_seen"]
    verdicts += [RAYYAN_VERDICTS[name] for part in RAYYAN.findall(notes) for name in RAYYAN_VERDICT.findall(part)]
    if len(set(verdicts)) > 1:
        raise ConflictingLabels(f"the labels of {record.title[:80]!r} contradict each other: {', '.join(sorted(set(verdicts)))}")
    reason = RAYYAN_REASONS.search(notes)
    return (verdicts[0], reason[1].strip() if reason and verdicts[0] == "exclude" else "") if verdicts else None


def find_field(metadata: Mapping[str, JsonValue], name: str) -> JsonValue:
    """A field by its name, however it is written; None if there is none."""
    wanted = fold_name(name)
    return next((value for key, value in metadata.items() if fold_name(key) == wanted), None)


def _list_texts(value: JsonValue) -> str:
    return "\n".join(map(str, value)) if isinstance(value, list) else "" if value is None else str(value)
