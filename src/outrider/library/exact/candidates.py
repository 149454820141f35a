"""Execution of a plan: the ids and addresses of all rows that may match.

A part of words alone becomes one full-text query, a part of conditions alone one SQL condition. Other parts are run one by one, and
their rows are joined here.
"""

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
"""Operators inside each other in one query or condition: LanceDB's parsers recurse, and give up at 50. Deeper ones are joined here."""


async def find_rows(table: AsyncTable, plan: Plan) -> pa.Table:
    """`doc_id` and `_rowid` of the rows that fit the plan, each once, in no order. The plan must be without `Wild`."""
    if plan == NOTHING:
        return (await _query(table, None, "false")).slice(0, 0)
    kind, depth = _classify(plan)
    if plan == EVERY or (kind != "mixed" and depth <= DEEPEST):
        return await _query(table, plan if kind == "text" else None, build_sql(plan) if kind == "sql" and plan != EVERY else None)
    assert isinstance(plan, AllOf | AnyOf)  # noqa: S101 - a leaf is not mixed
    groups: dict[Kind, list[Plan]] = {"text": [], "sql": [], "mixed": []}
    for part in plan.parts:
        kind, depth = _classify(part)
        groups[kind if depth < DEEPEST else "mixed"].append(part)
    text, conditions = tuple(groups["text"]), tuple(groups["sql"])
    if isinstance(plan, AnyOf):
        joined = [AnyOf(group) for group in (text, conditions) if group]
        return unite([await find_rows(table, part) for part in (*joined, *groups["mixed"])])
    tables = [await find_rows(table, part) for part in groups["mixed"]]
    if text or conditions:  # words are looked up under the condition
        tables.append(await _query(table, AllOf(text) if text else None, build_sql(AllOf(conditions)) if conditions else None))
    return reduce(intersect, sorted(tables, key=lambda rows: rows.num_rows))


def _classify(plan: Plan) -> tuple[Kind, int]:
    """What a plan consists of, and how deeply its operators are nested."""
    if isinstance(plan, AllOf | AnyOf):
        below = [_classify(part) for part in plan.parts]
        kinds = {kind for kind, _ in below} or {"sql"}
        return (next(iter(kinds)) if len(kinds) == 1 else "mixed"), 1 + max((depth for _, depth in below), default=0)
    if isinstance(plan, Wild):
        raise TypeError("a pattern is looked up before the plan is run")
    return ("sql" if isinstance(plan, Where) else "text"), 0


async def _query(table: AsyncTable, text: Plan | None, condition: str | None) -> pa.Table:
    query = table.query() if text is None else table.query().nearest_to_text(build_text_query(text))
    query = query.select(["doc_id"] if text is None else ["doc_id", "_score"]).with_row_id().limit(ALL_ROWS)
    rows = await (query if condition is None else query.where(condition)).to_arrow()
    return rows.select(["doc_id", "_rowid"])


def build_text_query(plan: Plan) -> FullTextQuery:
    """A plan of words as LanceDB's query."""
    from lancedb.query import BooleanQuery, Occur

    match plan:
        case Match(column, words):
            return match_query(" ".join(words), column)
        case Phrase(column, words):
            return phrase_query(" ".join(words), column)
        case AllOf(parts):
            queries = [build_text_query(part) for part in parts]
            return queries[0] if len(queries) == 1 else BooleanQuery([(Occur.MUST, query) for query in queries])
        case AnyOf(parts):
            by_column: dict[str, list[str]] = {}  # single words of one column fit into one query
            for part in parts:
                if isinstance(part, Match):
                    by_column.setdefault(part.column, []).extend(part.words)
            matches: list[Plan] = [Match(column, tuple(dict.fromkeys(words))) for column, words in by_column.items()]
            others = [part for part in parts if not isinstance(part, Match)]
            return any_query([build_text_query(part) for part in (*matches, *others)])
    raise TypeError(plan)


def build_sql(plan: Plan) -> str:
    """A plan of conditions as one condition."""
    match plan:
        case Where(condition):
            return condition
        case AllOf(parts):
            return " AND ".join(f"({build_sql(part)})" for part in parts) or "true"
        case AnyOf(parts):
            return " OR ".join(f"({build_sql(part)})" for part in parts) or "false"
    raise TypeError(plan)


def unite(tables: Sequence[pa.Table]) -> pa.Table:
    """The rows of all tables, each once."""
    import numpy as np
    import pyarrow as pa

    if len(tables) == 1:
        return tables[0]
    rows = pa.concat_tables(tables)
    _, first = np.unique(rows["_rowid"].to_numpy(), return_index=True)
    return rows.take(first)


def intersect(left: pa.Table, right: pa.Table) -> pa.Table:
    """Rows of the first table that are in the second."""
    import numpy as np

    return left.filter(np.isin(left["_rowid"].to_numpy(), right["_rowid"].to_numpy()))
