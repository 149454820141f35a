"""Full-text search by the ranking and exact indexes, and terms that expand a query.

Queries are typed trees; the text of a request is never parsed. The terms that expand a query distinguish its first hits
(pseudo-relevance feedback). A term's weight is its share of the first hits times the log of how much larger that is than its share of
the others (the Kullback-Leibler term weighting of Carpineto et al., ACM TOIS 19(1), 2001, over documents instead of tokens).
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

from outrider.library.filter_sql import to_sql
from outrider.library.schema import BRIEF, EXACT_FIELDS, RANKED, brief_records
from outrider.state.errors import BadRequest
from outrider.state.filters import Filter
from outrider.state.hits import Ranked, Scored
from outrider.state.records import Record
from outrider.state.request import MAX_QUERY_CHARS, MAX_QUERY_TERMS
from outrider.text.strip_markup import fold_text
from outrider.text.words import OTHER_FUNCTION_WORDS, STOP_WORDS, WORD, stem, words

if TYPE_CHECKING:
    import pyarrow as pa
    from lancedb.query import FullTextQuery
    from lancedb.table import AsyncTable

    from outrider.library.record_cache import RecordCache

ALL_ROWS = 2**31 - 1
"""LanceDB returns 10 rows where a query has no limit."""
OWN_WEIGHT = 7
"""Weight of a query's own words relative to a term that widens it; chosen on the collections of `bench stages`, where 5 to 10
differ by less than .001, and on packages: the first hits of a small library name terms by chance, and 5 is worse there.
The words are repeated so often in one query, which gives the same scores as two queries with weights, sooner."""
PHRASE_WEIGHT = 0.1
"""Weight of a phrase's BM25 relative to that of the words: with .25 and more, recall at 100 falls."""
MOST_WITH_PHRASES = 1_000
"""Records whose phrases count. With 5,000 the lookup takes 3.0 ms instead of 1.8, however few records have the phrases."""
MOST_PHRASES = 8
SLACK = 16
"""Rows read beyond the limit, to see whether the cut goes through a group of equal scores."""
FIRST = 10
POOL = 30
MIN_HITS = 3
"""First hits that must hold a term, or two where they are fewer than `FIRST`: one document's habits are no topic."""
MIN_LETTERS = 3
MAX_LETTERS = 30
MAX_CHARS = 600
"""Of each hit's title, abstract and body: the topic is named at the beginning, and a search must be quick."""


def cut_query(text: str) -> str:
    """The part of a text that is searched, folded: up to `MAX_QUERY_CHARS` and `MAX_QUERY_TERMS`; empty for a text without words.

    Repeated words stay, since their frequency weighs.
    """
    text = fold_text(text[:MAX_QUERY_CHARS])
    terms: set[str] = set()
    end = 0
    for word in WORD.finditer(text):
        terms.add(word.group().lower())
        if len(terms) > MAX_QUERY_TERMS:
            break
        end = word.end()
    return text[:end]


def only_stop_words(text: str) -> bool:
    """Whether the ranking index, which leaves stop words out, has nothing to look up."""
    return all(word in STOP_WORDS for word in words(text))


async def search(
    table: AsyncTable,
    text: str,
    where: Filter | None,
    limit: int,
    widened: Sequence[str] = (),
    phrases: Sequence[str] = (),
    cache: RecordCache | None = None,
) -> list[Scored]:
    """The best `limit` records, by score, then doc_id. A query of stop words only is looked up in the exact index.

    `widened` are terms that the query does not name: their BM25 counts one `OWN_WEIGHT`th. The BM25 of `phrases` in the exact index of
    abstracts counts `PHRASE_WEIGHT`, for records that are among the first or tie with them, and the few after these that are read anyway.
    Rows that the `cache` knows are not read again, and the others are added to it.
    """
    columns = [] if cache is not None and cache.knows_rows else BRIEF
    (scores, found), bonus = await asyncio.gather(_find_best(table, text, where, limit, widened, columns), _score_phrases(table, phrases))
    rows = found["_rowid"]
    records = brief_records(found) if columns or cache is None else await _read_rows(table, rows, cache)
    if records is None:
        return await search(table, text, where, limit, widened, phrases)
    if cache is not None:
        cache.note_rows(rows, [record.doc_id for record in records])
        cache.keep(records)
    hits = map(Scored, records, _add_bonus(scores, rows, bonus))
    return sorted(hits, key=lambda hit: (-hit.score, hit.record.doc_id))[:limit]


async def _read_rows(table: AsyncTable, rows: Sequence[int], cache: RecordCache) -> list[Record] | None:
    """The records of these rows; those not known are read. None where a row is gone: it was just compacted."""
    kept = cache.find(cache.rows[row] for row in rows if row in cache.rows)
    records = {row: kept[doc_id] for row in rows if (doc_id := cache.rows.get(row)) in kept}
    if missing := [row for row in rows if row not in records]:
        read = await _take(table, missing, BRIEF)
        records.update(zip(read["_rowid"], brief_records(read), strict=True))
    return [records[row] for row in rows] if len(records) == len(rows) else None


