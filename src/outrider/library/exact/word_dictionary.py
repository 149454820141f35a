"""Dictionary of the words of each exact column, and expansion of patterns such as `hepat*`.

The dictionary is a table that only grows. It lists the fragments of the records all of whose words it holds (`COVERED`). Rows of a fragment
never change, they are only removed: so this holds for every version of the library, and words of removed rows do no harm. The rows of
other fragments are searched instead.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from outrider.boolean.occurrences import letters
from outrider.boolean.relax import AllOf, AnyOf
from outrider.library.exact.plan import NOTHING, Match, Plan, Where, Wild, either, every, is_findable, not_ascii, plan_word
from outrider.library.filter_sql import literal
from outrider.library.maintenance import EXACT_COLUMNS, KEEP_METADATA
from outrider.library.record_table import open_table
from outrider.library.schema import ODD, OTHER
from outrider.library.text_search import ALL_ROWS
from outrider.text.words import separate_words

if TYPE_CHECKING:
    import pyarrow as pa
    from lancedb.db import AsyncConnection
    from lancedb.table import AsyncTable

NAME = "words"
COVERED = "fragment"
"""Takes the place of a column in the rows that list covered fragments."""
LARGE = 5_000
"""Records from which on a dictionary is written: in fewer records a pattern is searched within a few ms."""
ROWS_AT_ONCE = 2_000
"""Rows whose words are collected together."""
COMPACT_EVERY = 32
"""Commits."""
MOST_WORDS = 20_000
"""Words that one pattern may stand for; for more the rows are searched."""


async def find_words(connection: AsyncConnection, column: str, condition: str) -> list[str]:
    """The column's words that fulfil a condition of SQL over `word`, sorted; also some of removed records."""
    table = await open_table(connection, NAME)
    if table is None:
        return []
    query = table.query().select(["word"]).where(f'"column" = {literal(column)} AND ({condition})').limit(ALL_ROWS)
    return sorted(set((await query.to_arrow())["word"].to_pylist()))


async def find_covered(connection: AsyncConnection) -> set[int]:
    """Fragments of the records all of whose words are in the dictionary."""
    return set(map(int, await find_words(connection, COVERED, "true")))


async def find_fragments(table: AsyncTable) -> set[int]:
    """The fragments that hold the rows of the version at which the table stands."""
    import numpy as np

    rows = await table.query().select(["_rowid"]).limit(ALL_ROWS).to_arrow()
    return set(np.unique(rows["_rowid"].to_numpy() >> np.uint64(32)).tolist())


def build_fragment_condition(fragments: Iterable[int]) -> str:
    """A condition of SQL for the rows of these fragments."""
    runs: list[list[int]] = []
    for number in sorted(fragments):
        if runs and runs[-1][1] == number:
            runs[-1][1] = number + 1
        else:
            runs.append([number, number + 1])
    return " OR ".join(f"(_rowid >= {first << 32} AND _rowid < {end << 32})" for first, end in runs) or "false"


async def extend(connection: AsyncConnection, records: AsyncTable) -> bool:
    """Add missing words, if the library is large; whether all words are there. `records` stands at one version. Only under the lock."""
    if OTHER not in (await records.schema()).names or await records.count_rows() < LARGE:
        return False
    missing = await find_fragments(records) - await find_covered(connection)
    if not missing:
        return True
    table = await connection.create_table(NAME, schema=_build_schema(), exist_ok=True)
    rows = await table.query().select(["column", "word"]).limit(ALL_ROWS).to_arrow()
    known: dict[str, set[str]] = {column: set() for column in EXACT_COLUMNS}
    for column, word in zip(rows["column"].to_pylist(), rows["word"].to_pylist(), strict=True):
        known.setdefault(column, set()).add(word)
    # Rows without `OTHER` are candidates for every query and need no words.
    scan = (
        records.query().select(list(EXACT_COLUMNS)).where(f"({build_fragment_condition(missing)}) AND {OTHER} IS NOT NULL").limit(ALL_ROWS)
    )
    async for batch in await scan.to_batches(max_batch_length=ROWS_AT_ONCE):
        words = await asyncio.to_thread(_collect_words, batch)
        new = {column: sorted(words[column] - known[column]) for column in EXACT_COLUMNS}
        for column in EXACT_COLUMNS:
            known[column].update(new[column])
        await table.add(_build_rows(new))
    await cover(connection, missing)
    return True


