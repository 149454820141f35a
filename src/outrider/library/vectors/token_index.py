"""Compressed token vectors of the records, stored for late interaction.

A row holds the block of one record (see `outrider.models.rerank.token_blocks`). A reranker finds it by the hash of the text that it
reads, so the block of a former text is never used. Rows of changed and removed records are mended by the next run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from outrider.library import maintenance
from outrider.library.address_and_locks import Location
from outrider.library.filter_sql import in_list
from outrider.library.lance_errors import retry_conflicts
from outrider.library.record_table import chunk_ids, open_table, read_addresses, read_columns, read_content_hashes
from outrider.library.schema import PRIMARY_KEY
from outrider.library.text_search import ALL_ROWS
from outrider.library.vectors.write import text_hash
from outrider.models.rerank.late_interaction import INDEX_COMMAND
from outrider.models.rerank.token_blocks import FORMAT, compress
from outrider.runtime.threads_and_loops import run_in_thread, unless_abandoned
from outrider.state.embedding import EmbeddingSpace
from outrider.state.ports import OnCount
from outrider.state.reranking import make_reranker_text

if TYPE_CHECKING:
    import pyarrow as pa
    from lancedb.db import AsyncConnection
    from lancedb.table import AsyncTable

    from outrider.models.rerank.late_interaction import TokenEmbedder
    from outrider.state.records import Record

TABLES = "token_vectors_"
BLOCK = "block"
BATCH = 64
"""Records embedded and written at once: a killed run loses no more than that."""
EMBEDDED_AT_ONCE = 16
"""Texts between two checks whether the caller still waits."""
COMPACT_EVERY = 256
"""Commits after which a long run compacts the table."""
BLOCKS_AT_ONCE = 1_000


@dataclass(frozen=True, slots=True)
class TokenIndexReport:
    """Report of a run; `indexed` records got a new block, `dropped` blocks were of missing records or of another model."""

    model: str
    records: int
    indexed: int
    dropped: int
    mean_bytes: float
    """Of a record's block."""


@dataclass(frozen=True, slots=True)
class TokenIndexInfo:
    """Counts, as `outrider library info` shows them."""

    records: int
    """With token vectors of their present content."""
    without: int
    """Without them; those that have outdated ones are among them."""
    size_bytes: int
    """Of all blocks."""


class _Rows(NamedTuple):
    """Ids and content hashes of the stored blocks that belong to no record, and of the records without a current block."""

    strangers: list[str]
    missing: pa.Table
    """With row ids."""
    records: int


