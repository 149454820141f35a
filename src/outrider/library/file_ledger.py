"""Which files were completely ingested: a table of its own, written only when a file's last record is in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from outrider.library.filter_sql import any_of
from outrider.library.maintenance import KEEP_BESIDE
from outrider.library.open_tables import opened

if TYPE_CHECKING:
    import pyarrow as pa
    from lancedb.db import AsyncConnection

NAME = "files"
"""The table is made when the first file is remembered."""
COMPACT_EVERY = 64
"""Commits after which the ledger is compacted on the way."""


@dataclass(frozen=True, slots=True)
class IngestedFile:
    """One file that was read to its end."""

    fingerprint: str
    """Sha-256 over the file's content, the reader's version and its options."""
    origin: str
    records: int
    finished_at: str
    """ISO 8601."""


def schema() -> pa.Schema:
    import pyarrow as pa

    from outrider.library.schema import PRIMARY_KEY

    return pa.schema(
        [
            pa.field("fingerprint", pa.string(), nullable=False, metadata=PRIMARY_KEY),
            pa.field("origin", pa.string(), nullable=False),
            pa.field("records", pa.int64(), nullable=False),
            pa.field("finished_at", pa.string(), nullable=False),
        ]
    )


async def find(connection: AsyncConnection, fingerprint: str) -> IngestedFile | None:
    table = await opened(connection, NAME)
    if table is None:
        return None
    rows = (await table.query().where(any_of("fingerprint", [fingerprint])).limit(1).to_arrow()).to_pylist()
    return IngestedFile(**rows[0]) if rows else None


async def remember(connection: AsyncConnection, files: Sequence[IngestedFile]) -> None:
    import pyarrow as pa

    table = await connection.create_table(NAME, schema=schema(), exist_ok=True)
    merge = table.merge_insert("fingerprint").when_matched_update_all().when_not_matched_insert_all()
    merge = merge.when_not_matched_by_source_delete(
        any_of("origin", sorted({file.origin for file in files}))
    )  # set back to an earlier content, it is read again
    rows = {file.fingerprint: asdict(file) for file in files}  # equal files at two places have one fingerprint
    done = await merge.execute(pa.Table.from_pylist(list(rows.values()), schema=schema()))
    if done.version % COMPACT_EVERY == 0:
        await table.optimize(cleanup_older_than=KEEP_BESIDE)


async def forget(connection: AsyncConnection, origins: Sequence[str]) -> None:
    table = await opened(connection, NAME)
    if table is not None and origins:
        await table.delete(any_of("origin", origins))


async def count(connection: AsyncConnection) -> int:
    table = await opened(connection, NAME)
    return 0 if table is None else await table.count_rows()


async def compact(connection: AsyncConnection) -> None:
    """Every remembered file adds a version; readers of the ledger hold none for long."""
    table = await opened(connection, NAME)
    if table is not None:
        await table.optimize(cleanup_older_than=KEEP_BESIDE)
