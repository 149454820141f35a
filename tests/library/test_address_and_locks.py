"""Opening of a library: by the state of its folder, its format and its damage."""

from __future__ import annotations

import asyncio
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from outrider.library import maintenance, schema
from outrider.library.address_and_locks import Location
from outrider.library.library import Library
from outrider.state.errors import BadRequest, LibraryCorrupt, LibraryMissing, LibraryReadOnly, LibraryTooNew, LibraryTooOld
from outrider.state.records import Paper


async def fill(path: Path) -> Path:
    library = await Library.open(path, create=True)
    await library.upsert([Paper(doc_id=f"{number}", title=f"fox {number}", abstract="quick " * 50) for number in range(50)])
    await library.optimize(force=True)
    library.close()
    return path


def contents(path: Path) -> list[str]:
    return [entry.name for entry in path.iterdir()]


async def test_a_missing_folder_is_created_only_with_create(tmp_path: Path) -> None:
    with pytest.raises(LibraryMissing, match=r"no library at .*outrider ingest PATH\.\.\."):
        await Library.open(tmp_path / "deep" / "library")
    assert contents(tmp_path) == []
    library = await Library.open(str(tmp_path / "deep" / "library"), create=True)
    assert await library.count() == 0


async def test_an_empty_folder_becomes_a_library(tmp_path: Path) -> None:
    (tmp_path / ".DS_Store").touch()
    library = await Library.open(tmp_path)
    assert await library.search("anything") == []
    assert (await library.info()).records == 0
    assert await library.check() == ()
    assert (await Library.open(f"file://{tmp_path}")).library_id == library.library_id


@pytest.mark.parametrize("place", ["file/library", "file/deep/library", "link", "/proc/library", "/sys/library", "x" * 300])
async def test_where_nothing_can_be_made_is_no_damage(tmp_path: Path, place: str) -> None:
    """Below a file, where a link leads nowhere, in a file system that takes nothing, under a name too long."""
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    path = tmp_path / place
    if path.parent in (Path("/proc"), Path("/sys")) and not path.parent.is_dir():
        pytest.skip(f"{path.parent} is of Linux")
    with pytest.raises(LibraryReadOnly, match=r"^no library can be made at .*: [A-Z].*; name another folder with --library$"):
        await Library.open(path, create=True)
    with pytest.raises(LibraryMissing, match="no library at"):
        await Library.open(path)
    assert sorted(contents(tmp_path)) == ["file", "link"]


async def test_two_openings_at_once_make_one_library(tmp_path: Path) -> None:
    opened = await asyncio.gather(*(Library.open(tmp_path / "new", create=True) for _ in range(4)))
    assert len({library.library_id for library in opened}) == 1


@pytest.mark.parametrize("create", [True, False])
async def test_a_folder_with_something_else_stays_unchanged(tmp_path: Path, create: bool) -> None:
    (tmp_path / "thesis.docx").write_text("important")
    with pytest.raises(LibraryMissing, match="is no Outrider library and is not empty"):
        await Library.open(tmp_path, create=create)
    with pytest.raises(LibraryMissing, match="is no Outrider library"):
        await Library.open(tmp_path / "thesis.docx", create=create)
    assert contents(tmp_path) == ["thesis.docx"]


async def test_another_programs_database_stays_unchanged(tmp_path: Path) -> None:
    import lancedb

    connection = await lancedb.connect_async(tmp_path)
    await connection.create_table("records", [{"a": 1}])
    with pytest.raises(LibraryMissing, match="is no Outrider library"):
        await Library.open(tmp_path, create=True)


async def test_a_newer_format_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("outrider.library.schema.FORMAT", 99)
    await Library.open(tmp_path)
    monkeypatch.undo()
    with pytest.raises(LibraryTooNew, match="has format 99, this Outrider reads up to 3; update Outrider"):
        await Library.open(tmp_path)


@pytest.mark.parametrize("old", [1, 2])
async def test_a_format_from_before_the_first_release_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old: int) -> None:
    monkeypatch.setattr("outrider.library.schema.FORMAT", old)
    await Library.open(tmp_path)
    monkeypatch.undo()
    with pytest.raises(LibraryTooOld, match=rf"has format {old}, .* ingest its files into a new folder"):
        await Library.open(tmp_path)


def _delete(file: Path) -> None:
    file.unlink()


