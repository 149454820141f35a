"""Raw calls: all that a search asks is taken down, and asked again in the same order."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import lancedb
import pyarrow as pa
from lancedb.table import AsyncTable

from bench.raw import Call, calls_of, in_turn, repeat


def call(started: float, ended: float) -> Call:
    return Call(None, (), started, ended)


def test_what_began_before_an_answer_was_asked_at_once() -> None:
    """Two at once, one after the first answer of them, one after that."""
    first, second, third, fourth = call(0, 5), call(1, 2), call(3, 6), call(6, 7)
    assert list(in_turn([first, second, third, fourth])) == [[first, second], [third], [fourth]]
    assert list(in_turn([])) == []


async def test_calls_are_taken_down_and_can_be_repeated(tmp_path: Path) -> None:
    """Two at once, then a third; afterwards nobody listens any more."""
    table = await (await lancedb.connect_async(str(tmp_path))).create_table("rows", pa.table({"number": [1, 2, 3]}))
    query = AsyncTable.query

    async def rows(where: str) -> list[int]:
        found: list[int] = (await table.query().where(where).to_arrow())["number"].to_pylist()
        return found

    async def search() -> None:
        await asyncio.gather(rows("number = 1"), rows("number = 2"))
        await rows("number = 3")

    calls = await calls_of(search)
    assert AsyncTable.query is query
    assert len(calls) == 3
    assert [len(together) for together in in_turn(calls)][-1] == 1
    asked_again: list[Any] = []

    async def searched_again() -> None:
        await repeat(calls)

    asked_again = await calls_of(searched_again)
    assert [(one.table, one.steps) for one in asked_again] == [(one.table, one.steps) for one in calls]
    assert [method for method, _, _ in calls[0].steps] == ["query", "where", "to_arrow"]
    assert await rows("number = 3") == [3]


async def test_versions_and_counts_are_calls_too(tmp_path: Path) -> None:
    table = await (await lancedb.connect_async(str(tmp_path))).create_table("rows", pa.table({"number": [1, 2, 3]}))

    async def search() -> None:
        assert (await table.version(), await table.count_rows("number > 1")) == (1, 2)

    calls = await calls_of(search)
    assert [await one.again() for one in calls] == [1, 2]
