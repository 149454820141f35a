"""Raw calls: all calls of a search are recorded and repeated in the same order."""

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


def test_calls_begun_before_an_answer_are_concurrent() -> None:
    """Two concurrent calls, one after the first answer, one after that."""
    first, second, third, fourth = call(0, 5), call(1, 2), call(3, 6), call(6, 7)
    assert list(in_turn([first, second, third, fourth])) == [[first, second], [third], [fourth]]
    assert list(in_turn([])) == []


async def test_calls_are_recorded_and_can_be_repeated(tmp_path: Path) -> None:
    """Two concurrent calls, then a third; recording ends afterwards."""
    table = await (await lancedb.connect_async(str(tmp_path))).create_table("rows", pa.table({"number": [1, 2, 3]}))
    query = AsyncTable.query

    async def rows(where: str) -> list[int]:
        numbers: list[int] = (await table.query().where(where).to_arrow())["number"].to_pylist()
        return numbers

    async def search() -> None:
        await asyncio.gather(rows("number = 1"), rows("number = 2"))
        await rows("number = 3")

    calls = await calls_of(search)
    assert AsyncTable.query is query
    assert len(calls) == 3
    assert [len(together) for together in in_turn(calls)][-1] == 1
    repeated_calls: list[Any] = []

    async def repeat_search() -> None:
        await repeat(calls)

    repeated_calls = await calls_of(repeat_search)
    assert [(one.table, one.steps) for one in repeated_calls] == [(one.table, one.steps) for one in calls]
    assert [method for method, _, _ in calls[0].steps] == ["query", "where", "to_arrow"]
    assert await rows("number = 3") == [3]


async def test_versions_and_counts_are_calls_too(tmp_path: Path) -> None:
    table = await (await lancedb.connect_async(str(tmp_path))).create_table("rows", pa.table({"number": [1, 2, 3]}))

    async def search() -> None:
        assert (await table.version(), await table.count_rows("number > 1")) == (1, 2)

    calls = await calls_of(search)
    assert [await one.again() for one in calls] == [1, 2]
