"""Matching of candidate records against a Boolean query, block by block.

The next block is read during the evaluation of one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from outrider.boolean.document import Readable
from outrider.boolean.evaluator import Evaluator
from outrider.library.address_and_locks import Location
from outrider.library.schema import BODY, FULL, full_records, join_body
from outrider.state.boolean import Node
from outrider.state.records import Identifiers, Record

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from lancedb.table import AsyncTable

Test = Callable[[Readable], bool]
FIRST, MOST = 300, 1_000
"""Records of the first block, and of any: few enough that the garbage collector does not run."""
BYTES = 16 * 2**20
"""Approximate size of a block: bodies may be long."""
COMPARED = ["record", *BODY]
"""Columns that hold everything that a tree may compare."""
DENSE = 0.7
"""Share of hits from which on it is faster to validate every candidate than to parse each hit twice."""


@dataclass(slots=True)
class CandidateMatcher:
    """Evaluates one tree over its candidates, given by their addresses."""

    location: Location
    table: AsyncTable
    tree: Node
    addresses: np.ndarray
    _share: float = 0.0

    async def read(self) -> AsyncGenerator[tuple[list[Record], list[int]], None]:
        """Whole records that match, in the order of the candidates, with their places among these."""
        evaluator, start = Evaluator(self.tree), 0
        async with aclosing(self._read_blocks(FULL)) as blocks:
            async for block in blocks:
                with self.location.translate_errors():
                    records, places = await asyncio.to_thread(self._select, evaluator, block)
                self._share = len(records) / block.num_rows
                if records:
                    yield records, [start + place for place in places]
                start += block.num_rows

    async def count(self, test: Test | None = None) -> int:
        """The number of candidates that match, or that pass another test."""
        test, total = test or Evaluator(self.tree).matches, 0
        async for block in self._read_blocks(COMPARED):
            with self.location.translate_errors():
                total += sum(await asyncio.to_thread(_test_rows, test, block.to_pydict()))
        return total

    async def any(self) -> bool:
        """Whether a candidate matches; the blocks behind the first hit are not read."""
        test = Evaluator(self.tree).matches
        async with aclosing(self._read_blocks(COMPARED)) as blocks:
            async for block in blocks:
                with self.location.translate_errors():
                    if True in await asyncio.to_thread(_test_rows, test, block.to_pydict()):
                        return True
        return False

    def _select(self, evaluator: Evaluator, block: pa.Table) -> tuple[list[Record], list[int]]:
        """The matching records of a block, with their places in it."""
        columns = block.to_pydict()
        if self._share >= DENSE:
            records = full_records(columns)
            places = [place for place, record in enumerate(records) if evaluator.matches(record)]
            return [records[place] for place in places], places
        places = [place for place, matches in enumerate(_test_rows(evaluator.matches, columns)) if matches]
        return full_records({name: [values[place] for place in places] for name, values in columns.items()}), places

    async def _read_blocks(self, columns: Sequence[str]) -> AsyncGenerator[pa.Table, None]:
        size, start = FIRST, 0
        following = asyncio.create_task(self._read_block(columns, self.addresses[:size]))
        try:
            while start < len(self.addresses):
                block = await following
                start += size
                size = max(1, min(MOST, BYTES * block.num_rows // max(block.nbytes, 1)))
                following = asyncio.create_task(self._read_block(columns, self.addresses[start : start + size]))
                yield block
        finally:
            following.cancel()

    async def _read_block(self, columns: Sequence[str], addresses: np.ndarray) -> pa.Table:
        """In the order of the addresses."""
        import numpy as np

        if not len(addresses):
            return None
        with self.location.translate_errors():
            rows = await self.table.take_row_ids(addresses.tolist()).select(list(columns)).with_row_id().to_arrow()
        row_ids = rows["_rowid"].to_numpy()
        order = np.argsort(row_ids)
        return rows.select(list(columns)).take(order[np.searchsorted(row_ids, addresses, sorter=order)])


def _test_rows(test: Test, columns: dict[str, list[Any]]) -> list[bool]:
    bodies = map(join_body, columns["text"], columns["exact_text"])
    return [test(StoredRecord(record, body)) for record, body in zip(columns["record"], bodies, strict=True)]


def _field(name: str, default: object = None) -> Any:
    """A property for a field of the JSON; a missing or empty one has the default."""

    def read(record: StoredRecord) -> object:
        value = record.fields.get(name)
        return default if value is None or value == "" else value

    return property(read)


class StoredRecord:
    """A record as its row holds it, with its whole body, not validated: most candidates of a scan do not match.

    A `boolean.document.Readable`.
    """

    __slots__ = ("fields", "text")

    title: str = _field("title", "")
    abstract: str = _field("abstract", "")
    description: str = _field("description", "")
    tags: Sequence[str] = _field("tags", ())
    authors: Sequence[str] = _field("authors", ())
    mesh: Sequence[str] = _field("mesh", ())
    year: int | None = _field("year")
    venue: str | None = _field("venue")
    language: str | None = _field("language")
    volume: str | None = _field("volume")
    issue: str | None = _field("issue")
    pages: str | None = _field("pages")
    metadata: Mapping[str, object] = _field("metadata", MappingProxyType({}))

    def __init__(self, record: str, text: str) -> None:
        from pydantic_core import from_json

        self.fields: dict[str, Any] = from_json(record)
        self.text = text

    @property
    def identifiers(self) -> Identifiers:
        return Identifiers.model_construct(**self.fields.get("identifiers", {}))
