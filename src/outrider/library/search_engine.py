"""The library by every strategy it has: sparse, dense, graph. What the graph's scout and `outrider.execute` both run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from outrider.library.maintenance import REINDEX
from outrider.library.neighbours import explained
from outrider.runtime.threads import run_in_thread
from outrider.state.errors import NoVectors
from outrider.state.filters import Filter
from outrider.state.hits import Scored
from outrider.state.ports import SourceAnswer, SourceQuery
from outrider.state.records import Record
from outrider.state.request import RetrieverType

if TYPE_CHECKING:
    from outrider.library.library import Library
    from outrider.library.vectors.search import Near
    from outrider.state.embedding import EmbeddingSpace, TokensRead
    from outrider.state.ports import Neighbour, Neighbours, TextEmbedder

ANCHORS = 20
"""Best hits from which the graph strategy starts: on CACM better than 10 (ADR 10)."""
NEIGHBOURS = 1_000_000
"""Neighbours that are looked at where a filter may drop some of them: all that one hop from so few anchors can lead to."""
MORE = 4
"""Times as many vectors are asked for where some have no record."""


@dataclass(frozen=True, slots=True)
class Engine:
    """One opened library with the model that reads its vectors and the graph around its records."""

    library: Library
    embedder: Callable[[EmbeddingSpace], TextEmbedder]
    """The model that the settings name for a space."""
    graph: Neighbours

    async def search(self, query: SourceQuery) -> SourceAnswer:
        """Best first, ties by doc_id; `query.where` applies before the cut.

        Raises `NoVectors`, `EmbeddingSpaceMismatch` or `ModelError` where the library cannot be searched by vectors.
        """
        match query.strategy:
            case RetrieverType.LANCE_FTS:
                return SourceAnswer(tuple(await self.library.search(query.text, query.where, query.limit, query.widened)))
            case RetrieverType.LANCE_DENSE:
                return await self._dense(query.text, query.where, query.limit)
            case RetrieverType.GRAPH_NEIGHBOR:
                return SourceAnswer(tuple(await self._graph(query.text, query.where, query.limit)))
            case unknown:
                raise ValueError(f"the library has no strategy {unknown!r}")

    async def first(self, where: Filter) -> Record | None:
        """The first record, by id, that matches."""
        return next(iter(await self.library.page(where, 1)), None)

    async def whole(self, records: Sequence[Record]) -> list[Record]:
        return await self.library.whole(records)

    async def snapshot(self) -> str:
        return await self.library.snapshot()

    async def related_terms(self, text: str, limit: int) -> tuple[str, ...]:
        return await self.library.related_terms(text, limit)

    async def _dense(self, text: str, where: Filter | None, limit: int) -> SourceAnswer:
        """By cosine similarity of the query's vector; the model is loaded only where there are vectors to compare with."""
        held = await self.library.space()
        if held is None:
            raise NoVectors(f"the library at {self.library.shown} has no vectors; name a model (embedding.model_name) and run: {REINDEX}")
        embedder = self.embedder(held)
        (vector, space), missing = await asyncio.gather(
            run_in_thread(lambda: (embedder.embed(text, "query")[0], embedder.space)), self.library.without_vectors()
        )
        asked = limit
        while True:
            near = await self.library.dense(vector, space, where, asked)
            records = {record.doc_id: record for record in await self.library.brief([place.doc_id for place in near], where)}
            found = [_scored(place, records[place.doc_id]) for place in near if place.doc_id in records]
            if len(found) >= limit or len(near) < asked:  # else vectors whose records are gone stood in the way
                message = f"{missing:,} records have no vector; embed them with: {REINDEX}" if missing else ""
                return SourceAnswer(tuple(found[:limit]), message=message, model=f"{space.model_name} {space.id}")
            asked *= MORE

    async def _graph(self, text: str, where: Filter | None, limit: int) -> list[Scored]:
        """Neighbours of the entities that the text names and of its best hits, all within the filter."""
        named, best = await asyncio.gather(self.graph.entities(text), self.library.best_ids(text, where, ANCHORS))
        found = await self.graph.around((*named, *best), limit if where is None else NEIGHBOURS)
        top = f"of your top {len(best)}"
        kept: list[Scored] = []
        for start in range(0, len(found), limit):
            places = found[start : start + limit]
            records = {record.doc_id: record for record in await self.library.brief([place.doc_id for place in places], where)}
            kept += [_related(place, records[place.doc_id], top) for place in places if place.doc_id in records]
            if len(kept) >= limit:
                break
        return kept[:limit]


def _scored(place: Near, record: Record) -> Scored:
    return Scored(record, place.similarity, _cut(place.read))


def _cut(read: TokensRead) -> str:
    if read.tokens is None or read.of is None or read.tokens >= read.of:
        return ""
    return f"its vector speaks for the first {read.tokens:,} of {read.of:,} tokens"


def _related(place: Neighbour, record: Record, top: str) -> Scored:
    return Scored(record, place.score, explained(place.paths, top), place.paths)
