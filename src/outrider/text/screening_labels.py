"""Labels of screening in metadata: columns of tables, notes of ASReview and Rayyan.

Tables: the columns that ASReview reads. Notes: `ASReview_relevant` and `ASReview_irrelevant`, and
`RAYYAN-INCLUSION: {"ann"=>"Included", "bob"=>"Maybe"}` of one or more reviewers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from outrider.state.notices import NOTES
from outrider.text.words import fold_name

if TYPE_CHECKING:
    from pydantic import JsonValue

    from outrider.state.reviews import Verdict

COLUMNS: Final = (
    "asreview_label", "included", "label", "final_included", "label_included", "included_label", "included_final", "included_flag",
    "include",
)  # fmt: skip
"""Columns that ASReview 3 reads as the label, in its order (`asreview.data.base`). Of a table, they are a record's metadata."""
YES: Final = frozenset({"1", "1.0", "true", "yes", "y", "included", "include", "relevant"})
NO: Final = frozenset({"0", "0.0", "false", "no", "n", "excluded", "exclude", "irrelevant", "not relevant"})
DOUBT: Final = frozenset({"?", "maybe", "undecided", "unclear", "unsure", "uncertain"})
SHORT: Final[Mapping[str, Verdict]] = {"i": "include", "e": "exclude", "m": "maybe"}
UNSCREENED: Final = "-1"
"""ASReview's word for a record without a label."""
NOTE_FIELDS: Final = frozenset(map(fold_name, (*NOTES, "RN", "AN")))
"""Metadata with notes, and what Rayyan and EndNote use instead."""
LABEL_CELLS: Final[Mapping[str, str]] = {"include": "1", "exclude": "0"}
"""Verdicts as cells of a column of labels."""
LABEL_NOTES: Final[Mapping[str, str]] = {"include": "ASReview_relevant", "exclude": "ASReview_irrelevant"}
"""Verdicts as notes that ASReview reads."""
RELEVANT = re.compile(r"\bASReview_(relevant|irrelevant)\b")
RAYYAN = re.compile(r"RAYYAN-INCLUSION:\s*\{([^}]*)\}")
LABEL = re.compile(rf"\bASReview_(?:relevant|irrelevant|not_seen)\b|{RAYYAN.pattern}")
REASON = "Excluded: "
"""Begins the notes with reasons that follow the note of an exclusion."""
RAYYAN_VERDICT = re.compile(r'"([^"]*)"\s*=>\s*"(Included|Excluded|Maybe)"')
RAYYAN_VERDICTS: Mapping[str, Verdict] = {"Included": "include", "Excluded": "exclude", "Maybe": "maybe"}


def parse_verdict(text: str) -> Verdict | None:
    """A decision as people and tools write it: `include`, `i`, `yes`, `1`; None for anything else."""
    word = _normal(text)
    return "include" if word in YES else "exclude" if word in NO else "maybe" if word in DOUBT else SHORT.get(word)


def list_labels(metadata: Mapping[str, JsonValue]) -> list[Verdict]:
    """The different labels: the first column's, else those of the notes. More than one contradict each other."""
    if columns := _list_columns(metadata):
        first = min(columns, key=lambda pair: COLUMNS.index(fold_name(pair[0])))
        return ["include" if _normal(first[1]) in YES else "exclude"]
    return list(dict.fromkeys(verdict for _, verdict in list_note_labels(metadata)))


def list_note_labels(metadata: Mapping[str, JsonValue]) -> list[tuple[str, Verdict]]:
    """Who labels the record, and how: ASReview's labels, which name nobody, else Rayyan's."""
    notes = join_notes(metadata)
    labels: list[tuple[str, Verdict]] = [("", "include" if name == "relevant" else "exclude") for name in RELEVANT.findall(notes)]
    pairs = (pair for part in RAYYAN.findall(notes) for pair in RAYYAN_VERDICT.findall(part))
    return labels or [(" ".join(by.split()), RAYYAN_VERDICTS[word]) for by, word in pairs]


def find_verdict(metadata: Mapping[str, JsonValue]) -> str:
    """The one label; empty for a record that nobody has screened, or with contradictory labels."""
    labels = list_labels(metadata)
    return labels[0] if len(labels) == 1 else ""


def find_label(metadata: Mapping[str, JsonValue]) -> str:
    """`1` for an included record, `0` for an excluded one; empty for any other."""
    return LABEL_CELLS.get(find_verdict(metadata), "")


def drop_columns(metadata: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """The metadata without columns of labels."""
    dropped = {name for name, _ in _list_columns(metadata)}
    return {name: value for name, value in metadata.items() if name not in dropped}


def drop_labels(metadata: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """The metadata without labels, in columns and in notes, also those that are neither yes nor no."""
    rest = {name: value for name, value in metadata.items() if fold_name(name) not in COLUMNS or not _is_label(value)}
    for name, value in _list_notes(rest):
        items = value if isinstance(value, list) else [value]
        reasons = _find_reasons(items)
        texts = [LABEL.sub("", item).strip() if isinstance(item, str) else item for place, item in enumerate(items) if place not in reasons]
        rest[name] = [text for text in texts if text != ""] if isinstance(value, list) else texts[0]
    return rest


def list_noted_reasons(metadata: Mapping[str, JsonValue]) -> list[str]:
    """The reasons for an exclusion in notes that follow its own, as exports of reviews write them."""
    return [reason for _, value in _list_notes(metadata) if isinstance(value, list) for reason in _find_reasons(value).values()]


def _find_reasons(items: Sequence[JsonValue]) -> dict[int, str]:
    """By place; any other note that begins as they do is somebody's own."""
    found: dict[int, str] = {}
    for place, item in enumerate(items):
        before = items[place - 1] if place else None
        if isinstance(item, str) and item.startswith(REASON) and (before == LABEL_NOTES["exclude"] or place - 1 in found):
            found[place] = item.removeprefix(REASON).strip()
    return found


def join_notes(metadata: Mapping[str, JsonValue]) -> str:
    """All notes, one a line."""
    return "\n".join(str(one) for _, value in _list_notes(metadata) for one in (value if isinstance(value, list) else [value]))


def _list_notes(metadata: Mapping[str, JsonValue]) -> list[tuple[str, JsonValue]]:
    return [(name, value) for name, value in metadata.items() if value is not None and fold_name(name) in NOTE_FIELDS]


def _list_columns(metadata: Mapping[str, JsonValue]) -> list[tuple[str, JsonValue]]:
    return [(name, value) for name, value in metadata.items() if fold_name(name) in COLUMNS and _normal(value) in YES | NO]


def _is_label(value: JsonValue) -> bool:
    word = _normal(value)
    return word == UNSCREENED or parse_verdict(word) is not None


def _normal(value: JsonValue) -> str:
    return " ".join(str(value).replace("\x00", "").split()).lower()
