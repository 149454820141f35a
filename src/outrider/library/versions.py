"""Versions of the records: tags that keep them, opening one, and its snapshot."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING

from outrider.library.address_and_locks import TABLE, Location
from outrider.state.errors import BadRequest, LibraryError

if TYPE_CHECKING:
    from lancedb.db import AsyncConnection
    from lancedb.table import AsyncTable

    from outrider.state.systematic import Snapshot

TOKENIZER = f"outrider words 2, Unicode {unicodedata.unidata_version}"
"""How the evaluator folds text (`src/outrider/text/strip_markup.py`) and splits it into words (`src/outrider/text/words.py`).

Its number rises with every change of the rules.
"""


async def read_tags(table: AsyncTable) -> dict[str, int]:
    """Version by tag, sorted by name."""
    return {name: int(tag["version"]) for name, tag in sorted((await table.tags.list()).items())}


async def add_tag(table: AsyncTable, name: str) -> int:
    """Name the current version and return its number; `BadRequest` for a name that is taken or not valid. Only under the lock."""
    if name in await read_tags(table):
        raise BadRequest(f"the library has a tag {name!r} already; remove it first or choose another name")
    version = int(await table.version())
    try:
        await table.tags.create(name, version)
    except RuntimeError as error:
        if "Ref is invalid" not in str(error):
            raise
        raise BadRequest(f"{name!r} is no tag name; use letters, digits, '.', '-' and '_'") from error
    return version


async def remove_tag(table: AsyncTable, name: str) -> None:
    """`BadRequest` for a name that no version has. Only under the lock."""
    tags = await read_tags(table)
    if name not in tags:
        raise BadRequest(f"the library has no tag {name!r}; it has: {', '.join(tags) or 'none'}")
    await table.tags.delete(name)


async def open_version(location: Location, connection: AsyncConnection, tag: str | None = None) -> AsyncTable:
    """A handle that stays at the tagged version, or without a tag at the current one; `LibraryError` for a missing tag."""
    from outrider.library.lance_table import as_library_table

    table = as_library_table(await connection.open_table(TABLE))
    if tag is None:
        await table.checkout(await table.version())
        return table
    version = (await read_tags(table)).get(tag)
    if version is None:
        table.close()  # type: ignore[no-untyped-call]
        raise LibraryError(
            f"the library at {location.address} has no tag {tag!r} any more, so the version of the run is lost; begin a new run"
        )
    await table.checkout(version)
    return table


async def describe_version(table: AsyncTable, library_id: str, tag: str | None) -> Snapshot:
    """Of a handle that stays at its version."""
    from outrider.state.systematic import Snapshot  # many models, which no search needs

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
