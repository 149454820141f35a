"""Search engine of an open library: sparse, dense and graph search behind one interface."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Protocol

from outrider.library.fusion import min_max, order_by_score
from outrider.library.graph_neighbours import explain_paths
from outrider.library.vectors.feedback import compare_again
from outrider.runtime.threads_and_loops import run_in_thread
from outrider.state.boolean import Node
from outrider.state.errors import EmbeddingSpaceMismatch, NoVectors, did_you_mean, shorten
from outrider.state.filters import LABELS, Filter, find_missing_value_filters, iter_comparisons, split_retracted
from outrider.state.hits import Ranked, RankedList, Scored
from outrider.state.ports import AnswerStatus, SourceAnswer, SourceQuery
from outrider.state.records import LIBRARY, Record
from outrider.state.request import RetrieverType

if TYPE_CHECKING:
    import numpy as np

    from outrider.library.library import Library
    from outrider.state.embedding import EmbeddingSpace, TokensRead
    from outrider.state.ports import Neighbours, TextEmbedder

ANCHORS = 20
"""Best hits from which the graph strategy starts: on CACM better than 10 (ADR 10)."""
FILTERED_NEIGHBOURS = 1_000_000
"""Neighbours that are read where a filter may drop some of them: more than one hop from so few anchors can lead to."""
MOST_NAMED = 10
"""Retracted records that a remark names."""
MATCHES = "matches the Boolean query"
MOST_COMPARED_AGAIN = 1_000
"""Results of vectors that are kept with their vectors, for a second comparison: more would be read for works that nobody sees."""
MOST_QUERY_VECTORS = 1_000
"""1.5 MB of 384 dimensions."""
MORE = 4
"""Factor by which a search for vectors is repeated where some have no record."""


class ReindexStarter(Protocol):
    """Starts a reindex in the background. Both methods block shortly and return what to tell the user, empty for nothing."""

    def start(self, model: str) -> str: ...

    def report(self) -> str: ...


@dataclass(slots=True)
class QueryVectors:
    """The vectors of the last queries, since popular ones come again and embedding one takes longer than comparing it."""

    most: int = MOST_QUERY_VECTORS
    _known: OrderedDict[tuple[int, str], tuple[TextEmbedder, np.ndarray, EmbeddingSpace]] = field(default_factory=OrderedDict)

    async def embed(self, embedder: TextEmbedder, text: str) -> tuple[np.ndarray, EmbeddingSpace]:
        """The text's vector, of shape (d,), and the space of the model. Raises what the model raises, each time anew."""
        key = id(embedder), text
        if key not in self._known:
            vector, space = await run_in_thread(lambda: (embedder.embed(text, "query")[0], embedder.space))
            self._known[key] = embedder, vector, space  # with the model, so that its id is not reused
        self._known.move_to_end(key)
        while len(self._known) > self.most:
            self._known.popitem(last=False)
        _, vector, space = self._known[key]
        return vector, space


