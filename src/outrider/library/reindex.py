"""Reindex: all records embedded by one model, completing or replacing the library's vectors.

Another model's vectors grow in a table of their own while the old ones answer. Finished vectors stay, so that a run that was
killed resumes where it stopped; records written meanwhile are caught up on. The last step takes the library's lock: nothing is
missing, vectors of missing records are dropped, one commit makes the new space the current one, and the old table is dropped.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Literal, NamedTuple

from outrider.library.address_and_locks import Location
from outrider.library.lance_errors import retry_conflicts
from outrider.library.record_table import read_addresses, read_content_hashes
from outrider.library.text_search import ALL_ROWS
from outrider.library.vectors import write
from outrider.library.vectors.space_registry import StoredSpace
from outrider.library.vectors.store import Vectors
from outrider.state.embedding import EmbeddingSpace
from outrider.state.errors import BadVectors, LibraryBusy, LibraryError
from outrider.state.ports import OnCount, TextEmbedder

if TYPE_CHECKING:
    import pyarrow as pa
    from lancedb.table import AsyncTable


class Parts(NamedTuple):
    """How the work is divided. A killed run loses no more than the parts under way."""

    records: int
    """Embedded and written at once."""
    at_once: int
    """Parts that are read or embedded at the same time, for an embedder that works elsewhere."""


PARTS = Parts(256, 1)
FEW = 64
"""Records that may be embedded while no other process can write."""
ROUNDS = 10
"""Of catching up with writers, before the rest is embedded while they wait."""
MAX_REASONS = 20

Stage = Literal["embedding", "indexing", "switching"]


@dataclass(frozen=True, slots=True)
class ReindexProgress:
    """`done` of `total` records have their vector, those of earlier runs included."""

    stage: Stage
    done: int
    total: int


@dataclass(frozen=True, slots=True)
class ReindexStatus:
    """How far the run is that replaces the vectors by those of another model."""

    done: int
    total: int
    running: bool
    """Whether a process works on it; not known, and False, in LanceDB's service."""

    def __str__(self) -> str:
        figures = f"{self.done:,} of {self.total:,} records are done"
        return f"this is under way: {figures}" if self.running else f"a run of this was interrupted, {figures}; the command resumes it"


OnReindex = Callable[[ReindexProgress], None]


@dataclass(frozen=True, slots=True)
class ReindexReport:
    """Report of a run. `embedded` and `cut` count its new vectors, `cut` those of texts longer than the model's context."""

    model: str
    before: str | None
    """The model whose vectors were replaced; None where there were none, or this model's."""
    records: int
    embedded: int
    cut: int
    without: int
    reasons: tuple[str, ...]
    """Why records have no vector, the first `MAX_REASONS`."""
    index: str
    """`exact` where every vector is compared."""
    recall: float | None
    dropped: dict[str, int]
    """Vectors by model, of interrupted runs to yet other models, which this one gave up."""


@dataclass(frozen=True, slots=True)
class _Missing:
    """Records without a vector of their current text, by doc_id, at the version that `table` stands at."""

    table: AsyncTable
    rows: pa.Table
    records: int


async def reindex(
    location: Location,
    vectors: Vectors,
    records: AsyncTable,
    open_version: Callable[[], Awaitable[AsyncTable]],
    embedder: TextEmbedder,
    progress: OnReindex | None = None,
    parts: Parts = PARTS,
) -> ReindexReport:
    """`LibraryBusy` where another process reindexes, `ModelError` where the model fails; vectors written by then stay.

    `open_version` opens the records at their current version.
    """
    space = await asyncio.to_thread(lambda: embedder.space)
    async with location.lock_reindex():
        return await _Run(location, vectors, records, open_version, embedder, space, progress or (lambda _: None), parts).run()


