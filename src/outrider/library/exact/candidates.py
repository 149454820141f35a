"""Running a plan: the addresses of all rows that may match, in the order of their ids."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING, Literal

from outrider.boolean.relax import AllOf, AnyOf
from outrider.library.exact.plan import EVERY, NOTHING, Match, Phrase, Plan, Where, Wild
from outrider.library.text_search import ALL_ROWS, any_query, match_query, phrase_query

if TYPE_CHECKING:
    import pyarrow as pa
    from lancedb.query import FullTextQuery
    from lancedb.table import AsyncTable

Kind = Literal["text", "sql", "mixed"]
DEEPEST = 8
"""Operators inside each other in one query or condition: LanceDB's parsers recurse, and give up at 50. The rest is joined here."""


async def rows(table: AsyncTable, plan: Plan) -> pa.Table:
    """`doc_id` and `_rowid` of the rows that the plan finds, each once, in no order. `Wild` must have been looked up before."""
    if plan == NOTHING:
        return (await _asked(table, None, "false")).slice(0, 0)
    kind = kind_of(plan)
    if plan == EVERY or kind != "mixed":
        return await _asked(table, plan if kind == "text" else None, sql(plan) if kind == "sql" and plan != EVERY else None)
    return await (_all_of(table, plan.parts) if isinstance(plan, AllOf) else _any_of(table, plan.parts))  # type: ignore[union-attr] # a leaf is not mixed


def kind_of(plan: Plan) -> Kind:
    kind, depth = _measured(plan)
    return kind if depth <= DEEPEST else "mixed"


def _measured(plan: Plan) -> tuple[Kind, int]:
    if isinstance(plan, AllOf | AnyOf):
        below = [_measured(part) for part in plan.parts]
        kinds = {kind for kind, _ in below} or {"sql"}
        return (next(iter(kinds)) if len(kinds) == 1 else "mixed"), 1 + max((depth for _, depth in below), default=0)
    if isinstance(plan, Wild):
        raise TypeError("a pattern is looked up before the plan is run")
    return ("sql" if isinstance(plan, Where) else "text"), 0


async def _all_of(table: AsyncTable, parts: Sequence[Plan]) -> pa.Table:
    """Words are asked for under the condition; what is neither is asked for by itself."""
    text, conditions, others = _parted(parts)
    found = [await rows(table, part) for part in others]
    if text or conditions:
        found.append(await _asked(table, AllOf(tuple(text)) if text else None, sql(AllOf(tuple(conditions))) if conditions else None))
    return reduce(both, sorted(found, key=lambda one: one.num_rows))


async def _any_of(table: AsyncTable, parts: Sequence[Plan]) -> pa.Table:
    text, conditions, others = _parted(parts)
    joined = [AnyOf(tuple(group)) for group in (text, conditions) if group]
    return union([await rows(table, part) for part in (*joined, *others)])


def _parted(parts: Sequence[Plan]) -> tuple[list[Plan], list[Plan], list[Plan]]:
    """Those of words, those of conditions, those of both."""
    found: dict[Kind, list[Plan]] = {"text": [], "sql": [], "mixed": []}
    for part in parts:
        kind, depth = _measured(part)
        found[kind if depth < DEEPEST else "mixed"].append(part)
    return found["text"], found["sql"], found["mixed"]


async def _asked(table: AsyncTable, text: Plan | None, condition: str | None) -> pa.Table:
    query = table.query() if text is None else table.query().nearest_to_text(query_of(text))
    asked = query.select(["doc_id"] if text is None else ["doc_id", "_score"]).with_row_id().limit(ALL_ROWS)
    found = await (asked if condition is None else asked.where(condition)).to_arrow()
    return found.select(["doc_id", "_rowid"])


def query_of(plan: Plan) -> FullTextQuery:
    """A plan of words as LanceDB's query."""
    from lancedb.query import BooleanQuery, Occur

    match plan:
        case Match(column, words):
            return match_query(" ".join(words), column)
        case Phrase(column, words):
            return phrase_query(" ".join(words), column)
        case AllOf(parts):
            queries = [query_of(part) for part in parts]
            return queries[0] if len(queries) == 1 else BooleanQuery([(Occur.MUST, query) for query in queries])
        case AnyOf(parts):
            return any_query([query_of(part) for part in _matches_joined(parts)])
    raise TypeError(plan)


def sql(plan: Plan) -> str:
    """A plan of conditions as one."""
    match plan:
        case Where(condition):
            return condition
        case AllOf(parts):
            return " AND ".join(f"({sql(part)})" for part in parts) or "true"
        case AnyOf(parts):
            return " OR ".join(f"({sql(part)})" for part in parts) or "false"
    raise TypeError(plan)


def _matches_joined(parts: Sequence[Plan]) -> list[Plan]:
    """Single words of one column in one query."""
    words: dict[str, list[str]] = {}
    for part in parts:
        if isinstance(part, Match):
            words.setdefault(part.column, []).extend(part.words)
    joined = [Match(column, tuple(dict.fromkeys(said))) for column, said in words.items()]
    return [*joined, *(part for part in parts if not isinstance(part, Match))]


def union(tables: Sequence[pa.Table]) -> pa.Table:
    """Each row once."""
    import numpy as np
    import pyarrow as pa

    if len(tables) == 1:
        return tables[0]
    every = pa.concat_tables(tables)
    _, first = np.unique(every["_rowid"].to_numpy(), return_index=True)
    return every.take(first)


def both(left: pa.Table, right: pa.Table) -> pa.Table:
    """Rows of the first that are in the second."""
    import numpy as np

    return left.filter(np.isin(left["_rowid"].to_numpy(), right["_rowid"].to_numpy()))
