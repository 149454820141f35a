"""The delay at the end of a process: only where a call of LanceDB was cancelled just before."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from outrider.library import location
from outrider.library.lance_errors import DELAY_S, ShutdownDelay
from outrider.library.library import Library


@pytest.fixture
def delay(monkeypatch: pytest.MonkeyPatch) -> ShutdownDelay:
    delay = ShutdownDelay()
    monkeypatch.setattr("atexit.register", lambda _: None)
    monkeypatch.setattr(location, "SHUTDOWN_DELAY", delay)
    return delay


async def test_a_call_that_was_cancelled_is_waited_for(delay: ShutdownDelay, tmp_path: Path) -> None:
    library = await Library.open(tmp_path / "library", create=True)
    assert await library.search("words") == []
    assert delay.remaining_s() == 0
    search = asyncio.create_task(library.search("words"))
    await asyncio.sleep(0)
    search.cancel()
    with pytest.raises(asyncio.CancelledError):
        await search
    assert 0 < delay.remaining_s() <= DELAY_S
    delay.wait()
    assert delay.remaining_s() == 0
    library.close()


def test_an_earlier_one_is_not_waited_for(delay: ShutdownDelay, monkeypatch: pytest.MonkeyPatch) -> None:
    delay.restart()
    later = time.monotonic() + 60
    monkeypatch.setattr(time, "monotonic", lambda: later)
    assert delay.remaining_s() == 0


def test_a_second_interrupt_ends_the_wait(delay: ShutdownDelay, monkeypatch: pytest.MonkeyPatch) -> None:
    def raise_interrupt(_: float) -> None:
        raise KeyboardInterrupt

    delay.restart()
    monkeypatch.setattr(time, "sleep", raise_interrupt)
    delay.wait()
