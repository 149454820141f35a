"""What stands in a library, counted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from outrider.library import edges, schema
from outrider.library import file_ledger as ledger
from outrider.library import maintenance as upkeep
from outrider.library import record_reader as reading
from outrider.library.exact import snapshot as tags
from outrider.library.location import Place
from outrider.library.vectors.store import Vectors, VectorsInfo
from outrider.state.filters import Compare

if TYPE_CHECKING:
    from lancedb.db import AsyncConnection
    from lancedb.table import AsyncTable

KINDS = ("paper", "repository", "page", "document")


@dataclass(frozen=True, slots=True)
class LibraryInfo:
    library_id: str
    uri: str
    format: int
    version: int
    records: int
    by_kind: dict[str, int]
    size_bytes: int | None
    """Of all files with old versions; None on object storage."""
    indexes: tuple[str, ...]
    unindexed_rows: int
    tags: dict[str, int]
    files: int
    edges: int
    """Of the graph, with a record's own names."""
    vectors: VectorsInfo | None
    """None where its records were never embedded."""


async def gathered(place: Place, connection: AsyncConnection, table: AsyncTable, vectors: Vectors, library_id: str) -> LibraryInfo:
    counts = {kind: await reading.count(table, Compare("kind", "$eq", kind)) for kind in KINDS}
    return LibraryInfo(
        library_id=library_id,
        uri=place.shown,
        format=schema.FORMAT,
        version=int(await table.version()),
        records=await reading.count(table, None),
        by_kind={kind: count for kind, count in counts.items() if count},
        size_bytes=await place.size_bytes(),
        indexes=tuple(sorted(index.name for index in await table.list_indices())),
        unindexed_rows=await upkeep.unindexed_rows(table),
        tags=await tags.every(table),
        files=await ledger.count(connection),
        edges=await edges.count(connection),
        vectors=await vectors.info(table),
    )
