"""Where a record matches a query: the fields, and the text around each matching term.

For a reader who checks a hit. Terms are found by the patterns of the evaluator, so that what is marked is what matched. What is negated has
no place.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice

from pydantic import Field as Described

from outrider.boolean.document import ALL_FIELDS, Document, Readable, read_texts
from outrider.boolean.evaluator import Evaluator
from outrider.boolean.occurrences import Column, find_occurrences
from outrider.state.boolean import WORD_FIELDS, Dates, Everything, Field, Heading, Leaf, Node, Not, Pattern, Text, children
from outrider.state.model import Model
from outrider.text.strip_markup import fold_text
from outrider.text.words import separate_words

MAX_PLACES = 6
MAX_OF_TERM = 2
"""Occurrences of one term in one text that are marked."""
AROUND = 70
"""Characters before and after a term."""
MAX_TEXT_CHARS = 400_000
"""Of a text, that are read: terms behind them have no place."""
MAX_VALUE_CHARS = 200
CHUNK = re.compile(r"\S+")
INNER = re.compile(r"\w(?:.*\w)?", re.DOTALL)
"""A chunk without the punctuation around it."""
Span = tuple[int, int]


class Piece(Model):
    text: str
    is_match: bool = False


class Place(Model):
    field: str = Described(description="`title`, `abstract`, `keywords`, `mesh`, `text` (the full text), or another field of a record.")
    pieces: tuple[Piece, ...]


def find_places(tree: Node, record: Readable) -> tuple[Place, ...]:
    """At most `MAX_PLACES`, those of the title first and of the full text last; neighbouring terms share one."""
    document = Document(record)
    words: dict[tuple[Field, int], tuple[str, set[Span]]] = {}
    values: dict[str, str] = {}
    for leaf in _iter_positive(tree):
        if isinstance(leaf, Text):
            _mark(leaf, record, words)
        name, value = _read_value(leaf, record)
        if name and Evaluator(leaf).matches(document):
            values[name] = value
    order = (*ALL_FIELDS[:4], *ALL_FIELDS[5:], Field.JOURNAL_WORDS, Field.BODY)
    marked = sorted(words.items(), key=lambda item: (order.index(item[0][0]), item[0][1]))
    found = [place for (name, _), (text, spans) in marked for place in _cut_places(name, text, spans)]
    found += [Place(field=name, pieces=(Piece(text=text[:MAX_VALUE_CHARS], is_match=True),)) for name, text in values.items() if text]
    return tuple(found[:MAX_PLACES])


def _iter_positive(node: Node) -> Iterator[Leaf]:
    if isinstance(node, Not | Everything):
        return
    if isinstance(node, Text | Heading | Dates):
        yield node
    for part in children(node):
        yield from _iter_positive(part)


def _mark(leaf: Text, record: Readable, words: dict[tuple[Field, int], tuple[str, set[Span]]]) -> None:
    """Add the places of a leaf's words to those of each text."""
    names = dict.fromkeys(
        name for field in leaf.fields for name in (ALL_FIELDS if field is Field.ALL else (field,) if field in WORD_FIELDS else ())
    )
    for name in names:
        for number, raw in enumerate(read_texts(record, name)):
            text, spans = words.get((name, number)) or (fold_text(raw[:MAX_TEXT_CHARS]), set())
            if new := _find_spans(leaf.pattern, text):
                words[name, number] = text, spans | new


def _find_spans(pattern: Pattern, text: str) -> set[Span]:
    """The first occurrences as spans of the folded text, a span for each of its words."""
    occurrences = list(islice(find_occurrences(pattern, Column.from_texts([text])), MAX_OF_TERM))
    if not occurrences:
        return set()
    places = _list_words(text)
    return {places[at] for occurrence in occurrences for first, last in occurrence for at in range(first, last + 1)}


def _list_words(text: str) -> list[Span]:
    """The place of each word that the index has: a chunk such as `post-mortem,` has several."""
    places: list[Span] = []
    for chunk in CHUNK.finditer(text):
        inner = INNER.search(chunk[0])
        start, end = inner.span() if inner else (0, len(chunk[0]))
        places += [(chunk.start() + start, chunk.start() + end)] * len(separate_words(chunk[0]).split())
    return places


def _cut_places(name: Field, text: str, spans: set[Span]) -> Iterator[Place]:
    groups: list[list[Span]] = []
    for span in sorted(spans):
        if groups and span[0] - groups[-1][-1][1] <= AROUND:
            groups[-1].append(span)
        else:
            groups.append([span])
    for group in groups:
        yield Place(field=name.value, pieces=tuple(_cut_pieces(text, group)))


def _cut_pieces(text: str, spans: Sequence[Span]) -> Iterator[Piece]:
    """Text around the spans, cut between words."""
    start, end = max(0, spans[0][0] - AROUND), min(len(text), spans[-1][1] + AROUND)
    start = text.find(" ", start, spans[0][0]) + 1 or spans[0][0] if start else 0
    if end < len(text):
        end = max(text.rfind(" ", spans[-1][1], end), spans[-1][1])
    at = start
    lead = "… " if start else ""
    for first, last in spans:
        yield Piece(text=lead + text[at:first])
        yield Piece(text=text[first:last], is_match=True)
        at, lead = last, ""
    yield Piece(text=text[at:end] + (" …" if end < len(text) else ""))


def _read_value(leaf: Leaf, record: Readable) -> tuple[str, str]:
    """The name and the text of what a leaf compares as a whole; an empty name where it searches words."""
    match leaf:
        case Dates():
            return "year", str(record.year or "")
        case Heading():
            return "heading", _join_texts(record, (Field.MESH,))
        case Text():
            whole = [field for field in leaf.fields if field not in WORD_FIELDS]
            return whole[0].value if whole else "", _join_texts(record, whole)
    return "", ""


def _join_texts(record: Readable, names: Sequence[Field]) -> str:
    return "; ".join(text for name in names for text in read_texts(record, name))