async def _take(table: AsyncTable, rows: Sequence[int], columns: Sequence[str]) -> Mapping[str, Sequence[Any]]:
    """These rows, in no order, with `_rowid`; none of them where one is gone."""
    try:
        taken = await table.take_row_ids(list(rows)).select(list(columns)).with_row_id().to_arrow()
    except (RuntimeError, OSError, ValueError):
        return {name: [] for name in (*columns, "_rowid")}
    values: dict[str, list[Any]] = taken.to_pydict()
    return values


async def rank(
    table: AsyncTable,
    text: str,
    where: Filter | None,
    limit: int,
    widened: Sequence[str] = (),
    phrases: Sequence[str] = (),
    cache: RecordCache | None = None,
) -> list[Ranked]:
    """As `search`, without the records. `cache` knows the ids of rows that earlier searches found."""
    columns = [] if cache is not None and cache.knows_rows else ["doc_id"]
    (scores, found), bonus = await asyncio.gather(_find_best(table, text, where, limit, widened, columns), _score_phrases(table, phrases))
    rows = found["_rowid"]
    doc_ids = found["doc_id"] if columns or cache is None else await _read_ids(table, rows, cache.rows)
    if doc_ids is None:
        return await rank(table, text, where, limit, widened, phrases)
    if cache is not None:
        cache.note_rows(rows, doc_ids)
    return sorted(map(Ranked, doc_ids, _add_bonus(scores, rows, bonus)), key=lambda place: (-place.score, place.doc_id))[:limit]


async def _read_ids(table: AsyncTable, rows: Sequence[int], known: Mapping[int, str]) -> list[str] | None:
    """The ids of these rows; only those not known are read. None where a row is gone: it was just compacted."""
    doc_ids = {row: known[row] for row in rows if row in known}
    if missing := [row for row in rows if row not in doc_ids]:
        read = await _take(table, missing, ["doc_id"])
        doc_ids.update(zip(read["_rowid"], read["doc_id"], strict=True))
    return [doc_ids[row] for row in rows] if len(doc_ids) == len(rows) else None


def _add_bonus(scores: Sequence[float], rows: Sequence[int], bonus: Mapping[int, float]) -> Sequence[float]:
    return [score + PHRASE_WEIGHT * bonus.get(row, 0.0) for score, row in zip(scores, rows, strict=True)] if bonus else scores


async def _find_best(
    table: AsyncTable, text: str, where: Filter | None, limit: int, widened: Sequence[str], columns: Sequence[str]
) -> tuple[list[float], Mapping[str, Sequence[Any]]]:
    """Scores, and these columns with `_rowid`, in no order: of the best `limit` rows, and of those read after them whose place is certain.

    A column that is not needed is not read: `doc_id` beside the record, which holds it, would cost a millisecond.
    """
    own = cut_query(text)
    if not own or limit < 1:
        return [], {name: [] for name in (*columns, "_rowid")}
    weight = OWN_WEIGHT if widened else 1
    if only_stop_words(own):
        parts = [match_query(own, column, weight) for column in EXACT_FIELDS.values()]
        parts += [match_query(" ".join(map(fold_text, widened)), RANKED)] if widened else []
    else:
        parts = [match_query(" ".join([own] * weight + [*map(fold_text, widened)]), RANKED)]
    size = limit + SLACK
    while True:  # until everything is read that ties with the last of the best `limit` rows
        best = (await _run_query(table, any_query(parts), where, ["_score", *columns], size)).to_pydict()
        falling = sorted(best["_score"], reverse=True)
        if len(falling) < size or falling[limit - 1] > falling[-1]:
            break
        size *= 8
    least = falling[-1] if len(falling) >= size else -math.inf  # rows with this score may have been left unread
    certain = [at for at, score in enumerate(best["_score"]) if score > least]
    scores = [best["_score"][at] / weight for at in certain]
    return scores, {name: [best[name][at] for at in certain] for name in (*columns, "_rowid")}


async def _score_phrases(table: AsyncTable, phrases: Sequence[str]) -> dict[int, float]:
    """BM25 of the abstracts that hold some of the phrases, word for word; of very many the best.

    By row id, which needs no column to be read: where another process compacts the table meanwhile, a phrase counts nothing.
    """
    folded = [phrase for phrase in map(fold_text, phrases[:MOST_PHRASES]) if words(phrase)]
    if not folded:
        return {}
    query = any_query([phrase_query(phrase, EXACT_FIELDS["abstract"]) for phrase in folded])
    best = (await _run_query(table, query, None, ["_score"], MOST_WITH_PHRASES)).to_pydict()
    least = min(best["_score"]) if len(best["_score"]) == MOST_WITH_PHRASES else -math.inf
    return {row: score for row, score in zip(best["_rowid"], best["_score"], strict=True) if score > least}


