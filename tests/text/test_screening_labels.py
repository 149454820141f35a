"""Labels of screening, from columns and notes."""

from __future__ import annotations

import pytest

from outrider.text.screening_labels import drop_columns, drop_labels, find_label, list_labels


@pytest.mark.parametrize(
    ("metadata", "label"),
    [
        ({}, ""), ({"included": 1}, "1"), ({"Label Included": "0"}, "0"), ({"label_included": "-1"}, ""), ({"included": True}, "1"),
        ({"included": "", "label_included": "1"}, "1"), ({"included": "no", "label_included": "1"}, "0"), ({"include": "maybe"}, ""),
        ({"included": ["1"]}, ""), ({"final_included": 1.0}, "1"), ({"INCLUDED": " Yes "}, "1"), ({"label_abstract_screening": "1"}, ""),
        ({"N1": "ASReview_relevant"}, "1"), ({"N1": ["x", "ASReview_irrelevant"]}, "0"), ({"N1": "ASReview_not_seen"}, ""),
        ({"notes": 'RAYYAN-INCLUSION: {"ann"=>"Included"}'}, "1"), ({"N1": 'RAYYAN-INCLUSION: {"ann"=>"Maybe"}'}, ""),
        ({"N1": ["ASReview_relevant", "ASReview_irrelevant"]}, ""), ({"included": "0", "N1": "ASReview_relevant"}, "0"),
    ],
)  # fmt: skip
def test_a_label_is_taken_from_the_columns_that_asreview_reads_else_from_notes(metadata: dict[str, object], label: str) -> None:
    assert find_label(metadata) == label  # type: ignore[arg-type]


def test_contradictory_notes_are_both_listed_and_columns_of_labels_can_be_dropped() -> None:
    assert list_labels({"N1": ["ASReview_relevant", "ASReview_irrelevant", "ASReview_relevant"]}) == ["include", "exclude"]
    assert drop_columns({"Label Included": 1, "label": "liver", "N1": "ASReview_relevant"}) == {"label": "liver", "N1": "ASReview_relevant"}


def test_labels_are_dropped_from_notes_which_keep_their_other_words() -> None:
    notes = 'RAYYAN-INCLUSION: {"ann"=>"Included"} | RAYYAN-LABELS: liver'
    assert drop_labels({"included": "1", "N1": ["ASReview_not_seen", "mine"], "notes": notes, "note": "ASReview_relevant"}) == {
        "N1": ["mine"],
        "notes": "| RAYYAN-LABELS: liver",
        "note": "",
    }
