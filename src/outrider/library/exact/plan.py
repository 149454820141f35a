"""Relaxation of a Boolean tree to queries of the exact indexes and SQL that lose no match.

A leaf becomes a necessary condition: the words that every matching text holds, in its columns. AND and OR join such conditions; NOT of a
leaf that is not decided exactly excludes no row. Without any condition all rows are candidates. Rows whose text the index may split into
other words than the evaluator does are always candidates; whoever runs the plan adds them (`other_words.ODD`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TypeAlias

from outrider.boolean.document import Document, normal_doi, qualifier_words
from outrider.boolean.evaluator import Evaluator
from outrider.boolean.occurrences import Matcher, matchers
from outrider.boolean.relax import AllOf, AnyOf, all_of, any_of, flatten, relax
from outrider.library.filter_sql import any_of as sql_any_of
from outrider.library.filter_sql import literal
from outrider.library.schema import EXACT_FIELDS, OTHER, TAGS, irregular
from outrider.state.boolean import LACKING, Dates, Either, Everything, Field, Heading, Leaf, Near, Node, Pattern, Text, Words, children
from outrider.state.records import Paper
from outrider.text.tokens import CONTINUOUS, tokens


@dataclass(frozen=True, slots=True)
class Match:
    """Rows with any of the words in the column."""

    column: str
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Phrase:
    """Rows with the words next to each other."""

    column: str
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Wild:
    """Rows with a word that the pattern matches as a whole; a dictionary says which words those are."""

    column: str
    pattern: re.Pattern[str]


@dataclass(frozen=True, slots=True)
class Where:
    """Rows for which the condition holds. A `weak` one leaves so many that it is worth asking only where nothing else is."""

    sql: str
    weak: bool = False


Plan: TypeAlias = "Match | Phrase | Wild | Where | AllOf[Plan] | AnyOf[Plan]"
EVERY: Plan = AllOf(())
NOTHING: Plan = AnyOf(())

TITLE, ABSTRACT, KEYWORDS, BODY = (EXACT_FIELDS[name] for name in ("title", "abstract", "keywords", "text"))
COLUMNS = {
    Field.TITLE: (TITLE,),
    Field.ABSTRACT: (ABSTRACT,),
    Field.KEYWORDS: (TAGS,),
    Field.MESH: (KEYWORDS,),
    Field.BODY: (BODY,),
    Field.ALL: (TITLE, ABSTRACT, KEYWORDS, BODY, OTHER),
}
"""Where the words of a field stand; those of all others in `OTHER`."""
MOST_LANGUAGES = 200
"""Different ones in a library; with more, every row that names one is a candidate."""


def planned(tree: Node, languages: Sequence[str] = ()) -> Plan:
    """`languages` are those of the records, where the tree asks for one (`asks_for_language`)."""
    return relax(tree, _Planner(languages))


def asks_for_language(tree: Node) -> bool:
    return (isinstance(tree, Text) and Field.LANGUAGE in tree.fields) or any(map(asks_for_language, children(tree)))


@dataclass(frozen=True, slots=True)
class _Planner:
    """A `Relaxation`."""

    languages: Sequence[str]

    def leaf(self, leaf: Leaf) -> Plan:
        match leaf:
            case Everything():
                return EVERY
            case Dates():
                return Where(_years(leaf))
            case Text(pattern, fields):
                return either([self._field(pattern, field) for field in fields])
            case Heading():
                return either([_heading(leaf, column) for column in (KEYWORDS, OTHER)])

    def negated(self, part: Node) -> Plan:
        """Only leaves that are decided exactly exclude rows."""
        match part:
            case Everything():
                return NOTHING
            case Dates():
                return Where(f"({_years(part)}) IS NOT TRUE")
            case Text(_, (Field.LANGUAGE,)) if len(self.languages) <= MOST_LANGUAGES:
                return Where(f"({self._language(part)}) IS NOT TRUE")
        return EVERY

    def moves_not_inward(self, part: Node) -> bool:
        return True

    def every(self, parts: Sequence[tuple[Node, Plan]]) -> Plan:
        return every(plan for _, plan in parts)

    def either(self, parts: Sequence[tuple[Node, Plan]]) -> Plan:
        return either(plan for _, plan in parts)

    def _field(self, pattern: Pattern, field: Field) -> Plan:
        if field in LACKING:
            return NOTHING
        if field is Field.LANGUAGE:
            return Where(self._language(Text(pattern, (field,)))) if len(self.languages) <= MOST_LANGUAGES else EVERY
        if field in (Field.AUTHOR, Field.PMID, Field.DOI):
            return _name(pattern, field)
        return either([_pattern(pattern, column) for column in COLUMNS.get(field, (OTHER,))])

    def _language(self, leaf: Text) -> str:
        """Decided exactly: each language that there is was asked."""
        asked = Evaluator(leaf)
        return sql_any_of("language", [said for said in self.languages if asked.matches(Document(Paper(doc_id="", language=said)))])


def every(parts: Iterable[Plan]) -> Plan:
    flat = flatten(parts, AllOf)
    if NOTHING in flat:
        return NOTHING
    return all_of([part for part in flat if not (isinstance(part, Where) and part.weak)] or flat)


def either(parts: Iterable[Plan]) -> Plan:
    flat = flatten(parts, AnyOf)
    return EVERY if EVERY in flat else any_of(flat)


def safe(word: str) -> bool:
    """Whether the index finds this word of the evaluator's in every regular text that holds it."""
    return (word.isascii() or not (irregular(word) or CONTINUOUS.search(word))) and tokens(word) == [word]


