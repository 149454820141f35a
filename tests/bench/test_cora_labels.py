"""Cora with its plain errors mended."""

from __future__ import annotations

import pytest

from bench.data import data_folder
from bench.identity.cora_labels import MOVED, OTHER_WORKS, SAME_WORKS, mend_labels
from bench.identity.sets import cora

DEDUP = data_folder() / "dedup"


@pytest.mark.skipif(not (DEDUP / "cora").is_dir(), reason="the shared data are not there")
def test_only_the_listed_records_change_their_work() -> None:
    labelled = cora(DEDUP)
    mended = mend_labels(labelled)
    assert labelled.works is not None
    assert mended.works is not None
    place = {record.doc_id: at for at, record in enumerate(mended.records)}
    work = {number: mended.works[place[f"cora:{number}"]] for number in range(1, len(mended.records) + 1) if f"cora:{number}" in place}
    for numbers in OTHER_WORKS.values():
        assert {number for number, own in work.items() if own == work[numbers[0]]} == {*numbers}
    assert work[MOVED[0]] == work[MOVED[1]]
    joined = {one for one, _, _ in SAME_WORKS} | {other for _, other, _ in SAME_WORKS}
    assert all(work[one] == work[other] for one, other, _ in SAME_WORKS)
    changed = {at for at, (old, new) in enumerate(zip(labelled.works, mended.works, strict=True)) if old != new}
    listed = {place[f"cora:{number}"] for numbers in OTHER_WORKS.values() for number in numbers} | {place[f"cora:{MOVED[0]}"]}
    clusters = {labelled.works[place[f"cora:{number}"]] for number in joined}
    assert changed - listed <= {at for at, own in enumerate(labelled.works) if own in clusters}
    assert listed <= changed