@dataclass(frozen=True, slots=True)
class Engine:
    """One open library, with the model of its vectors and its graph. The scout and `outrider.execute` both search with it."""

    library: Library
    embedder: Callable[[EmbeddingSpace], TextEmbedder]
    """Returns the model of the settings for a space."""
    graph: Neighbours
    background: ReindexStarter | None = None
    """Embeds all records with another model where a search finds that the model has changed; None to leave that to the user."""
    query_vectors: QueryVectors = field(default_factory=QueryVectors)

    async def search(self, query: SourceQuery) -> SourceAnswer:
        """Best first, ties by doc_id; `query.where` applies before the cut.

        Raises `NoVectors`, `EmbeddingSpaceMismatch` or `ModelError` where the library cannot be searched by vectors.
        """
        query = replace(query, where=await self.library.resolve(query.where))
        is_deep = query.depth > 0 and await self.library.space() is not None
        if is_deep:
            query = replace(query, limit=query.depth)
        places_only = query.places_only and query.where is None and self.library.caches_records
        match query.strategy:
            case RetrieverType.LANCE_FTS if places_only and is_deep and query.boolean is None:
                places = await self.library.rank(query.text, query.where, query.limit, query.widened, query.phrases)
                return SourceAnswer((), places=tuple(places), read=self._read)
            case RetrieverType.LANCE_FTS:
                return SourceAnswer(tuple(await self._sparse(query)))
            case RetrieverType.LANCE_DENSE:
                return await self._dense(query.text, query.where, query.limit, places_only=places_only)
            case RetrieverType.GRAPH_NEIGHBOR if places_only:
                return SourceAnswer((), places=tuple(await self._find_neighbours(query.text, None, query.limit)), read=self._read)
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

    async def explain_filter(self, where: Filter) -> tuple[str, ...]:
        """Such as `12 records of the library have no year and are left out by the filter on it`, for each field whose absence decides.

        Labels that no record has are named: a misspelt one finds nothing. So are retracted records, if they are left out.
        """
        unknown = (*await self._find_unknown_labels(where), *await self.name_retracted(where))
        filters = find_missing_value_filters(await self.library.resolve(where) or where)
        counts = await asyncio.gather(*map(self.library.count, filters.values()))
        return unknown + tuple(
            f"{f'{count:,} records of the library have' if count > 1 else '1 record of the library has'} no {field} and "
            f"{'are' if count > 1 else 'is'} left out by the filter on it"
            for field, count in zip(filters, counts, strict=True)
            if count
        )

    async def name_retracted(self, where: Filter) -> tuple[str, ...]:
        """Which records a filter leaves out because they are retracted; empty for another filter."""
        _, excludes = split_retracted(where)
        doc_ids = await self.library.retracted_ids() if excludes else ()
        if not doc_ids:
            return ()
        named = [shorten(record.title or record.doc_id) for record in await self.library.brief(doc_ids[:MOST_NAMED])]
        more = f" and {len(doc_ids) - MOST_NAMED:,} more" if len(doc_ids) > MOST_NAMED else ""
        records = f"{len(doc_ids):,} retracted or withdrawn records of the library are" if len(doc_ids) > 1 else "1 retracted record is"
        return (f"{records} left out by the filter: {', '.join(named)}{more}",)

    async def _find_unknown_labels(self, where: Filter) -> tuple[str, ...]:
        compared = [one for one in iter_comparisons(where) if one.field == LABELS and not isinstance(one.value, bool)]
        if not compared:
            return ()
        known = sorted({name for names in (await self.library.labels()).values() for name in names})
        named = dict.fromkeys(str(name) for one in compared for name in (one.value if isinstance(one.value, tuple) else (one.value,)))
        return tuple(f"no record of the library has the label {name!r}{did_you_mean(name, known)}" for name in named if name not in known)

    async def _sparse(self, query: SourceQuery) -> list[Scored]:
        """By words, and fused with them the exact matches of the Boolean query, which may hold none of the words."""
        ranking = self.library.search(query.text, query.where, query.limit, query.widened, query.phrases)
        if query.boolean is None:
            return await ranking
        ranked, matched = await asyncio.gather(ranking, self._match(query.boolean.tree, query.where, query.limit))
        records = {hit.record.doc_id: hit for hit in (*ranked, *matched)}
        lists = [
            RankedList(
                source=LIBRARY,
                strategy=query.strategy,
                query=query.text,
                results=tuple(Ranked(hit.record.doc_id, hit.score) for hit in hits),
            )
            for hits in (ranked, matched)
        ]
        scores = min_max(lists)
        best = order_by_score(scores)[: query.limit]
        return [records[doc_id]._replace(score=scores[doc_id]) for doc_id in best]

    async def _match(self, tree: Node, where: Filter | None, limit: int) -> list[Scored]:
        pinned = await self.library.pinned()
        try:
            hits, _ = await pinned.best(tree, where, limit, counted=False)
            return [hit._replace(why=MATCHES) for hit in hits]
        finally:
            pinned.close()

    async def _dense(self, text: str, where: Filter | None, limit: int, *, places_only: bool) -> SourceAnswer:
        """By cosine similarity of the query's vector; the model is loaded only where there are vectors to compare with."""
        stored = await self.library.space()
        if stored is None:
            command = self.library.reindex_command()
            raise NoVectors(
                f"the library at {self.library.shown} has no vectors; name a model (embedding.model_name) and run: {command}", command
            )
        (vector, space), missing = await asyncio.gather(
            self.query_vectors.embed(self.embedder(stored), text), self.library.without_vectors()
        )
        size = limit
        while True:
            try:
                near = await self.library.dense(vector, space, where, size, vectors=size <= MOST_COMPARED_AGAIN)
            except EmbeddingSpaceMismatch as error:
                raise await self.explain_mismatch(error, space, start=True) from error
            records = {} if places_only else await self._read([place.doc_id for place in near], where)
            present = near if places_only else [place for place in near if place.doc_id in records]
            if places_only or len(present) >= limit or len(near) < size:  # otherwise vectors of removed records would use up the limit
                message = f"{missing:,} records have no vector; embed them with: {self.library.reindex_command()}" if missing else ""
                status: AnswerStatus = "partial" if missing else ""
                vectors = {place.doc_id: place.vector for place in present if place.vector is not None}
                again = partial(compare_again, vector, vectors) if vectors else None
                places = [Ranked(place.doc_id, place.similarity, _explain_cut(place.read)) for place in present[:limit]]
                answer = SourceAnswer((), message=message, model=f"{space.model_name} {space.id}", status=status, compare_again=again)
                if places_only:
                    return replace(answer, places=tuple(places), read=self._read)
                return replace(answer, results=tuple(_score(places, records)))
            size *= MORE

    async def explain_mismatch(self, error: EmbeddingSpaceMismatch, space: EmbeddingSpace, *, start: bool) -> EmbeddingSpaceMismatch:
        """The error with the progress of a reindex to `space`; with `start` one begins, if that is set up and none runs."""
        status = await self.library.reindex_status(space)
        note = "" if status is None else str(status)
        if self.background is not None and not (status and status.running):
            starter = self.background
            note = await asyncio.to_thread(lambda: starter.start(space.model_name) if start else starter.report()) or note
        return EmbeddingSpaceMismatch(f"{error}; {note}" if note else str(error), error.command)

    async def _graph(self, text: str, where: Filter | None, limit: int) -> list[Scored]:
        """Neighbours within the filter."""
        neighbours = await self._find_neighbours(text, where, limit if where is None else FILTERED_NEIGHBOURS)
        hits: list[Scored] = []
        for start in range(0, len(neighbours), limit):
            places = neighbours[start : start + limit]
            hits += _score(places, await self._read([place.doc_id for place in places], where))
            if len(hits) >= limit:
                break
        return hits[:limit]

    async def _find_neighbours(self, text: str, where: Filter | None, limit: int) -> list[Ranked]:
        """Neighbours of the entities that the text names and of its best hits within the filter; they may be outside of it."""
        entities, best = await asyncio.gather(self.graph.entities(text), self.library.best_ids(text, where, ANCHORS))
        top = f"of your top {len(best)}"
        return [
            Ranked(place.doc_id, place.score, explain_paths(place.paths, top), place.paths)
            for place in await self.graph.around((*entities, *best), limit)
        ]

    async def _read(self, doc_ids: Sequence[str], where: Filter | None = None) -> dict[str, Record]:
        """By id; those that are gone or do not match are left out."""
        return {record.doc_id: record for record in await self.library.brief(doc_ids, where)}


def _score(places: Iterable[Ranked], records: Mapping[str, Record]) -> Iterator[Scored]:
    """The places whose records were read."""
    return (Scored(records[place.doc_id], place.score, place.why, place.paths) for place in places if place.doc_id in records)


def _explain_cut(read: TokensRead) -> str:
    """Note for a vector of a cut text; empty for a whole one."""
    if read.tokens is None or read.of is None or read.tokens >= read.of:
        return ""
    return f"only the first {read.tokens:,} of {read.of:,} tokens were compared by meaning"
