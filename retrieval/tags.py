"""Names of versions of the records, which are kept from then on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from outrider.state.errors import BadRequest

if TYPE_CHECKING:
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
