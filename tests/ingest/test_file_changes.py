"""Files renamed, edited or deleted since the last ingestion, in memory and on disk."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from outrider.ingest import file_changes
from outrider.ingest.export import make_writer
from outrider.ingest.pipeline import ingest
from outrider.ingest.report import IngestReport
from outrider.library.library import Library
from outrider.state.errors import BadRequest
from outrider.state.records import Record
from support.memory_library import MemoryShelves

Shelves = MemoryShelves | Library


def ris(path: Path, *titles: str, ids: bool = True) -> Path:
    lines = [f"TY  - JOUR\n{f'ID  - {title}' if ids else 'DO  - 10.1/' + title}\nTI  - On {title}\nER  - \n" for title in titles]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines))
    return path


async def read_records(shelves: Shelves) -> dict[str, Record]:
    if isinstance(shelves, MemoryShelves):
        return dict(shelves.records)
    return {record.doc_id: record async for record in shelves.scan()}


async def read_ids(shelves: Shelves) -> dict[str, str]:
    """Id by title; the title of each record must be unique."""
    records = await read_records(shelves)
    assert len({record.title for record in records.values()}) == len(records)
    return {record.title: doc_id for doc_id, record in records.items()}


def list_stale(report: IngestReport) -> dict[str, tuple[str, ...]]:
    return {Path(one.path).name: one.titles for one in report.stale}


@pytest.fixture(params=["memory", "library"])
async def shelves(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    if request.param == "memory":
        return MemoryShelves()
    return await Library.open(tmp_path / "library", create=True)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "papers").mkdir()
    return tmp_path / "papers"


async def test_records_that_left_a_file_are_reported_until_they_are_pruned(shelves: Shelves, folder: Path) -> None:
    """Every run reports them, also where the file is unchanged since; only `remove` removes them, and then nothing is left to say."""
    path = ris(folder / "refs.ris", "a", "b", "c")
    await ingest(shelves, [path])
    ris(path, "a", "d")
    for _ in range(2):
        report = await ingest(shelves, [path])
        assert list_stale(report) == {"refs.ris": ("On b", "On c")} or list_stale(report) == {"refs.ris": ("On c", "On b")}
        assert not report.stale[0].gone
        assert not report.stale[0].removed
    assert set(await read_ids(shelves)) == {"On a", "On b", "On c", "On d"}
    report = await ingest(shelves, [path], prune="list")
    assert len(report.stale[0].doc_ids) == 2
    report = await ingest(shelves, [path], prune="remove")
    assert report.stale[0].removed
    assert set(await read_ids(shelves)) == {"On a", "On d"}
    report = await ingest(shelves, [path], prune="remove")
    assert report.stale == ()
    assert report.files[0].status == "unchanged"


async def test_a_deleted_file_is_reported_and_pruned_with_its_folder(shelves: Shelves, folder: Path) -> None:
    ris(folder / "a.ris", "a")
    gone = ris(folder / "sub" / "b.ris", "b", "c")
    await ingest(shelves, [folder])
    shutil.rmtree(gone.parent)
    report = await ingest(shelves, [folder])
    assert [(Path(one.path).name, one.gone, len(one.doc_ids)) for one in report.stale] == [("b.ris", True, 2)]
    assert len(await read_ids(shelves)) == 3
    await ingest(shelves, [folder], prune="remove")
    assert set(await read_ids(shelves)) == {"On a"}
    assert (await ingest(shelves, [folder])).stale == ()


async def test_a_deleted_file_outside_the_run_is_named_and_kept(shelves: Shelves, folder: Path) -> None:
    """Pruning is for the paths that were given; the path itself may be given though it no longer exists."""
    here, gone = ris(folder / "a.ris", "a"), ris(folder.parent / "b.ris", "b")
    await ingest(shelves, [here, gone])
    gone.unlink()
    report = await ingest(shelves, [here], prune="remove")
    assert (report.stale, report.gone_elsewhere) == ((), (str(gone),))
    assert len(await read_ids(shelves)) == 2
    with pytest.raises(BadRequest, match=r"b\.ris: there is no such file or folder; the library holds 1 record\(s\) of it"):
        await ingest(shelves, [gone])
    assert (await ingest(shelves, [gone], prune="list")).stale[0].gone
    await ingest(shelves, [gone], prune="remove")
    assert set(await read_ids(shelves)) == {"On a"}
    with pytest.raises(BadRequest, match="there is no such file or folder; give paths"):
        await ingest(shelves, [gone], prune="remove")


async def test_a_renamed_file_keeps_its_ids_also_when_it_is_edited_later(shelves: Shelves, folder: Path) -> None:
    """The records move to the new path. Ids are made as before, and a new file at the former path gets others."""
    path = ris(folder / "a.ris", "a", "b", ids=True)
    await ingest(shelves, [folder])
    before = await read_ids(shelves)
    new = path.rename(folder / "z.ris")
    report = await ingest(shelves, [folder])
    assert (report.added, report.updated, report.unchanged, report.stale) == (0, 0, 2, ())
    assert report.files[0].remarks == (f"renamed from {path}; its records keep their ids",)
    assert await read_ids(shelves) == before
    assert {record.origin for record in (await read_records(shelves)).values()} == {str(new)}
    assert (await ingest(shelves, [folder])).files[0].remarks == ()
    ris(new, "a", "c")
    report = await ingest(shelves, [folder], prune="remove")
    assert (report.added, report.unchanged, list_stale(report)) == (1, 1, {"z.ris": ("On b",)})
    assert (await read_ids(shelves))["On a"] == before["On a"]
    ris(path, "a")  # the same own id in another file
    path.write_text(path.read_text().replace("On a", "Another"))
    assert (await ingest(shelves, [folder])).added == 1
    records = await read_ids(shelves)
    assert records["On a"] == before["On a"]
    assert set(records) == {"On a", "On c", "Another"}
    again = await ingest(shelves, [folder])
    assert (again.added, again.updated, again.stale) == (0, 0, ())


async def test_a_file_that_was_renamed_and_edited_is_known_by_its_records(shelves: Shelves, folder: Path) -> None:
    path = ris(folder / "a.ris", "a", "b", "c", "d")
    ris(folder / "other.ris", "x", "y")
    await ingest(shelves, [folder])
    before = await read_ids(shelves)
    path.unlink()
    ris(folder / "b.ris", "a", "b", "d", "e")
    report = await ingest(shelves, [folder])
    assert (report.added, report.unchanged, list_stale(report)) == (1, 5, {"b.ris": ("On c",)})
    after = await read_ids(shelves)
    assert {title: after[title] for title in before} == before


async def test_another_file_with_the_same_own_ids_is_not_the_renamed_one(shelves: Shelves, folder: Path) -> None:
    """Own ids such as 1, 2, 3 are in every file; only contents make a file known."""
    path = ris(folder / "a.ris", "a", "b")
    await ingest(shelves, [folder])
    before = set((await read_ids(shelves)).values())
    path.unlink()
    ris(folder / "b.ris", "a", "b").write_text((ris(folder / "b.ris", "a", "b")).read_text().replace("On ", "Of "))
    report = await ingest(shelves, [folder])
    assert (report.added, len(report.stale)) == (2, 1)
    assert len(before & set((await read_ids(shelves)).values())) == 2


async def test_names_passed_on_from_file_to_file(shelves: Shelves, folder: Path) -> None:
    """a becomes b while b becomes c, as in a rotation: every record keeps its id and has its present file."""
    first, second = ris(folder / "a.ris", "a", "1"), ris(folder / "b.ris", "b", "2")
    await ingest(shelves, [folder])
    before = await read_ids(shelves)
    second.rename(folder / "c.ris")
    first.rename(folder / "b.ris")
    report = await ingest(shelves, [folder])
    assert (report.added, report.updated, report.unchanged, report.stale) == (0, 0, 4, ())
    assert await read_ids(shelves) == before
    origins = {record.title: Path(record.origin or "").name for record in (await read_records(shelves)).values()}
    assert origins == {"On a": "b.ris", "On 1": "b.ris", "On b": "c.ris", "On 2": "c.ris"}
    assert (await ingest(shelves, [folder])).unchanged == 4


async def test_a_renamed_folder_keeps_all(shelves: Shelves, folder: Path) -> None:
    for number in range(5):
        ris(folder / f"{number}.ris", f"t{number}")
    await ingest(shelves, [folder])
    before = await read_ids(shelves)
    new = folder.parent / "literature"
    shutil.move(folder, new)
    report = await ingest(shelves, [new])
    assert (report.unchanged, report.added, report.gone_elsewhere) == (5, 0, ())
    assert await read_ids(shelves) == before


async def test_a_copy_leaves_the_records_where_they_are(shelves: Shelves, folder: Path) -> None:
    """Until the first file is deleted: then they belong to the copy. A copy of what a file held before is a file of its own."""
    path = ris(folder / "b.ris", "a")
    await ingest(shelves, [folder])
    before = await read_ids(shelves)
    shutil.copy(path, folder / "c.ris")
    assert (await ingest(shelves, [folder])).unchanged == 2
    path.unlink()
    assert (await ingest(shelves, [folder])).stale == ()
    assert await read_ids(shelves) == before
    shutil.copy(folder / "c.ris", folder / "a.ris")
    ris(folder / "c.ris", "new")
    report = await ingest(shelves, [folder])
    assert {record.title for record in (await read_records(shelves)).values()} == {"On a", "On new"}
    assert report.added >= 1


@pytest.mark.parametrize("damage", ["empty", "cut", "unreadable"])
async def test_a_file_that_cannot_be_read_loses_nothing(
    shelves: Shelves, folder: Path, monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    """An empty, broken or locked file, also with `remove`: what could not be read may still be in it."""
    path = folder / "a.jsonl"
    path.write_text("".join(json.dumps({"id": str(n), "title": f"T{n}"}) + "\n" for n in range(4)))
    await ingest(shelves, [folder])
    path.write_text({"empty": "", "cut": json.dumps({"id": "0", "title": "T0"}) + '\n{"id": "1", "ti', "unreadable": "{}"}[damage])
    if damage == "unreadable":
        opened = Path.open

        def refuse(path: Path, *args: Any, **kwargs: Any) -> Any:
            if path.suffix == ".jsonl":
                raise PermissionError(13, "Permission denied", str(path))
            return opened(path, *args, **kwargs)

        monkeypatch.setattr(Path, "open", refuse)
    report = await ingest(shelves, [folder], prune="remove")
    assert (report.failed, report.stale) == (1, ())
    assert len(await read_ids(shelves)) == 4


async def test_a_path_that_cannot_be_looked_at_is_not_gone(shelves: Shelves, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broken mount or a folder without permission is no deletion."""
    path = ris(folder / "a.ris", "a")
    ris(folder / "b.ris", "b")
    await ingest(shelves, [folder])
    lstat = os.lstat

    def refuse(place: Any, **kwargs: Any) -> os.stat_result:
        if str(place) == str(path):
            raise OSError(5, "Input/output error")
        return lstat(place, **kwargs)

    path.unlink()
    monkeypatch.setattr(file_changes.os, "lstat", refuse)
    report = await ingest(shelves, [folder], prune="remove")
    assert (report.stale, report.gone_elsewhere) == ((), ())


