"""Exact hits in the order of the ranking index, where words of the query rank."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from outrider.boolean.words import WILD
from outrider.retrieval.schema import RANKED
from outrider.retrieval.search import ALL_ROWS, match_query, only_stop_words, searched
from outrider.state.boolean import WORD_FIELDS, Heading, Node, Not, Pattern, Text, Words, children

if TYPE_CHECKING:
    from lancedb.table import AsyncTable


async def scores(table: AsyncTable, tree: Node) -> dict[int, float]:
    """BM25 of the words that the tree asks for, by row address; of rows with any of them, hits or not."""
    asked = searched(" ".join(dict.fromkeys(_words(tree))))
    if only_stop_words(asked):
        return {}
    found = await table.query().nearest_to_text(match_query(asked, RANKED)).select(["_score"]).with_row_id().limit(ALL_ROWS).to_arrow()
    return dict(zip(found["_rowid"].to_pylist(), found["_score"].to_pylist(), strict=True))


def _words(node: Node) -> Iterator[str]:
    """Without those behind a NOT, and without parts of words."""
    match node:
        case Not():
            return
        case Text(pattern, fields) if not WORD_FIELDS.isdisjoint(fields):
            yield from _of_pattern(pattern)
        case Heading(name):
            yield from (word for word in name.split() if not WILD.search(word))
    for child in children(node):
        yield from _words(child)


def _of_pattern(pattern: Pattern) -> Iterator[str]:
    if isinstance(pattern, Words):
        yield from (word for word in pattern.words if not WILD.search(word))
    else:
        for part in pattern.parts:
            yield from _of_pattern(part)
