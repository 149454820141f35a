"""The library: records on LanceDB, searched by rank and by exact words, read and written by several processes at once.

Layout at its address: table `records` (see `schema`), `edges` (see `edges`), `files` (see `ledger`), `spaces` and a table of
vectors for each (see `vectors`), and for a local folder a lock file.
Reads see the latest committed version, whoever wrote it. Writes of local libraries take turns; on object storage LanceDB's
commit protocol and the primary key keep them apart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from outrider.retrieval import edges, expansion, info, ledger, opening, reading, schema, search, tags, upkeep, upsert, verdicts
from outrider.retrieval import reindex as reindexing
from outrider.retrieval.info import LibraryInfo
from outrider.retrieval.ledger import IngestedFile
from outrider.retrieval.place import TABLE, Place
from outrider.retrieval.reindex import OnReindex, Reindexed
from outrider.retrieval.search import ALL_ROWS
from outrider.retrieval.sql import any_of
from outrider.retrieval.upsert import Upserted
from outrider.retrieval.vectors.dense import Near
from outrider.retrieval.vectors.shelf import Vectors
from outrider.retrieval.vectors.writing import Embedded
from outrider.state.embedding import EmbeddingSpace, TokensRead
from outrider.state.errors import LibraryError
from outrider.state.filters import Filter
from outrider.state.hits import Scored
from outrider.state.ports import OnCount, TextEmbedder
from outrider.state.records import Record
from outrider.state.reranking import Verdict
from outrider.state.threads import imported

if TYPE_CHECKING:
    import numpy as np
    from lancedb.db import AsyncConnection
    from lancedb.table import AsyncTable


class Library:
    """Open one with `Library.open`. May be used from several event loops, one after another or at once."""

    def __init__(self, place: Place, connection: AsyncConnection, table: AsyncTable, library_id: str) -> None:
        self.uri = place.uri
        self.library_id = library_id
        self._place = place
        self._connection = connection
        self._table = table
        self._vectors = Vectors(place, connection)
        self._edges: AsyncTable | None = None

    @classmethod
    async def open(cls, uri: str | Path, *, create: bool = False, storage_options: Mapping[str, str] | None = None) -> Library:
        """The library at a folder or an `s3://` address. An empty folder becomes a new library; a missing one only with `create`."""
        place = Place.of(uri)
        standing = await place.standing()
        if standing == "missing" and not create:
            raise place.missing()
        if standing == "foreign":
            raise place.foreign()
        lancedb = await imported("lancedb")
        with place.translated():
            connection = await lancedb.connect_async(
                place.uri, read_consistency_interval=timedelta(0), storage_options=dict(storage_options or {})
            )
            table = await opening.opened(connection)
        if table is None:
            table = await opening.created(place, connection, create or place.path is not None)
        return cls(place, connection, table, opening.library_id(place, await table.schema()))

    @property
    def shown(self) -> str:
        """The address for messages, without a password."""
        return self._place.shown

    def close(self) -> None:
        self._table.close()  # type: ignore[no-untyped-call]
        self._vectors.close()
        if self._edges is not None:
            self._edges.close()  # type: ignore[no-untyped-call]
        self._connection.close()  # type: ignore[no-untyped-call]

    async def upsert(self, records: Sequence[Record]) -> Upserted:
        """Add or replace by `doc_id`, unless the content hash says that nothing changed.

        Of several records with one id the last counts. `BadRequest` for text that is no Unicode text. The records are one commit:
        vectors of what they no longer say go before it, their edges come before it and the former ones go after it. A process that
        dies in between leaves what `check` tells and `reindex` mends.
        """
        latest = {record.doc_id: record for record in records}
        if not latest:
            return Upserted()
        if "" in latest:
            raise ValueError("a record without doc_id cannot be stored")
        hashes = {doc_id: schema.content_hash(record) for doc_id, record in latest.items()}
        async with self._place.changing():
            held = await self.content_hashes(list(latest))
            changed = {doc_id: record for doc_id, record in latest.items() if held.get(doc_id) != hashes[doc_id]}
            if not changed:
                return Upserted(unchanged=len(latest))
            await self._place.committed(lambda: self._vectors.follow(list(changed.values()), hashes))
            added, updated = await upsert.written(self._place, self._connection, self._table, changed, hashes)
        return Upserted(added, updated, len(latest) - len(changed))

    async def search(self, text: str, where: Filter | None = None, limit: int = 100, widened: Sequence[str] = ()) -> list[Scored]:
        """Best first by BM25, ties by doc_id; `where` applies before the cut. A record's `text` is cut to `schema.LEAD_CHARS`,
        its edges are left out.

        The terms of `widened` count less than the words of `text`.
        """
        with self._place.translated():
            return await search.search(self._table, text, where, limit, widened)

    async def best_ids(self, text: str, where: Filter | None = None, limit: int = 100) -> list[str]:
        """As `search`, without the records."""
        with self._place.translated():
            return await search.best_ids(self._table, text, where, limit)

    async def space(self) -> EmbeddingSpace | None:
        """What the library's vectors are of; None where its records were never embedded."""
        with self._place.translated():
            return await self._vectors.space()

    async def accept(self, space: EmbeddingSpace) -> None:
        """`EmbeddingSpaceMismatch` where the library has vectors of another space."""
        with self._place.translated():
            await self._vectors.fitting(space)

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

    async def dense(
        self, vector: np.ndarray, space: EmbeddingSpace, where: Filter | None = None, limit: int = 100, *, exact: bool = False
    ) -> list[Near]:
        """Nearest first to a query's vector of shape (d,), ties by doc_id; `where` applies before the cut, `exact` passes the index by.

        `NoVectors` where nothing was ever embedded, `EmbeddingSpaceMismatch` for a vector of another space.
        """
        with self._place.translated():
            return await self._vectors.nearest(vector, space, where, limit, exact=exact)

    async def without_vectors(self) -> int:
        """About how many records have no vector: a difference of two counts, quick enough for every search. `info` counts exactly."""
        with self._place.translated():
            return max(await reading.count(self._table, None) - await self._vectors.count(), 0)

    async def brief(self, doc_ids: Sequence[str], where: Filter | None = None) -> list[Record]:
        """As `search` gives them, bodies cut, without edges, in the order asked; ids that are not there or do not match are left out."""
        with self._place.translated():
            return await reading.brief(self._table, doc_ids, where)

    async def tokens_read(self, doc_ids: Sequence[str]) -> dict[str, TokensRead]:
        """How much of each record its vector speaks for; only those that have one."""
        with self._place.translated():
            return await self._vectors.tokens_read(doc_ids)

    async def match(self, phrase: str, field: str = "any", where: Filter | None = None, limit: int = ALL_ROWS) -> list[str]:
        """Ids, sorted, of records with exactly these words in this order in title, abstract, text, keywords or any of them.

        `abstract` is abstract or description; `keywords` are tags and mesh, each a phrase of its own.
        """
        with self._place.translated():
            return await search.match(self._table, phrase, field, where, limit)

    async def fetch(self, doc_ids: Sequence[str]) -> list[Record]:
        """Whole records in the order asked; ids that are not there are left out."""
        with self._place.translated():
            return await reading.fetch(self._table, doc_ids)

    async def whole(self, records: Sequence[Record]) -> list[Record]:
        """What `search` gave, with whole bodies and their edges; what was filled in since, or a record that has gone, stays as given."""
        cut = [record.doc_id for record in records if len(record.text) >= schema.LEAD_CHARS]
        held = {one.doc_id: {"text": one.text, "edges": one.edges} for one in await self.fetch(cut) if one.text} if cut else {}
        return [record.model_copy(update=held.get(record.doc_id)) for record in records]

    async def content_hashes(self, doc_ids: Sequence[str]) -> dict[str, str]:
        """Of whole records, which a record from `search`, whose body is cut, cannot tell."""
        with self._place.translated():
            rows = reading.columns_of(self._table, doc_ids, ["doc_id", "content_hash"])
            return {row["doc_id"]: row["content_hash"] async for row in rows}

    async def scan(self, where: Filter | None = None, batch: int = 1_000) -> AsyncIterator[Record]:
        """Every matching record once, by doc_id (code points), from the version current at the start, whatever is written meanwhile.

        Holds the ids of all and the records of one batch.
        """
        with self._place.translated():
            table = await self._pinned()
            rows = await reading.addresses(table, where)
        for start in range(0, rows.num_rows, batch):
            with self._place.translated():
                records = await reading.at(table, rows.slice(start, batch))
            for record in records:
                yield record

    async def page(self, where: Filter | None = None, limit: int = 20, offset: int = 0) -> list[Record]:
        """Matching records in the order of `scan`."""
        with self._place.translated():
            table = await self._pinned()
            return await reading.at(table, (await reading.addresses(table, where)).slice(offset, max(limit, 0)))

    async def sample(self, size: int, seed: int = 0) -> list[Record]:
        """Whole records spread evenly over the ids, the same for the same library and seed; all where they are fewer."""
        with self._place.translated():
            return await reading.sample(await self._pinned(), size, seed)

    async def count(self, where: Filter | None = None) -> int:
        with self._place.translated():
            return await reading.count(self._table, where)

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

    async def optimize(self, force: bool = False, keep: timedelta = upkeep.KEEP) -> None:
        """Where due (or forced): complete and repair the indexes, fold new rows in, compact, drop versions older than `keep`.

        A tagged version and all that came after it stay. Cheap where nothing is due: call it after every few hundred writes.
        """
        async with self._place.changing():
            await upkeep.ensure_indexes(self._table)
            if force or await upkeep.due(self._table):
                await upkeep.repair_indexes(self._table)
                await self._place.committed(lambda: upkeep.optimize(self._table, keep))
                await ledger.compact(self._connection)
            await self._place.committed(lambda: edges.compact(self._connection, force))
            await self._vectors.optimize(force=force)

    async def mend_edges(self, progress: OnCount | None = None) -> int:
        """Write the edges of records that lack them, as in a library of an Outrider without a graph; drop those that belong to none.

        How many records needed it. Only ids are read where none does; nobody else writes meanwhile.
        """
        async with self._place.changing():
            table = await self._pinned()
            return await self._place.committed(lambda: edges.mend(self._connection, table, progress))

    async def edges(self, where: str, limit: int = ALL_ROWS) -> list[edges.Row]:
        """Edges that fit a condition of SQL over `edges.COLUMNS`; `LibraryError` where an Outrider without a graph wrote the records."""
        with self._place.translated():
            table = await self._graph()
            return [] if table is None else await edges.rows(table, where, limit)

    async def edges_version(self) -> int:
        """Rises with every change to the edges."""
        with self._place.translated():
            table = await self._graph()
            return 0 if table is None else int(await table.version())

    async def snapshot(self) -> str:
        """`<library id>@<version>` of what is read now."""
        with self._place.translated():
            return f"{self.library_id}@{await self._table.version()}"

    async def related_terms(self, text: str, limit: int) -> tuple[str, ...]:
        """Terms that mark the first hits of `text` off from the later ones, best first."""
        hits = await self.search(text, limit=expansion.POOL)
        return expansion.related_terms(text, [hit.record for hit in hits], limit)

    async def ingested(self, fingerprint: str) -> IngestedFile | None:
        """The file with this fingerprint, if it was ever read to its end."""
        with self._place.translated():
            return await ledger.find(self._connection, fingerprint)

    async def origins(self) -> dict[str, int]:
        """How many records came from each origin; only that column is read, in pieces."""
        counts: Counter[str] = Counter()
        with self._place.translated():
            batches = await self._table.query().select(["origin"]).to_batches()
            async for batch in batches:
                counts.update(origin for origin in batch.column("origin").to_pylist() if origin)
        return dict(counts)

    async def remember(self, *files: IngestedFile) -> None:
        """Call it only when all records of the files are in. What the same origins held before is forgotten."""
        if not files:
            return
        async with self._place.changing():
            await self._place.committed(lambda: ledger.remember(self._connection, files))

    async def verdicts(self) -> tuple[Verdict, ...]:
        """What probes found out about rerankers here: newest first, of one probe the chosen one first."""
        with self._place.translated():
            return await verdicts.every(self._connection)

    async def remember_verdicts(self, judged: Sequence[Verdict]) -> None:
        """All verdicts of one probe, in one commit."""
        if not judged:
            return
        async with self._place.changing():
            await self._place.committed(lambda: verdicts.remember(self._connection, judged))

    async def _graph(self) -> AsyncTable | None:
        """None where there is nothing to connect."""
        if self._edges is None:
            self._edges = await opening.opened(self._connection, edges.NAME)
        if self._edges is None and await self._table.count_rows():
            raise LibraryError(f"the library at {self._place.shown} has no graph yet; {edges.FIX}")
        return self._edges

    async def _pinned(self) -> AsyncTable:
        """A handle that stays at the current version."""
        table = await self._connection.open_table(TABLE)
        await table.checkout(await table.version())
        return table
