from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest
from filelock import FileLock

from outrider.library.library import Library
from outrider.library.location import LOCK
from outrider.library.maintenance import DUE_FRAGMENTS
from outrider.services import maintain_library as tending
from outrider.services.maintain_library import tend
from support.fakes import paper


async def neglected(folder: Path) -> Library:
    """As many writes as leave it in need."""
    library = await Library.open(folder, create=True)
    for number in range(DUE_FRAGMENTS):
        await library.upsert([paper(str(number), f"fox {number}")])
    return library


async def test_what_searches_wrote_is_folded_in(tmp_path: Path) -> None:
    library = await neglected(tmp_path)
    assert await library.due()
    await tend(lambda: Library.open(tmp_path))
    assert not await library.due()
    assert len(await library.search("fox")) == DUE_FRAGMENTS
    library.close()


async def test_one_at_a_time_tends_and_another_writer_goes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(tending, "WAIT_S", 0.2)
    library = await neglected(tmp_path)
    opened = 0

    async def again() -> Library:
        nonlocal opened
        opened += 1
        return await Library.open(tmp_path)

    with caplog.at_level(logging.INFO), FileLock(tmp_path / LOCK):
        await asyncio.gather(tend(again), tend(again))
    assert opened == 1
    assert "was not tended: the library at" in caplog.text
    assert await library.due()
    library.close()
