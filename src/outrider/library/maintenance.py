"""Maintenance of a table of records: its indexes, compaction and old versions.

Ranking index: one stemmed column, BM25 (k1 1.2, b .75, fixed in Lance), English stemmer, ICU words, our stop words.
Exact indexes: title, abstract, text, keywords and everything else, one index each; no stemming, stop words, positions, words of any length.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from outrider.library.filter_sql import literal
from outrider.library.lance_errors import retry_conflicts
from outrider.library.schema import BITMAP, BTREE, EXACT_FIELDS, OTHER, RANKED, TAGS
from outrider.library.text_search import match_query
from outrider.text.words import STOP_WORDS

if TYPE_CHECKING:
    from lancedb.table import AsyncTable

Rebuild = Callable[[str, int, Sequence[tuple[str, Any]]], Awaitable[None]]
"""Compacts the table at an address, with so many rows, and builds indexes, (column, configuration), anew."""
KEEP = timedelta(days=7)
"""Versions younger than this are kept, since a process may be reading them."""
KEEP_METADATA = timedelta(hours=1)
"""The same for the metadata tables, which are never read for long."""
MARGIN = timedelta(minutes=10)
DUE_ROWS = 256
"""Unindexed rows are searched one by one: about 1 ms for so many abstracts."""
DUE_SHARE = 20
DUE_FRAGMENTS = 24
"""Files that a scan opens one after another; every write adds one."""

REINDEX = "outrider library reindex"
EXACT_COLUMNS = (*EXACT_FIELDS.values(), TAGS, OTHER)


async def ensure_indexes(table: AsyncTable) -> None:
    """Create missing indexes, on an empty table too: rows appended later are then found with the index's own tokenizer."""
    present = await _list_indexed(table)
    for column, config in await plan_indexes(table):
        if column not in present:
            await retry_conflicts(partial(_create_index, table, column, config))


async def _create_index(table: AsyncTable, column: str, config: Any) -> None:
    if column not in await _list_indexed(table):
        await table.create_index(column, config=config)


async def _list_indexed(table: AsyncTable) -> set[str]:
    return {column for index in await table.list_indices() for column in index.columns}


async def repair_indexes(table: AsyncTable) -> None:
    """Build unreadable indexes again."""
    for column, config in await plan_indexes(table):
        if await read_index_error(table, column):
            await table.create_index(column, config=config, replace=True)


async def plan_indexes(table: AsyncTable) -> list[tuple[str, Any]]:
    """(column, index configuration) for the columns that this library has: an earlier Outrider created none for `TAGS` and `OTHER`."""
    from lancedb.index import FTS, Bitmap, BTree

    ranking = FTS(base_tokenizer="icu/split", stem=True, remove_stop_words=True, custom_stop_words=sorted(STOP_WORDS))
    exact = FTS(base_tokenizer="icu/split", stem=False, remove_stop_words=False, with_position=True, max_token_length=None)
    plan: list[tuple[str, Any]] = [(RANKED, ranking), *((column, exact) for column in EXACT_COLUMNS)]
    plan += [*((column, BTree()) for column in BTREE), *((column, Bitmap()) for column in BITMAP)]
    columns = (await table.schema()).names
    return [(column, config) for column, config in plan if column in columns]


async def read_index_error(table: AsyncTable, column: str) -> str:
    """Why the index on this column cannot be read; empty where it can."""
    query = table.query()
    if column in (RANKED, *EXACT_COLUMNS):
        looked_up = query.nearest_to_text(match_query("a", column)).select(["doc_id", "_score"])
    else:
        looked_up = query.where(f"{column} = {0 if column == 'year' else literal('')}").select(["doc_id"])  # type: ignore[assignment]
    try:
        await looked_up.limit(1).to_arrow()
    except (RuntimeError, OSError, ValueError) as error:
        return str(error)[:200]
    return ""


async def due(table: AsyncTable) -> bool:
    """Whether `optimize` has enough to do: many unindexed rows, or many small files."""
    rows, small_files = await _count_rows_and_small_files(table)
    unindexed = await count_unindexed_rows(table)
    return unindexed >= max(DUE_ROWS, rows // DUE_SHARE) or small_files >= DUE_FRAGMENTS


async def _count_rows_and_small_files(table: AsyncTable) -> tuple[int, int]:
    stats: Any = await table.stats()  # a dict, despite its annotation
    return stats["num_rows"], stats["fragment_stats"]["num_small_fragments"]


async def count_unindexed_rows(table: AsyncTable) -> int:
    """Rows that some index does not cover yet; searches find them all the same."""
    return max((index.num_unindexed_rows or 0 for index in await table.list_indices()), default=0)


async def plan_rebuilds(table: AsyncTable) -> list[tuple[str, Any]]:
    """As `plan_indexes`, of those that cover less than half of the rows: building them again takes no longer than adding the others."""
    rows = await table.count_rows()
    missing = {column: index.num_unindexed_rows or 0 for index in await table.list_indices() for column in index.columns}
    return [(column, config) for column, config in await plan_indexes(table) if 2 * missing.get(column, rows) > rows]


async def _rebuild_ranking(table: AsyncTable) -> None:
    """Build the ranking index again where rows are to be folded in, which takes no longer: these would become a part of their own."""
    missing = {column for index in await table.list_indices() if index.num_unindexed_rows for column in index.columns}
    if RANKED in missing:
        config = dict(await plan_indexes(table))[RANKED]
        await table.create_index(RANKED, config=config, replace=True)


async def optimize(table: AsyncTable, keep: timedelta, *, merges: bool = False) -> None:
    """Compact, fold new rows into the indexes, drop old versions. `merges` leaves one part of the ranking index and one file of rows.

    LanceDB refuses to clean up across a tagged version, so everything since the oldest tag stays.
    """
    tagged = {tag["version"] for tag in (await table.tags.list()).values()}
    if tagged:
        versions = await table.list_versions()  # type: ignore[no-untyped-call]
        stamps = [version["timestamp"] for version in versions if version["version"] in tagged]  # naive, in local time
        keep = max(keep, max((datetime.now() - stamp for stamp in stamps), default=timedelta(0)) + MARGIN)
    if merges:
        await _rebuild_ranking(table)
    await table.optimize(cleanup_older_than=keep)
    if merges and (await _count_rows_and_small_files(table))[1] > 1:  # it keeps rows apart that were not indexed before
        await table.optimize(cleanup_older_than=keep)
