"""Searches that are cancelled leave the library able to answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from outrider.boolean.parser import parse
from outrider.library.lance_errors import SHUTDOWN_DELAY
from outrider.library.lance_query import READING, outlive
from outrider.library.library import Library
from outrider.state.records import Edge, Paper
from support.word_embedder import WordEmbedder

pytestmark = pytest.mark.slow

WORDS = WordEmbedder()
PAPERS = [
    Paper(doc_id=f"{number}", title=f"fox {number}", abstract="the hen coop", edges=(Edge(relation="cites", target=f"doc:{number % 9}"),))
    for number in range(200)
]


async def search_exactly(library: Library) -> list[str]:
    pinned = await library.pinned()
    return [hit.record.doc_id async for page in pinned.pages(parse('"hen coop" AND fox*').tree) for hit in page.hits]


SEARCHES: dict[str, Callable[[Library], Awaitable[object]]] = {
    "by words": lambda library: library.search("fox hen", limit=20),
    "by a phrase": lambda library: library.match("hen coop"),
    "by vectors": lambda library: library.dense(WORDS.vector("fox 7"), WORDS.space, limit=10),
    "by ids": lambda library: library.brief(["7", "8"]),
    "of edges": lambda library: library.edges("name IN ('7')"),
    "exact": search_exactly,
}


async def test_searches_after_cancelled_ones_are_answered(tmp_path: Path) -> None:
    """LanceDB alone leaves the search after them without an answer, within four rounds or so."""
    library = await Library.open(tmp_path, create=True)
    await library.embed(PAPERS, WORDS)
    await library.upsert(PAPERS)
    await library.optimize(force=True)
    for name, search in SEARCHES.items():
        expected = await search(library)
        for number in range(15):
            opened = await Library.open(tmp_path)
            cancelled = [asyncio.ensure_future(search(opened)) for _ in range(4)]
            for one in cancelled:
                await asyncio.sleep(0.0005 * (number % 12))
                one.cancel()
            async with asyncio.timeout(60):
                assert await search(opened) == expected, name


async def test_what_outlives_its_reader_ends() -> None:
    ended = []

    async def read(fails: bool) -> None:
        await asyncio.sleep(0.05)
        ended.append(fails)
        if fails:
            raise OSError("nobody waits for this")

    for fails in (False, True):
        reader = asyncio.ensure_future(outlive(read(fails)))
        await asyncio.sleep(0)
        reader.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reader
    await asyncio.wait([*READING])
    assert ended == [False, True]
    with pytest.raises(OSError, match="nobody"):
        await outlive(read(True))


def test_what_ends_with_its_event_loop_delays_the_exit(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a call that was just cancelled does: LanceDB may return an answer while the interpreter shuts down."""
    restarted: list[bool] = []
    monkeypatch.setattr(SHUTDOWN_DELAY, "restart", lambda: restarted.append(True))

    async def read() -> None:
        reader = asyncio.ensure_future(outlive(asyncio.sleep(3_600)))
        await asyncio.sleep(0)
        reader.cancel()
        await asyncio.sleep(0)
        assert not restarted

    asyncio.run(read())
    assert restarted == [True]
