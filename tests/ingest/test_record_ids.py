"""What records of files are called, and works of several as one record."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.ingest.record_ids import OwnIds


def name_records(*files: tuple[str, list[str | None]]) -> tuple[list[str], OwnIds]:
    ids = OwnIds()
    for path, own in files:
        ids.start_file(Path(path))
        for one in own:
            ids.add(one)
    return ids.make_all(), ids


def test_ids_stay_as_they_are() -> None:
    assert name_records(("a.ris", ["1", "2"]), ("b.ris", ["3"]))[0] == ["1", "2", "3"]


def test_shared_ids_begin_with_their_file() -> None:
    names, ids = name_records(("x/a.ris", ["1"]), ("y/a.ris", ["1", "2"]))
    assert names == ["x/a.ris:1", "y/a.ris:1", "y/a.ris:2"]
    assert ids.scoped


def test_repeated_and_missing_ids() -> None:
    names, ids = name_records(("a.ris", ["1", "1", None, "1"]))
    assert names == ["1", "1#2", "a.ris#3", "1#3"]
    assert (ids.repeated, ids.without) == (2, 1)


@settings(max_examples=50)
@given(st.lists(st.lists(st.none() | st.sampled_from(["1", "2", "1#2", "a0.ris#1", "a0.ris:1"]), max_size=5), max_size=4))
def test_every_name_is_given_once(files: list[list[str | None]]) -> None:
    names, _ = name_records(*((f"a{number}.ris", own) for number, own in enumerate(files)))
    assert len(names) == sum(map(len, files)) == len(set(names))
