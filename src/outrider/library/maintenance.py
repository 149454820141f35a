"""Keeping a library fast and sound: indexes, compaction, old versions, and a check of every row."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from outrider.library.schema import EXACT_FIELDS, FULL, OTHER, RANKED, TAGS, full_records
from outrider.library.text_search import ALL_ROWS, index_plan, match_query

if TYPE_CHECKING:
    from lancedb.table import AsyncTable

KEEP = timedelta(days=7)
"""Versions younger than this stay, whoever may be reading them."""
KEEP_BESIDE = timedelta(hours=1)
"""The same of the tables beside the records, which nobody reads for long."""
MARGIN = timedelta(minutes=10)
DUE_ROWS = 256
"""Unindexed rows are searched one by one: about 1 ms for so many abstracts."""
DUE_SHARE = 20
DUE_FRAGMENTS = 24
"""Files that a scan opens one after another; every write adds one."""
CHECKED_AT_ONCE = 200
MANY = 100

REINDEX = "outrider library reindex"
FIX_INDEX = "the next 'outrider ingest' rebuilds it"
FIX_ROW = "remove it with 'outrider library remove' and ingest its file again"


async def ensure_indexes(table: AsyncTable) -> None:
    """Create what is missing, on an empty table too: rows appended later are then found with the index's own tokenizer."""
    present = {column for index in await table.list_indices() for column in index.columns}
    for column, config in await _plan(table):
        if column not in present:
            await table.create_index(column, config=config)


async def repair_indexes(table: AsyncTable) -> None:
    """Build again what cannot be read."""
    for column, config in await _plan(table):
        if column in TEXT_COLUMNS and await _unreadable(table, column):
            await table.create_index(column, config=config, replace=True)


async def _plan(table: AsyncTable) -> list[tuple[str, Any]]:
    """The indexes for the columns that this library has: an earlier Outrider made none for `TAGS` and `OTHER`."""
    columns = (await table.schema()).names
    return [(column, config) for column, config in index_plan() if column in columns]


async def due(table: AsyncTable) -> bool:
    stats: Any = await table.stats()  # a dict, whatever its annotation says
    unindexed = await unindexed_rows(table)
    fragments = stats["fragment_stats"]["num_small_fragments"]
    return bool(unindexed >= max(DUE_ROWS, stats["num_rows"] // DUE_SHARE) or fragments >= DUE_FRAGMENTS)


async def unindexed_rows(table: AsyncTable) -> int:
    """Rows that some index does not cover yet; they are found all the same."""
    return max((index.num_unindexed_rows or 0 for index in await table.list_indices()), default=0)


async def optimize(table: AsyncTable, keep: timedelta) -> None:
    """Compact, fold new rows into the indexes, drop old versions.

    LanceDB refuses to clean up across a tagged version, so everything since the oldest tag stays.
    """
    await table.optimize(cleanup_older_than=max(keep, await _age_of_oldest_tag(table)))


async def _age_of_oldest_tag(table: AsyncTable) -> timedelta:
    tagged = {tag["version"] for tag in (await table.tags.list()).values()}
    if not tagged:
        return timedelta(0)
    versions = await table.list_versions()  # type: ignore[no-untyped-call]
    made = [version["timestamp"] for version in versions if version["version"] in tagged]  # naive, in local time
    return max((datetime.now() - stamp for stamp in made), default=timedelta(0)) + MARGIN


async def problems(table: AsyncTable) -> tuple[str, ...]:
    """What is wrong with indexes and rows, with what to do; the first `MANY` rows, then their number."""
    found = [problem async for problem in _index_problems(table)]
    rows = 0
    async for problem in _row_problems(table):
        rows += 1
        if rows <= MANY:
            found.append(problem)
    return (*found, f"{rows - MANY} more rows have problems") if rows > MANY else tuple(found)


async def _index_problems(table: AsyncTable) -> AsyncIterator[str]:
    present = {column for index in await table.list_indices() for column in index.columns}
    for column, _ in await _plan(table):
        if column not in present:
            yield f"the index on {column} is missing; {FIX_INDEX}"
        elif column in TEXT_COLUMNS and (why := await _unreadable(table, column)):
            yield f"the index on {column} cannot be read ({why}); {FIX_INDEX}"


TEXT_COLUMNS = (RANKED, *EXACT_FIELDS.values(), TAGS, OTHER)


async def _unreadable(table: AsyncTable, column: str) -> str:
    try:
        await table.query().nearest_to_text(match_query("a", column)).select(["doc_id", "_score"]).limit(1).to_arrow()
    except (RuntimeError, OSError, ValueError) as error:
        return str(error)[:200]
    return ""


async def _row_problems(table: AsyncTable) -> AsyncIterator[str]:
    seen: set[str] = set()
    scan = table.query().select(["doc_id", "kind", "content_hash", *FULL]).limit(ALL_ROWS)
    async for batch in await scan.to_batches(max_batch_length=CHECKED_AT_ONCE):
        for row in batch.to_pylist():
            if row["doc_id"] in seen:
                yield f"record {row['doc_id']!r} stands there twice; {FIX_ROW}"
            seen.add(row["doc_id"])
            if why := _wrong(row):
                yield f"record {row['doc_id']!r} {why}; {FIX_ROW}"


def _wrong(row: dict[str, Any]) -> str:
    try:
        (record,) = full_records({name: [row[name]] for name in FULL})
    except ValidationError as error:
        return f"cannot be read ({error.errors()[0]['msg']})"
    if (record.doc_id, record.kind) != (row["doc_id"], row["kind"]):
        return "holds another record's data"
    return "" if record.content_hash() == row["content_hash"] else "does not agree with its content hash"
