"""All records embedded by one model: completes the vectors that the library has, or replaces them by those of another model.

Another model's vectors grow in a table of their own while the old ones answer. What is there stays, so that a run that was
killed goes on where it stopped; what is written meanwhile is caught up on. The last step takes the library's lock: nothing is
missing, nothing is left of records that are gone, one commit makes the new space the current one, the old table is dropped.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Literal

from outrider.library import record_reader as reading
from outrider.library.location import Place
from outrider.library.text_search import ALL_ROWS
from outrider.library.vectors import write as writing
from outrider.library.vectors.registry import Held
from outrider.library.vectors.store import Vectors
from outrider.state.embedding import EmbeddingSpace
from outrider.state.errors import BadVectors, LibraryBusy, LibraryError
from outrider.state.ports import TextEmbedder
from outrider.state.records import Record

if TYPE_CHECKING:
    import pyarrow as pa
    from lancedb.table import AsyncTable

BATCH = 256
"""Records embedded and written at once: a killed run loses no more than that."""
FEW = 64
"""So many may be embedded while nobody else can write."""
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


OnReindex = Callable[[ReindexProgress], None]


@dataclass(frozen=True, slots=True)
class Reindexed:
    """What a run did. `embedded` and `cut` count vectors that it made, `cut` those of texts longer than the model's context."""

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
class Shelves:
    """The library's parts that a run works on."""

    place: Place
    vectors: Vectors
    records: AsyncTable
    pinned: Callable[[], Awaitable[AsyncTable]]
    """The records as they are now, whatever is written later."""


async def reindex(shelves: Shelves, embedder: TextEmbedder, progress: OnReindex | None = None) -> Reindexed:
    """`LibraryBusy` where another process reindexes, `ModelError` where the model fails; what is done by then stays."""
    space = await asyncio.to_thread(lambda: embedder.space)
    async with shelves.place.reindexing():
        return await _Run(shelves, embedder, space, progress or (lambda _: None)).all()


@dataclass(frozen=True, slots=True)
class _Missing:
    """Records without a vector of what they say now, by doc_id, at the version that `table` stands at."""

    table: AsyncTable
    rows: pa.Table
    records: int


