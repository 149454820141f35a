"""The library's dictionary: the different words of each exact column, for patterns such as `hepat*`.

A table that only grows. It says of which fragments of the records it holds every word (`COVERED`). A fragment's rows never change, they
only go: so this holds for every version of the library, and words that no row holds any more do no harm. Other fragments are read instead.

Patterns inside words: the words of the library that they match, from its dictionary; rows that it does not cover are read.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from outrider.boolean.occurrences import letters
from outrider.boolean.relax import AllOf, AnyOf
from outrider.library.exact.plan import NOTHING, Match, Plan, Where, Wild, either, every, not_ascii, safe, word_plan
from outrider.library.filter_sql import literal
from outrider.library.maintenance import KEEP_BESIDE
from outrider.library.record_table import open_table
from outrider.library.schema import EXACT_FIELDS, ODD, OTHER, TAGS
from outrider.library.text_search import ALL_ROWS
from outrider.text.tokens import tokens

if TYPE_CHECKING:
    import pyarrow as pa
    from lancedb.db import AsyncConnection
    from lancedb.table import AsyncTable


NAME = "words"
COVERED = "fragment"
"""Stands for a column in the rows that name covered fragments."""
COLUMNS = (*EXACT_FIELDS.values(), TAGS, OTHER)
LARGE = 5_000
"""Records from which on a dictionary is kept: a pattern is looked for in fewer within a few ms."""
AT_ONCE = 2_000
"""Rows whose words are gathered together."""
COMPACT_EVERY = 32
"""Commits."""


async def words(connection: AsyncConnection, column: str, condition: str) -> list[str]:
    """The column's words that fulfil a condition of SQL over `word`, sorted; also some that no record holds any more."""
    table = await open_table(connection, NAME)
    if table is None:
        return []
    asked = table.query().select(["word"]).where(f'"column" = {literal(column)} AND ({condition})').limit(ALL_ROWS)
    return sorted(set((await asked.to_arrow())["word"].to_pylist()))


async def covered(connection: AsyncConnection) -> set[int]:
    """Fragments of the records all of whose words are here."""
    return set(map(int, await words(connection, COVERED, "true")))


async def fragments(table: AsyncTable) -> set[int]:
    """Those that hold the rows of the version at which the table stands."""
    import numpy as np

    found = await table.query().select(["_rowid"]).limit(ALL_ROWS).to_arrow()
    return set(np.unique(found["_rowid"].to_numpy() >> np.uint64(32)).tolist())


