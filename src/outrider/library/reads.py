"""What is read of a library: by rank, by words, by vectors, by id, in order."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING

from outrider.library import edges, schema
from outrider.library import record_reader as reading
from outrider.library import term_expansion as expansion
from outrider.library import text_search as search
from outrider.library.handles import Handles
from outrider.library.text_search import ALL_ROWS
from outrider.library.vectors.search import Near
from outrider.state.embedding import EmbeddingSpace, TokensRead
from outrider.state.filters import Filter
from outrider.state.hits import Scored
from outrider.state.records import Record

if TYPE_CHECKING:
    import numpy as np


class Reads(Handles):
    """The reading half of `store.Library`."""

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
