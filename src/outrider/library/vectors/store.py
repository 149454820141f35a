"""All that a library knows about its vectors. Methods that write without waiting for the library's lock say so."""

from __future__ import annotations

import asyncio
import uuid
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from outrider.library import maintenance as upkeep
from outrider.library import record_reader as reading
from outrider.library.filter_sql import any_of
from outrider.library.location import Place
from outrider.library.open_tables import opened
from outrider.library.text_search import ALL_ROWS
from outrider.library.vectors import consistency as checking
from outrider.library.vectors import index
from outrider.library.vectors import write as writing
from outrider.library.vectors.registry import Held, Registry, State
from outrider.library.vectors.search import Near, nearest
from outrider.library.vectors.write import Embedded, vector_schema
from outrider.state.embedding import EmbeddingSpace, TokensRead
from outrider.state.errors import EmbeddingSpaceMismatch, NoVectors
from outrider.state.filters import Filter
from outrider.state.ports import OnCount, TextEmbedder
from outrider.state.records import Record

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from lancedb.db import AsyncConnection
    from lancedb.table import AsyncTable

SHOWN_CHARS = 24
TABLES = "vectors_"
DROPPED_AT_ONCE = 5_000


@dataclass(frozen=True, slots=True)
class VectorsInfo:
    model: str
    dimension: int
    vectors: int
    without: int
    """Records that dense search cannot find: never embedded, without text, or refused by the model."""
    index: str
    """`exact` where every vector is compared."""
    recall: float | None
    """Of the index, top 10, measured on the library's own vectors when it was built."""
    building: dict[str, int]
    """Vectors by model, of reindexes to other models that have not ended: running, or interrupted and waiting to go on."""