async def match(table: AsyncTable, phrase: str, field: str, where: Filter | None, limit: int) -> list[str]:
    """Ids, in their order, of records that hold the words of `phrase` one after another in `field`."""
    if field != "any" and field not in EXACT_FIELDS:
        raise BadRequest(f"unknown text field {field!r}; known: any, {', '.join(EXACT_FIELDS)}")
    phrase = fold_text(phrase)
    if limit < 1 or not words(phrase):
        return []
    columns = list(EXACT_FIELDS.values()) if field == "any" else [EXACT_FIELDS[field]]
    query = any_query([phrase_query(phrase, column) for column in columns])
    rows = await _run_query(table, query, where, ["doc_id", "_score"], ALL_ROWS)
    return sorted(rows["doc_id"].to_pylist())[:limit]


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


def _list_columns(query: FullTextQuery) -> list[str]:
    """The columns that a query looks up, each once."""
    parts = getattr(query, "queries", None)
    names = [query.column] if parts is None else [name for _, part in parts for name in _list_columns(part)]  # type: ignore[attr-defined]
    return list(dict.fromkeys(names))


async def _run_query(table: AsyncTable, text: FullTextQuery, where: Filter | None, columns: Sequence[str], limit: int) -> pa.Table:
    """`_rowid` and these columns, of the copy on this machine, or with rows that were read before, or of the table."""
    condition = None if where is None else to_sql(where)

    async def read(table: AsyncTable, columns: Sequence[str] = columns) -> pa.Table:
        query = table.query().nearest_to_text(text).select(list(columns)).with_row_id().limit(limit)
        return await (query if condition is None else query.where(condition)).to_arrow()

    texts = _list_columns(text)
    copy, rows = getattr(table, "local_copy", None), getattr(table, "rows", None)
    if copy is not None and (answer := await copy.ask(table, read, texts)) is not None:
        return answer
    stored = [] if rows is None or limit > rows.most else [name for name in columns if name != "_score"]
    find = partial(read, columns=[name for name in columns if name not in stored])
    found = None
    if copy is not None and stored and texts == [RANKED] and condition is None:
        found = await copy.ask(table, find, texts, rows=False)
    if found is None:
        if (warm_up := getattr(table, "warm_up", None)) is not None:
            await warm_up()
        found = await find(table)
    completed = found if rows is None or not stored else await rows.complete(table, found, stored)
    return await read(table) if completed is None else completed


def related_terms(query: str, hits: Sequence[Record], limit: int) -> tuple[str, ...]:
    """The best terms, each as its most frequent word form in the first hits, without those of the query; ties by word.

    A term must occur in the title or description of some hit: those name the topic, bodies also say "overall".
    In the other hits only the forms of the first hits are counted, not further forms of a word.
    """
    own = frozenset(map(stem, words(fold_text(query))))
    first = [_read_beginning(record) for record in hits[:FIRST]]
    forms = {word: count for word, count in Counter(chain.from_iterable(first)).items() if _is_term(word)}
    stems = {word: stem(word) for word in forms}
    in_first = _count_documents(first, stems)
    others = [_read_beginning(record) for record in hits[FIRST:POOL]]
    in_others = _count_documents(others, stems)
    in_headlines = _count_documents([words(fold_text(f"{record.title}\n{record.description}")) for record in hits[:POOL]], stems)
    least = MIN_HITS if len(first) == FIRST else 2
    ranked = []
    for term, count in in_first.items():
        if count >= least and term not in own and in_headlines[term]:
            share = count / len(first)
            weight = share * math.log(share / ((in_others[term] + 0.5) / (len(others) + 1)))
            ranked.append((-weight, term))
    # Of each term the most frequent form; of equally frequent ones the shortest, then the first in the alphabet.
    wanted = {term for negative, term in ranked if negative < 0}
    candidates = sorted((-count, len(word), word) for word, count in forms.items() if stems[word] in wanted)
    common: dict[str, str] = {}
    for _, _, word in candidates:
        common.setdefault(stems[word], word)
    return tuple(word for _, word in sorted((negative, common[term]) for negative, term in ranked if term in wanted)[:limit])


def _is_term(word: str) -> bool:
    return MIN_LETTERS <= len(word) <= MAX_LETTERS and word.isalpha() and word not in STOP_WORDS and word not in OTHER_FUNCTION_WORDS


def _read_beginning(record: Record) -> list[str]:
    text = "\n".join((record.title, record.abstract or record.description, record.text))
    return words(fold_text(text[:MAX_CHARS]))


def _count_documents(documents: Iterable[Sequence[str]], stems: Mapping[str, str]) -> Counter[str]:
    """How many documents hold each stem."""
    return Counter(chain.from_iterable({stems[word] for word in stems.keys() & document} for document in documents))