def not_ascii(column: str) -> Where:
    """Rows whose text may hold a word that is not ASCII."""
    return Where(f"regexp_like({column}, '[^\\x00-\\x7F]')", weak=True)


def _years(dates: Dates) -> str:
    ends = [f"year >= {int(dates.start[:4])}"] if dates.start else []
    ends += [f"year <= {int(dates.end[:4])}"] if dates.end else []
    return " AND ".join(ends) or "year IS NOT NULL"


def _pattern(pattern: Pattern, column: str) -> Plan:
    match pattern:
        case Words(words):
            return _next_to_each_other([matcher for word in words for matcher in matchers(word)], column)
        case Either(parts):
            return either([_pattern(part, column) for part in parts])
        case Near(parts):
            return every([_pattern(part, column) for part in parts])


def _next_to_each_other(asked: Sequence[Matcher], column: str) -> Plan:
    """A run of words that the index knows as they stand is a phrase."""
    parts: list[Plan] = []
    for known, run in groupby(asked, key=lambda one: isinstance(one, str) and safe(one)):
        words = list(run)
        parts += [_plain(words, column)] if known else [word_plan(word, column) for word in words]
    return every(parts)


def _plain(words: Sequence[Matcher], column: str) -> Plan:
    said = tuple(word for word in words if isinstance(word, str))
    return Phrase(column, said) if len(said) > 1 else Match(column, said)


def word_plan(asked: Matcher, column: str) -> Plan:
    """Rows that hold one word of the evaluator's in the column, or one that its pattern matches."""
    if not isinstance(asked, str):
        return Wild(column, asked)
    if safe(asked):
        return Match(column, (asked,))
    if len(asked) == 1 and CONTINUOUS.match(asked):
        return Where(f"contains({column}, {literal(asked)})")
    return not_ascii(column)


def _name(pattern: Pattern, field: Field) -> Plan:
    """An author, a PMID or a DOI: its words, in any order. `OTHER` holds them in the forms that the evaluator compares."""
    if not isinstance(pattern, Words):
        return NOTHING
    match field:
        case Field.AUTHOR:
            return every([word_plan(one, OTHER) for word in pattern.words for one in matchers(word)])
        case Field.PMID:
            return either([every([word_plan(one, OTHER) for one in tokens(word.lstrip("0"))]) for word in pattern.words])
    return every([word_plan(one, OTHER) for one in _whole_words(normal_doi(" ".join(pattern.words)))])


def _whole_words(doi: str) -> list[str]:
    """Without those that a `*` may go on in."""
    first, *rest = doi.split("*")
    if not rest:
        return tokens(doi)
    found = tokens(first)[:-1]
    for part in rest[:-1]:
        found += tokens(part)[1:-1]
    return found + tokens(rest[-1])[1:]


def _heading(heading: Heading, column: str) -> Plan:
    name = [matcher for word in heading.name.split() for matcher in matchers(word)]
    qualifier = [matcher for word in heading.qualifier.split() for matcher in matchers(word)]
    kept = [one for one in qualifier if not isinstance(one, str) or qualifier_words(one)]
    return every([_next_to_each_other(name, column), *(word_plan(one, column) for one in kept)])
