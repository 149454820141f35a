"""The library: records on LanceDB, searched by rank and by exact words.

Several processes may read and write it at once.

Tables at its address: `records` (see `record_table`), `edges` (see `edges`), `spaces` and a table of vectors for each (see `vectors`),
`words` (see `exact.word_dictionary`), those of `citation_tables` and `code_link_tables`, small ones of `metadata_tables`, and for a local
folder a lock file. Writers wait for each other: by a lock file in a folder, by a lease on object storage. Reads see the latest committed
version, whoever wrote it; on object storage they may be allowed to see one that is some seconds old, except those of writers and of
pinned versions.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from outrider.code_links.read_record import read_all_evidence
from outrider.library import browse, maintenance, postpone_client, record_table, schema, text_search, versions
from outrider.library import edges as edge_rows
from outrider.library import text_search as term_expansion
from outrider.library.address_and_locks import LOCK_TIMEOUT_S, TABLE, Location
from outrider.library.citation_tables import CitationTables
from outrider.library.code_link_tables import CodeLinkTable, CodeRepositoryTable
from outrider.library.edges import EdgeRow, EdgeTable
from outrider.library.filter_sql import in_list
from outrider.library.lance_errors import retry_conflicts
from outrider.library.metadata_tables import (
    CalibrationTable,
    ChaseTable,
    DecisionTable,
    FileTable,
    IngestedFile,
    LabelTable,
    RecordLabels,
    RenamedFile,
    RenamedFileTable,
    RerankEvaluationTable,
)
from outrider.library.object_storage import MOST_ROWS_AT_ONCE
from outrider.library.record_cache import RecordCache, TableState
from outrider.library.text_search import ALL_ROWS
from outrider.library.vectors.store import Vectors
from outrider.library.vectors.token_index import TokenIndex
from outrider.models.rerank.late_interaction import INDEX_COMMAND
from outrider.runtime.run_reads import find_read, get_run_dict, read_once, share_reads
from outrider.runtime.threads_and_loops import finish, load_module, run_in_background
from outrider.state.distilling import Calibration
from outrider.state.duplicate_decisions import Decision
from outrider.state.embedding import EmbeddingSpace, TokensRead
from outrider.state.errors import BadRequest, LibraryCorrupt, LibraryError
from outrider.state.filters import (
    CODE_ALIVE,
    HAS_CODE,
    LABELS,
    RETRACTED,
    Filter,
    iter_comparisons,
    resolve_has_code,
    resolve_labels,
    resolve_languages,
    resolve_retracted,
)
from outrider.state.hits import Ranked, Scored
from outrider.state.ports import OnCount, TextEmbedder
from outrider.state.records import Paper, Record
from outrider.state.reranking import Verdict
from outrider.text.languages_and_work_types import find_spellings

if TYPE_CHECKING:
    import numpy as np
    from lancedb.db import AsyncConnection
    from lancedb.table import AsyncTable

    from outrider.library.exact.pinned_library import PinnedVersion
    from outrider.library.inspection import LibraryInfo
    from outrider.library.object_storage import ObjectStorage
    from outrider.library.reindex import OnReindex, Parts, ReindexReport, ReindexStatus
    from outrider.library.vectors.index import Near
    from outrider.library.vectors.token_index import TokenIndexReport
    from outrider.library.vectors.write import EmbeddingReport
    from outrider.models.rerank.late_interaction import TokenEmbedder

T = TypeVar("T")
Searched = tuple[str, Filter | None, Sequence[str], Sequence[str]]
"""A text, a filter, terms that widen the query, and phrases."""

PROBED = 20
"""Whole records that a probe reads."""
MOVED_AT_ONCE = 4_000
"""Records of one commit that gives them another origin; other processes may write between two."""


@dataclass(frozen=True, slots=True)
class UpsertCounts:
    """How many distinct records of a batch were new, differed from the stored ones, or were stored already."""

    added: int = 0
    updated: int = 0
    unchanged: int = 0


class Library:
    """Open one with `Library.open`. May be used from several event loops, one after another or at once."""

    def __init__(
        self, location: Location, connection: AsyncConnection, table: AsyncTable, library_id: str, standing: AsyncConnection | None = None
    ) -> None:
        self.uri = location.uri
        self.library_id = library_id
        self._location = location
        self._connection = connection
        self._table = table
        self._standing = standing
        """Where each read of the records asks for the latest version, once: its tables stay at the version that they opened."""
        self._vectors = Vectors(location, connection)
        self._tokens = TokenIndex(location, connection)
        self._probed: frozenset[tuple[str, int, int]] | None = None
        self._edges = EdgeTable(location, connection)
        self._files = FileTable(location, connection)
        self._renamed = RenamedFileTable(location, connection)
        self._decisions = DecisionTable(location, connection)
        self._labels = LabelTable(location, connection)
        self._chases = ChaseTable(location, connection)
        self._calibrations = CalibrationTable(location, connection)
        self._rerank_evaluations = RerankEvaluationTable(location, connection)
        self.citations = CitationTables(location, connection)
        self.code_links = CodeLinkTable(location, connection)
        self.code_repositories = CodeRepositoryTable(location, connection)
        self._ranking: tuple[str, TableState | None, list[str]] = ("", None, [])
        """A text, the state of the table that was searched for it, and its first hits: a search needs them twice."""
        self._facts: dict[str, tuple[TableState, Any]] = {}
        """What was read of all records, by what it is, with the state of the table."""
        self._cache: RecordCache | None = None

    @classmethod
    async def open(
        cls,
        uri: str | Path,
        *,
        create: bool = False,
        storage_options: Mapping[str, str] | None = None,
        read_consistency_s: float = 0.0,
        copy_tables: bool = False,
    ) -> Library:
        """The library at a folder or an `s3://` address. An empty folder becomes a new library; a missing one only with `create`.

        On object storage, searches may read a version that is `read_consistency_s` old; with 0 each asks whether there is a later one.
        With `copy_tables` they keep copies on this machine of small tables, and of the ranking index of up to 50,000 records.
        """
        location = Location.parse(uri)
        state = await location.find_state()
        if state == "missing":
            if not create:
                raise location.missing_error()
            await location.create_folder()
        if state == "foreign":
            raise location.foreign_error()
        postpone_client()
        await load_module("lancedb")
        interval_s = 0.0 if location.path is not None else read_consistency_s
        options = dict(storage_options or {})
        storage: ObjectStorage | None = None
        if location.path is None:
            from outrider.library.object_storage import ObjectStorage

            storage = ObjectStorage(location.uri, options, interval_s)
            location = replace(location, storage=storage)
        with location.translate_errors():
            connection, standing = await _connect(location, options, interval_s)
            table = await record_table.open_kept_table(connection)
        if table is None:
            if not create and location.path is None:
                raise location.missing_error()
            table = await record_table.create_table(location, connection)
        library_id = record_table.read_library_id(location, await table.schema())
        if storage is not None and copy_tables and not location.is_service:
            from outrider.library.copies.table_copies import TableCopies

            connection.copies = TableCopies(storage, library_id)  # type: ignore[attr-defined]
            table.local_copy = connection.find_copy(TABLE)  # type: ignore[attr-defined]
            if standing is not None:
                standing.copies = connection.copies  # type: ignore[attr-defined]
        return cls(location, connection, table, library_id, standing)

    @property
    def shown(self) -> str:
        """The address for messages, without a password."""
        return self._location.address

    @property
    def caches_records(self) -> bool:
        """Whether records are best read by id after a search. On object storage a search by words reads them in its own requests."""
        return self._location.path is not None

    def close(self) -> None:
        self._table.close()  # type: ignore[no-untyped-call]
        if self._standing is not None:
            self._standing.close()  # type: ignore[no-untyped-call]
        if (copies := getattr(self._connection, "copies", None)) is not None:
            copies.close()
        self._vectors.close()
        self._edges.close()
        self.citations.close()
        for table in (self._decisions, self._calibrations, self._rerank_evaluations, self.code_links, self.code_repositories):
            table.close()
        self._connection.close()  # type: ignore[no-untyped-call]

    async def _read(self, answer: Awaitable[T]) -> T:
        """The answer, with LanceDB's errors as ours."""
        with self._location.translate_errors():
            return await answer

    @asynccontextmanager
    async def _records(self) -> AsyncIterator[AsyncTable]:
        """The records at the latest version, as far as reads must be exact, with LanceDB's errors as ours."""
        with self._location.translate_errors():
            table = self._table if self._standing is None else await record_table.open_standing_table(self._standing)
            if table is None:
                raise self._location.missing_error()
            yield table

    async def _version(self) -> int:
        """The latest version of the records."""
        return (await self._find_state()).version

    async def _find_state(self) -> TableState:
        """Of the latest version of the records; a run reads it once."""
        return await read_once(("state", id(self)), self._read_state)

    async def _read_state(self) -> TableState:
        written_ns = (await record_table.find_write_times(self._location)).get(TABLE)
        async with self._records() as table:
            version = int(await table.version())
            library_id = "" if self._standing is None else record_table.read_library_id(self._location, await table.schema())
        return TableState(version, written_ns, library_id)

    async def _read_fact(self, name: str, read: Callable[[], Awaitable[T]]) -> T:
        """What `read` finds in all records, which it looks through once as long as the table stays as it is."""

        async def find() -> T:
            state = await self._find_state()
            known = self._facts.get(name)
            if known is None or known[0] != state:
                known = self._facts[name] = state, await read()
            fact: T = known[1]
            return fact

        return await read_once((name, id(self)), find)  # parts of a run that ask at once wait for one look

    # Search

    async def resolve(self, where: Filter | None) -> Filter | None:
        """The filter with ids in place of labels and retractions, and a language as the records spell it.

        What takes a filter here calls it; a pinned version does not.
        """
        fields = {one.field for one in iter_comparisons(where)} if where else set()
        if where and LABELS in fields:
            where = resolve_labels(where, await self.labels())
        if where and RETRACTED in fields:
            where = resolve_retracted(where, await self.retracted_ids())
        if where and HAS_CODE in fields:
            where = resolve_has_code(where, await self._find_ids_with_code())
        if where and "language" in fields:
            where = resolve_languages(where, partial(find_spellings, await self._read_fact("languages", self._find_languages)))
        if where and CODE_ALIVE in fields:
            raise BadRequest("code_alive is judged by a search, from the last push and release of each repository; use has_code here")
        return where

    async def _find_ids_with_code(self) -> tuple[str, ...]:
        """Ids of the records that have code of their own, as far as links tell."""
        names = await self.code_links.read_own_names()
        ids = {name.removeprefix("doc:") for name in names if name.startswith("doc:")}
        for chunk in record_table.chunk_ids(sorted({name.partition(":")[2] for name in names})):
            rows = await self.edges(f"{in_list('name', chunk)} AND relation = '{edge_rows.IS}'")
            ids |= {doc_id for doc_id, _, kind, name in rows if f"{kind}:{name}" in names}
        return tuple(sorted(ids))

    async def retracted_ids(self) -> tuple[str, ...]:
        """Ids of the records that their notices call retracted or withdrawn, in order."""
        return await self._read_fact("retracted", self._find_retracted)

    async def _find_retracted(self) -> tuple[str, ...]:
        async with self._records() as table:
            return await record_table.find_retracted(table)

    async def _find_languages(self) -> tuple[str, ...]:
        async with self._records() as table:
            return await record_table.find_languages(table)

    async def search(
        self, text: str, where: Filter | None = None, limit: int = 100, widened: Sequence[str] = (), phrases: Sequence[str] = ()
    ) -> list[Scored]:
        """Best first by BM25, ties by doc_id; `where` applies before the cut. A record's `text` is cut to `schema.LEAD_CHARS`,
        its edges are left out.

        The terms of `widened` and the `phrases` count less than the words of `text`.
        """
        where = await self.resolve(where)

        async def search() -> list[Scored]:
            cache = await self._find_cache()
            with self._reading(where):
                async with self._records() as table:
                    hits = await text_search.search(table, text, where, limit, widened, phrases, cache)
                self._run_records(where).update({hit.record.doc_id: hit.record for hit in hits})
            return hits

        with share_reads():  # one look for the latest version
            return await self._search_once("records", (text, where, widened, phrases), limit, search)

    async def rank(
        self, text: str, where: Filter | None = None, limit: int = 100, widened: Sequence[str] = (), phrases: Sequence[str] = ()
    ) -> list[Ranked]:
        """As `search`, without the records."""
        where = await self.resolve(where)
        ranking = partial(self._rank, text, where, limit, widened, phrases)
        return await self._search_once("places", (text, where, widened, phrases), limit, ranking)

    async def _rank(
        self, text: str, where: Filter | None, limit: int, widened: Sequence[str] = (), phrases: Sequence[str] = ()
    ) -> list[Ranked]:
        cache = await self._find_cache()
        async with self._records() as table:
            return await text_search.rank(table, text, where, limit, widened, phrases, cache)

    async def _search_once(self, kind: str, searched: Searched, limit: int, search: Callable[[], Awaitable[list[T]]]) -> list[T]:
        """A run searches once for the words of a text alone, for which the graph asks as well; `kind` is what a result is."""
        text, where, *more = searched
        if any(more):
            return await search()
        key = ("search", id(self), text, where)
        get_run_dict(key)[limit] = kind
        return await read_once((*key, limit, kind), search)

    async def best_ids(self, text: str, where: Filter | None = None, limit: int = 100) -> list[str]:
        """As `search`, without the records. A run that searches for the same with a larger limit searches once."""
        where = await self.resolve(where)
        key = ("search", id(self), text, where)
        largest, kind = max(get_run_dict(key).items(), default=(0, ""))
        searching = find_read((*key, largest, kind)) if largest >= limit else None
        if searching is not None:
            await asyncio.wait({searching})
            if not searching.cancelled():
                return [place.doc_id for place in searching.result()[:limit]]
        read_text, state, ids = self._ranking
        if where is None and limit <= term_expansion.POOL and text == read_text and state == await self._find_state():
            return ids[:limit]
        return [place.doc_id for place in await self.rank(text, where, limit)]

    async def related_terms(self, text: str, limit: int) -> tuple[str, ...]:
        """Terms that are frequent in the first hits of `text` and rare in the later ones, best first."""
        state = await self._find_state()  # before the search: a later version is then noticed
        hits = await self.search(text, limit=term_expansion.POOL)
        self._ranking = text, state, [hit.record.doc_id for hit in hits]
        return term_expansion.related_terms(text, [hit.record for hit in hits], limit)

    async def match(self, phrase: str, field: str = "any", where: Filter | None = None, limit: int = ALL_ROWS) -> list[str]:
        """Ids, sorted, of records with exactly these words in this order in title, abstract, text, keywords or any of them.

        `abstract` is abstract or description; `keywords` are tags and mesh, each a phrase of its own.
        """
        where = await self.resolve(where)
        async with self._records() as table:
            return await text_search.match(table, phrase, field, where, limit)

    async def dense(
        self,
        vector: np.ndarray,
        space: EmbeddingSpace,
        where: Filter | None = None,
        limit: int = 100,
        *,
        exact: bool = False,
        vectors: bool = False,
    ) -> list[Near]:
        """Nearest first to a query's vector of shape (d,), ties by doc_id; `where` applies before the cut, `exact` bypasses the index.

        With `vectors`, each has its own. `NoVectors` where nothing was ever embedded, `EmbeddingSpaceMismatch` for another space's vector.
        """
        return await self._read(self._vectors.find_nearest(vector, space, await self.resolve(where), limit, exact=exact, vectors=vectors))

    async def near(self, doc_id: str, limit: int) -> list[Near]:
        """Records whose vectors are nearest to that of a record, best first; none where it has no vector."""
        return await self._read(self._vectors.find_near_record(doc_id, limit))

    async def edges(self, where: str, limit: int = ALL_ROWS) -> list[EdgeRow]:
        """Edges that fit a condition of SQL over `edges.COLUMNS`; `LibraryError` where an Outrider without a graph wrote the records."""
        async with self._tell_missing():
            with self._location.translate_errors():
                table = await self._open_edges()
                return [] if table is None else await edge_rows.read_edges(table, where, limit)

    async def edges_version(self) -> int:
        """Rises with every change to the edges."""
        async with self._tell_missing():
            with self._location.translate_errors():
                table = await self._open_edges()
                return 0 if table is None else int(await table.version())

    @asynccontextmanager
    async def _tell_missing(self) -> AsyncIterator[None]:
        """Around reads of another table: if the records are missing, too, nothing is damaged."""
        try:
            yield
        except LibraryCorrupt:
            await self.count()  # raises `LibraryMissing`
            raise

    async def _open_edges(self) -> AsyncTable | None:
        """None where there are no records."""
        table = await self._edges.reader()
        if table is None and await self.count():
            from outrider.library import inspection

            raise LibraryError(f"the library at {self._location.address} has no graph yet; {inspection.FIX_EDGES}")
        return table

    # Reading of records

    async def brief(self, doc_ids: Sequence[str], where: Filter | None = None) -> list[Record]:
        """As `search` returns them, with cut bodies and without edges, in the order of the ids; missing or unmatched ones are left out.

        A run reads a record once: what a search by words of the same run returns is not read again.
        """
        where = await self.resolve(where)
        cache = await self._find_cache() if where is None else None
        known = cache.find(doc_ids) if cache is not None else {}
        if len(known) < len(doc_ids):
            if reading := get_run_dict(("reading", id(self), where)):
                await asyncio.wait(reading.values())
            in_run = self._run_records(where)
            if missing := [doc_id for doc_id in doc_ids if doc_id not in known and doc_id not in in_run]:
                with self._reading(where):
                    async with self._records() as table:
                        records = await record_table.read_brief_records(table, missing, where)
                    in_run.update({record.doc_id: record for record in records})
                if cache is not None:
                    cache.keep(records)
            known = in_run | known
        return [known[doc_id] for doc_id in doc_ids if doc_id in known]

    @contextmanager
    def _reading(self, where: Filter | None) -> Iterator[None]:
        """Around reads that add to a run's records: another part of the run waits for them."""
        reading = get_run_dict(("reading", id(self), where))
        key = object()
        done = reading[key] = asyncio.get_running_loop().create_future()
        try:
            yield
        finally:
            del reading[key]
            done.set_result(None)

    async def _find_cache(self) -> RecordCache | None:
        """Records of the latest version that earlier searches have read; None for a library on object storage, which has its own copies."""
        if not self.caches_records:
            return None
        state, cache = await self._find_state(), self._cache
        if cache is None or cache.state != state:  # another thread may look at the same time, and at another version
            cache = self._cache = RecordCache(state)
        return cache

    def _run_records(self, where: Filter | None) -> dict[str, Record]:
        """Records that this run has read within a filter, by id."""
        return get_run_dict(("records", id(self), where))

    async def fetch(self, doc_ids: Sequence[str]) -> list[Record]:
        """Whole records in the order of the ids; missing ones are left out."""
        async with self._records() as table:
            return await record_table.read_records(table, doc_ids)

    async def whole(self, records: Sequence[Record]) -> list[Record]:
        """Records of `search`, with whole bodies and their edges. Fields filled in since, and missing records, stay as they are."""
        cut = [record.doc_id for record in records if len(record.text) >= schema.LEAD_CHARS]
        stored = {one.doc_id: {"text": one.text, "edges": one.edges} for one in await self.fetch(cut) if one.text} if cut else {}
        return [record.model_copy(update=stored.get(record.doc_id)) for record in records]

    async def content_hashes(self, doc_ids: Sequence[str]) -> dict[str, str]:
        """Of whole records, which cannot be computed from a record of `search`, whose body is cut."""
        async with self._records() as table:
            return await record_table.read_content_hashes(table, doc_ids)

    async def scan(self, where: Filter | None = None, batch: int = 1_000) -> AsyncIterator[Record]:
        """Every matching record once, by doc_id (code points), from the version current at the start, whatever is written meanwhile.

        Holds the ids of all and the records of one batch.
        """
        where = await self.resolve(where)
        with self._location.translate_errors():
            table = await self._open_version()
            rows = await record_table.find_addresses(table, where)
        for start in range(0, rows.num_rows, batch):
            with self._location.translate_errors():
                records = await record_table.read_addresses(table, rows.slice(start, batch))
            for record in records:
                yield record

    async def page(self, where: Filter | None = None, limit: int = 20, offset: int = 0) -> list[Record]:
        """Matching records in the order of `scan`."""
        where = await self.resolve(where)
        with self._location.translate_errors():
            table = await self._open_version()
            rows = await record_table.find_addresses(table, where)
            return await record_table.read_addresses(table, rows.slice(offset, max(limit, 0)))

    async def browse(self, query: browse.RecordQuery, limit: int = 20, offset: int = 0) -> tuple[list[Record], int]:
        """Whole records that the query lists, in its order, and how many match."""
        labels = await self.labels() if query.label or query.text else {}
        query = replace(query, where=await self.resolve(query.where))
        with self._location.translate_errors():
            table = await self._open_version()
            return await browse.find_page(table, browse.build_condition(query, labels), query.order, limit, offset)

    async def count_years(self) -> dict[int, int]:
        """How many records are from each year; those without one are left out."""
        async with self._records() as table:
            return await browse.count_years(table)

    async def sample(self, size: int, seed: int = 0) -> list[Record]:
        """Whole records spread evenly over the ids, the same for the same library and seed; all where they are fewer."""
        with self._location.translate_errors():
            return await record_table.sample_records(await self._open_version(), size, seed)

    async def count(self, where: Filter | None = None) -> int:
        where = await self.resolve(where)
        async with self._records() as table:
            return await record_table.count_records(table, where)

    async def size(self) -> int:
        """How many records there are; counted once a version, for searches."""
        return await self._read_fact("size", self.count)

    # Writing of records

    async def upsert(self, records: Sequence[Record], wait_s: float = LOCK_TIMEOUT_S) -> UpsertCounts:
        """Add or replace by `doc_id`, unless the content hash is the stored one.

        Of several records with one id the last counts. `BadRequest` for text that is no Unicode text, `LibraryBusy` where another
        process writes for longer than `wait_s`. The records are one commit: outdated vectors are removed before it, new edges are
        added before it, and former edges are removed after it. A cancelled call ends after all of that; what a process leaves that dies
        in between, `check` reports and `reindex` mends.
        """
        latest = {record.doc_id: record for record in records}
        if not latest:
            return UpsertCounts()
        if "" in latest:
            raise ValueError("a record without doc_id cannot be stored")
        hashes = {doc_id: schema.content_hash(record) for doc_id, record in latest.items()}
        async with self._location.write(wait_s):
            stored = await self.content_hashes(list(latest))
            changed = {doc_id: record for doc_id, record in latest.items() if stored.get(doc_id) != hashes[doc_id]}
            if not changed:
                return UpsertCounts(unchanged=len(latest))
            added, updated = await finish(self._write_records(changed, hashes))
        return UpsertCounts(added, updated, len(latest) - len(changed))

    async def add_cited_works(self, works: Sequence[Paper]) -> None:
        """Keep what reference lists say of works: not as records, but beside the citations, where it names a work that a record cites."""
        if works:
            await self.citations.add(works, [])

    async def _write_records(self, changed: Mapping[str, Record], hashes: Mapping[str, str]) -> tuple[int, int]:
        """How many were added and replaced."""
        await retry_conflicts(lambda: self._vectors.drop_outdated(list(changed.values()), hashes))
        edges = await asyncio.to_thread(edge_rows.build_table, list(changed.values()))
        rows, former = await asyncio.gather(
            asyncio.to_thread(record_table.build_rows, changed, hashes, await self._table.schema()),
            retry_conflicts(lambda: self._edges.add(edges, list(changed))),
        )
        # before the records: where a process dies in between, the next run finds these changed, and writes their evidence again
        await self.code_links.replace(changed, await read_all_evidence(changed.values()))
        counts = await retry_conflicts(lambda: record_table.merge_rows(self._table, rows))
        await retry_conflicts(lambda: self._edges.drop(former))
        return counts

    async def remove(self, doc_ids: Sequence[str]) -> int:
        """The number of records removed. Their files are forgotten too, so that ingesting them again brings the records back."""
        if not doc_ids:
            return 0
        async with self._location.write():
            rows = [row async for row in record_table.read_columns(self._table, doc_ids, ["doc_id", "origin"])]
            if not rows:
                return 0
            known = [row["doc_id"] for row in rows]
            await self._files.forget(sorted({row["origin"] for row in rows if row["origin"]}))
            await retry_conflicts(lambda: self._vectors.remove(known))
            await retry_conflicts(lambda: self._tokens.remove(known))
            await retry_conflicts(lambda: self._table.delete(in_list("doc_id", known)))
            await retry_conflicts(lambda: self._edges.remove(known))
            await retry_conflicts(lambda: self._labels.forget(known))
            await retry_conflicts(lambda: self.code_links.forget(known))
        return len(rows)

    async def mend_edges(self, progress: OnCount | None = None) -> int:
        """Write the edges of records that lack them, as in a library of an Outrider without a graph; remove those of missing records.

        The number of records mended. Only ids are read where there is nothing to mend; no other process writes meanwhile.
        """
        async with self._location.write():
            table = await self._open_version()
            return await retry_conflicts(lambda: self._edges.mend(table, progress))

    # Vectors

    async def space(self) -> EmbeddingSpace | None:
        """The space of the library's vectors; None where its records were never embedded."""
        return await self._read(self._vectors.space())

    async def accept(self, space: EmbeddingSpace) -> None:
        """`EmbeddingSpaceMismatch` where the library has vectors of another space."""
        with self._location.translate_errors():
            await self._vectors.matching_space(space)

    async def without_vectors(self) -> int:
        """About how many records have no vector: a difference of two counts, quick enough for every search. `info` counts exactly."""
        return max(await self.size() - await self._read(self._vectors.count()), 0)

    async def tokens_read(self, doc_ids: Sequence[str]) -> dict[str, TokensRead]:
        """How many tokens of each record its vector covers; only of records that have one."""
        return await self._read(self._vectors.tokens_read(doc_ids))

    async def embed(self, records: Sequence[Record], embedder: TextEmbedder, progress: OnCount | None = None) -> EmbeddingReport:
        """Write the records' vectors, one each; call it before `upsert`, so that a stored record has its vector.

        The first call decides the library's space. A text that has its vector is not embedded again. `progress` is called on the
        event loop. `EmbeddingSpaceMismatch` where the library has vectors of another model, `ModelError` where the model fails.
        """
        return await self._vectors.embed(records, embedder, progress)

    async def reindex(self, embedder: TextEmbedder, progress: OnReindex | None = None, parts: Parts | None = None) -> ReindexReport:
        """Give every record its vector of this model: completes the library's own space, or replaces it.

        The old vectors answer until the new ones are complete; a run that was interrupted continues when it is called again.
        `LibraryBusy` while another one runs, `ModelError` where the model fails.
        """
        from outrider.library.reindex import PARTS, reindex

        return await reindex(self._location, self._vectors, self._table, self._open_version, embedder, progress, parts or PARTS)

    def reindex_command(self, model: str = "") -> str:
        return self._location.reindex_command(model)

    async def reindex_status(self, space: EmbeddingSpace) -> ReindexStatus | None:
        """Of a reindex to `space`, None where none has begun. A run that has just begun may still have no vectors."""
        running = await self._location.is_reindexing()
        total = await self.count()
        done = await self._read(self._vectors.count_building(space))
        if done is None and not running:
            return None
        from outrider.library.reindex import ReindexStatus

        return ReindexStatus(done or 0, total, running)

    async def index_tokens(self, embedder: TokenEmbedder, progress: OnCount | None = None) -> TokenIndexReport:
        """Compute the records' compressed token vectors, for late interaction: those that are missing or outdated.

        An interrupted run continues when it is called again. `NoVectors` where nothing was ever embedded, `EmbeddingSpaceMismatch` where
        the library has vectors of another model, `ModelError` where the model fails or gives no token vectors.
        """
        space = await asyncio.to_thread(lambda: embedder.space)
        with self._location.translate_errors():
            await self._vectors.searchable_space(space)
        return await self._tokens.complete(space, self._table, self._open_version, embedder, progress)

    async def drop_tokens(self) -> int:
        """Forget all token vectors; returns of how many records."""
        return await self._tokens.drop()

    def index_command(self) -> str:
        """The command that computes the token vectors."""
        return self._location.name_library(INDEX_COMMAND)

    def read_tokens(self, space: EmbeddingSpace, texts: Sequence[str]) -> Mapping[str, bytes] | None:
        """Blocks of token vectors by text, of those texts that have one; None without token vectors of this space. Blocking.

        The texts are those of `make_reranker_text`.
        """
        return run_in_background(self._tokens.read(space, texts))

    # Versions

    async def snapshot(self) -> str:
        """`<library id>@<version>` of the latest version."""
        return f"{self.library_id}@{await self._version()}"

    async def tag(self, name: str) -> int:
        """Name the current version, which is kept from then on; returns its number."""
        async with self._location.write():
            return await versions.add_tag(self._table, name)

    async def untag(self, name: str) -> None:
        async with self._location.write():
            await versions.remove_tag(self._table, name)

    async def tags(self) -> dict[str, int]:
        """Version by tag, sorted by name."""
        async with self._records() as table:
            return await versions.read_tags(table)

    async def pin(self, tag: str) -> PinnedVersion:
        """The current version, tagged and open for an exact search; `BadRequest` for a tag that is taken or not a valid name."""
        self._location.require_addresses("exact search")
        await self.tag(tag)
        return await self.pinned(tag)

    async def pinned(self, tag: str | None = None) -> PinnedVersion:
        """A tagged version open for an exact search, or the current one, which stays as long as untagged versions do.

        `LibraryError` for a missing tag. The library's connection must outlive the result.
        """
        await load_module("outrider.library.exact.pinned_library")
        from outrider.library.exact.pinned_library import PinnedVersion

        self._location.require_addresses("exact search")
        with self._location.translate_errors():
            table = await versions.open_version(self._location, self._connection, tag)
            return PinnedVersion(self._location, self._connection, table, await versions.describe_version(table, self.library_id, tag))

    async def _open_version(self) -> AsyncTable:
        """A handle that stays at the current version."""
        return await versions.open_version(self._location, self._connection)

    # Metadata

    async def ingested(self, fingerprint: str) -> IngestedFile | None:
        """The file with this fingerprint, if it was ever read to its end."""
        return await self._files.find(fingerprint)

    async def forget(self, origins: Sequence[str]) -> None:
        """The files of these origins are read again by the next ingestion."""
        async with self._location.write():
            await self._files.forget(sorted(origins))

    async def ingested_files(self) -> list[IngestedFile]:
        """All that were read to their end, in no order."""
        return await self._files.read()

    async def remember(self, *files: IngestedFile) -> None:
        """Call it only when all records of the files are stored. Former entries of the same origins are forgotten."""
        await self._files.add(files)

    async def origins(self) -> dict[str, int]:
        """How many records came from each origin; only that column is read, in batches."""
        counts: Counter[str] = Counter()
        async with self._records() as table:
            async for batch in await table.query().select(["origin"]).to_batches():
                counts.update(origin for origin in batch.column("origin").to_pylist() if origin)
        return dict(counts)

    async def doc_ids(self, origin: str) -> list[str]:
        """Ids of the records of an origin, in no order."""
        async with self._records() as table:
            rows = await table.query().where(in_list("origin", [origin])).select(["doc_id"]).limit(ALL_ROWS).to_arrow()
            return [str(doc_id) for doc_id in rows["doc_id"].to_pylist()]

    async def count_contents(self, hashes: Sequence[str]) -> dict[str, int]:
        """How many records with one of these content hashes came from each origin."""
        counts: Counter[str] = Counter()
        async with self._records() as table:
            for chunk in record_table.chunk_ids(dict.fromkeys(hashes)):
                query = table.query().where(in_list("content_hash", chunk)).select(["origin"]).limit(ALL_ROWS)
                counts.update(origin for origin in (await query.to_arrow())["origin"].to_pylist() if origin)
        return dict(counts)

    async def set_origin(self, doc_ids: Sequence[str], origin: str) -> None:
        """Records of a file that was renamed: nothing else of them changes. Missing ids are left out."""
        for start in range(0, len(doc_ids), MOVED_AT_ONCE):
            chunk = doc_ids[start : start + MOVED_AT_ONCE]
            async with self._location.write():
                hashes = await self.content_hashes(chunk)
                records = await record_table.read_records(self._table, chunk)
                moved = {record.doc_id: record.model_copy(update={"origin": origin}) for record in records}
                if moved:
                    rows = record_table.build_rows(moved, hashes, await self._table.schema())
                    await retry_conflicts(partial(record_table.merge_rows, self._table, rows))

    async def id_origins(self) -> dict[str, str]:
        """Of renamed files: the origin that the ids of their records are made of, by path."""
        return {row.path: row.id_origin for row in await self._renamed.read()}

    async def set_id_origins(self, changes: Mapping[str, str | None]) -> None:
        """Add or replace the entries of these paths; None removes one."""
        await self._renamed.add([RenamedFile(path, id_origin or "") for path, id_origin in changes.items()])

    async def decisions(self) -> tuple[Decision, ...]:
        """Decisions of users about works, from the first to the last; `Decisions.from_log` computes which of them apply."""
        return await self._decisions.read()

    async def decide(self, *decisions: Decision) -> None:
        """Store decisions, in one commit; no record changes."""
        await self._decisions.add(decisions)

    async def labels(self) -> dict[str, tuple[str, ...]]:
        """Labels that users gave to records, by id; only of records that have some."""
        return await self._labels.read()

    async def label(self, doc_ids: Sequence[str], add: Sequence[str] = (), remove: Sequence[str] = ()) -> dict[str, tuple[str, ...]]:
        """Add labels to records, and remove others; all labels of each record afterwards. Records themselves do not change.

        Ids without a record are left out.
        """
        async with self._location.write():
            known = await self.content_hashes(doc_ids)
            before = await self.labels()
            after = {doc_id: tuple(sorted(({*before.get(doc_id, ())} | {*add}) - {*remove})) for doc_id in doc_ids if doc_id in known}
            changed = [RecordLabels(doc_id, names) for doc_id, names in after.items() if names != before.get(doc_id, ())]
            if changed:
                await self._labels.put(changed)
        return after

    async def chase(self, target: str) -> str | None:
        """The chase of citations from a target, as JSON; None where none was begun."""
        return await self._chases.find(target)

    async def change_chase(self, target: str, change: Callable[[str | None], str]) -> str:
        """Replace the chase of a target by what `change` makes of it; changes of other processes come before or after."""
        return await self._chases.change(target, change)

    async def calibrations(self) -> tuple[Calibration, ...]:
        """Calibrations that a user fitted for the distiller on this library, one for each engine and its weights."""
        return await self._calibrations.read()

    async def remember_calibrations(self, calibrations: Sequence[Calibration]) -> None:
        """From now on they count instead of former ones of the same engines."""
        await self._calibrations.add(calibrations)

    async def verdicts(self) -> tuple[Verdict, ...]:
        """Verdicts of rerank evaluations on this library: newest first, of one evaluation the chosen one first."""
        return await self._rerank_evaluations.read()

    async def remember_verdicts(self, verdicts: Sequence[Verdict]) -> None:
        """All verdicts of one evaluation, in one commit."""
        await self._rerank_evaluations.add(verdicts)

    # Maintenance

    async def info(self) -> LibraryInfo:
        from outrider.library import inspection

        async with self._records() as table:
            parts = (self._location, table, self._edges, self._files, self._vectors, self._tokens)
            return await inspection.collect_info(self.library_id, *parts)

    async def check(self) -> tuple[str, ...]:
        """Every problem and its remedy, reading every row; empty where the library is sound."""
        from outrider.library import inspection

        try:
            with self._location.translate_errors():
                return await inspection.find_problems(await self._open_version(), self._edges, self._vectors, self._tokens, self.citations)
        except LibraryError as error:
            return (str(error),)

    @staticmethod
    async def require_creatable(uri: str | Path) -> None:
        """Raise `LibraryError` where `open` could not create a library."""
        await Location.parse(uri).require_creatable()

    async def probe(self, *, writes: bool = False) -> None:
        """Raise `LibraryError` for a library that is gone, damaged, or with `writes` not writable.

        A local library whose files did not change since the last probe is not read again.
        """
        files = await self._location.list_files()
        if files is None:
            await self.read_some()
        elif not files:
            raise self._location.missing_error()
        elif files != self._probed:
            fresh = await Library.open(self.uri)  # what this handle holds in memory says nothing about the files
            try:
                await fresh.read_some()
            finally:
                fresh.close()
            self._probed = files
        if writes:
            await self._location.require_writable()

    async def read_some(self) -> None:
        """Read the ids of all records, some whole records, an edge and the ranking index. Raises `LibraryError`."""
        with self._location.translate_errors():
            table = await self._open_version()
            await record_table.sample_records(table, PROBED, seed=0)
            edges = await self._open_edges()
            if edges is not None:
                await edges.query().limit(1).to_arrow()
            if reason := await maintenance.read_index_error(table, schema.RANKED):
                from outrider.library import inspection

                raise LibraryCorrupt(f"an index of the library at {self._location.address} is damaged ({reason}); {inspection.FIX_INDEX}")

    async def due(self) -> bool:
        """Whether `optimize` would find something to do in the records: a few ms."""
        if self._location.is_service:
            return False
        async with self._records() as table:
            return await maintenance.due(table)

    async def optimize(
        self,
        force: bool = False,
        keep: timedelta = maintenance.KEEP,
        wait_s: float = LOCK_TIMEOUT_S,
        rebuild: maintenance.Rebuild | None = None,
    ) -> None:
        """Where due (or forced): complete and repair the indexes, fold new rows in, compact, drop versions older than `keep`.

        A tagged version and all later ones stay. Cheap where nothing is due: call it after every few hundred writes. `rebuild` compacts
        the records and builds indexes elsewhere, while the library's lock keeps out writers and other maintenance.
        """
        from outrider.library.exact import word_dictionary

        async with self._location.write(wait_s):
            await maintenance.ensure_indexes(self._table)
            if self._location.is_service:  # it maintains its tables itself
                return
            if force or await maintenance.due(self._table):
                await maintenance.repair_indexes(self._table)
                covered = await word_dictionary.extend(self._connection, await self._open_version())
                if rebuild is not None:
                    await self._rebuild(rebuild)
                # each part and file costs every first search on object storage some requests
                merges = self._location.storage is not None and await self._table.count_rows() <= MOST_ROWS_AT_ONCE
                await retry_conflicts(lambda: maintenance.optimize(self._table, keep, merges=merges))
                table = await self._open_version()
                if covered and self._location.path is not None:  # compaction moved rows to new fragments, which hold the same words
                    await word_dictionary.cover(self._connection, await word_dictionary.find_fragments(table))
                elif covered:  # one that lost its lease may have written: the new fragments are read again
                    await word_dictionary.extend(self._connection, table)
                await self._files.compact()
            await retry_conflicts(lambda: self._edges.compact(force))
            await self._vectors.optimize(force=force)
            await retry_conflicts(self._tokens.optimize)

    async def _rebuild(self, rebuild: maintenance.Rebuild) -> None:
        if rows := await self._table.count_rows():
            await rebuild(f"{self._location.uri}/{TABLE}.lance", rows, await maintenance.plan_rebuilds(self._table))
            if self._location.storage is not None:  # else the next steps would begin with the version before, and conflict
                await self._location.storage.refresh()


async def _connect(location: Location, options: Mapping[str, str], interval_s: float) -> tuple[AsyncConnection, AsyncConnection | None]:
    """A connection, and for exact reads on object storage one whose tables stay at the version that they opened."""
    import lancedb

    interval = timedelta(seconds=interval_s)
    if location.storage is None:
        return await lancedb.connect_async(location.uri, read_consistency_interval=interval, storage_options=dict(options)), None
    from outrider.library.lance_table import make_remote

    if location.is_service:
        from outrider.library import lance_service

        return make_remote(await lance_service.connect(location.uri, options, interval), location.storage), None
    session = lancedb.Session()  # what one of them has read, the other one knows
    connect = partial(lancedb.connect_async, location.uri, storage_options=dict(options), session=session)
    connection = make_remote(await connect(read_consistency_interval=interval), location.storage)
    return connection, None if interval_s else make_remote(await connect(read_consistency_interval=None), location.storage)
