"""Results are saved in the background, one search at a time; errors without a waiting caller are logged."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from filelock import FileLock

from outrider.library.address_and_locks import LOCK
from outrider.library.library import Library
from outrider.library.maintenance import DUE_FRAGMENTS
from outrider.nodes.enrich.enrich import ORIGIN, update_stored_record
from outrider.services import save_results
from outrider.services.save_results import ResultSaver, maintain_library, wait_for_saves
from outrider.state.errors import LibraryBusy, LibraryCorrupt
from outrider.state.records import Record
from support.fakes import paper
from support.patience import BUSY_S

ONE = paper("crossref:1", "Livers", abstract="Said.", source="crossref")


def make_saver(folder: Path) -> ResultSaver:
    return ResultSaver(lambda: Library.open(folder, create=True))


async def test_a_library_is_created_and_reports_new_and_changed_records(tmp_path: Path) -> None:
    saver = make_saver(tmp_path / "library")
    assert await saver.keep([ONE], update_stored_record) == (1, 0)
    assert await saver.keep([ONE], update_stored_record) == (0, 0)
    assert await saver.keep([ONE.model_copy(update={"citations": 5}), paper("s2:1", abstract="x", source="s2")], update_stored_record) == (
        1,
        1,
    )
    library = await Library.open(tmp_path / "library")
    assert [(one.origin, one.citations) for one in await library.fetch(["crossref:1"])] == [(ORIGIN, 5)]
    library.close()
    await asyncio.to_thread(wait_for_saves)


async def test_what_others_write_while_records_are_embedded_is_kept(tmp_path: Path) -> None:
    saver = make_saver(tmp_path / "library")
    await saver.keep([ONE], update_stored_record)

    async def write_meanwhile(library: Library, records: Sequence[Record]) -> None:
        (stored,) = await library.fetch([ONE.doc_id])
        await library.upsert([stored.model_copy(update={"text": "My notes."})])

    saver = ResultSaver(saver.open_library, write_meanwhile)
    await saver.keep([ONE.model_copy(update={"citations": 5})], update_stored_record)
    library = await Library.open(tmp_path / "library")
    assert [(one.text, one.citations) for one in await library.fetch([ONE.doc_id])] == [("My notes.", 5)]
    library.close()
    await asyncio.to_thread(wait_for_saves)


def test_saving_continues_after_its_caller_stops_waiting(tmp_path: Path) -> None:
    """Also after the end of the loop: a command ends its loop before it prints the answer."""

    go_on = threading.Event()

    async def slow() -> Library:
        await asyncio.to_thread(go_on.wait, 60)
        return await Library.open(tmp_path / "library", create=True)

    async def search() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await ResultSaver(slow).keep([ONE], update_stored_record)

    asyncio.run(search())
    go_on.set()
    wait_for_saves()

    async def read_ids() -> list[str]:
        library = await Library.open(tmp_path / "library")
        try:
            return [one.doc_id for one in await library.fetch(["crossref:1"])]
        finally:
            library.close()

    assert asyncio.run(read_ids()) == ["crossref:1"]


async def test_concurrent_searches_save_one_after_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(save_results, "WAIT_S", 0.0)
    saver = make_saver(tmp_path / "library")
    works = [paper(f"crossref:{number}", abstract="Said.", source="crossref") for number in range(6)]
    assert await asyncio.gather(*(saver.keep([work], update_stored_record) for work in works)) == [(1, 0)] * 6
    await asyncio.to_thread(wait_for_saves)


async def test_another_writing_process_is_reported_to_the_caller_or_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(save_results, "WAIT_S", 0.3)
    (await Library.open(tmp_path / "library", create=True)).close()
    with FileLock(tmp_path / "library" / LOCK):
        with pytest.raises(LibraryBusy):
            await make_saver(tmp_path / "library").keep([ONE], update_stored_record)
        assert not caplog.records
        with caplog.at_level(logging.WARNING), pytest.raises(TimeoutError):
            async with asyncio.timeout(0.0):
                await make_saver(tmp_path / "library").keep([ONE], update_stored_record)
        await asyncio.to_thread(wait_for_saves)
        await asyncio.sleep(0)
    assert "1 works of a search were not saved to the library: the library at" in caplog.text


async def test_saving_ends_even_if_the_library_never_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(save_results, "LIMIT_S", 0.2)

    async def never() -> Library:
        await asyncio.sleep(600)
        raise AssertionError

    began = time.monotonic()
    with pytest.raises(LibraryBusy, match=r"more than 0\.2 s"):
        await ResultSaver(never).keep([ONE], update_stored_record)
    await asyncio.to_thread(wait_for_saves)
    assert time.monotonic() - began < BUSY_S


async def test_an_error_of_the_library_reaches_the_caller() -> None:
    async def torn() -> Library:
        raise LibraryCorrupt("torn")

    with pytest.raises(LibraryCorrupt):
        await ResultSaver(torn).keep([ONE], update_stored_record)
    await asyncio.to_thread(wait_for_saves)


SEARCH = """
import asyncio, sys
from pathlib import Path
from outrider.nodes.enrich.enrich import update_stored_record
from outrider.library.library import Library
from outrider.services.save_results import ResultSaver
from outrider.state.records import Paper

async def opened():
    while not Path(sys.argv[2]).exists():
        await asyncio.sleep(0.01)
    return await Library.open(sys.argv[1], create=True)

async def search():
    try:
        async with asyncio.timeout(0.1):
            await ResultSaver(opened).keep([Paper(doc_id="crossref:1", abstract="Said.", source="crossref")], update_stored_record)
    except TimeoutError:
        print("answered")

asyncio.run(search())
"""


async def test_an_exiting_process_waits_for_saving_and_reports_it(tmp_path: Path) -> None:
    command = [sys.executable, "-c", SEARCH, str(tmp_path / "library"), str(tmp_path / "go on")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)  # noqa: ASYNC220 - at once
    assert process.stderr
    notice = await asyncio.to_thread(process.stderr.readline)
    (tmp_path / "go on").touch()
    output, rest = await asyncio.to_thread(process.communicate, timeout=120)
    assert (process.returncode, output) == (0, "answered\n")
    assert notice.startswith("the results of this search are still being saved to the library")
    assert rest == ""
    library = await Library.open(tmp_path / "library")
    assert len(await library.fetch(["crossref:1"])) == 1
    library.close()


async def make_neglected_library(folder: Path) -> Library:
    """Enough writes to make maintenance due."""
    library = await Library.open(folder, create=True)
    for number in range(DUE_FRAGMENTS):
        await library.upsert([paper(str(number), f"fox {number}")])
    return library


async def test_maintenance_compacts_the_writes_of_searches(tmp_path: Path) -> None:
    library = await make_neglected_library(tmp_path)
    assert await library.due()
    await maintain_library(lambda: Library.open(tmp_path))
    assert not await library.due()
    assert len(await library.search("fox")) == DUE_FRAGMENTS
    library.close()


async def test_one_maintenance_runs_at_a_time_and_yields_to_another_writer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(save_results, "MAINTENANCE_WAIT_S", 0.2)
    library = await make_neglected_library(tmp_path)
    opened = 0

    async def again() -> Library:
        nonlocal opened
        opened += 1
        return await Library.open(tmp_path)

    with caplog.at_level(logging.INFO), FileLock(tmp_path / LOCK):
        await asyncio.gather(maintain_library(again), maintain_library(again))
    assert opened == 1
    assert "was not optimized: the library at" in caplog.text
    assert await library.due()
    library.close()
