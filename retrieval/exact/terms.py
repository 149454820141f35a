"""Patterns inside words: the words of the library that they match, from its dictionary; rows that it does not cover are read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from outrider.boolean.occurrences import letters
from outrider.boolean.relax import AllOf, AnyOf
from outrider.retrieval.exact import dictionary
from outrider.retrieval.exact.plan import NOTHING, Match, Plan, Where, Wild, either, every, not_ascii, safe, word_plan
from outrider.retrieval.sql import literal

if TYPE_CHECKING:
    from lancedb.db import AsyncConnection
    from lancedb.table import AsyncTable

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
        said = await dictionary.words(self.connection, wild.column, _condition(wild.pattern))
        words = [word for word in said if wild.pattern.fullmatch(word)]
        if len(words) > MOST_WORDS:
            return _read(wild)
        return either([_any_of(words, wild.column), *([_read(wild, dictionary.inside(uncovered))] if uncovered else [])])

    async def _not_covered(self) -> set[int] | None:
        """Fragments whose words are not in the dictionary; None where that is all of them."""
        if self._uncovered is None:
            own = await dictionary.fragments(self.table)
            self._uncovered = own - await dictionary.covered(self.connection)
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
