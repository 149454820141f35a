"""The vectors of a library: embedding, search, maintenance and counts.

One space is current; others are being built by a reindex, or retired.
"""

from __future__ import annotations

import asyncio
import uuid
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from outrider.library import maintenance
from outrider.library.address_and_locks import Location
from outrider.library.filter_sql import in_list
from outrider.library.lance_errors import retry_conflicts
from outrider.library.record_table import open_kept_table, open_table, read_columns
from outrider.library.text_search import ALL_ROWS
from outrider.library.vectors import index, write
from outrider.library.vectors.index import Near, search
from outrider.library.vectors.space_registry import SpaceRegistry, State, StoredSpace
from outrider.library.vectors.write import EmbeddingReport
from outrider.runtime.run_reads import read_afresh
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

VALUE_CHARS = 24
TABLES = "vectors_"
DROPPED_AT_ONCE = 5_000


@dataclass(frozen=True, slots=True)
class VectorsInfo:
    """Counts of a library's vectors, as `outrider library info` shows them."""

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
    """Vectors by model, of reindexes to other models that have not ended: running, or interrupted and resumable."""


class Vectors:
    """One vector per record, all of one model. Methods that write without the library's lock are documented as such."""

    def __init__(self, location: Location, connection: AsyncConnection) -> None:
        self.registry = SpaceRegistry(location, connection)
        self._location = location
        self._connection = connection
        self._tables: dict[str, AsyncTable] = {}

    def close(self) -> None:
        for table in self._tables.values():
            table.close()  # type: ignore[no-untyped-call]
        self._tables.clear()
        self.registry.close()

    async def table(self, stored: StoredSpace) -> AsyncTable:
        if stored.table not in self._tables:
            table = await open_kept_table(self._connection, stored.table)
            if table is None:
                raise ValueError(f"Table '{stored.table}' was not found")
            self._tables[stored.table] = table
        return self._tables[stored.table]

    async def space(self) -> EmbeddingSpace | None:
        current = await self.registry.current()
        return None if current is None else current.space

    async def matching_space(self, space: EmbeddingSpace) -> StoredSpace | None:
        """The current space, None where there is none; `EmbeddingSpaceMismatch` where it differs from `space`."""
        current = await self.registry.current()
        if current is not None and current.space.id != space.id:
            own, other = current.space.model_dump(), space.model_dump()
            differences = (  # in the fields that decide whether vectors compare
                f"the library's {name.replace('_', ' ')} is {_shorten(own[name])}, the other's {_shorten(other[name])}"
                for name in sorted(own)
                if own[name] != other[name] and name not in EmbeddingSpace.NOT_IDENTITY
            )
            command = self._location.reindex_command(space.model_name)
            raise EmbeddingSpaceMismatch(
                f"the library at {self._location.address} has vectors of {current.space.model_name}, which do not compare with those of "
                f"{space.model_name} ({', '.join(differences)}); use the library's model, or embed all records with the "
                f"other one: {command}",
                command,
            )
        return current

    async def find_nearest(
        self, vector: np.ndarray, space: EmbeddingSpace, where: Filter | None, limit: int, *, exact: bool, vectors: bool = False
    ) -> list[Near]:
        """As `search.search`; `NoVectors` where nothing was ever embedded, `EmbeddingSpaceMismatch` for a vector of another space."""
        stored = await self.searchable_space(space)
        try:
            return await search(await self.table(stored), stored, vector, where, limit, exact=exact, vectors=vectors)
        except (RuntimeError, OSError, ValueError):
            with read_afresh():
                latest = await self.searchable_space(space)  # another process may have switched over, and dropped the table
            if latest.table == stored.table:
                raise
            return await search(await self.table(latest), latest, vector, where, limit, exact=exact, vectors=vectors)

    async def find_near_record(self, doc_id: str, limit: int) -> list[Near]:
        """Nearest first to a record's own vector, without the record; none where it has no vector. No model is needed."""
        import numpy as np

        current = await self.registry.current()
        if current is None:
            return []
        table = await self.table(current)
        vectors = [row["vector"] async for row in read_columns(table, [doc_id], ["vector"])]
        near = await search(table, current, np.asarray(vectors[0], dtype=np.float32), None, limit + 1, exact=False) if vectors else []
        return [place for place in near if place.doc_id != doc_id][:limit]

    async def searchable_space(self, space: EmbeddingSpace) -> StoredSpace:
        """The current space. `NoVectors` where there is none, `EmbeddingSpaceMismatch` where it differs from `space`."""
        stored = await self.matching_space(space)
        if stored is None:
            command = self._location.reindex_command()
            raise NoVectors(
                f"the records of the library at {self._location.address} were never embedded; embed them with: {command}", command
            )
        return stored

    async def embed(self, records: Sequence[Record], embedder: TextEmbedder, progress: OnCount | None) -> EmbeddingReport:
        """Waits for the lock to write, not while the model works."""
        texts = await asyncio.to_thread(write.hash_texts, records)
        if not texts:
            return EmbeddingReport()
        space = await asyncio.to_thread(lambda: embedder.space)
        with self._location.translate_errors():
            stored = await self.matching_space(space)
            reusable = await write.find_reusable(await self.table(stored), texts) if stored else frozenset[str]()
        batch = await write.embed_batch(texts, reusable, embedder, progress)
        if stored is None and not batch.rows:
            return batch.report()
        if stored is None:  # this space becomes the current one, unless another process was first
            async with self._location.write():
                stored = await self.matching_space(space) or await self.create_space(space, "current")
        async with self._location.write():
            table = await self.table(await self.matching_space(space) or stored)
            await retry_conflicts(lambda: write.write_batch(table, batch))
        return batch.report()

    async def create_space(self, space: EmbeddingSpace, state: State) -> StoredSpace:
        """A new table for a space, with its row in the registry; only under the lock."""
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        stored = StoredSpace(space, state, f"{TABLES}{space.id}_{uuid.uuid4().hex[:8]}", now)
        table = await self._connection.create_table(stored.table, schema=write.build_vector_schema(space.dimension))
        await index.ensure_scalar_indexes(table)
        return await retry_conflicts(lambda: self.registry.add(stored))

    async def put(self, *spaces: StoredSpace) -> None:
        """Write new states of spaces, in one commit."""
        await retry_conflicts(lambda: self.registry.put(*spaces))

    async def forget(self, stored: StoredSpace) -> None:
        self._tables.pop(stored.table, None)
        await retry_conflicts(lambda: self.registry.forget(stored))

    async def count(self) -> int:
        """Of the current space's vectors."""
        current = await self.registry.current()
        return 0 if current is None else await (await self.table(current)).count_rows()

    async def building(self) -> list[StoredSpace]:
        return [stored for stored in await self.registry.all() if stored.state == "building"]

    async def count_building(self, space: EmbeddingSpace) -> int | None:
        """Vectors of this space so far, None if it is not being built."""
        stored = next((stored for stored in await self.building() if stored.space.id == space.id), None)
        table = None if stored is None else await open_table(self._connection, stored.table)
        return None if table is None else await table.count_rows()

    async def count_by_model(self, spaces: Sequence[StoredSpace]) -> dict[str, int]:
        counts: Counter[str] = Counter()
        for stored in spaces:
            table = await open_table(self._connection, stored.table)  # None if another process has just dropped it
            counts[stored.space.model_name] += await table.count_rows() if table is not None else 0
        return dict(counts)

    async def drop_unused(self) -> None:
        """Drop retired spaces, and tables that no space lists. Only under the lock."""
        for stored in await self.registry.all():
            if stored.state == "retired":
                await self.forget(stored)
        if self._location.path is not None:  # one that lost its lease may be about to list its new table
            listed = {stored.table for stored in await self.registry.all()}
            for name in (await self._connection.list_tables()).tables:
                if name.startswith(TABLES) and name not in listed:
                    await self._connection.drop_table(name)

    async def drop_building(self, keep: str) -> dict[str, int]:
        """Drop spaces being built, except the one of the id `keep`; vectors by model. Only under the lock."""
        others = [stored for stored in await self.building() if stored.space.id != keep]
        dropped = await self.count_by_model(others)
        for stored in others:
            await self.forget(stored)
        return dropped

    async def read_ids(self, stored: StoredSpace) -> pa.Table:
        """`doc_id` and `content_hash` of every row."""
        table = await self.table(stored)
        return await table.query().select(["doc_id", "content_hash"]).limit(ALL_ROWS).to_arrow()

    async def find_strangers(self, stored: StoredSpace, records: AsyncTable) -> set[str]:
        """Ids that have a vector and no record."""
        known = await records.query().select(["doc_id"]).limit(ALL_ROWS).to_arrow()
        embedded = await self.read_ids(stored)
        return set((await asyncio.to_thread(embedded.join, known, "doc_id", join_type="left anti"))["doc_id"].to_pylist())

    async def drop(self, stored: StoredSpace, doc_ids: Collection[str]) -> None:
        """Remove these vectors of a space. Only under the lock."""
        table, listed = await self.table(stored), sorted(doc_ids)
        for start in range(0, len(listed), DROPPED_AT_ONCE):
            condition = in_list("doc_id", listed[start : start + DROPPED_AT_ONCE])
            await retry_conflicts(partial(table.delete, condition))

    async def drop_outdated(self, records: Sequence[Record], hashes: Mapping[str, str]) -> None:
        """Remove outdated vectors of records that are about to be written. Only under the lock."""
        current = await self.registry.current()
        if current is not None:
            await write.drop_outdated(await self.table(current), records, hashes)

    async def remove(self, doc_ids: Sequence[str]) -> None:
        """Remove the current vectors of these records. Only under the lock."""
        current = await self.registry.current()
        if current is not None:
            await (await self.table(current)).delete(in_list("doc_id", doc_ids))

    async def optimize(self, *, force: bool) -> None:
        """Fold new vectors in, compact, build the index where it is due. Only under the lock."""
        current = await self.registry.current()
        if current is None:
            return
        table = await self.table(current)
        await index.ensure_scalar_indexes(table)
        if force or await maintenance.due(table):
            await self.maintain(current)
            await retry_conflicts(self.registry.compact)

    async def maintain(self, stored: StoredSpace) -> StoredSpace:
        """Compact a space and, where due, build its index; the space as it is then. Only under the lock."""
        table = await self.table(stored)
        await retry_conflicts(lambda: table.optimize(cleanup_older_than=maintenance.KEEP_METADATA))
        if not await index.due(table, stored):
            return stored
        built = await index.build(table)
        indexed = replace(stored, index=built.index, indexed_rows=built.rows, nprobes=built.nprobes, recall=built.recall)
        await self.put(indexed)
        return indexed

    async def tokens_read(self, doc_ids: Sequence[str]) -> dict[str, TokensRead]:
        """Of those that have a vector."""
        current = await self.registry.current()
        if current is None:
            return {}
        rows = read_columns(await self.table(current), doc_ids, ["doc_id", "tokens", "tokens_of"])
        return {row["doc_id"]: TokensRead(tokens=row["tokens"], of=row["tokens_of"]) async for row in rows}

    async def info(self, records: AsyncTable) -> VectorsInfo | None:
        """None where the records were never embedded."""
        current = await self.registry.current()
        if current is None:
            return None
        known = await records.query().select(["doc_id"]).limit(ALL_ROWS).to_arrow()
        embedded = await self.read_ids(current)
        without = await asyncio.to_thread(known.join, embedded, "doc_id", join_type="left anti")
        return VectorsInfo(
            model=current.space.model_name,
            dimension=current.space.dimension,
            vectors=embedded.num_rows,
            without=without.num_rows,
            index=current.index or "exact",
            recall=current.recall,
            building=await self.count_by_model(await self.building()),
        )


def _shorten(value: object) -> str:
    """A digest is shown by its beginning."""
    text = repr(value) if isinstance(value, str) and not value.startswith("sha256:") else str(value)
    return text if len(text) <= VALUE_CHARS else f"{text[:VALUE_CHARS]}..."
