from __future__ import annotations

import asyncio
import gzip
import json
import os
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from outrider.ingest.entry import BadEntry, Entry, Parsed, ReadOptions
from outrider.ingest.pipeline import IngestProgress, ingest
from outrider.ingest.reader_thread import READ_AHEAD, Bounds, group_outcomes, read_groups
from outrider.ingest.readers.select_reader import FileReader
from outrider.ingest.record_ids import NamedRecord, Namer, Outcome, RepeatedEntry
from outrider.ingest.report import FileReport, IngestReport
from outrider.state.embedding import EmbeddingSpace
from outrider.state.errors import BadRequest, EmbeddingSpaceMismatch, ModelUnavailable, UnreadableFile
from outrider.state.records import Document, Identifiers
from support.memory_library import MemoryShelves
from support.minimal_pdf import pdf
from support.word_embedder import WordEmbedder

PATIENCE_S = 30
"""Of a test that waits for a thread: long enough for any machine."""
ROWS = [{"id": f"r{number}", "title": f"Title {number}", "abstract": "words " * 5} for number in range(10)]


def jsonl(path: Path, rows: list[dict[str, object]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def by_name(report: IngestReport) -> dict[str, FileReport]:
    return {Path(file.path).name: file for file in report.files}


def entry(text: str, own_id: str | None = None, **fields: object) -> Entry:
    return Entry(Document.model_validate({"doc_id": "", "text": text, **fields}), own_id)


def ids(namer: Namer, *entries: Parsed) -> list[str]:
    return [outcome.record.doc_id if isinstance(outcome, NamedRecord) else type(outcome).__name__ for outcome in namer.name_all(entries)]


# Naming


def test_own_ids_are_scoped_to_their_file() -> None:
    """Different own ids are different records even with equal texts; one own id in two files is two records."""
    one = ids(Namer("/a", single=False), entry("same", "1"), entry("same", "2"))
    two = ids(Namer("/b", single=False), entry("same", "1"), entry("same", "2"))
    assert len({*one, *two}) == 4
    assert one == ids(Namer("/a", single=False), entry("edited", "1"), entry("too", "2"))


def test_entries_without_id_are_one_where_they_are_equal() -> None:
    first, second, third = ids(Namer("/a", single=False), entry("x"), entry("x"), entry("y"))
    assert second == "RepeatedEntry"
    assert first != third


def test_a_repeated_id_loses_nothing() -> None:
    """Other contents under the same id get a suffix; a repeat of either is a repeat; an id that looks like one stays separate."""
    named = ids(Namer("/a", single=False), entry("x", "1"), entry("y", "1"), entry("x", "1"), entry("y", "1"), entry("z", "1#2"))
    assert named.count("RepeatedEntry") == 2
    assert len({*named}) == 4


def test_identifiers_name_what_has_no_id() -> None:
    """A corrected abstract is the same record; another title under the same DOI is not."""
    work = {"title": "On Lysis", "identifiers": Identifiers(doi="10.1/x")}
    (before,) = ids(Namer("/a", single=False), entry("", **work, abstract="teh"))
    (after,) = ids(Namer("/a", single=False), entry("", **work, abstract="the"))
    (other,) = ids(Namer("/a", single=False), entry("", **{**work, "title": "Another"}))
    assert before == after != other


def test_a_doc_id_of_ours_is_kept() -> None:
    """Our own export comes back under its own name; only the origin is new."""
    (named,) = Namer("/a", single=False).name_all([entry("x", doc_id="pypi:x", origin="installed")])
    assert isinstance(named, NamedRecord)
    assert (named.record.doc_id, named.record.origin) == ("pypi:x", "/a")


def test_half_a_character_is_a_failed_entry() -> None:
    """It cannot be hashed or stored; its neighbours go on."""
    bad, good = Namer("/a", single=False).name_all([entry("\ud800"), entry("x")])
    assert isinstance(bad, BadEntry)
    assert isinstance(good, NamedRecord)


@given(st.lists(st.tuples(st.sampled_from(["a", "b"]), st.sampled_from(["1", "1#2", "1#3", None])), max_size=12))
def test_no_two_contents_share_a_name(pairs: list[tuple[str, str | None]]) -> None:
    """Whatever ids and texts a file holds: each distinct (id, text) is one record, under a name of its own, every time."""
    entries = [entry(text, own_id) for text, own_id in pairs]
    names = [name for name in ids(Namer("/a", single=False), *entries) if name != "RepeatedEntry"]
    assert len(set(names)) == len(names) == len(set(pairs))
    assert names == [name for name in ids(Namer("/a", single=False), *entries) if name != "RepeatedEntry"]


# Feeding


def name_texts(*texts: str) -> list[Outcome]:
    return list(Namer("/a", single=False).name_all([entry(text) for text in texts]))


def test_groups_are_bounded_by_count_and_bytes() -> None:
    assert [len(group) for group in group_outcomes(name_texts(*"abcde"), Bounds(2, 10**6))] == [2, 2, 1]
    assert [len(group) for group in group_outcomes(name_texts(*(letter * 10_000 for letter in "abc")), Bounds(100, 15_000))] == [2, 1]
    assert isinstance(next(iter(name_texts("a"))), NamedRecord)
    assert isinstance(name_texts("a", "a")[1], RepeatedEntry)


async def test_a_reader_never_runs_far_ahead() -> None:
    """A consumer that stops taking stops the reader: few groups wait, whatever the file's size."""
    read: list[int] = []
    closed = threading.Event()

    def outcomes() -> Iterator[Outcome]:
        try:
            for number in range(1_000):
                read.append(number)
                yield name_texts(str(number))[0]
        finally:
            closed.set()

    groups = read_groups(outcomes, Bounds(10, 10**6))
    for count in range(1, 6):
        await anext(groups)
        assert len(read) <= 10 * (count + READ_AHEAD)
    await groups.aclose()
    assert await asyncio.to_thread(closed.wait, PATIENCE_S)
    assert len(read) <= 10 * (5 + READ_AHEAD)


async def test_what_was_read_before_a_break_arrives_before_it() -> None:
    def outcomes() -> Iterator[Outcome]:
        yield from name_texts("a", "b")
        raise UnreadableFile("breaks off")

    groups = read_groups(outcomes, Bounds(100, 10**6))
    assert len(await anext(groups)) == 2
    with pytest.raises(UnreadableFile, match="breaks off"):
        await anext(groups)


# The pipeline, on a library in memory


async def test_every_file_is_accounted_for(tmp_path: Path) -> None:
    """Read, skipped, empty or broken: each file is in the report, in order, with a reason where it is not simply read."""
    jsonl(tmp_path / "a.jsonl", [*ROWS])
    (tmp_path / "b.md").write_text("# Note")
    (tmp_path / "c.vec").write_bytes(b"\x00")
    (tmp_path / "d.pdf").write_bytes(b"")
    (tmp_path / "e.pdf").write_bytes(pdf([""]))
    (tmp_path / "f.xml").write_text('<!DOCTYPE a [<!ENTITY b "c">]><article>&b;</article>')
    (tmp_path / "g.md").symlink_to(tmp_path / "gone.md")
    (tmp_path / "h.txt").write_bytes(bytes(range(32)) * 9)
    report = await ingest(MemoryShelves(), [tmp_path])
    assert [Path(file.path).name for file in report.files] == ["a.jsonl", "b.md", "c.vec", "d.pdf", "e.pdf", "f.xml", "g.md", "h.txt"]
    assert [file.status for file in report.files] == ["added", "added", "skipped", *["failed"] * 5]
    assert [file.reasons[0].partition(";")[0] for file in report.files[2:]] == [
        "no reader for .vec", "is empty", "no text layer (scanned)",
        "refused, its XML declares entities or refers to other files (EntitiesForbidden)",
        f"a link to {tmp_path / 'gone.md'}, which does not exist", "binary, not text (234 control characters)",
    ]  # fmt: skip
    assert (report.added, report.skipped, report.failed) == (11, 1, 5)


async def test_the_report_names_encodings_and_replaced_bytes(tmp_path: Path) -> None:
    """Of text files only; a guess and a replaced byte are remarks, and no failure."""
    (tmp_path / "a.csv").write_bytes(b"id,title\n" + b"".join(f"{n},Über {n}\n".encode() for n in range(50)) + b"50,\xfcber\n")
    (tmp_path / "b.csv").write_bytes("title\nGrößere Häuser für ältere Mütter in München\n".encode("cp1252"))
    (tmp_path / "c.md").write_text("# Note", encoding="utf-8")
    (tmp_path / "d.pdf").write_bytes(pdf(["Some text of a page"]))
    files = by_name(await ingest(MemoryShelves(), [tmp_path]))
    assert {name: (file.encoding, file.replaced_bytes) for name, file in files.items()} == {
        "a.csv": ("utf-8 (best fit)", 1), "b.csv": ("cp1252 (guessed)", 0), "c.md": ("utf-8 (valid)", 0), "d.pdf": (None, 0),
    }  # fmt: skip
    assert files["a.csv"].remarks == ("read as utf-8 (best fit), 1 invalid byte replaced by U+FFFD, the first in line 52",)
    assert (files["a.csv"].status, files["b.csv"].status) == ("added", "added")
    assert files["b.csv"].remarks == ("read as cp1252 (guessed)",)


async def test_a_second_run_reads_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is remembered is not even opened by its reader, and only these files are looked up."""
    jsonl(tmp_path / "a.jsonl", ROWS)
    shelves = MemoryShelves()
    await ingest(shelves, [tmp_path])
    monkeypatch.setattr(FileReader, "read", lambda *args: pytest.fail("read again"))
    monkeypatch.setattr(MemoryShelves, "ingested_files", lambda _: pytest.fail("all files of the library were listed"))
    report = await ingest(shelves, [tmp_path])
    assert (report.added, report.updated, report.unchanged) == (0, 0, 10)
    assert report.files[0].status == "unchanged"


async def test_an_edited_file_updates_what_changed(tmp_path: Path) -> None:
    """One record of ten; and set back to what it was, it is read again."""
    path = jsonl(tmp_path / "a.jsonl", ROWS)
    shelves = MemoryShelves()
    await ingest(shelves, [path])
    jsonl(path, [{**ROWS[0], "title": "Edited"}, *ROWS[1:]])
    report = await ingest(shelves, [path])
    assert (report.added, report.updated, report.unchanged, report.files[0].status) == (0, 1, 9, "updated")
    jsonl(path, ROWS)
    assert (await ingest(shelves, [path])).updated == 1
    assert {record.title for record in shelves.records.values()} == {row["title"] for row in ROWS}


async def test_an_edited_note_stays_one_record(tmp_path: Path) -> None:
    """A format with one record a file: the file is the name, also when the title changes."""
    path = tmp_path / "a.md"
    shelves = MemoryShelves()
    for text in ("# One\n\ndoi 10.1000/x", "# Two"):
        path.write_text(text)
        await ingest(shelves, [path])
    assert [record.title for record in shelves.records.values()] == ["Two"]


async def test_the_same_content_elsewhere_is_not_a_new_record(tmp_path: Path) -> None:
    """A copy, a renamed file: unchanged, and the report names where it was read; in one run and over two."""
    (tmp_path / "a.md").write_text("# Note")
    (tmp_path / "b.md").write_text("# Note")
    shelves = MemoryShelves()
    report = await ingest(shelves, [tmp_path])
    assert by_name(report)["b.md"].reasons == (f"same content as {tmp_path / 'a.md'}",)
    (tmp_path / "a.md").rename(tmp_path / "c.md")
    assert (await ingest(shelves, [tmp_path])).unchanged == 2
    assert len(shelves.records) == 1


async def test_other_columns_read_the_file_again(tmp_path: Path) -> None:
    """The fingerprint holds the options that decide what is read."""
    (tmp_path / "a.csv").write_text("id,title,Summary\n1,A,about a\n")
    shelves = MemoryShelves()
    await ingest(shelves, [tmp_path])
    report = await ingest(shelves, [tmp_path], ReadOptions(columns={"abstract": "Summary"}))
    assert report.updated == 1
    assert [record.abstract for record in shelves.records.values()] == ["about a"]


async def test_batches_span_files_and_are_bounded(tmp_path: Path) -> None:
    """Many notes go in together, a large file in parts."""
    for number in range(25):
        (tmp_path / f"{number:02}.md").write_text(f"# Note {number}")
    shelves = MemoryShelves()
    await ingest(shelves, [tmp_path], batch_records=10)
    assert shelves.batches == [10, 10, 5]
    assert len(shelves.files) == 25
    jsonl(tmp_path / "z.jsonl", ROWS)
    await ingest(shelves, [tmp_path / "z.jsonl"], batch_bytes=1_200)
    assert max(shelves.batches[3:]) <= 3


async def test_a_bad_entry_makes_the_file_partial_every_time(tmp_path: Path) -> None:
    """It is read again by the next run, so that its failures are reported again; the good records are unchanged then."""
    path = jsonl(tmp_path / "a.jsonl", ROWS[:3])
    path.write_text(path.read_text() + "{broken\n")
    shelves = MemoryShelves()
    first, second = await ingest(shelves, [path]), await ingest(shelves, [path])
    assert (first.files[0].status, first.added, first.failed) == ("partial", 3, 1)
    assert (second.files[0].status, second.unchanged, second.failed) == ("partial", 3, 1)
    assert second.files[0].reasons[0].startswith("line 4")


async def test_many_reasons_are_cut(tmp_path: Path) -> None:
    """The first ones, and how many more."""
    (tmp_path / "a.jsonl").write_text('{"id": "1", "title": "T"}\n' + "{broken\n" * 50)
    (file,) = (await ingest(MemoryShelves(), [tmp_path])).files
    assert (file.failed, len(file.reasons), file.reasons[-1]) == (50, 20, "and 31 more")


async def test_a_file_changed_while_it_is_read_is_not_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its fingerprint would be of other bytes than its records."""
    path = jsonl(tmp_path / "a.jsonl", ROWS)
    read = FileReader.read

    def read_and_touch(self: FileReader, path: Path, options: ReadOptions) -> Iterator[Parsed]:
        yield from read(self, path, options)
        os.utime(path, ns=(1, 1))

    monkeypatch.setattr(FileReader, "read", read_and_touch)
    shelves = MemoryShelves()
    report = await ingest(shelves, [path])
    assert report.files[0].reasons == ("changed while it was read; ingest it again",)
    assert not shelves.files


async def test_a_file_without_permission_fails_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.md").write_text("# A")
    (tmp_path / "b.md").write_text("# B")
    opened = Path.open

    def refuse(path: Path, *args: object, **kwargs: object) -> object:
        if path.name == "a.md":
            raise PermissionError(13, "Permission denied", str(path))
        return opened(path, *args, **kwargs)  # type: ignore[call-overload]

    monkeypatch.setattr(Path, "open", refuse)
    report = by_name(await ingest(MemoryShelves(), [tmp_path]))
    assert (report["a.md"].status, report["a.md"].reasons) == ("failed", ("Permission denied",))
    assert report["b.md"].status == "added"


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may read everything")
async def test_a_file_that_really_has_no_permission(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("# A")
    (tmp_path / "a.md").chmod(0)
    assert (await ingest(MemoryShelves(), [tmp_path])).files[0].reasons == ("Permission denied",)


async def test_an_archive_bomb_is_refused(tmp_path: Path) -> None:
    """A small archive that unpacks beyond the limit fails alone, in bounded memory; so does a file above it."""
    with gzip.open(tmp_path / "bomb.jsonl.gz", "wb") as archive:
        for _ in range(64):
            archive.write(b" " * 2**20)
    (tmp_path / "large.txt").write_bytes(b"x" * (2**20 + 1))
    (tmp_path / "note.md").write_text("# Note")
    report = by_name(await ingest(MemoryShelves(), [tmp_path], ReadOptions(max_bytes=2**20)))
    assert {name: file.status for name, file in report.items()} == {"bomb.jsonl.gz": "failed", "large.txt": "failed", "note.md": "added"}
    assert "limit" in report["large.txt"].reasons[0]


async def test_installed_packages_are_one_line_of_the_report() -> None:
    """Added once, then unchanged."""
    shelves = MemoryShelves()
    first, second = await ingest(shelves, [], installed=True), await ingest(shelves, [], installed=True)
    assert first.added == len(shelves.records) > 20
    assert (second.added, second.updated, second.unchanged) == (0, 0, first.added)
    assert [(file.path, file.reader) for file in first.files] == [("installed", "installed")]
    assert shelves.records["pypi:pydantic"].origin == "installed"


async def test_nothing_to_ingest_and_a_missing_path_are_refused(tmp_path: Path) -> None:
    """Before anything is read."""
    (tmp_path / "a.md").write_text("# A")
    shelves = MemoryShelves()
    with pytest.raises(BadRequest, match="nothing to ingest"):
        await ingest(shelves, [])
    with pytest.raises(BadRequest, match="absent"):
        await ingest(shelves, [tmp_path, tmp_path / "absent"])
    assert not shelves.records


async def test_a_map_to_no_field_is_refused(tmp_path: Path) -> None:
    """Before anything is read or written, also where no table is among the files."""
    (tmp_path / "a.md").write_text("# A")
    shelves = MemoryShelves()
    with pytest.raises(BadRequest, match="--map: unknown field 'titel'; did you mean 'title'"):
        await ingest(shelves, [tmp_path], ReadOptions(columns={"titel": "Heading"}))
    assert not shelves.records


async def test_progress_ends_at_the_total(tmp_path: Path) -> None:
    """It never goes back, and names the file being read."""
    jsonl(tmp_path / "a.jsonl", ROWS)
    (tmp_path / "b.md").write_text("# B")
    reports: list[IngestProgress] = []
    await ingest(MemoryShelves(), [tmp_path], progress=reports.append, batch_records=3)
    assert (reports[-1].files_done, reports[-1].files_total, reports[-1].records, reports[-1].current) == (2, 2, 11, None)
    assert reports[-1].bytes_done == reports[-1].bytes_total > 0
    assert [now.records for now in reports] == sorted(now.records for now in reports)
    assert {now.current.name for now in reports if now.current} == {"a.jsonl", "b.md"}


async def test_a_cancelled_run_stops_at_once_and_is_completed_by_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not wait for a reader that takes its time; what was stored stays."""
    path = jsonl(tmp_path / "a.jsonl", ROWS)
    read = FileReader.read
    stored, released = asyncio.Event(), threading.Event()

    def slow(self: FileReader, path: Path, options: ReadOptions) -> Iterator[Parsed]:
        for place, item in enumerate(read(self, path, options)):
            if place == 5:
                released.wait(PATIENCE_S)
            yield item

    shelves = MemoryShelves()
    with monkeypatch.context() as patched:
        patched.setattr(FileReader, "read", slow)
        run = asyncio.create_task(ingest(shelves, [path], batch_records=2, progress=lambda now: stored.set() if now.records == 4 else None))
        await asyncio.wait_for(stored.wait(), PATIENCE_S)
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        assert not released.is_set()
        released.set()
    assert len(shelves.records) == 4
    assert not shelves.files
    report = await ingest(shelves, [path])
    assert (report.added, report.unchanged) == (6, 4)


async def test_a_run_cancelled_while_the_model_works_stores_what_it_has_read(tmp_path: Path) -> None:
    """Of files that were read to their end as well: else they would count as read with records that the library does not hold."""
    entered, released = threading.Event(), threading.Event()

    def hold(_: int) -> None:
        entered.set()
        released.wait(PATIENCE_S)

    shelves = MemoryShelves()
    await ingest(shelves, [jsonl(tmp_path / "a.jsonl", [{"id": "1", "title": "before"}])])
    jsonl(tmp_path / "a.jsonl", [{"id": "1", "title": "after"}])
    jsonl(tmp_path / "b.jsonl", [{"id": "2", "title": "new"}])
    for batch in (2, 100):  # the model works while files are read, and at the end
        entered.clear()
        shelves.records = {}
        run = asyncio.create_task(ingest(shelves, [tmp_path], batch_records=batch, embedder=WordEmbedder(before=hold)))
        await asyncio.to_thread(entered.wait, PATIENCE_S)
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        assert {record.title for record in shelves.records.values()} == {"after", "new"}
        shelves.files = {}
    released.set()


FILES = st.dictionaries(
    st.sampled_from(["a.md", "b.md", "c.txt", "d.jsonl", "sub/e.jsonl", "sub/f.txt"]),
    st.lists(st.tuples(st.sampled_from(["1", "2", None]), st.text(st.characters(codec="utf-8"), max_size=8)), max_size=4),
    max_size=4,
)


def write_files(root: Path, files: dict[str, list[tuple[str | None, str]]]) -> None:
    for name, rows in files.items():
        (root / name).parent.mkdir(exist_ok=True)
        if name.endswith(".jsonl"):
            jsonl(root / name, [{"title": text, "abstract": "x"} | ({"id": own} if own else {}) for own, text in rows])
        else:
            (root / name).write_text("\n".join(text for _, text in rows), encoding="utf-8", newline="")


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(FILES, st.integers(1, 4))
def test_ingestion_twice_equals_once(files: dict[str, list[tuple[str | None, str]]], batch: int) -> None:
    """Whatever the files and the size of batches: a second run adds and changes nothing, and the batches do not show."""
    with tempfile.TemporaryDirectory() as folder:
        write_files(Path(folder), files)
        shelves, whole = MemoryShelves(), MemoryShelves()
        first = asyncio.run(ingest(shelves, [Path(folder)], batch_records=batch))
        once = dict(shelves.records)
        second = asyncio.run(ingest(shelves, [Path(folder)]))
        asyncio.run(ingest(whole, [Path(folder)]))
    assert shelves.records == once == whole.records
    assert (second.added, second.updated, second.failed) == (0, 0, first.failed)
    assert first.added == len(once)
    assert len(first.files) == len(second.files) == len(files)


async def test_an_empty_entry_is_reported_and_does_not_make_the_file_partial(tmp_path: Path) -> None:
    """Otherwise the file would be read again and again."""
    (tmp_path / "some.ris").write_text("TY  - JOUR\nTI  - Liver\nER  - \n\nTY  - JOUR\nER  - \n")
    library = MemoryShelves()
    first = await ingest(library, [tmp_path])
    assert (first.added, first.failed, first.files[0].status) == (1, 0, "added")
    assert "neither title nor text" in first.files[0].reasons[0]
    assert (await ingest(library, [tmp_path])).files[0].status == "unchanged"


async def test_a_table_without_a_known_column_is_skipped_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "odd.csv").write_text("x,y\n1,2\n")
    report = await ingest(MemoryShelves(), [tmp_path])
    assert (report.skipped, report.failed, report.files[0].status) == (1, 0, "skipped")
    assert "--map" in report.files[0].reasons[0]


async def test_a_known_file_whose_records_are_gone_is_read_again(tmp_path: Path) -> None:
    """The ledger alone is not trusted."""
    (tmp_path / "a.md").write_text("# Liver\n\nText")
    library = MemoryShelves()
    await ingest(library, [tmp_path])
    library.records.clear()
    assert (await ingest(library, [tmp_path])).added == 1


# Vectors


async def test_changed_records_are_embedded_before_they_are_written(tmp_path: Path) -> None:
    shelves, model = MemoryShelves(), WordEmbedder(context=3, refused=frozenset({"Cursed"}))
    path = jsonl(tmp_path / "rows.jsonl", [*ROWS, {"id": "none", "title": "Cursed"}])
    reports: list[IngestProgress] = []
    report = await ingest(shelves, [path], embedder=model, progress=reports.append)
    assert (report.vectors.model, report.vectors.embedded, report.vectors.cut, report.vectors.off) == ("words", 10, 10, "")
    (cursed,) = {*shelves.records} - {*shelves.vectors}
    assert (report.vectors.without, report.vectors.reasons) == (1, (f"{cursed}: refused",))
    assert (11, 11) in [now.embedding for now in reports]
    again = await ingest(shelves, [path], embedder=model)
    assert (again.unchanged, again.vectors.embedded, again.vectors.without) == (11, 0, 0)


async def test_without_a_model_the_report_gives_the_reason(tmp_path: Path) -> None:
    shelves = MemoryShelves()
    report = await ingest(shelves, [jsonl(tmp_path / "rows.jsonl", ROWS)], off="no weights on this machine")
    assert (report.added, report.vectors.without, report.vectors.off) == (10, 10, "no weights on this machine")
    assert shelves.vectors == {}


async def test_another_model_or_none_at_all_is_reported_before_anything_is_read(tmp_path: Path) -> None:
    shelves = MemoryShelves(space=WordEmbedder(name="other").space)
    path = jsonl(tmp_path / "rows.jsonl", ROWS)
    with pytest.raises(EmbeddingSpaceMismatch):
        await ingest(shelves, [path], embedder=WordEmbedder())

    class Missing(WordEmbedder):
        @property
        def space(self) -> EmbeddingSpace:
            raise ModelUnavailable("no weights")

    with pytest.raises(ModelUnavailable):
        await ingest(shelves, [path], embedder=Missing())
    assert (shelves.records, shelves.files) == ({}, {})


async def test_a_model_that_dies_in_the_middle_costs_no_record(tmp_path: Path) -> None:
    """The model is not called again, and what was embedded before stays."""
    shelves = MemoryShelves()
    model = WordEmbedder(error=ModelUnavailable("the endpoint is gone"), error_after=4)
    report = await ingest(shelves, [jsonl(tmp_path / "rows.jsonl", ROWS)], embedder=model, batch_records=4)
    assert (report.added, len(shelves.records), report.failed) == (10, 10, 0)
    assert (report.vectors.embedded, report.vectors.without, report.vectors.off) == (4, 6, "the endpoint is gone")
    assert len(model.texts) == 4