def inside(numbers: Iterable[int], column: str = "_rowid") -> str:
    """The rows of these fragments, as SQL."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and runs[-1][1] == number:
            runs[-1][1] = number + 1
        else:
            runs.append([number, number + 1])
    return " OR ".join(f"({column} >= {first << 32} AND {column} < {end << 32})" for first, end in runs) or "false"


async def extend(connection: AsyncConnection, records: AsyncTable) -> bool:
    """Add what is missing, if the library is large; whether all is there. `records` stands at one version. Only under the lock."""
    if OTHER not in (await records.schema()).names or await records.count_rows() < LARGE:
        return False
    missing = await fragments(records) - await covered(connection)
    if not missing:
        return True
    table = await connection.create_table(NAME, schema=_schema(), exist_ok=True)
    known = await _known(table)
    async for found in _gathered(records, missing):
        new = {column: sorted(said - known[column]) for column, said in found.items()}
        for column, said in new.items():
            known[column].update(said)
        await table.add(_rows(new))
    await cover(connection, missing)
    return True


async def cover(connection: AsyncConnection, numbers: Iterable[int]) -> None:
    """Of fragments that hold no other rows than covered ones did, such as those that a compaction made. Only under the lock."""
    table = await open_table(connection, NAME)
    new = sorted(set(numbers) - await covered(connection)) if table is not None else []
    if table is None or not new:
        return
    done = await table.add(_rows({COVERED: list(map(str, new))}))
    if done.version % COMPACT_EVERY == 0:
        await table.optimize(cleanup_older_than=KEEP_BESIDE)


async def _gathered(records: AsyncTable, missing: set[int]) -> AsyncIterator[dict[str, set[str]]]:
    """Words by column. Rows that are candidates for every query need none."""
    asked = records.query().select(list(COLUMNS)).where(f"({inside(missing)}) AND {OTHER} IS NOT NULL").limit(ALL_ROWS)
    async for batch in await asked.to_batches(max_batch_length=AT_ONCE):
        yield await asyncio.to_thread(_words_of, batch)


def _words_of(batch: pa.RecordBatch) -> dict[str, set[str]]:
    odd = [ODD in said for said in batch[OTHER].to_pylist()]
    found: dict[str, set[str]] = {column: set() for column in COLUMNS}
    for column, said in found.items():
        for text, skipped in zip(batch[column].to_pylist(), odd, strict=True):
            if text and not skipped:
                said.update(tokens(text))
    return found


async def _known(table: AsyncTable) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {column: set() for column in COLUMNS}
    rows = await table.query().select(["column", "word"]).limit(ALL_ROWS).to_arrow()
    for column, word in zip(rows["column"].to_pylist(), rows["word"].to_pylist(), strict=True):
        found.setdefault(column, set()).add(word)
    return found


def _rows(said: Mapping[str, Sequence[str]]) -> pa.Table:
    import pyarrow as pa

    pairs = [(column, word) for column, words_ in said.items() for word in words_]
    return pa.Table.from_pydict({"column": [column for column, _ in pairs], "word": [word for _, word in pairs]}, schema=_schema())


def _schema() -> pa.Schema:
    import pyarrow as pa

    return pa.schema([pa.field("column", pa.string(), nullable=False), pa.field("word", pa.string(), nullable=False)])


MOST_WORDS = 20_000
"""That one pattern may stand for; beyond that the rows are read."""


@dataclass(slots=True)
class Terms:
    """Of one version of the library."""

    connection: AsyncConnection
    table: AsyncTable
    _uncovered: set[int] | None = None
    _known: dict[Wild, Plan] = field(default_factory=dict)

    async def looked_up(self, plan: Plan) -> Plan:
        """The plan without patterns."""
        found = {wild: await self._of(wild) for wild in dict.fromkeys(_patterns(plan))}
        return _replaced(plan, found) if found else plan

    async def _of(self, wild: Wild) -> Plan:
        if wild not in self._known:
            self._known[wild] = await self._made(wild)
        return self._known[wild]

    async def _made(self, wild: Wild) -> Plan:
        uncovered = await self._not_covered()
        if uncovered is None:
            return _read(wild)
        in_dictionary = await words(self.connection, wild.column, _condition(wild.pattern))
        matching = [word for word in in_dictionary if wild.pattern.fullmatch(word)]
        if len(matching) > MOST_WORDS:
            return _read(wild)
        return either([_any_of(matching, wild.column), *([_read(wild, inside(uncovered))] if uncovered else [])])

    async def _not_covered(self) -> set[int] | None:
        """Fragments whose words are not in the dictionary; None where that is all of them."""
        if self._uncovered is None:
            own = await fragments(self.table)
            self._uncovered = own - await covered(self.connection)
            if self._uncovered == own:
                return None
        return self._uncovered


def _patterns(plan: Plan) -> Iterator[Wild]:
    if isinstance(plan, Wild):
        yield plan
    elif isinstance(plan, AllOf | AnyOf):
        for part in plan.parts:
            yield from _patterns(part)


def _replaced(plan: Plan, found: dict[Wild, Plan]) -> Plan:
    match plan:
        case Wild():
            return found[plan]
        case AllOf(parts):
            return every([_replaced(part, found) for part in parts])
        case AnyOf(parts):
            return either([_replaced(part, found) for part in parts])
    return plan


def _any_of(words: Iterable[str], column: str) -> Plan:
    known: list[str] = []
    others: list[Plan] = []
    for word in words:
        if safe(word):
            known.append(word)
        else:
            others.append(word_plan(word, column))
    return either([*([Match(column, tuple(known))] if known else []), *others]) if known or others else NOTHING


def _condition(pattern: re.Pattern[str]) -> str:
    """What a word must fulfil, in SQL; the pattern itself says the rest."""
    start, *others = letters(pattern)
    longest = max(others, key=len, default="")
    conditions = [f"starts_with(word, {literal(start)})"] if start else []
    conditions += [f"contains(word, {literal(longest)})"] if longest else []
    return " AND ".join(conditions) or "true"


def _read(wild: Wild, among: str = "") -> Plan:
    """Rows whose text holds the longest run of letters of the pattern, in whatever case, or anything beyond ASCII."""
    run = max(letters(wild.pattern), key=len)
    if not run or not run.isascii():
        condition = f"{wild.column} IS NOT NULL"
    else:
        condition = f"regexp_like({wild.column}, {literal(f'(?i){re.escape(run)}')}) OR {not_ascii(wild.column).sql}"
    return Where(f"({among}) AND ({condition})" if among else condition)
