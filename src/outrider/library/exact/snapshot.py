"""Names of versions of the records, which are kept from then on.

Opening one version of the library, and what identifies it.
"""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING

from outrider.library.location import TABLE, Place
from outrider.state.errors import BadRequest, LibraryError
from outrider.state.systematic import Snapshot

if TYPE_CHECKING:
    from lancedb.db import AsyncConnection
    from lancedb.table import AsyncTable


async def every(table: AsyncTable) -> dict[str, int]:
    """Version by tag, sorted by name."""
    return {name: int(tag["version"]) for name, tag in sorted((await table.tags.list()).items())}


async def add(table: AsyncTable, name: str) -> int:
    """Names the current version and returns its number; `BadRequest` for a name that is taken or is none. Only under the lock."""
    if name in await every(table):
        raise BadRequest(f"the library has a tag {name!r} already; remove it first or choose another name")
    version = int(await table.version())
    try:
        await table.tags.create(name, version)
    except RuntimeError as error:
        if "Ref is invalid" not in str(error):
            raise
        raise BadRequest(f"{name!r} is no tag name; use letters, digits, '.', '-' and '_'") from error
    return version


async def remove(table: AsyncTable, name: str) -> None:
    """`BadRequest` for a name that no version has. Only under the lock."""
    known = await every(table)
    if name not in known:
        raise BadRequest(f"the library has no tag {name!r}; it has: {', '.join(known) or 'none'}")
    await table.tags.delete(name)


TOKENIZER = f"outrider words 1, Unicode {unicodedata.unidata_version}"
"""How the evaluator cuts words (`text/tokens.py`); its number rises when a text is cut otherwise than before."""


async def opened(place: Place, connection: AsyncConnection, tag: str | None) -> AsyncTable:
    """A handle that stays at the tagged version, or without a tag at the current one; `LibraryError` for a tag that has gone."""
    table = await connection.open_table(TABLE)
    if tag is None:
        await table.checkout(await table.version())
        return table
    version = (await every(table)).get(tag)
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
