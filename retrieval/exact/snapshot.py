"""Opening one version of the library, and what identifies it."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING

from outrider.retrieval import tags
from outrider.retrieval.place import TABLE, Place
from outrider.state.errors import LibraryError
from outrider.state.systematic import Snapshot

if TYPE_CHECKING:
    from lancedb.db import AsyncConnection
    from lancedb.table import AsyncTable

TOKENIZER = f"outrider words 1, Unicode {unicodedata.unidata_version}"
"""How the evaluator cuts words (`text/tokens.py`); its number rises when a text is cut otherwise than before."""


async def opened(place: Place, connection: AsyncConnection, tag: str | None) -> AsyncTable:
    """A handle that stays at the tagged version, or without a tag at the current one; `LibraryError` for a tag that has gone."""
    table = await connection.open_table(TABLE)
    if tag is None:
        await table.checkout(await table.version())
        return table
    version = (await tags.every(table)).get(tag)
    if version is None:
        table.close()  # type: ignore[no-untyped-call]
        raise LibraryError(
            f"the library at {place.shown} has no tag {tag!r} any more, so the version that the run read is not kept; begin a new run"
        )
    await table.checkout(version)
    return table


async def taken(table: AsyncTable, library_id: str, tag: str | None) -> Snapshot:
    """Of a handle that stays at its version."""
    rows = await table.count_rows()
    indexes = {
        column: f"{rows - (index.num_unindexed_rows or 0):,} of {rows:,} rows"
        for index in await table.list_indices()
        for column in index.columns
    }
    return Snapshot(
        library=library_id,
        version=int(await table.version()),
        tag=tag or "",
        tokenizer=TOKENIZER,
        indexes=dict(sorted(indexes.items())),
    )
