"""The hits among candidates, block by block; the next block is fetched while one is looked through."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from outrider.boolean.evaluator import Evaluator
from outrider.library.location import Location
from outrider.library.schema import FULL, full_records
from outrider.state.boolean import Node
from outrider.state.records import Identifiers, Record

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from lancedb.table import AsyncTable

FIRST, MOST = 300, 1_000
"""Records of the first block, and of any: few enough that the garbage collector finds nothing to do."""
BYTES = 16 * 2**20
"""About what a block may hold: bodies may be long."""
JUDGED = ["record", "text"]
"""Columns in which everything stands that a tree may ask for."""
DENSE = 0.7
"""Share of hits from which on it is faster to validate every candidate than to read each twice."""


@dataclass(slots=True)
class Reader:
    """Of one tree and the candidates for it."""

    location: Location
    table: AsyncTable
    tree: Node
    addresses: np.ndarray
    _share: float = 0.0

    async def placed(self) -> AsyncGenerator[tuple[list[Record], list[int]], None]:
        """Whole records that match, in the order of the candidates, with their places among these."""
        evaluator, start = Evaluator(self.tree), 0
        async with aclosing(self._blocks(FULL)) as blocks:
            async for block in blocks:
                with self.location.translate_errors():
                    records, places = await asyncio.to_thread(self._judged, evaluator, block)
                self._share = len(records) / block.num_rows
                if records:
                    yield records, [start + place for place in places]
                start += block.num_rows

    async def count(self) -> int:
        evaluator, total = Evaluator(self.tree), 0
        async for block in self._blocks(JUDGED):
            with self.location.translate_errors():
                total += sum(await asyncio.to_thread(_matching, evaluator, block.to_pydict()))
        return total

    def _judged(self, evaluator: Evaluator, block: pa.Table) -> tuple[list[Record], list[int]]:
        columns = block.to_pydict()
        if self._share >= DENSE:
            records = full_records(columns)
            places = [place for place, record in enumerate(records) if evaluator.matches(record)]
            return [records[place] for place in places], places
        places = [place for place, hit in enumerate(_matching(evaluator, columns)) if hit]
        return full_records({name: [said[place] for place in places] for name, said in columns.items()}), places

    async def _blocks(self, columns: Sequence[str]) -> AsyncGenerator[pa.Table, None]:
        size, start = FIRST, 0
        coming = asyncio.create_task(self._fetched(columns, self.addresses[:size]))
        try:
            while start < len(self.addresses):
                block = await coming
                start += size
                size = max(1, min(MOST, BYTES * block.num_rows // max(block.nbytes, 1)))
                coming = asyncio.create_task(self._fetched(columns, self.addresses[start : start + size]))
                yield block
        finally:
            coming.cancel()

    async def _fetched(self, columns: Sequence[str], addresses: np.ndarray) -> pa.Table:
        """In the order asked."""
        import numpy as np

        if not len(addresses):
            return None
        with self.location.translate_errors():
            found = await self.table.take_row_ids(addresses.tolist()).select(list(columns)).with_row_id().to_arrow()
        given = found["_rowid"].to_numpy()
        places = np.argsort(given)
        return found.select(list(columns)).take(places[np.searchsorted(given, addresses, sorter=places)])


def _matching(evaluator: Evaluator, columns: dict[str, list[Any]]) -> list[bool]:
    return [evaluator.matches(StoredRecord(record, text)) for record, text in zip(columns["record"], columns["text"], strict=True)]


class StoredRecord:
    """A record as its row holds it, from the columns `record` and `text`, not validated: most candidates of a scan do not match.

    A `boolean.document.Readable`.
    """

    __slots__ = ("_fields", "_text")

    def __init__(self, record: str, text: str | None) -> None:
        from pydantic_core import from_json

        self._fields: dict[str, Any] = from_json(record)
        self._text = text

    @property
    def title(self) -> str:
        return self._string("title")

    @property
    def abstract(self) -> str:
        return self._string("abstract")

    @property
    def description(self) -> str:
        return self._string("description")

    @property
    def text(self) -> str:
        return self._text or ""

    @property
    def tags(self) -> Sequence[str]:
        return self._strings("tags")

    @property
    def authors(self) -> Sequence[str]:
        return self._strings("authors")

    @property
    def mesh(self) -> Sequence[str]:
        return self._strings("mesh")

    @property
    def year(self) -> int | None:
        year: int | None = self._fields.get("year")
        return year

    @property
    def venue(self) -> str | None:
        return self._string("venue") or None

    @property
    def language(self) -> str | None:
        return self._string("language") or None

    @property
    def volume(self) -> str | None:
        return self._string("volume") or None

    @property
    def issue(self) -> str | None:
        return self._string("issue") or None

    @property
    def pages(self) -> str | None:
        return self._string("pages") or None

    @property
    def identifiers(self) -> Identifiers:
        return Identifiers.model_construct(**self._fields.get("identifiers", {}))

    @property
    def metadata(self) -> Mapping[str, object]:
        metadata: dict[str, object] = self._fields.get("metadata", {})
        return metadata

    def _string(self, name: str) -> str:
        return self._fields.get(name) or ""

    def _strings(self, name: str) -> Sequence[str]:
        return self._fields.get(name) or ()
