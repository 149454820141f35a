"""Running numbers in place of issues, told from issues that are real."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.ingest.deduplicate_files import deduplicate_files
from outrider.ingest.entry import BadEntry, Entry, FileNote, Parsed, ReadOptions
from outrider.ingest.pipeline import ingest
from outrider.ingest.readers.select_reader import FileReader, select_reader
from outrider.ingest.row_numbers_in_issue_field import ROW_NUMBER, WINDOW, drop_running_numbers
from outrider.state.errors import UnreadableFile
from outrider.state.records import Document, Paper
from support.memory_library import MemoryShelves

SUBJECTS = "Pain Heart Liver Bone Skin Brain Lung Blood Eye Ear Gut Sleep Aging Cancer Stroke"
JOURNALS = [f"Journal of {subject}" for subject in SUBJECTS.split()]


def rows(
    issues: Sequence[str | int | None], journals: Sequence[str | None] = JOURNALS, years: Sequence[int] = (2001, 1998, 2011)
) -> list[Entry]:
    """Records with these issues, journals and years in turn."""
    return [
        Entry(
            Paper(
                doc_id="", title=f"T{at}", issue=None if issue is None else str(issue), volume=str(at * 7 % 40),
                venue=journals[at % len(journals)], year=years[at % len(years)],
            )
        )
        for at, issue in enumerate(issues)
    ]  # fmt: skip


def issues(entries: Sequence[Parsed]) -> list[str | None]:
    return [entry.record.issue for entry in entries if isinstance(entry, Entry) and isinstance(entry.record, Paper)]


def is_dropped(entries: list[Entry]) -> bool:
    """Whether no issue is left; else all must be."""
    read = list(drop_running_numbers(entries))
    papers = [entry for entry in read if isinstance(entry, Entry)]
    dropped = any(before != after for before, after in zip(issues(entries), issues(papers), strict=True))
    assert any(isinstance(entry, FileNote) for entry in read) == dropped
    assert not dropped or set(issues(papers)) <= {None}
    return dropped


def real_issues(count: int, seed: int) -> list[int]:
    """As journals number: mostly up to 6, up to 12 for monthlies, up to 52 for weeklies."""
    draw = random.Random(seed)
    return [draw.choices([draw.randint(1, 6), draw.randint(1, 12), draw.randint(1, 52)], [6, 3, 1])[0] for _ in range(count)]


RUNNING = {
    "from one": range(1, 41),
    "from elsewhere": range(871, 911),
    "backwards": range(40, 0, -1),
    "two exports in one file": [*range(1, 31), *range(1, 26)],
    "with gaps": [number for number in range(1, 60) if number % 13],
    "in no order": random.Random(4).sample(range(1, 300), 60),
    "with marks": [f"#{at}." for at in range(1, 41)],
    "thirteen records": range(1, 14),
    "over several windows": range(1, 3 * WINDOW + 8),
    "on all but one": [*range(1, 30), None, *range(31, 61)],
}


@pytest.mark.parametrize("name", RUNNING)
def test_a_running_number_is_no_issue(name: str) -> None:
    assert is_dropped(rows(list(RUNNING[name])))


def test_a_running_number_within_one_journal_is_seen_by_the_years() -> None:
    """Consecutive issues do not go back and forth in time."""
    assert is_dropped(rows(range(1, 41), ["Lancet"]))
    assert is_dropped(rows(range(1, 41), [None]))


def test_a_running_number_in_no_order_is_seen_in_few_journals_too() -> None:
    """Issues of three journals would repeat; those of one would follow the years."""
    numbers = random.Random(5).sample(range(1, 121), 120)
    assert is_dropped(rows(numbers, JOURNALS[:3]))
    assert is_dropped(rows(numbers, ["Lancet"], [2001, 1998, 2011, 2005]))
    assert is_dropped(rows(numbers, [None], [2001, 1998, 2011, 2005]))


def shuffle(entries: list[Entry], seed: int = 1) -> list[Entry]:
    return random.Random(seed).sample(entries, len(entries))


REAL = {
    "consecutive issues of one journal": rows(range(1, 61), ["Newsletter"], [2001]),
    "over years": rows(range(300, 360), ["Newsletter"], sorted([*range(1990, 2020)] * 2)),
    "newest first": rows(range(60, 0, -1), ["Newsletter"], sorted([*range(1990, 2020)] * 2, reverse=True)),
    "without a journal": rows(range(1, 61), [None], [2001]),
    "of two journals one after another": rows([*range(1, 25), *range(1, 25)], ["A"], [2001])[:24] + rows([*range(1, 25)], ["B"], [2003]),
    "three records": rows([1, 2, 3]),
    "one of each month": rows(range(1, 13)),
    "each once, sorted": rows([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 15, 18, 21, 31]),
    "each once, of many journals": rows(
        random.Random(2).sample([*range(1, 14), 15, 18, 21, 24, 31, 38, 44, 69, 106, 143, 204, 387, 791], 26)
    ),
    "a weekly's number for a century": rows(range(9000, 9400, 7), ["Lancet", "BMJ", "Nature"], [2001]),
    "patents": rows([9_123_000 + 371 * at for at in range(60)], JOURNALS),
    "one for all": rows(["1"] * 40),
    "supplements": rows([f"Suppl {at}" for at in range(40)]),
    "of a few": rows([at if at % 3 == 0 else None for at in range(60)]),
    "none": rows([None] * 40),
    "of one journal over years, by title": shuffle(rows(range(300, 360), ["Newsletter"], sorted([*range(1990, 2020)] * 2))),
    "of two journals that count on, by title": shuffle(
        rows(range(900, 940), ["A"], sorted([*range(1990, 2010)] * 2)) + rows(range(400, 440), ["B"], sorted([*range(1990, 2010)] * 2))
    ),
    "without years, by title": shuffle(rows(range(1, 61), ["Newsletter"], [2001])),
}


@pytest.mark.parametrize("name", REAL)
def test_real_issues_stay(name: str) -> None:
    assert not is_dropped(REAL[name])


@pytest.mark.parametrize("seed", range(50))
def test_issues_as_journals_number_stay(seed: int) -> None:
    """Also sorted by the issue, the journal or the year, in files of every size."""
    size = [3, 5, 10, 12, 20, 40, 100, 450][seed % 8]
    entries = rows(real_issues(size, seed), random.Random(seed).sample(JOURNALS, 15), [2000 + seed % 9, 2011, 1999])
    for key in (lambda entry: 0, lambda entry: int(entry.record.issue), lambda entry: entry.record.venue, lambda entry: entry.record.year):
        assert not is_dropped(sorted(entries, key=key))


def test_a_volume_is_a_running_number_only_from_one_on() -> None:
    """Volumes of one series go on over books with titles of their own."""

    def volumes(start: int) -> list[Entry]:
        return [Entry(Paper(doc_id="", title="T", volume=str(start + at), venue=JOURNALS[at % 15])) for at in range(40)]

    def count(entries: list[Entry]) -> int:
        return sum(
            isinstance(one, Entry) and isinstance(one.record, Paper) and one.record.volume is None for one in drop_running_numbers(entries)
        )

    assert (count(volumes(1)), count(volumes(10_001))) == (40, 0)


def test_the_number_is_kept_and_reported() -> None:
    *read, note = drop_running_numbers(rows(range(1, 41)))
    assert [entry.record.metadata[ROW_NUMBER] for entry in read if isinstance(entry, Entry)] == [str(number) for number in range(1, 41)]
    assert isinstance(note, FileNote)
    assert "its issue is a running number of the file in 40 records" in note.text


def test_a_file_is_mended_in_the_part_that_counts() -> None:
    read = list(drop_running_numbers(rows([*range(1, WINDOW + 1), *real_issues(WINDOW, 3)])))
    assert set(issues(read)[:WINDOW]) == {None}
    assert None not in issues(read)[WINDOW:]


def test_our_own_exports_stay_as_they_are() -> None:
    entries = [Entry(entry.record.model_copy(update={"doc_id": str(at)})) for at, entry in enumerate(rows(range(1, 41)))]
    assert list(drop_running_numbers(entries)) == entries


def test_a_column_that_a_person_mapped_is_what_they_say(tmp_path: Path) -> None:
    (tmp_path / "refs.csv").write_text(FORMS["refs.csv"])
    reader = select_reader(tmp_path / "refs.csv")
    assert isinstance(reader, FileReader)
    read = [*reader.read(tmp_path / "refs.csv", ReadOptions(columns={"Issue": "number"}))]
    assert issues(read) == [str(number) for number in range(1, 31)]


def test_what_was_read_before_a_break_comes_before_it() -> None:
    def broken() -> Iterator[Parsed]:
        yield from rows([4, 1])
        raise UnreadableFile("breaks off")

    read = drop_running_numbers(broken())
    assert issues([next(read), next(read)]) == ["4", "1"]
    with pytest.raises(UnreadableFile, match="breaks off"):
        next(read)


def test_files_without_issues_are_not_held_up() -> None:
    """The first record arrives before the second is read; with issues at most a window is."""
    taken: list[int] = []

    def source(entries: list[Entry]) -> Iterator[Parsed]:
        for at, entry in enumerate(entries):
            taken.append(at)
            yield entry

    next(drop_running_numbers(source([Entry(Document(doc_id="", title="T"))] * 5)))
    assert len(taken) == 1
    next(drop_running_numbers(source(rows(real_issues(5 * WINDOW, 1)))))
    assert len(taken) == 1 + WINDOW


ENTRIES = st.one_of(
    st.builds(lambda issue, venue, year: Entry(Paper(doc_id="", issue=issue, venue=venue, year=year)),
              st.none() | st.integers(0, 30).map(str) | st.text(max_size=3), st.none() | st.sampled_from(JOURNALS),
              st.none() | st.integers(1990, 2000)),
    st.just(BadEntry("line 1", "broken")),
    st.just(Entry(Document(doc_id="", title="T"))),
)  # fmt: skip


@given(st.lists(ENTRIES, max_size=60))
def test_nothing_is_lost_or_moved(entries: list[Parsed]) -> None:
    """Whatever a file holds: the same entries in the same order, and each issue in its place or in the metadata."""
    read = [entry for entry in drop_running_numbers(entries) if not isinstance(entry, FileNote)]
    assert len(read) == len(entries)
    for before, after in zip(entries, read, strict=True):
        if isinstance(before, Entry) and isinstance(before.record, Paper):
            assert isinstance(after, Entry)
            assert isinstance(after.record, Paper)
            assert before.record.issue == (after.record.issue if after.record.issue is not None else after.record.metadata.get(ROW_NUMBER))
        else:
            assert before is after


def endnote(count: int) -> str:
    records = "".join(
        f"<record><rec-number>{at}</rec-number><ref-type name='Journal Article'>17</ref-type><titles><title>On {at}</title>"
        f"<secondary-title>{JOURNALS[at % 15]}</secondary-title></titles><dates><year>{1990 + at * 5 % 17}</year></dates>"
        f"<number>{at + 1}</number></record>"
        for at in range(count)
    )
    return f"<xml><records>{records}</records></xml>"


FORMS = {
    "refs.xml": endnote(30),
    "refs.ris": "".join(f"TY  - JOUR\nTI  - On {at}\nT2  - {JOURNALS[at % 15]}\nIS  - {at + 1}\nER  - \n" for at in range(30)),
    "refs.bib": "".join(
        f"@article{{k{at}, title={{On {at}}}, journal={{{JOURNALS[at % 15]}}}, number={{{at + 1}}}}}\n" for at in range(30)
    ),
    "refs.csv": "title,journal,year,number\n" + "".join(f"On {at},{JOURNALS[at % 15]},{1990 + at * 5 % 17},{at + 1}\n" for at in range(30)),
}


@pytest.mark.parametrize("name", FORMS)
async def test_every_reader_passes_through_in_both_commands(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(FORMS[name])
    reader = select_reader(path)
    assert isinstance(reader, FileReader)
    shelves = MemoryShelves()
    report = await ingest(shelves, [path])
    assert {record.issue for record in shelves.records.values() if isinstance(record, Paper)} == {None}
    assert "running number" in report.files[0].remarks[0]
    with deduplicate_files([path], ReadOptions()) as works:
        assert any("running number" in note for note in works.notes)