def _truncate(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def _empty(file: Path) -> None:
    file.write_bytes(b"")


def _garble(file: Path) -> None:
    file.write_bytes(bytes(255 - byte for byte in file.read_bytes()))


@pytest.mark.parametrize("harm", [_delete, _truncate, _empty, _garble])
@pytest.mark.parametrize("part", ["_versions", "data"])
async def test_damaged_files_are_named_as_such(tmp_path: Path, part: str, harm: Callable[[Path], None]) -> None:
    path = await fill(tmp_path / "library")
    for file in (path / "records.lance" / part).iterdir():
        harm(file)
    with pytest.raises(LibraryCorrupt, match="is damaged"):
        await (await Library.open(path)).search("fox")
    if part == "data":
        library = await Library.open(path)
        (problem,) = await library.check()
        assert "is damaged" in problem
        with pytest.raises(LibraryCorrupt, match="is damaged"):
            await library.fetch(["1"])


async def test_an_emptied_table_is_damage_and_not_a_new_library(tmp_path: Path) -> None:
    path = await fill(tmp_path / "library")
    shutil.rmtree(path / "records.lance")
    (path / "records.lance").mkdir()
    with pytest.raises(LibraryCorrupt, match="no readable version"):
        await Library.open(path, create=True)


async def test_a_lost_index_is_found_and_built_again(tmp_path: Path) -> None:
    path = await fill(tmp_path / "library")
    for index in (path / "records.lance" / "_indices").iterdir():
        shutil.rmtree(index)
    library = await Library.open(path)
    with pytest.raises(LibraryCorrupt, match="is damaged"):
        await library.search("fox")
    indexed = (schema.RANKED, *maintenance.EXACT_COLUMNS, *schema.BTREE, *schema.BITMAP)
    assert [problem.split(" cannot")[0] for problem in await library.check()] == [f"the index on {column}" for column in indexed]
    await library.optimize(force=True)
    assert len(await library.search("fox", limit=3)) == 3
    assert await library.check() == ()


AS_NOBODY = """
import asyncio, os, sys
from outrider.library.address_and_locks import Location
from outrider.library.library import Library
from outrider.state.errors import LibraryReadOnly
from outrider.state.records import Paper

async def use(path):
    library = await Library.open(path)
    print(len(await library.search("fox", limit=5)), await library.match("fox 7"), await library.count(), len(await library.page()))
    print((await library.info()).records, await library.check(), len([record async for record in library.scan()]))
    for write in (lambda: library.upsert([Paper(doc_id="new")]), lambda: library.remove(["1"]), lambda: library.tag("x"), library.optimize):
        try:
            await write()
            print("written")
        except LibraryReadOnly as error:
            print(error)

asyncio.run(use(sys.argv[2]))  # everything is imported before the privileges go
print("---")
if os.getuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
asyncio.run(use(sys.argv[1]))
"""


@pytest.fixture
def shared_folder() -> Iterator[Path]:
    """A folder that every user may enter, unlike pytest's own."""
    path = Path(tempfile.mkdtemp())
    path.chmod(0o755)
    yield path
    for folder in (path, *path.rglob("*")):
        folder.chmod(folder.stat().st_mode | stat.S_IRWXU)
    shutil.rmtree(path)


async def test_a_library_that_may_only_be_read_is_searched(shared_folder: Path, tmp_path: Path) -> None:
    path, other = await fill(shared_folder / "library"), await fill(tmp_path / "other")
    for file in (path, *path.rglob("*")):
        file.chmod(0o555 if file.is_dir() else 0o444)
    command = [sys.executable, "-c", AS_NOBODY, str(path), str(other)]
    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=False, env={**os.environ, "HOME": "/"})
    assert done.returncode == 0, done.stderr
    lines = done.stdout.split("---\n")[1].splitlines()
    assert lines[:2] == ["5 ['7'] 50 20", "50 () 50"]
    assert len(lines) == 6
    assert all(line.endswith("cannot be written by this user; searching it works") for line in lines[2:])


async def test_an_address_that_no_library_can_have_is_refused_before_anything_is_opened() -> None:
    with pytest.raises(BadRequest, match="folder or in an object store"):
        await Library.open("foo://user:secret@host/x")


async def test_a_lock_whose_taking_is_cancelled_is_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread takes the lock although its task was cancelled meanwhile: it must be released after that."""
    location = Location.parse(tmp_path)
    began, go_on, ended = threading.Event(), threading.Event(), threading.Event()
    take, taken = Location._try_lock, list[object]()

    def take_slowly(self: Location, path: Path, acquire: Callable[..., object]) -> bool:
        taken.append(acquire)  # as a traceback may: else the lock is released when it is collected
        began.set()
        go_on.wait(30)
        try:
            return take(self, path, acquire)
        finally:
            ended.set()

    async def write() -> None:
        async with location.lock_writes():
            pytest.fail("it was cancelled")

    monkeypatch.setattr(Location, "_try_lock", take_slowly)
    task = asyncio.create_task(write())
    await asyncio.to_thread(began.wait, 30)
    task.cancel()
    await asyncio.sleep(0.05)
    go_on.set()
    await asyncio.to_thread(ended.wait, 30)
    with pytest.raises(asyncio.CancelledError):
        await task
    async with location.lock_writes(wait_s=1.0):
        pass
