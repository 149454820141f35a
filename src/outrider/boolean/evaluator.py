"""Which records a tree matches, exactly: by the words of what is stored, cut as the library's exact indexes cut them.

A tree is compiled once and asked of many records. What each leaf means stands in docs/reference/boolean.md; a leaf over something that a
record does not say is false, and NOT is the exact complement.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from outrider.boolean.document import Document, Readable, normal_doi, read_texts
from outrider.boolean.field_values import is_author, whole, whole_value
from outrider.boolean.occurrences import Matcher, find_occurrences, make_matchers, make_phrase_pattern
from outrider.state.boolean import WORD_FIELDS, And, Dates, Everything, Field, Heading, Node, Not, Or, Pattern, Text, Words
from outrider.text.languages_and_work_types import normal_language

Test = Callable[[Document], bool]
MANY = 24
"""Words of one OR from which on a text is cut into its words rather than searched for each of them."""


@dataclass(slots=True)
class Evaluator:
    """A tree, ready to be asked."""

    tree: Node
    _test: Test = field(init=False)

    def __post_init__(self) -> None:
        self._test = _compiled(self.tree, {})

    def matches(self, record: Readable | Document) -> bool:
        """A `Document` keeps its words: make one of a record that several trees are asked of."""
        return self._test(record if isinstance(record, Document) else Document(record))


def matches(tree: Node, record: Readable | Document) -> bool:
    """Whether the record is one that the tree asks for. For many records, make an `Evaluator` once."""
    return Evaluator(tree).matches(record)


def _compiled(node: Node, known: dict[int, Test]) -> Test:
    """The node's test; a part that stands at several places is compiled once."""
    if id(node) not in known:
        known[id(node)] = _made(node, known)
    return known[id(node)]


def _made(node: Node, known: dict[int, Test]) -> Test:
    match node:
        case And(parts):
            every = [_compiled(part, known) for part in parts]
            return lambda document: all(test(document) for test in every)
        case Or(parts):
            return _any(parts, known)
        case Not(part):
            test = _compiled(part, known)
            return lambda document: not test(document)
        case Text(pattern, fields):
            return _text(pattern, fields)
        case Heading():
            return _heading(node)
        case Dates(start, end):
            return _dates(start, end)
        case Everything():
            return lambda _: True


def _any(parts: Sequence[Node], known: dict[int, Test]) -> Test:
    """Plain words of the same fields are looked up together: a long OR costs little more than one word."""
    plain: dict[tuple[Field, ...], set[str]] = {}
    others: list[Test] = []
    for part in parts:
        word = _plain_word(part)
        if word is not None and isinstance(part, Text):
            plain.setdefault(part.fields, set()).add(word)
        else:
            others.append(_compiled(part, known))
    tests = [*(_one_of(words, fields) for fields, words in plain.items()), *others]
    return lambda document: any(test(document) for test in tests)


def _plain_word(node: Node) -> str | None:
    """The single word of the index that a leaf asks for, where it asks for no more."""
    if isinstance(node, Text) and isinstance(node.pattern, Words) and WORD_FIELDS.issuperset(node.fields):
        asked = [matcher for word in node.pattern.words for matcher in make_matchers(word)]
        if len(asked) == 1 and isinstance(asked[0], str):
            return asked[0]
    return None


def _one_of(words: set[str], fields: tuple[Field, ...]) -> Test:
    if len(words) > MANY:
        return lambda document: any(not words.isdisjoint(document.column(name).words) for name in fields)
    between_blanks = [f" {word} " for word in sorted(words)]

    def holds(document: Document) -> bool:
        for name in fields:
            said = document.column(name).text
            for word in between_blanks:
                if word in said:
                    return True
        return False

    return holds


def _text(pattern: Pattern, fields: tuple[Field, ...]) -> Test:
    tests = [_in_words(pattern, name) if name in WORD_FIELDS else _in_value(pattern, name) for name in fields]
    return tests[0] if len(tests) == 1 else lambda document: any(test(document) for test in tests)


def _in_words(pattern: Pattern, name: Field) -> Test:
    if isinstance(pattern, Words):
        return _together([matcher for word in pattern.words for matcher in make_matchers(word)], name)
    return lambda document: next(find_occurrences(pattern, document.column(name)), None) is not None


def _together(asked: Sequence[Matcher], name: Field) -> Test:
    """Plain words are looked for first: that is fast, and mostly decides."""
    plain = sorted({f" {one} " for one in asked if isinstance(one, str)}, key=lambda word: (-len(word), word))
    if len(asked) == len(plain) == 1:
        (word,) = plain
        return lambda document: word in document.column(name).text
    pattern = make_phrase_pattern(asked)

    def holds(document: Document) -> bool:
        said = document.column(name).text
        return all(word in said for word in plain) and pattern.search(said) is not None

    return holds


def _in_value(pattern: Pattern, name: Field) -> Test:
    """A field that is compared as a whole; a value that the record has not, or that a library has not, matches nothing."""
    if not isinstance(pattern, Words):
        return lambda _: False
    if name in (Field.AUTHOR, Field.PMID, Field.DOI):
        says = _says(pattern.words, name)
        return lambda document: any(map(says, read_texts(document.record, name)))
    whole = whole_value(pattern.words)
    language = normal_language(" ".join(pattern.words)) if name is Field.LANGUAGE else None
    if language is not None:
        return lambda document: any(normal_language(said) == language for said in read_texts(document.record, name))
    return lambda document: any(map(whole, document.values(name)))


def _says(words: tuple[str, ...], name: Field) -> Callable[[str], bool]:
    """Whether a name or a number is meant by the words."""
    if name is Field.AUTHOR:
        return lambda value: is_author(words, value)
    if name is Field.PMID:
        numbers = {word.lstrip("0") for word in words}
        return lambda value: value.lstrip("0") in numbers
    parts = normal_doi(" ".join(words)).split("*")
    asked = re.compile(".*".join(map(re.escape, parts)), re.DOTALL)
    return lambda value: asked.fullmatch(normal_doi(value)) is not None


def _heading(heading: Heading) -> Test:
    name = whole_value(heading.name.split()) if heading.name else None
    qualifier = whole(_qualifier_matchers(heading.qualifier), open_end=heading.qualifier.endswith("*")) if heading.qualifier else None
    return lambda document: any(
        (name is None or name(said)) and (qualifier is None or any(map(qualifier, qualifiers))) for said, qualifiers in document.headings()
    )


def _qualifier_matchers(said: str) -> list[Matcher]:
    return [matcher for word in said.split() for matcher in make_matchers(word) if matcher != "and"]


def _dates(start: str | None, end: str | None) -> Test:
    first = int(start[:4]) if start else None
    last = int(end[:4]) if end else None

    def within(document: Document) -> bool:
        year = document.record.year
        return year is not None and (first is None or year >= first) and (last is None or year <= last)

    return within
