"""The library: records on LanceDB, searched by rank and by exact words, read and written by several processes at once.

Layout at its address: table `records` (see `schema`), `edges` (see `edges`), `files` (see `ledger`), `decisions`, `spaces` and a table of
vectors for each (see `vectors`), and for a local folder a lock file.
Reads see the latest committed version, whoever wrote it. Writes of local libraries take turns; on object storage LanceDB's
commit protocol and the primary key keep them apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from outrider.library import edges, schema, upsert
from outrider.library import file_ledger as ledger
from outrider.library import maintenance as upkeep
from outrider.library import open_tables as opening
from outrider.library import record_reader as reading
from outrider.library import reindex as reindexing
from outrider.library import statistics as info
from outrider.library.exact import dictionary, snapshot
from outrider.library.exact import snapshot as tags
from outrider.library.exact.pinned_library import Pinned
from outrider.library.filter_sql import any_of
from outrider.library.location import LOCK_TIMEOUT_S, Place
from outrider.library.metadata_tables import Beside
from outrider.library.reads import Reads
from outrider.library.reindex import OnReindex, Reindexed
from outrider.library.statistics import LibraryInfo
from outrider.library.upsert import Upserted
from outrider.library.vectors.write import Embedded
from outrider.runtime.threads import load_module
from outrider.state.errors import LibraryError
from outrider.state.ports import OnCount, TextEmbedder
from outrider.state.records import Record

if TYPE_CHECKING:
    pass


class Library(Reads, Beside):
    """Open one with `Library.open`. May be used from several event loops, one after another or at once."""

    @classmethod
    async def open(cls, uri: str | Path, *, create: bool = False, storage_options: Mapping[str, str] | None = None) -> Library:
        """The library at a folder or an `s3://` address. An empty folder becomes a new library; a missing one only with `create`."""
        place = Place.of(uri)
        standing = await place.standing()
        if standing == "missing":
            if not create:
                raise place.missing()
            await place.make()
        if standing == "foreign":
            raise place.foreign()
        lancedb = await load_module("lancedb")
        with place.translated():
            connection = await lancedb.connect_async(
                place.uri, read_consistency_interval=timedelta(0), storage_options=dict(storage_options or {})
            )
            table = await opening.opened(connection)
        if table is None:
            table = await opening.created(place, connection, create or place.path is not None)
        return cls(place, connection, table, opening.library_id(place, await table.schema()))

    async def upsert(self, records: Sequence[Record], wait_s: float = LOCK_TIMEOUT_S) -> Upserted:
        """Add or replace by `doc_id`, unless the content hash says that nothing changed.

        Of several records with one id the last counts. `BadRequest` for text that is no Unicode text, `LibraryBusy` where another
        process writes for longer than `wait_s`. The records are one commit:
        vectors of what they no longer say go before it, their edges come before it and the former ones go after it. A process that
        dies in between leaves what `check` tells and `reindex` mends.
        """
        latest = {record.doc_id: record for record in records}
        if not latest:
            return Upserted()
        if "" in latest:
            raise ValueError("a record without doc_id cannot be stored")
        hashes = {doc_id: schema.content_hash(record) for doc_id, record in latest.items()}
        async with self._place.changing(wait_s):
            held = await self.content_hashes(list(latest))
            changed = {doc_id: record for doc_id, record in latest.items() if held.get(doc_id) != hashes[doc_id]}
            if not changed:
                return Upserted(unchanged=len(latest))
            await self._place.committed(lambda: self._vectors.follow(list(changed.values()), hashes))
            added, updated = await upsert.written(self._place, self._connection, self._table, changed, hashes)
        return Upserted(added, updated, len(latest) - len(changed))

    async def embed(self, records: Sequence[Record], embedder: TextEmbedder, progress: OnCount | None = None) -> Embedded:
        """Write the records' vectors, one each; call it before `upsert`, so that a record that is in has its vector.

        The first call decides the library's space. A text that has its vector is not embedded again. `progress` is called on the
        event loop. `EmbeddingSpaceMismatch` where the library has vectors of another model, `ModelError` where the model fails.
        """
        return await self._vectors.embed(records, embedder, progress)

    async def reindex(self, embedder: TextEmbedder, progress: OnReindex | None = None) -> Reindexed:
        """Give every record its vector of this model: completes the library's own space, or replaces it.

        The old vectors answer until the new ones are complete; a run that was interrupted goes on when it is called again.
        `LibraryBusy` while another one runs, `ModelError` where the model fails.
        """
        shelves = reindexing.Shelves(self._place, self._vectors, self._table, self._pinned)
        return await reindexing.reindex(shelves, embedder, progress)

    async def remove(self, doc_ids: Sequence[str]) -> int:
        """How many were there. The files that they came from are forgotten too, so that ingesting them again brings them back."""
        if not doc_ids:
            return 0
        async with self._place.changing():
            rows = [row async for row in reading.columns_of(self._table, doc_ids, ["doc_id", "origin"])]
            if not rows:
                return 0
            await ledger.forget(self._connection, sorted({row["origin"] for row in rows if row["origin"]}))
            condition = any_of("doc_id", [row["doc_id"] for row in rows])
            await self._place.committed(lambda: self._vectors.remove([row["doc_id"] for row in rows]))
            await self._place.committed(lambda: self._table.delete(condition))
            await self._place.committed(lambda: edges.remove(self._connection, [row["doc_id"] for row in rows]))
        return len(rows)

    async def tag(self, name: str) -> int:
        """Name the current version, which is kept from then on; returns its number."""
        async with self._place.changing():
            return await tags.add(self._table, name)

    async def untag(self, name: str) -> None:
        async with self._place.changing():
            await tags.remove(self._table, name)

    async def pin(self, tag: str) -> Pinned:
        """The current version, tagged and open for an exact search; `BadRequest` for a tag that is taken or is no name."""
        await self.tag(tag)
        return await self.pinned(tag)

    async def pinned(self, tag: str | None = None) -> Pinned:
        """A tagged version open for an exact search, or the current one, which stays as long as versions do that nobody tagged.

        `LibraryError` for a tag that has gone. The library's connection must outlive what is opened.
        """
        with self._place.translated():
            table = await snapshot.opened(self._place, self._connection, tag)
            return Pinned(self._place, self._connection, table, await snapshot.taken(table, self.library_id, tag))

    async def tags(self) -> dict[str, int]:
        """Version by tag, sorted by name."""
        with self._place.translated():
            return await tags.every(self._table)

    async def info(self) -> LibraryInfo:
        with self._place.translated():
            return await info.gathered(self._place, self._connection, self._table, self._vectors, self.library_id)

    async def check(self) -> tuple[str, ...]:
        """What is wrong and what to do about it, reading every row; empty where all is sound."""
        try:
            with self._place.translated():
                table = await self._pinned()
                beside = (*await edges.problems(self._connection, table), *await self._vectors.problems(table))
                return (*beside, *await upkeep.problems(table))
        except LibraryError as error:
            return (str(error),)

    async def due(self) -> bool:
        """Whether `optimize` would find something to do in the records: a few ms."""
        with self._place.translated():
            return await upkeep.due(self._table)

    async def optimize(self, force: bool = False, keep: timedelta = upkeep.KEEP, wait_s: float = LOCK_TIMEOUT_S) -> None:
        """Where due (or forced): complete and repair the indexes, fold new rows in, compact, drop versions older than `keep`.

        A tagged version and all that came after it stay. Cheap where nothing is due: call it after every few hundred writes.
        """
        async with self._place.changing(wait_s):
            await upkeep.ensure_indexes(self._table)
            if force or await upkeep.due(self._table):
                await upkeep.repair_indexes(self._table)
                covered = await dictionary.extend(self._connection, await self._pinned())
                await self._place.committed(lambda: upkeep.optimize(self._table, keep))
                await self._words_stay_covered(covered)
                await ledger.compact(self._connection)
            await self._place.committed(lambda: edges.compact(self._connection, force))
            await self._vectors.optimize(force=force)

    async def _words_stay_covered(self, covered: bool) -> None:
        """After a compaction, which moves rows to new fragments. Where no lock kept others from writing, they are read again."""
        table = await self._pinned()
        if covered and self._place.path is not None:
            await dictionary.cover(self._connection, await dictionary.fragments(table))
        elif covered:
            await dictionary.extend(self._connection, table)

    async def mend_edges(self, progress: OnCount | None = None) -> int:
        """Write the edges of records that lack them, as in a library of an Outrider without a graph; drop those that belong to none.

        How many records needed it. Only ids are read where none does; nobody else writes meanwhile.
        """
        async with self._place.changing():
            table = await self._pinned()
            return await self._place.committed(lambda: edges.mend(self._connection, table, progress))
