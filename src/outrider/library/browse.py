"""Listing of a library's records: words in their fields, labels, order, and counts by year.

Words are looked for in short columns, not in texts: every word must be part of a title, an author, a keyword, a venue, the year, an
identifier or the origin of the record, whatever their case and accents. That needs no index, so that records are found in the moment they
are written.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from outrider.library.filter_sql import in_list, literal, to_sql
from outrider.library.record_table import read_addresses
from outrider.library.text_search import ALL_ROWS
from outrider.state.filters import Filter
from outrider.state.records import Record

if TYPE_CHECKING:
    from lancedb.table import AsyncTable

Order = Literal["id", "title", "year", "added"]
MAX_WORDS = 20
TEXTS = ("title", "venue", "origin", "doi", "pmid", "arxiv", "url", "doc_id")
LISTS = ("authors", "tags", "mesh")
SORT_COLUMNS: Mapping[Order, tuple[list[str], list[tuple[str, str]]]] = {
    "id": (["doc_id"], [("doc_id", "ascending")]),
    "title": (["doc_id", "title"], [("title", "ascending"), ("doc_id", "ascending")]),
    "year": (["doc_id", "year"], [("year", "descending"), ("doc_id", "ascending")]),
    "added": (["doc_id"], [("_rowid", "descending")]),
}
"""Columns that an order reads, and how they are sorted; missing values come last. A row's address rises with each write."""


def _list_accented() -> Iterator[tuple[str, str]]:
    """Small letters with accents, of Latin, Greek and Cyrillic, and the letters without."""
    for letter in map(chr, (*range(0xDF, 0x250), *range(0x386, 0x460), *range(0x1E00, 0x2000))):
        parts = unicodedata.normalize("NFD", letter)
        if letter.islower() and len(parts) > 1 and all(map(unicodedata.combining, parts[1:])):
            yield letter, parts[0]
    yield from zip("øłđı", "oldi", strict=True)


ACCENTED, PLAIN = map("".join, zip(*_list_accented(), strict=True))
PLAIN_LETTERS = str.maketrans(ACCENTED, PLAIN)


@dataclass(frozen=True, slots=True)
class RecordQuery:
    """What to list."""

    text: str = ""
    label: str = ""
    where: Filter | None = None
    order: Order = "id"

    def words(self) -> list[str]:
        return list(dict.fromkeys(_fold(self.text).split()))[:MAX_WORDS]


def build_condition(query: RecordQuery, labels: Mapping[str, Sequence[str]]) -> str | None:
    """SQL for the records of the query; None for all. `labels` has the labels of each record that has some."""
    parts = [to_sql(query.where)] if query.where is not None else []
    if query.label:
        parts.append(in_list("doc_id", sorted(doc_id for doc_id, names in labels.items() if query.label in names)))
    for word in query.words():
        labelled = sorted(doc_id for doc_id, names in labels.items() if any(word in _fold(name) for name in names))
        parts.append(_contains(word) + (f" OR {in_list('doc_id', labelled)}" if labelled else ""))
    return " AND ".join(f"({part})" for part in parts) or None


def _fold(text: str) -> str:
    return unicodedata.normalize("NFC", text).lower().translate(PLAIN_LETTERS)


def _contains(word: str) -> str:
    texts = ", ".join([*TEXTS, *(f"array_to_string({name}, ' ')" for name in LISTS)])
    found = f"contains(translate(lower(concat_ws(' ', {texts})), {literal(ACCENTED)}, {literal(PLAIN)}), {literal(word)})"
    return f"{found} OR year = {int(word)}" if word.isascii() and word.isdigit() and len(word) < 10 else found


async def find_page(table: AsyncTable, condition: str | None, order: Order, limit: int, offset: int) -> tuple[list[Record], int]:
    """Records in this order, and how many match. `table` must stand at one version."""
    columns, keys = SORT_COLUMNS[order]
    query = table.query().select(columns).with_row_id().limit(ALL_ROWS)
    if condition is not None:
        query = query.where(condition)
    rows = (await query.to_arrow()).sort_by(keys)
    return await read_addresses(table, rows.slice(offset, max(limit, 0))), rows.num_rows


async def count_years(table: AsyncTable) -> dict[int, int]:
    """How many records are from each year, in its order; those without one are left out. Only that column is read."""
    counts: Counter[int] = Counter()
    async for batch in await table.query().select(["year"]).to_batches():
        counts.update(year for year in batch.column("year").to_pylist() if year is not None)
    return dict(sorted(counts.items()))


def count_labels(labels: Iterable[Sequence[str]]) -> dict[str, int]:
    """How many records have each label, the most frequent first."""
    counts = Counter(name for names in labels for name in names)
    return dict(sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])))