@dataclass(slots=True)
class _Run:
    shelves: Shelves
    embedder: TextEmbedder
    space: EmbeddingSpace
    progress: OnReindex
    records: int = 0
    embedded: int = 0
    cut: int = 0
    refused: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Content hash and reason of every record that cannot have a vector."""
    dropped: dict[str, int] = field(default_factory=dict)
    strangers: set[str] = field(default_factory=set)
    """Ids without a record that had a vector when the run began."""

    async def all(self) -> Reindexed:
        with self.shelves.place.translated():
            before = await self.shelves.vectors.registry.current()
        held = await self._begun()
        try:
            await self._fill(held, await self._missing(held))
            if await self._gave_nothing(held):
                return self._report(held, before=None)
            held = await self._indexed(held)
            await self._switched(held)
        except LibraryError:
            await self._still_there(held)
            raise
        return self._report(held, before if before and before.space.id != self.space.id else None)

    def _report(self, held: Held, before: Held | None) -> Reindexed:
        return Reindexed(
            model=self.space.model_name,
            before=None if before is None else before.space.model_name,
            records=self.records,
            embedded=self.embedded,
            cut=self.cut,
            without=len(self.refused),
            reasons=tuple(f"{doc_id}: {why}" for doc_id, (_, why) in sorted(self.refused.items())[:MAX_REASONS]),
            index=held.index or "exact",
            recall=held.recall,
            dropped=self.dropped,
        )

    async def _gave_nothing(self, held: Held) -> bool:
        """Whether there is no vector of this space: then it takes nobody's place and is forgotten.

        `BadVectors` where that is the model's fault, not that of records without text.
        """
        async with self.shelves.place.writing():
            with self.shelves.place.translated(writing=True):
                if await (await self.shelves.vectors.table(held)).count_rows():
                    return False
                await self.shelves.vectors.forget(held)
        reasons = sorted(why for _, why in self.refused.values() if why != writing.NO_TEXT)
        if reasons:
            raise BadVectors(f"{self.space.model_name} gave no vector for any of {len(reasons):,} records ({reasons[0]}); it was not taken")
        return True

    async def _begun(self) -> Held:
        """The table to fill: this model's own, or a new one, which is current at once where there is no other.

        What is being built for a third model goes only where this run takes over: one that completes the current space is no
        change of plan.
        """
        vectors = self.shelves.vectors
        async with self.shelves.place.writing():
            with self.shelves.place.translated(writing=True):
                await vectors.sweep()
                current = await vectors.registry.current()
                if current is not None and current.space.id != self.space.id:
                    self.dropped = await vectors.abandon(keep=self.space.id)
                mine = next((held for held in await vectors.registry.all() if held.space.id == self.space.id), None)
                held = mine or await vectors.made(self.space, "current" if current is None else "building")
                self.strangers = await vectors.strangers(held, self.shelves.records)
                return held

    async def _missing(self, held: Held) -> _Missing:
        import pyarrow as pa

        with self.shelves.place.translated():
            table = await self.shelves.pinned()
            rows = await table.query().select(["doc_id", "content_hash"]).with_row_id().limit(ALL_ROWS).to_arrow()
            there = await self.shelves.vectors.ids(held)
        said = [{"doc_id": doc_id, "content_hash": content} for doc_id, (content, _) in self.refused.items()]
        refused = pa.Table.from_pylist(said, schema=there.schema)
        refused = await asyncio.to_thread(refused.join, rows, ["doc_id", "content_hash"], join_type="left semi")
        self.refused = {doc_id: self.refused[doc_id] for doc_id in refused["doc_id"].to_pylist()}  # not what was changed or removed
        there = pa.concat_tables([there, refused.cast(there.schema)])
        left = await asyncio.to_thread(rows.join, there, ["doc_id", "content_hash"], join_type="left anti")
        return _Missing(table, left.sort_by("doc_id"), rows.num_rows)

    async def _fill(self, held: Held, missing: _Missing, *, locked: bool = False) -> None:
        self.records = missing.records
        for start in range(0, missing.rows.num_rows, BATCH):
            done = missing.records - missing.rows.num_rows + start
            self._show("embedding", done)
            with self.shelves.place.translated():
                records = await reading.at(missing.table, missing.rows.slice(start, BATCH))
            await self._embed(held, records, done, locked=locked)
        self._show("embedding", missing.records)

    async def _embed(self, held: Held, records: Sequence[Record], before: int, *, locked: bool) -> None:
        place, vectors = self.shelves.place, self.shelves.vectors
        texts = await asyncio.to_thread(writing.texts_of, records)
        with place.translated():
            table = await vectors.table(held)
            kept = await writing.known(table, texts)
        batch = await writing.made(texts, kept, self.embedder, lambda done, _: self._show("embedding", before + done))
        async with nullcontext() if locked else place.writing():
            with place.translated(writing=True):
                await self._still_there(held)
                batch = batch.only(await hashes_of(self.shelves.records, [record.doc_id for record in records]))
                await place.committed(partial(writing.write, table, batch))
        self.embedded += batch.done.embedded
        self.cut += batch.done.cut
        self.refused |= {one.text.record.doc_id: (one.text.content_hash, one.why) for one in batch.refused}

    async def _still_there(self, held: Held) -> None:
        if all(other.table != held.table for other in await self.shelves.vectors.registry.all()):
            raise LibraryBusy(
                f"another reindex of the library at {self.shelves.place.shown} began meanwhile, to another model; this one has ended"
            )

    async def _indexed(self, held: Held) -> Held:
        """Nobody else writes a table that is not current yet; the current one is tended under the lock."""
        place = self.shelves.place
        self._show("indexing", self.records)
        async with place.writing() if held.state == "current" else nullcontext():
            with place.translated(writing=True):
                await self._still_there(held)
                return await self.shelves.vectors.tended(held)

    async def _switched(self, held: Held) -> None:
        """Catches up with what was written meanwhile, then nobody else writes until this space is the current one."""
        place = self.shelves.place
        for more in reversed(range(ROUNDS)):
            async with place.writing():
                missing = await self._missing(held)
                if missing.rows.num_rows <= FEW or not more:
                    await self._fill(held, missing, locked=True)
                    self._show("switching", missing.records)
                    with place.translated(writing=True):
                        await self._switch(held)
                    return
            await self._fill(held, missing)

    async def _switch(self, held: Held) -> None:
        vectors = self.shelves.vectors
        await self._still_there(held)
        current = await vectors.registry.current()
        gone = await vectors.strangers(held, self.shelves.records)
        if current is None or current.table == held.table:
            await vectors.drop(held, gone & self.strangers)  # newer ones may be an ingest's that writes their records next
            return
        await vectors.drop(held, gone)
        await vectors.put(replace(current, state="retired"), replace(held, state="current"))
        await vectors.forget(current)

    def _show(self, stage: Stage, done: int) -> None:
        self.progress(ReindexProgress(stage, done, self.records))


async def hashes_of(table: AsyncTable, doc_ids: Sequence[str]) -> dict[str, str]:
    rows = reading.columns_of(table, doc_ids, ["doc_id", "content_hash"])
    return {row["doc_id"]: row["content_hash"] async for row in rows}