class TokenIndex:
    """The blocks of one library. Methods that write take its lock, except those that say otherwise."""

    def __init__(self, location: Location, connection: AsyncConnection) -> None:
        self._location = location
        self._connection = connection

    async def read(self, space: EmbeddingSpace, texts: Sequence[str]) -> dict[str, bytes] | None:
        """Blocks by text, of those texts that have one; None if no token vectors of this space were ever computed."""
        with self._location.translate_errors():
            table = await self._open(space)
            if table is None:
                return None
            by_hash = {text_hash(text): text for text in texts}
            blocks: dict[str, bytes] = {}
            for chunk in chunk_ids(by_hash):
                query = table.query().where(in_list("text_hash", chunk)).select(["text_hash", BLOCK]).limit(ALL_ROWS)
                rows = await query.to_arrow()
                blocks |= zip((by_hash[key] for key in rows["text_hash"].to_pylist()), rows[BLOCK].to_pylist(), strict=True)
            return blocks

    async def complete(
        self,
        space: EmbeddingSpace,
        records: AsyncTable,
        open_version: Callable[[], Awaitable[AsyncTable]],
        embedder: TokenEmbedder,
        progress: OnCount | None = None,
    ) -> TokenIndexReport:
        """Compute the blocks that are missing or outdated. An interrupted run is continued by the next.

        Tables of other spaces are dropped, and blocks of missing records. `open_version` opens the records at their current version.
        """
        async with self._location.write():
            dropped = await self._drop_tables(keep=_name_table(space))
            table = await self._create(space)
        with self._location.translate_errors():
            version = await open_version()
            rows = await _compare(table, version)
        for chunk in chunk_ids(rows.strangers):
            async with self._location.write():
                await retry_conflicts(partial(table.delete, in_list("doc_id", chunk)))
        indexed = 0
        for start in range(0, rows.missing.num_rows, BATCH):
            if progress:
                progress(rows.records - rows.missing.num_rows + start, rows.records)
            part = rows.missing.slice(start, BATCH)
            with self._location.translate_errors():
                read = await read_addresses(version, part)
                hashes = dict(zip(part["doc_id"].to_pylist(), part["content_hash"].to_pylist(), strict=True))
                blocks = await _read_blocks(table, read)
            new = [text for text in dict.fromkeys(map(make_reranker_text, read)) if text not in blocks]
            blocks |= await run_in_thread(partial(_embed, embedder, new))
            indexed += len(new)
            async with self._location.write():
                current = await read_content_hashes(records, list(hashes))
                unchanged = [record for record in read if current.get(record.doc_id) == hashes[record.doc_id]]
                await retry_conflicts(partial(_write, table, unchanged, hashes, blocks))
                if start // BATCH % COMPACT_EVERY == COMPACT_EVERY - 1:
                    await retry_conflicts(partial(_compact, table))
        if progress:
            progress(rows.records, rows.records)
        async with self._location.write():
            await retry_conflicts(partial(_compact, table))
            count, size = await _measure(table)
        return TokenIndexReport(space.model_name, rows.records, indexed, dropped + len(rows.strangers), size / count if count else 0.0)

    async def drop(self) -> int:
        """Forget all token vectors; the number of records that had some."""
        async with self._location.write():
            return await self._drop_tables(keep="")

    async def remove(self, doc_ids: Sequence[str]) -> None:
        """Remove the blocks of these records. Only under the lock."""
        for name in await self._list_tables():
            table = await open_table(self._connection, name)
            if table is not None:
                await table.delete(in_list("doc_id", doc_ids))

    async def optimize(self) -> None:
        """Only under the lock."""
        for name in await self._list_tables():
            table = await open_table(self._connection, name)
            if table is not None and await maintenance.due(table):
                await _compact(table)

    async def info(self, space: EmbeddingSpace, records: AsyncTable) -> TokenIndexInfo | None:
        """None without token vectors of this space."""
        table = await self._open(space)
        if table is None:
            return None
        rows = await _compare(table, records)
        return TokenIndexInfo(rows.records - rows.missing.num_rows, rows.missing.num_rows, (await _measure(table))[1])

    async def find_problems(self, space: EmbeddingSpace | None, records: AsyncTable) -> list[str]:
        """Each with its remedy. `records` must stand at one version."""
        own = "" if space is None else _name_table(space)
        problems = [
            f"token vectors of another model take up space; drop them with: {INDEX_COMMAND}{'' if own else ' --drop'}"
            for name in await self._list_tables()
            if name != own
        ]
        table = None if space is None else await self._open(space)
        if table is None or space is None:
            return problems
        rows = await _compare(table, records)
        if missing := rows.missing.num_rows:
            problems.append(f"records without current token vectors: {missing:,}; compute them with: {INDEX_COMMAND}")
        if strangers := len(rows.strangers):
            problems.append(f"missing records with token vectors: {strangers:,}; drop these with: {INDEX_COMMAND}")
        if broken := await _count_broken(table):
            problems.append(f"damaged token vectors: {broken:,}; compute all again: {INDEX_COMMAND} --drop, then without --drop")
        return problems

    async def _open(self, space: EmbeddingSpace) -> AsyncTable | None:
        return await open_table(self._connection, _name_table(space))

    async def _create(self, space: EmbeddingSpace) -> AsyncTable:
        from lancedb.index import BTree

        table = await self._connection.create_table(_name_table(space), schema=_build_schema(), exist_ok=True)
        present = {column for known in await table.list_indices() for column in known.columns}
        for column in ("doc_id", "text_hash"):
            if column not in present:
                await table.create_index(column, config=BTree())
        return table

    async def _list_tables(self) -> list[str]:
        return [name for name in (await self._connection.list_tables()).tables if name.startswith(TABLES)]

    async def _drop_tables(self, keep: str) -> int:
        dropped = 0
        for name in await self._list_tables():
            if name != keep:
                table = await open_table(self._connection, name)
                dropped += await table.count_rows() if table is not None else 0
                await self._connection.drop_table(name)
        return dropped


