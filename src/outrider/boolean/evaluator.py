"""Exact evaluation of a Boolean tree on records.

A tree is compiled once and tested on many records. docs/reference/boolean.md defines the meaning of each leaf; a leaf on a missing value is
false, and NOT is the exact complement.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import inf

from outrider.boolean.document import Document, Readable, major_headings, normal_doi, read_texts
from outrider.boolean.field_values import is_author, whole, whole_value
from outrider.boolean.occurrences import find_occurrences, make_matchers, make_phrase_pattern
from outrider.state.boolean import WORD_FIELDS, And, Dates, Everything, Field, Heading, Node, Not, Or, Pattern, Text, Words
from outrider.text.languages_and_work_types import normal_language

Test = Callable[[Document], bool]
MANY = 24
"""Words of one OR above which a text is split into its words rather than searched for each of them."""


@dataclass(slots=True)
class Evaluator:
    """A compiled tree."""

    tree: Node
    _test: Test = field(init=False)

    def __post_init__(self) -> None:
        self._test = _compile(self.tree, {})

    def matches(self, record: Readable | Document) -> bool:
        """A `Document` caches its words: make one of a record for several trees."""
        return self._test(record if isinstance(record, Document) else Document(record))


def matches(tree: Node, record: Readable | Document) -> bool:
    """Whether the tree matches the record. For many records, make an `Evaluator` once."""
    return Evaluator(tree).matches(record)


def _compile(node: Node, compiled: dict[int, Test]) -> Test:
    """The node's test; a part that occurs at several places is compiled once."""
    if id(node) not in compiled:
        compiled[id(node)] = _make_test(node, compiled)
    return compiled[id(node)]


def _make_test(node: Node, compiled: dict[int, Test]) -> Test:
    match node:
        case And(parts):
            every = [_compile(part, compiled) for part in parts]
            return lambda document: all(test(document) for test in every)
        case Or(parts):
            return _make_or_test(parts, compiled)
        case Not(part):
            test = _compile(part, compiled)
            return lambda document: not test(document)
        case Text(pattern, fields):
            tests = [(_make_word_test if name in WORD_FIELDS else _make_value_test)(pattern, name) for name in fields]
            return tests[0] if len(tests) == 1 else lambda document: any(test(document) for test in tests)
        case Heading():
            return _make_heading_test(node)
        case Dates(start, end):
            first, last = int(start[:4]) if start else -inf, int(end[:4]) if end else inf
            return lambda document: (year := document.record.year) is not None and first <= year <= last
        case Everything():
            return lambda _: True


def _make_or_test(parts: Sequence[Node], compiled: dict[int, Test]) -> Test:
    """Plain words of the same fields are searched together, so a long OR costs little more than one word."""
    words_by_fields: dict[tuple[Field, ...], set[str]] = {}
    tests: list[Test] = []
    for part in parts:
        if isinstance(part, Text) and isinstance(part.pattern, Words) and WORD_FIELDS.issuperset(part.fields):
            words = [matcher for word in part.pattern.words for matcher in make_matchers(word)]
            if len(words) == 1 and isinstance(words[0], str):
                words_by_fields.setdefault(part.fields, set()).add(words[0])
                continue
        tests.append(_compile(part, compiled))
    tests[:0] = [_make_any_word_test(words, fields) for fields, words in words_by_fields.items()]
    return lambda document: any(test(document) for test in tests)


def _make_any_word_test(words: set[str], fields: tuple[Field, ...]) -> Test:
    if len(words) > MANY:
        return lambda document: any(not words.isdisjoint(document.column(name).words) for name in fields)
    between_blanks = [f" {word} " for word in sorted(words)]

    def holds(document: Document) -> bool:  # loops instead of any(): this is the innermost loop of a scan
        for name in fields:
            text = document.column(name).text
            for word in between_blanks:
                if word in text:
                    return True
        return False

    return holds


def _make_word_test(pattern: Pattern, name: Field) -> Test:
    if not isinstance(pattern, Words):
        return lambda document: next(find_occurrences(pattern, document.column(name)), None) is not None
    words = [matcher for word in pattern.words for matcher in make_matchers(word)]
    # plain words are searched first: that is fast, and mostly decides
    plain = sorted({f" {word} " for word in words if isinstance(word, str)}, key=lambda word: (-len(word), word))
    if len(words) == len(plain) == 1:
        (only,) = plain
        return lambda document: only in document.column(name).text
    phrase = make_phrase_pattern(words)

    def holds(document: Document) -> bool:
        text = document.column(name).text
        return all(word in text for word in plain) and phrase.search(text) is not None

    return holds


def _make_value_test(pattern: Pattern, name: Field) -> Test:
    """A field that is compared as a whole; nothing matches a value that the record or a library lacks."""
    if not isinstance(pattern, Words):
        return lambda _: False
    words = pattern.words
    if name is Field.AUTHOR:
        return lambda document: any(is_author(words, author) for author in read_texts(document.record, name))
    if name is Field.PMID:
        numbers = {word.lstrip("0") for word in words}
        return lambda document: any(pmid.lstrip("0") in numbers for pmid in read_texts(document.record, name))
    if name is Field.DOI:
        doi = re.compile(".*".join(map(re.escape, normal_doi(" ".join(words)).split("*"))), re.DOTALL)
        return lambda document: any(doi.fullmatch(normal_doi(value)) for value in read_texts(document.record, name))
    equals = whole_value(words)
    language = normal_language(" ".join(words)) if name is Field.LANGUAGE else None
    if language is not None:
        return lambda document: any(normal_language(text) == language for text in read_texts(document.record, name))
    return lambda document: any(map(equals, document.values(name)))


def _make_heading_test(heading: Heading) -> Test:
    is_name = whole_value(heading.name.split()) if heading.name else None
    is_qualifier = None
    if heading.qualifier:
        # records write both `prevention & control` and `prevention and control`
        words = [matcher for word in heading.qualifier.split() for matcher in make_matchers(word) if matcher != "and"]
        is_qualifier = whole(words, open_end=heading.qualifier.endswith("*"))

    def holds(document: Document) -> bool:
        if heading.major and is_name and (majors := major_headings(document.record)) and not any(map(is_name, majors)):
            return False
        return any(
            (is_name is None or is_name(name)) and (is_qualifier is None or any(map(is_qualifier, qualifiers)))
            for name, qualifiers in document.headings()
        )

    return holds
