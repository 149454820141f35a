"""LanceDB's errors as ours; the delay at the end of a process, only where a call was cancelled just before."""

from __future__ import annotations

import asyncio
import errno
import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from outrider.ingest.pipeline import ingest
from outrider.library import address_and_locks
from outrider.library.lance_errors import DELAY_S, ShutdownDelay, translate_error
from outrider.library.lance_query import READING
from outrider.library.library import Library
from outrider.state.errors import LibraryCorrupt, LibraryError


@pytest.fixture
def delay(monkeypatch: pytest.MonkeyPatch) -> ShutdownDelay:
    delay = ShutdownDelay()
    monkeypatch.setattr("atexit.register", lambda _: None)
    monkeypatch.setattr(address_and_locks, "SHUTDOWN_DELAY", delay)
    return delay


async def test_a_call_that_was_cancelled_is_waited_for(delay: ShutdownDelay, tmp_path: Path) -> None:
    library = await Library.open(tmp_path / "library", create=True)
    assert await library.search("words") == []
    assert delay.remaining_s() == 0
    search = asyncio.create_task(library.search("words"))
    for _ in range(10_000):
        if READING:  # it has asked the table
            break
        await asyncio.sleep(0)
    search.cancel()
    with pytest.raises(asyncio.CancelledError):
        await search
    assert 0 < delay.remaining_s() <= DELAY_S
    await asyncio.to_thread(delay.wait)  # as at the end of a process: no loop runs
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


@pytest.mark.parametrize(
    ("error", "says", "do"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "no space left", "free some"),
        (
            RuntimeError("lance error: LanceError(IO): Generic LocalFileSystem error: No space left on device (os error 28)"),
            "no space left",
            "free",
        ),
        (RuntimeError("LanceError(IO): Unable to copy data to file a: File too large (os error 27), x.rs:1:2"), "too large", "ulimit -f"),
        (OSError(errno.EFBIG, "File too large"), "too large", "ulimit -f"),
        (RuntimeError("lance error: Disk quota exceeded (os error 122)"), "quota", "ask for more"),
        (RuntimeError("Too many open files (os error 24)"), "too few open files", "ulimit -n"),
        (OSError(errno.EMFILE, "Too many open files"), "too few open files", "ulimit -n"),
        (OSError("Too many open files in system (os error 23)"), "the system has too many", "close"),
        (RuntimeError("Cannot allocate memory (os error 12)"), "not enough memory", "close other programs"),
    ],
)
@pytest.mark.parametrize("writing", [True, False])
def test_a_limit_of_the_machine_is_no_damage(error: Exception, says: str, do: str, writing: bool) -> None:
    """The message gives what ran out and what to do; the library is not called damaged."""
    translated = translate_error(error, "/x", is_local=True, writing=writing)
    assert type(translated) is LibraryError
    assert says in str(translated)
    assert do in str(translated)
    assert "damaged:" not in str(translated)


@pytest.mark.parametrize(
    "message", ["LanceError(IO): corrupt file, quota/no-space (os error 5)", "Invalid magic number in /no space left/x (os error 2)"]
)
def test_words_in_a_path_are_no_limit(message: str) -> None:
    """The number of the error decides where there is one."""
    assert type(translate_error(RuntimeError(message), "/x", is_local=True, writing=True)) is LibraryCorrupt


LIMITED = """
import asyncio, os, resource, sys
from pathlib import Path
from outrider.ingest.pipeline import ingest
from outrider.library.library import Library
from outrider.state.errors import LibraryError

async def run() -> None:
    library = await Library.open(sys.argv[1], create=True)
    kind = getattr(resource, sys.argv[3])
    size = int(sys.argv[4]) or len(os.listdir("/proc/self/fd")) + 2
    resource.setrlimit(kind, (size, resource.getrlimit(kind)[1]))
    try:
        await ingest(library, [Path(sys.argv[2])])
    except LibraryError as error:
        print(type(error).__name__, error)

asyncio.run(run())
"""


@pytest.mark.parametrize(("limit", "size", "do"), [("RLIMIT_FSIZE", 100_000, "ulimit -f"), ("RLIMIT_NOFILE", 0, "ulimit -n")])
async def test_a_limit_of_the_shell_is_reported_and_the_library_stays_sound(tmp_path: Path, limit: str, size: int, do: str) -> None:
    rows = "".join(json.dumps({"id": n, "title": f"{n} " * 50, "abstract": f"word{n} " * 200}) + "\n" for n in range(2_000))
    (tmp_path / "rows.jsonl").write_text(rows)
    arguments = [sys.executable, "-c", LIMITED, str(tmp_path / "library"), str(tmp_path / "rows.jsonl"), limit, str(size)]
    process = await asyncio.to_thread(subprocess.run, arguments, capture_output=True, text=True, timeout=120, check=False)
    assert process.stdout.startswith("LibraryError "), process.stdout + process.stderr
    assert do in process.stdout
    assert "is damaged" not in process.stdout
    library = await Library.open(tmp_path / "library")
    assert not any("damaged" in problem for problem in await library.check())
    assert (await ingest(library, [tmp_path / "rows.jsonl"])).failed == 0
    assert await library.count() == 2_000
    assert await library.check() == ()
    library.close()