def _name_table(space: EmbeddingSpace) -> str:
    """Another model gets another table, and so do blocks of another form."""
    return f"{TABLES}{FORMAT}_{space.id}"


def _build_schema() -> pa.Schema:
    import pyarrow as pa

    return pa.schema(
        [
            pa.field("doc_id", pa.string(), nullable=False, metadata=PRIMARY_KEY),
            pa.field("content_hash", pa.string(), nullable=False),
            pa.field("text_hash", pa.string(), nullable=False),
            pa.field("size", pa.int64(), nullable=False),
            pa.field(BLOCK, pa.binary(), nullable=False),
        ]
    )


async def _compare(table: AsyncTable, records: AsyncTable) -> _Rows:
    stored = await table.query().select(["doc_id", "content_hash"]).limit(ALL_ROWS).to_arrow()
    known = await records.query().select(["doc_id", "content_hash"]).with_row_id().limit(ALL_ROWS).to_arrow()
    strangers = await asyncio.to_thread(stored.join, known, "doc_id", join_type="left anti")
    missing = await asyncio.to_thread(known.join, stored, ["doc_id", "content_hash"], join_type="left anti")
    return _Rows(sorted(strangers["doc_id"].to_pylist()), missing.sort_by("doc_id"), known.num_rows)


async def _read_blocks(table: AsyncTable, records: Sequence[Record]) -> dict[str, bytes]:
    """Stored blocks of the present texts of these records, by text: another field may be all that has changed."""
    texts = {text_hash(text): text for text in map(make_reranker_text, records)}
    rows = read_columns(table, [record.doc_id for record in records], ["text_hash", BLOCK])
    return {texts[row["text_hash"]]: row[BLOCK] async for row in rows if row["text_hash"] in texts}


def _embed(embedder: TokenEmbedder, texts: Sequence[str]) -> dict[str, bytes]:
    """Blocks by text."""
    blocks: dict[str, bytes] = {}
    parts = (texts[start : start + EMBEDDED_AT_ONCE] for start in range(0, len(texts), EMBEDDED_AT_ONCE))
    for part in unless_abandoned(parts):
        blocks |= zip(part, map(compress, embedder.token_vectors(part, "document")), strict=True)
    return blocks


async def _write(table: AsyncTable, records: Sequence[Record], hashes: Mapping[str, str], blocks: Mapping[str, bytes]) -> None:
    """One commit."""
    import pyarrow as pa

    texts = {record.doc_id: make_reranker_text(record) for record in records}
    rows = [
        {"doc_id": doc_id, "content_hash": hashes[doc_id], "text_hash": text_hash(text), "size": len(blocks[text]), BLOCK: blocks[text]}
        for doc_id, text in texts.items()
    ]
    if rows:
        new = pa.Table.from_pylist(rows, schema=_build_schema())
        await table.merge_insert("doc_id").when_matched_update_all().when_not_matched_insert_all().execute(new)


async def _compact(table: AsyncTable) -> None:
    await table.optimize(cleanup_older_than=maintenance.KEEP_METADATA)


async def _measure(table: AsyncTable) -> tuple[int, int]:
    """Rows, and the bytes of all blocks."""
    import pyarrow.compute as pc

    sizes = (await table.query().select(["size"]).limit(ALL_ROWS).to_arrow())["size"]
    return len(sizes), pc.sum(sizes).as_py() or 0


async def _count_broken(table: AsyncTable) -> int:
    """Rows whose block has not the length that they state."""
    broken = 0
    scan = table.query().select(["size", BLOCK]).limit(ALL_ROWS)
    async for batch in await scan.to_batches(max_batch_length=BLOCKS_AT_ONCE):
        broken += sum(size != len(block) for size, block in zip(batch["size"].to_pylist(), batch[BLOCK].to_pylist(), strict=True))
    return broken