async def cover(connection: AsyncConnection, fragments: Iterable[int]) -> None:
    """List fragments that hold only rows of covered ones, such as those that a compaction wrote. Only under the lock."""
    table = await open_table(connection, NAME)
    new = sorted(set(fragments) - await find_covered(connection)) if table is not None else []
    if table is None or not new:
        return
    done = await table.add(_build_rows({COVERED: list(map(str, new))}))
    if done.version % COMPACT_EVERY == 0:
        await table.optimize(cleanup_older_than=KEEP_METADATA)


def _collect_words(batch: pa.RecordBatch) -> dict[str, set[str]]:
    """By column. Rows with `ODD` are candidates for every query and need no words."""
    odd = [ODD in text for text in batch[OTHER].to_pylist()]
    words: dict[str, set[str]] = {column: set() for column in EXACT_COLUMNS}
    for column in EXACT_COLUMNS:
        for text, skipped in zip(batch[column].to_pylist(), odd, strict=True):
            if text and not skipped:
                words[column].update(separate_words(text).split())  # the columns hold folded text
    return words


def _build_rows(words: Mapping[str, Sequence[str]]) -> pa.Table:
    import pyarrow as pa

    pairs = [(column, word) for column, words_ in words.items() for word in words_]
    return pa.Table.from_pydict({"column": [column for column, _ in pairs], "word": [word for _, word in pairs]}, schema=_build_schema())


def _build_schema() -> pa.Schema:
    import pyarrow as pa

    return pa.schema([pa.field("column", pa.string(), nullable=False), pa.field("word", pa.string(), nullable=False)])


@dataclass(slots=True)
class PatternExpander:
    """Replaces the patterns of plans by the words of one version of the library that they match."""

    connection: AsyncConnection
    table: AsyncTable
    _fragments: tuple[set[int], set[int]] | None = None
    """All of the version, and those whose words are not in the dictionary."""
    _plans: dict[Wild, Plan] = field(default_factory=dict)

    async def expand(self, plan: Plan) -> Plan:
        """The plan without patterns."""
        patterns = dict.fromkeys(_list_patterns(plan))
        for wild in patterns:
            if wild not in self._plans:
                self._plans[wild] = await self._plan_pattern(wild)
        return self._replace(plan) if patterns else plan

    async def _plan_pattern(self, wild: Wild) -> Plan:
        if self._fragments is None:
            own = await find_fragments(self.table)
            self._fragments = (own, own - await find_covered(self.connection))
        own, uncovered = self._fragments
        if uncovered == own:  # there is no dictionary, or none of this version
            return _plan_search(wild)
        start, *others = letters(wild.pattern)
        longest = max(others, key=len, default="")
        conditions = [f"starts_with(word, {literal(start)})"] if start else []
        conditions += [f"contains(word, {literal(longest)})"] if longest else []
        candidates = await find_words(self.connection, wild.column, " AND ".join(conditions) or "true")
        words = [word for word in candidates if wild.pattern.fullmatch(word)]
        if len(words) > MOST_WORDS:
            return _plan_search(wild)
        indexed = tuple(word for word in words if is_findable(word))
        parts: list[Plan] = [Match(wild.column, indexed)] if indexed else []
        parts += [plan_word(word, wild.column) for word in words if not is_findable(word)]
        in_dictionary = either(parts) if parts else NOTHING
        return either([in_dictionary, _plan_search(wild, build_fragment_condition(uncovered))] if uncovered else [in_dictionary])

    def _replace(self, plan: Plan) -> Plan:
        match plan:
            case Wild():
                return self._plans[plan]
            case AllOf(parts):
                return every([self._replace(part) for part in parts])
            case AnyOf(parts):
                return either([self._replace(part) for part in parts])
        return plan


def _list_patterns(plan: Plan) -> Iterator[Wild]:
    if isinstance(plan, Wild):
        yield plan
    elif isinstance(plan, AllOf | AnyOf):
        for part in plan.parts:
            yield from _list_patterns(part)


def _plan_search(wild: Wild, among: str = "") -> Plan:
    """Rows whose text holds the longest run of letters of the pattern, in whatever case, or anything beyond ASCII."""
    run = max(letters(wild.pattern), key=len)
    if not run or not run.isascii():
        condition = f"{wild.column} IS NOT NULL"
    else:
        condition = f"regexp_like({wild.column}, {literal(f'(?i){re.escape(run)}')}) OR {not_ascii(wild.column).sql}"
    return Where(f"({among}) AND ({condition})" if among else condition)
