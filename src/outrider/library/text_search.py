"""Queries of the two text indexes, built from typed trees: the text of a request is never parsed.

Ranking index: one stemmed column, BM25 (k1 1.2, b .75, fixed in Lance), English stemmer, ICU words, our stop words.
Exact index: title, abstract, text, keywords and everything else apart; no stemming, stop words kept, positions, words of any length.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from outrider.library.filter_sql import to_sql
from outrider.library.schema import BITMAP, BRIEF, BTREE, EXACT_FIELDS, OTHER, RANKED, TAGS, brief_records
from outrider.state.errors import BadRequest
from outrider.state.filters import Filter
from outrider.state.hits import Scored
from outrider.state.request import MAX_QUERY_CHARS, MAX_QUERY_TERMS
from outrider.text.words import STOP_WORDS, WORD, words

if TYPE_CHECKING:
    import pyarrow as pa
    from lancedb.query import FullTextQuery
    from lancedb.table import AsyncTable

ALL_ROWS = 2**31 - 1
"""LanceDB gives 10 rows where no limit is named."""
OWN_WEIGHT = 5
"""How many times as much as a term that widens a query its own words count; chosen on the development collections
(docs/benchmarks.md). They are repeated so often in one query, which gives the same scores as two queries with weights, sooner."""
SLACK = 16
"""Rows asked for beyond the limit, to see whether the cut goes through a group of equal scores."""


def searched(text: str) -> str:
    """What is asked of the index: the text up to `MAX_QUERY_CHARS` and `MAX_QUERY_TERMS`; empty where it holds no word.

    Repeated words stay, since their frequency weighs.
    """
    text = text[:MAX_QUERY_CHARS]
    seen: set[str] = set()
    end = 0
    for found in WORD.finditer(text):
        seen.add(found.group().lower())
        if len(seen) > MAX_QUERY_TERMS:
            break
        end = found.end()
    return text[:end]


def only_stop_words(text: str) -> bool:
    """Whether the ranking index, which leaves stop words out, has nothing to look up."""
    return all(word in STOP_WORDS for word in words(text))


def index_plan() -> list[tuple[str, Any]]:
    """(column, index configuration) of every index that a library has."""
    from lancedb.index import FTS, Bitmap, BTree

    ranking = FTS(base_tokenizer="icu/split", stem=True, remove_stop_words=True, custom_stop_words=sorted(STOP_WORDS))
    exact = FTS(base_tokenizer="icu/split", stem=False, remove_stop_words=False, with_position=True, max_token_length=None)
    plan: list[tuple[str, Any]] = [(RANKED, ranking)]
    plan += [(column, exact) for column in (*EXACT_FIELDS.values(), TAGS, OTHER)]
    plan += [(column, BTree()) for column in BTREE]
    return plan + [(column, Bitmap()) for column in BITMAP]


async def search(table: AsyncTable, text: str, where: Filter | None, limit: int, widened: Sequence[str] = ()) -> list[Scored]:
    """The best `limit` records, by score, then doc_id. A query of stop words only is looked up in the exact index.

    `widened` are terms that help without being asked for: their BM25 counts one `OWN_WEIGHT`th.
    """
    rows = await _ranked(table, text, where, limit, widened, BRIEF)
    records = brief_records({name: [row[2 + at] for row in rows] for at, name in enumerate(BRIEF)})
    return [Scored(record, row[0]) for record, row in zip(records, rows, strict=True)]


async def best_ids(table: AsyncTable, text: str, where: Filter | None, limit: int) -> list[str]:
    """As `search`, without the records."""
    return [row[1] for row in await _ranked(table, text, where, limit, (), ())]


async def _ranked(
    table: AsyncTable, text: str, where: Filter | None, limit: int, widened: Sequence[str], columns: Sequence[str]
) -> list[tuple[Any, ...]]:
    """Rows of score, doc_id and these columns, best first."""
    asked = searched(text)
    if not asked or limit < 1:
        return []
    weight = OWN_WEIGHT if widened else 1
    if only_stop_words(asked):
        parts = [match_query(asked, column, weight) for column in EXACT_FIELDS.values()]
        parts += [match_query(" ".join(widened), RANKED)] if widened else []
    else:
        parts = [match_query(" ".join([asked] * weight + [*widened]), RANKED)]
    found = await _best(table, any_query(parts), where, limit, ["doc_id", "_score", *columns])
    scores = [score / weight for score in found["_score"]]
    rows = zip(scores, found["doc_id"], *(found[name] for name in columns), strict=True)
    return sorted(rows, key=lambda row: (-row[0], row[1]))[:limit]


async def match(table: AsyncTable, phrase: str, field: str, where: Filter | None, limit: int) -> list[str]:
    """Ids, in their order, of records that hold the words of `phrase` one after another in `field`."""
    if field != "any" and field not in EXACT_FIELDS:
        raise BadRequest(f"unknown text field {field!r}; known: any, {', '.join(EXACT_FIELDS)}")
    if limit < 1 or not words(phrase):
        return []
    columns = list(EXACT_FIELDS.values()) if field == "any" else [EXACT_FIELDS[field]]
    found = await _rows(table, any_query([phrase_query(phrase, column) for column in columns]), where, ["doc_id", "_score"], ALL_ROWS)
    return sorted(found["doc_id"].to_pylist())[:limit]


def match_query(text: str, column: str, weight: float = 1.0) -> FullTextQuery:
    """Rows with any word of the text; their score is multiplied by `weight`."""
    from lancedb.query import MatchQuery

    return MatchQuery(text, column, boost=weight)  # type: ignore[call-arg] # keyword defaults of a pydantic dataclass


def phrase_query(text: str, column: str) -> FullTextQuery:
    """Rows with the words of the text next to each other."""
    from lancedb.query import PhraseQuery

    return PhraseQuery(text, column)  # type: ignore[call-arg] # keyword defaults of a pydantic dataclass


def any_query(queries: Sequence[FullTextQuery]) -> FullTextQuery:
    """Rows that fit any of the queries."""
    if len(queries) == 1:
        return queries[0]
    from lancedb.query import BooleanQuery, Occur

    return BooleanQuery([(Occur.SHOULD, query) for query in queries])


async def _best(table: AsyncTable, query: FullTextQuery, where: Filter | None, limit: int, columns: Sequence[str]) -> dict[str, list[Any]]:
    """Columns of at least the best `limit` rows, with everything that ties with the last of them."""
    asked = limit + SLACK
    while True:
        found: dict[str, list[Any]] = (await _rows(table, query, where, columns, asked)).to_pydict()
        scores = sorted(found["_score"], reverse=True)
        if len(scores) < asked or scores[limit - 1] > scores[-1]:
            return found
        asked *= 8


async def _rows(table: AsyncTable, query: FullTextQuery, where: Filter | None, columns: Sequence[str], limit: int) -> pa.Table:
    asked = table.query().nearest_to_text(query).select(list(columns)).limit(limit)
    if where is not None:
        asked = asked.where(to_sql(where))
    return await asked.to_arrow()