class Vectors:
    def __init__(self, place: Place, connection: AsyncConnection) -> None:
        self.registry = Registry(connection)
        self._place = place
        self._connection = connection
        self._tables: dict[str, AsyncTable] = {}

    def close(self) -> None:
        for table in self._tables.values():
            table.close()  # type: ignore[no-untyped-call]
        self._tables.clear()
        self.registry.close()

    async def space(self) -> EmbeddingSpace | None:
        held = await self.registry.current()
        return None if held is None else held.space

    async def table(self, held: Held) -> AsyncTable:
        if held.table not in self._tables:
            self._tables[held.table] = await self._connection.open_table(held.table)
        return self._tables[held.table]

    async def count(self) -> int:
        """Of the current space's vectors."""
        held = await self.registry.current()
        return 0 if held is None else await (await self.table(held)).count_rows()

    async def ids(self, held: Held) -> pa.Table:
        """`doc_id` and `content_hash` of every row."""
        table = await self.table(held)
        return await table.query().select(["doc_id", "content_hash"]).limit(ALL_ROWS).to_arrow()

    async def fitting(self, space: EmbeddingSpace) -> Held | None:
        """The current space, None where there is none; `EmbeddingSpaceMismatch` where it is another than `space`."""
        held = await self.registry.current()
        if held is not None and held.space.id != space.id:
            raise EmbeddingSpaceMismatch(
                f"the library at {self._place.shown} has vectors of {held.space.model_name}, which do not compare with those of "
                f"{space.model_name} ({_differences(held.space, space)}); use the library's model, or embed all records with the other "
                f"one: {upkeep.REINDEX} --model {space.model_name}"
            )
        return held

    async def nearest(self, vector: np.ndarray, space: EmbeddingSpace, where: Filter | None, limit: int, *, exact: bool) -> list[Near]:
        held = await self._searchable(space)
        try:
            return await nearest(await self.table(held), held, vector, where, limit, exact=exact)
        except (RuntimeError, OSError, ValueError):
            now = await self._searchable(space)  # another process switched over, and dropped what was being read
            if now.table == held.table:
                raise
            return await nearest(await self.table(now), now, vector, where, limit, exact=exact)

    async def _searchable(self, space: EmbeddingSpace) -> Held:
        held = await self.fitting(space)
        if held is None:
            raise NoVectors(f"the records of the library at {self._place.shown} were never embedded; embed them with: {upkeep.REINDEX}")
        return held

    async def embed(self, records: Sequence[Record], embedder: TextEmbedder, progress: OnCount | None) -> Embedded:
        """Holds the lock to write, not while the model works."""
        texts = await asyncio.to_thread(writing.texts_of, records)
        if not texts:
            return Embedded()
        space = await asyncio.to_thread(lambda: embedder.space)
        with self._place.translated():
            held = await self.fitting(space)
            kept = await writing.known(await self.table(held), texts) if held else frozenset[str]()
        batch = await writing.made(texts, kept, embedder, progress)
        if held is None and not batch.rows:
            return batch.done
        held = held or await self._begun(space)
        async with self._place.changing():
            held = await self.fitting(space) or held
            table = await self.table(held)
            await self._place.committed(lambda: writing.write(table, batch))
        return batch.done

    async def _begun(self, space: EmbeddingSpace) -> Held:
        """Makes this space the current one, where there was none."""
        async with self._place.changing():
            return await self.fitting(space) or await self.made(space, "current")

    async def made(self, space: EmbeddingSpace, state: State) -> Held:
        """A new table for a space, with its row; only under the lock."""
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        held = Held(space, state, f"{TABLES}{space.id}_{uuid.uuid4().hex[:8]}", now)
        table = await self._connection.create_table(held.table, schema=vector_schema(space.dimension))
        await index.ensure_scalars(table)
        return await self._place.committed(lambda: self.registry.add(held))

    async def put(self, *held: Held) -> None:
        """New states of spaces, in one commit."""
        await self._place.committed(lambda: self.registry.put(*held))

    async def forget(self, held: Held) -> None:
        self._tables.pop(held.table, None)
        await self._place.committed(lambda: self.registry.forget(held))

    async def building(self) -> list[Held]:
        return [held for held in await self.registry.all() if held.state == "building"]

    async def counts(self, spaces: Sequence[Held]) -> dict[str, int]:
        """Vectors by model."""
        counts: Counter[str] = Counter()
        for held in spaces:
            table = await opened(self._connection, held.table)  # None where another process has just dropped it
            counts[held.space.model_name] += await table.count_rows() if table is not None else 0
        return dict(counts)

    async def sweep(self) -> None:
        """Drop what nobody will ask for again: retired spaces, and tables that no space lists. Only under the lock."""
        for held in await self.registry.all():
            if held.state == "retired":
                await self.forget(held)
        if self._place.path is not None:  # without a lock, another process may be about to list its new table
            listed = {held.table for held in await self.registry.all()}
            for name in (await self._connection.list_tables()).tables:
                if name.startswith(TABLES) and name not in listed:
                    await self._connection.drop_table(name)

    async def abandon(self, keep: str) -> dict[str, int]:
        """Drop what was built of other spaces than `keep`; vectors by model. Only under the lock."""
        others = [held for held in await self.building() if held.space.id != keep]
        dropped = await self.counts(others)
        for held in others:
            await self.forget(held)
        return dropped

    async def strangers(self, held: Held, records: AsyncTable) -> set[str]:
        """Ids that have a vector and no record."""
        known = await records.query().select(["doc_id"]).limit(ALL_ROWS).to_arrow()
        there = await self.ids(held)
        return set((await asyncio.to_thread(there.join, known, "doc_id", join_type="left anti"))["doc_id"].to_pylist())

    async def drop(self, held: Held, doc_ids: Collection[str]) -> None:
        """Only under the lock."""
        table, listed = await self.table(held), sorted(doc_ids)
        for start in range(0, len(listed), DROPPED_AT_ONCE):
            condition = any_of("doc_id", listed[start : start + DROPPED_AT_ONCE])
            await self._place.committed(partial(table.delete, condition))

    async def follow(self, records: Sequence[Record], hashes: Mapping[str, str]) -> None:
        """Before these are written: vectors of what they no longer say go. Only under the lock."""
        held = await self.registry.current()
        if held is not None:
            await writing.follow(await self.table(held), records, hashes)

    async def remove(self, doc_ids: Sequence[str]) -> None:
        """Only under the lock."""
        held = await self.registry.current()
        if held is not None:
            await (await self.table(held)).delete(any_of("doc_id", doc_ids))

    async def optimize(self, *, force: bool) -> None:
        """Fold new vectors in, compact, build the index where it is due. Only under the lock."""
        held = await self.registry.current()
        if held is None:
            return
        table = await self.table(held)
        await index.ensure_scalars(table)
        if force or await upkeep.due(table):
            await self.tended(held)
            await self._place.committed(self.registry.compact)

    async def tended(self, held: Held) -> Held:
        """With an index that fits its size and covers all its vectors."""
        table = await self.table(held)
        await self._place.committed(lambda: table.optimize(cleanup_older_than=upkeep.KEEP_BESIDE))
        if not await index.due(table, held):
            return held
        built = await index.build(table)
        indexed = replace(held, index=built.index, indexed_rows=built.rows, nprobes=built.nprobes, recall=built.recall)
        await self.put(indexed)
        return indexed

    async def tokens_read(self, doc_ids: Sequence[str]) -> dict[str, TokensRead]:
        """Of those that have a vector."""
        held = await self.registry.current()
        if held is None:
            return {}
        rows = reading.columns_of(await self.table(held), doc_ids, ["doc_id", "tokens", "tokens_of"])
        return {row["doc_id"]: TokensRead(tokens=row["tokens"], of=row["tokens_of"]) async for row in rows}

    async def problems(self, records: AsyncTable) -> tuple[str, ...]:
        """What is wrong and what mends it; `records` must stand at one version."""
        held = await self.registry.current()
        if held is None:
            return ()
        return tuple([problem async for problem in checking.problems(records, await self.table(held), held.space.model_name)])

    async def info(self, records: AsyncTable) -> VectorsInfo | None:
        held = await self.registry.current()
        if held is None:
            return None
        known = await records.query().select(["doc_id"]).limit(ALL_ROWS).to_arrow()
        there = await self.ids(held)
        without = await asyncio.to_thread(known.join, there, "doc_id", join_type="left anti")
        return VectorsInfo(
            model=held.space.model_name,
            dimension=held.space.dimension,
            vectors=there.num_rows,
            without=without.num_rows,
            index=held.index or "exact",
            recall=held.recall,
            building=await self.counts(await self.building()),
        )


def _differences(held: EmbeddingSpace, other: EmbeddingSpace) -> str:
    """`the library's dimension is 384, the other's 1024`, of what decides whether vectors compare."""
    one, two = held.model_dump(), other.model_dump()
    return ", ".join(
        f"the library's {name.replace('_', ' ')} is {_short(one[name])}, the other's {_short(two[name])}"
        for name in sorted(one)
        if one[name] != two[name] and name not in EmbeddingSpace.NOT_IDENTITY
    )


def _short(value: object) -> str:
    """A digest is told by its beginning."""
    text = repr(value) if isinstance(value, str) and not value.startswith("sha256:") else str(value)
    return text if len(text) <= SHOWN_CHARS else f"{text[:SHOWN_CHARS]}..."