async def test_an_empty_folder_is_no_deletion_of_all(shelves: Shelves, folder: Path) -> None:
    """A drive that is not mounted leaves an empty folder; its files are named, and pruned only by their own paths."""
    path = ris(folder / "a.ris", "a")
    await ingest(shelves, [folder])
    path.unlink()
    report = await ingest(shelves, [folder], prune="remove")
    assert (report.stale, report.gone_elsewhere) == ((), (str(path),))
    assert len(await read_ids(shelves)) == 1
    assert (await ingest(shelves, [path], prune="remove")).stale[0].removed
    assert not await read_ids(shelves)


async def test_a_file_emptied_of_its_records_keeps_them_and_says_so(shelves: Shelves, folder: Path) -> None:
    """A file without any record is no evidence: columns may have other names now, or the disk was full when it was written."""
    path = folder / "a.json"
    path.write_text('[{"id": "1", "title": "T"}]')
    await ingest(shelves, [path])
    path.write_text("[]")
    report = await ingest(shelves, [path], prune="remove")
    assert (len(report.stale), len(await read_records(shelves))) == (0, 1)
    assert report.files[0].remarks[0].startswith("1 records of an earlier reading are in the library and stay there")


async def test_a_record_that_an_export_holds_is_not_lost_with_its_file(shelves: Shelves, folder: Path) -> None:
    """An export keeps the ids of its records: they belong to it once their first file is deleted."""
    path = ris(folder / "a.ris", "a", "b")
    await ingest(shelves, [folder])
    records = await read_records(shelves)
    with (folder / "export.jsonl").open("w") as stream:
        writer = make_writer("jsonl", stream)
        writer.record(next(record for record in records.values() if record.title == "On a"))
    path.unlink()
    report = await ingest(shelves, [folder], prune="remove")
    assert list_stale(report) == {"a.ris": ("On b",)}
    assert {record.title: Path(record.origin or "").name for record in (await read_records(shelves)).values()} == {"On a": "export.jsonl"}