@dataclass(slots=True)
class _Run:
    location: Location
    vectors: Vectors
    records: AsyncTable
    open_version: Callable[[], Awaitable[AsyncTable]]
    embedder: TextEmbedder
    space: EmbeddingSpace
    progress: OnReindex
    parts: Parts
    total: int = 0
    embedded: int = 0
    cut: int = 0
    refused: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Content hash and reason of every record that cannot have a vector."""
    dropped: dict[str, int] = field(default_factory=dict)
    strangers: set[str] = field(default_factory=set)
    """Ids without a record that had a vector when the run began."""

    async def run(self) -> ReindexReport:
        vectors = self.vectors
        with self.location.translate_errors():
            before = await vectors.registry.current()
        async with self.location.write():
            await vectors.drop_unused()
            current = await vectors.registry.current()
            if current is not None and current.space.id != self.space.id:  # completing the current space is no change of plan
                self.dropped = await vectors.drop_building(keep=self.space.id)
            own = next((stored for stored in await vectors.registry.all() if stored.space.id == self.space.id), None)
            # a new space is current at once where there is no other
            target = own or await vectors.create_space(self.space, "current" if current is None else "building")
            self.strangers = await vectors.find_strangers(target, self.records)
        try:
            await self._fill(target, await self._find_missing(target))
            if await self._forget_if_empty(target):
                return self._report(target, before=None)
            self._show("indexing", self.total)
            # No other process writes a table that is not current yet; the current one is maintained under the lock.
            async with self.location.lock_writes() if target.state == "current" else nullcontext():
                with self.location.translate_errors(writing=True):
                    await self._check_listed(target)
                    target = await vectors.maintain(target)
            await self._catch_up(target)
        except LibraryError:
            await self._check_listed(target)
            raise
        return self._report(target, before if before and before.space.id != self.space.id else None)

    def _report(self, target: StoredSpace, before: StoredSpace | None) -> ReindexReport:
        return ReindexReport(
            model=self.space.model_name,
            before=None if before is None else before.space.model_name,
            records=self.total,
            embedded=self.embedded,
            cut=self.cut,
            without=len(self.refused),
            reasons=tuple(f"{doc_id}: {reason}" for doc_id, (_, reason) in sorted(self.refused.items())[:MAX_REASONS]),
            index=target.index or "exact",
            recall=target.recall,
            dropped=self.dropped,
        )

    async def _forget_if_empty(self, target: StoredSpace) -> bool:
        """Whether the run gave no vector at all: then the space replaces no other and is forgotten.

        `BadVectors` where the model refused them, not where the records have no text.
        """
        async with self.location.write():
            if await (await self.vectors.table(target)).count_rows():
                return False
            await self.vectors.forget(target)
        reasons = sorted(reason for _, reason in self.refused.values() if reason != write.NO_TEXT)
        if reasons:
            raise BadVectors(
                f"{self.space.model_name} gave no vector for any of {len(reasons):,} records ({reasons[0]}); the library does not use it"
            )
        return True

    async def _find_missing(self, target: StoredSpace) -> _Missing:
        import pyarrow as pa

        with self.location.translate_errors():
            table = await self.open_version()
            rows = await table.query().select(["doc_id", "content_hash"]).with_row_id().limit(ALL_ROWS).to_arrow()
            present = await self.vectors.read_ids(target)
        hashes = [{"doc_id": doc_id, "content_hash": content} for doc_id, (content, _) in self.refused.items()]
        refused = pa.Table.from_pylist(hashes, schema=present.schema)
        refused = await asyncio.to_thread(refused.join, rows, ["doc_id", "content_hash"], join_type="left semi")
        self.refused = {doc_id: self.refused[doc_id] for doc_id in refused["doc_id"].to_pylist()}  # without changed and removed records
        present = pa.concat_tables([present, refused.cast(present.schema)])
        missing = await asyncio.to_thread(rows.join, present, ["doc_id", "content_hash"], join_type="left anti")
        return _Missing(table, missing.sort_by("doc_id"), rows.num_rows)

    async def _fill(self, target: StoredSpace, missing: _Missing, *, locked: bool = False) -> None:
        self.total = missing.records
        done = missing.records - missing.rows.num_rows
        size, at_once = self.parts
        parts = deque(missing.rows.slice(start, size) for start in range(0, missing.rows.num_rows, size))
        under_way: deque[asyncio.Task[write.Batch]] = deque()
        counts: dict[int, int] = {}
        """By number of a part, its records that the model has done."""
        self._show("embedding", done)
        try:
            while parts or under_way:
                while parts and len(under_way) < at_once:

                    def show(count: int, _: int, number: int = len(parts)) -> None:
                        counts[number] = count
                        self._show("embedding", done + sum(counts.values()))

                    under_way.append(asyncio.create_task(self._embed(target, missing.table, parts.popleft(), show)))
                batch = await under_way[0]
                under_way.popleft()
                await self._write(target, batch, locked=locked)
        finally:
            for task in under_way:
                task.cancel()
            await asyncio.gather(*under_way, return_exceptions=True)
        self._show("embedding", missing.records)

    async def _embed(self, target: StoredSpace, records: AsyncTable, addresses: pa.Table, show: OnCount) -> write.Batch:
        with self.location.translate_errors():
            found = await read_addresses(records, addresses)
        texts = await asyncio.to_thread(write.hash_texts, found)
        with self.location.translate_errors():
            reusable = await write.find_reusable(await self.vectors.table(target), texts)
        return await write.embed_batch(texts, reusable, self.embedder, show)

    async def _write(self, target: StoredSpace, batch: write.Batch, *, locked: bool) -> None:
        async with nullcontext() if locked else self.location.lock_writes():
            with self.location.translate_errors(writing=True):
                await self._check_listed(target)
                batch = batch.select_current(await read_content_hashes(self.records, batch.doc_ids()))
                await retry_conflicts(partial(write.write_batch, await self.vectors.table(target), batch))
        report = batch.report()
        self.embedded += report.embedded
        self.cut += report.cut
        self.refused |= {one.text.record.doc_id: (one.text.content_hash, one.reason) for one in batch.refused}

    async def _check_listed(self, target: StoredSpace) -> None:
        """`LibraryBusy` where another reindex has dropped the space."""
        if all(stored.table != target.table for stored in await self.vectors.registry.all()):
            raise LibraryBusy(
                f"another reindex of the library at {self.location.address} began meanwhile, to another model; this one has ended"
            )

    async def _catch_up(self, target: StoredSpace) -> None:
        """Embed the records written meanwhile; then no other process writes until this space is the current one."""
        for remaining in reversed(range(ROUNDS)):
            async with self.location.lock_writes():
                missing = await self._find_missing(target)
                if missing.rows.num_rows <= FEW or not remaining:
                    await self._fill(target, missing, locked=True)
                    self._show("switching", missing.records)
                    with self.location.translate_errors(writing=True):
                        await self._switch(target)
                    return
            await self._fill(target, missing)

    async def _switch(self, target: StoredSpace) -> None:
        vectors = self.vectors
        await self._check_listed(target)
        current = await vectors.registry.current()
        strangers = await vectors.find_strangers(target, self.records)
        if current is None or current.table == target.table:
            await vectors.drop(target, strangers & self.strangers)  # newer ones may be an ingest's that writes their records next
            return
        await vectors.drop(target, strangers)
        await vectors.put(replace(current, state="retired"), replace(target, state="current"))
        await vectors.forget(current)

    def _show(self, stage: Stage, count: int) -> None:
        self.progress(ReindexProgress(stage, count, self.total))
