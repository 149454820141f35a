"""Keeping goes on beside the answer, one search at a time, and says what went wrong where nobody waits any more."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
import time
from pathlib import Path

import pytest
from filelock import FileLock

from outrider.library.library import Library
from outrider.library.location import LOCK
from outrider.library.maintenance import DUE_FRAGMENTS
from outrider.nodes.enrich.enrich import ORIGIN, update_stored_record
from outrider.services import save_results
from outrider.services.save_results import ResultSaver, maintain_library, wait_for_saves
from outrider.state.errors import LibraryBusy, LibraryCorrupt
from support.fakes import paper

ONE = paper("crossref:1", "Livers", abstract="Said.", source="crossref")


def beside(folder: Path) -> ResultSaver:
    return ResultSaver(lambda: Library.open(folder, create=True))


async def test_a_library_is_made_and_says_what_was_new_and_what_changed(tmp_path: Path) -> None:
    keeper = beside(tmp_path / "library")
    assert await keeper.keep([ONE], update_stored_record) == (1, 0)
    assert await keeper.keep([ONE], update_stored_record) == (0, 0)
    assert await keeper.keep([ONE.model_copy(update={"citations": 5}), paper("s2:1", abstract="x", source="s2")], update_stored_record) == (
        1,
        1,
    )
    library = await Library.open(tmp_path / "library")
    assert [(one.origin, one.citations) for one in await library.fetch(["crossref:1"])] == [(ORIGIN, 5)]
    library.close()
    await asyncio.to_thread(wait_for_saves)


def test_who_stops_waiting_does_not_stop_it(tmp_path: Path) -> None:
    """Neither does the end of the loop: a command has ended its own when it says the answer."""

    async def slow() -> Library:
        await asyncio.sleep(0.5)
        return await Library.open(tmp_path / "library", create=True)

    async def search() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await ResultSaver(slow).keep([ONE], update_stored_record)

    asyncio.run(search())
    wait_for_saves()

    async def held() -> list[str]:
        library = await Library.open(tmp_path / "library")
        try:
            return [one.doc_id for one in await library.fetch(["crossref:1"])]
        finally:
            library.close()

    assert asyncio.run(held()) == ["crossref:1"]


async def test_searches_at_once_keep_one_after_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(save_results, "WAIT_S", 0.0)
    keeper = beside(tmp_path / "library")
    works = [paper(f"crossref:{number}", abstract="Said.", source="crossref") for number in range(6)]
    assert await asyncio.gather(*(keeper.keep([work], update_stored_record) for work in works)) == [(1, 0)] * 6
    await asyncio.to_thread(wait_for_saves)


async def test_another_process_that_writes_is_said_to_who_waits_or_to_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(save_results, "WAIT_S", 0.3)
    (await Library.open(tmp_path / "library", create=True)).close()
    with FileLock(tmp_path / "library" / LOCK):
        with pytest.raises(LibraryBusy):
            await beside(tmp_path / "library").keep([ONE], update_stored_record)
        assert not caplog.records
        with caplog.at_level(logging.WARNING), pytest.raises(TimeoutError):
            async with asyncio.timeout(0.0):
                await beside(tmp_path / "library").keep([ONE], update_stored_record)
        await asyncio.to_thread(wait_for_saves)
        await asyncio.sleep(0)
    assert "1 works of a search were not saved to the library: the library at" in caplog.text


async def test_it_ends_though_the_library_never_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(save_results, "LIMIT_S", 0.2)

    async def never() -> Library:
        await asyncio.sleep(60)
        raise AssertionError

    began = time.monotonic()
    with pytest.raises(LibraryBusy, match=r"more than 0\.2 s"):
        await ResultSaver(never).keep([ONE], update_stored_record)
    await asyncio.to_thread(wait_for_saves)
    assert time.monotonic() - began < 10


async def test_what_is_wrong_with_the_library_reaches_who_waits() -> None:
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


async def test_a_process_that_ends_waits_for_it_and_says_so(tmp_path: Path) -> None:
    command = [sys.executable, "-c", SEARCH, str(tmp_path / "library"), str(tmp_path / "go on")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)  # noqa: ASYNC220 - at once
    assert process.stderr
    notice = await asyncio.to_thread(process.stderr.readline)
    (tmp_path / "go on").touch()
    said, rest = await asyncio.to_thread(process.communicate, timeout=120)
    assert (process.returncode, said) == (0, "answered\n")
    assert notice.startswith("the results of this search are still being saved to the library")
    assert rest == ""
    library = await Library.open(tmp_path / "library")
    assert len(await library.fetch(["crossref:1"])) == 1
    library.close()


async def make_neglected_library(folder: Path) -> Library:
    """As many writes as leave it in need."""
    library = await Library.open(folder, create=True)
    for number in range(DUE_FRAGMENTS):
        await library.upsert([paper(str(number), f"fox {number}")])
    return library


async def test_what_searches_wrote_is_folded_in(tmp_path: Path) -> None:
    library = await make_neglected_library(tmp_path)
    assert await library.due()
    await maintain_library(lambda: Library.open(tmp_path))
    assert not await library.due()
    assert len(await library.search("fox")) == DUE_FRAGMENTS
    library.close()


async def test_one_at_a_time_maintains_and_another_writer_goes_first(
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