async def test_a_first_run_looks_for_nothing(folder: Path) -> None:
    """Without files in the library no file is hashed or read twice."""
    ris(folder / "a.ris", "a")
    report = await ingest(MemoryShelves(), [folder])
    assert (report.stale, report.gone_elsewhere, report.files[0].remarks) == ((), (), ())


async def test_an_uninstalled_package_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    shelves = MemoryShelves()
    await ingest(shelves, [], installed=True)
    monkeypatch.setattr("outrider.ingest.pipeline.read_installed_packages", lambda: iter(()))
    report = await ingest(shelves, [], installed=True)
    assert "pypi:pydantic" in report.stale[0].doc_ids


async def test_a_file_that_is_renamed_and_edited_to_and_fro_holds_what_it_holds(shelves: Shelves, folder: Path) -> None:
    """What was known of the path's first content does not count for the records that moved to it."""
    for name, titles in (("a.ris", "412"), ("b.ris", "123"), ("a.ris", "412")):
        (folder / "a.ris").unlink(missing_ok=True)
        (folder / "b.ris").unlink(missing_ok=True)
        ris(folder / name, *titles)
        await ingest(shelves, [folder], prune="remove")
    assert set(await read_ids(shelves)) == {"On 4", "On 1", "On 2"}


CONTENTS = st.dictionaries(
    st.sampled_from(["a", "b", "c", "d"]), st.lists(st.sampled_from("123456"), min_size=1, max_size=4, unique=True), min_size=1, max_size=4
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(CONTENTS, min_size=2, max_size=4))
def test_after_pruning_the_library_holds_what_the_files_hold(states: list[dict[str, list[str]]]) -> None:
    """Whatever files are written, renamed, swapped and deleted from run to run: pruned, the library is that of a first run, but for ids."""

    async def run(folder: Path) -> None:
        shelves = MemoryShelves()
        for number, state in enumerate(states):
            for name in "abcd":
                (folder / f"{name}.json").unlink(missing_ok=True)
            for name, titles in state.items():
                # the number makes a content that is in two files two records; equal files are one
                (folder / f"{name}.json").write_text(json.dumps([{"id": title, "title": f"{title}"} for title in titles]))
            await ingest(shelves, [folder], prune="remove")
            fresh = MemoryShelves()
            await ingest(fresh, [folder])
            titles = sorted({(record.title, record.content_hash()) for record in shelves.records.values()})
            assert titles == sorted({(record.title, record.content_hash()) for record in fresh.records.values()}), number
            again = await ingest(shelves, [folder], prune="remove")
            assert (again.added, again.updated, again.stale) == (0, 0, ())

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(run(Path(folder)))
