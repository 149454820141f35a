"""Plan of a Boolean tree: index queries and SQL that lose no match, and running them.

A leaf becomes a necessary condition: the words that every matching text holds, in its columns. AND and OR join such conditions; NOT of a
leaf that is not decided exactly excludes no row. Without any condition all rows are candidates. Rows whose text the index may split into
other words than the evaluator are always candidates; the caller of the plan adds them (`schema.ODD`).

Running a plan gives the ids and addresses of all rows that may match. A part of words alone becomes one full-text query, a part of
conditions alone one SQL condition. Other parts are run one by one, and their rows are joined here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import groupby
from typing import TYPE_CHECKING, Literal, TypeAlias

from outrider.boolean.document import Document, normal_doi, qualifier_words
from outrider.boolean.evaluator import Evaluator
from outrider.boolean.field_values import MOST_INITIALS
from outrider.boolean.occurrences import Matcher, make_matchers
from outrider.boolean.relax import AllOf, AnyOf, flatten, join_all, join_any, relax
from outrider.library.filter_sql import in_list, literal
from outrider.library.schema import EXACT_FIELDS, OTHER, TAGS, is_irregular
from outrider.library.text_search import ALL_ROWS, any_query, match_query, phrase_query
from outrider.state.boolean import LACKING, Dates, Either, Everything, Field, Heading, Leaf, Near, Node, Pattern, Text, Words, children
from outrider.state.records import Paper
from outrider.text.words import UNSEGMENTED, separate_words, tokens

if TYPE_CHECKING:
    import pyarrow as pa
    from lancedb.query import FullTextQuery
    from lancedb.table import AsyncTable


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
    """Rows with a word that the pattern matches as a whole; the dictionary lists these words."""

    column: str
    pattern: re.Pattern[str]


@dataclass(frozen=True, slots=True)
class Where:
    """Rows for which the condition holds. A `weak` one excludes so few that it is used only where there is no other."""

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
"""Columns that hold the words of a field; those of all other fields are in `OTHER`."""
MOST_LANGUAGES = 200
"""Different languages in a library; with more, every row that names one is a candidate."""


def make_plan(tree: Node, languages: Sequence[str] = ()) -> Plan:
    """`languages` are those of the records, where the tree names one (`names_language`)."""
    return relax(tree, _Planner(languages))


def names_language(tree: Node) -> bool:
    """Whether a leaf of the tree compares the language."""
    return (isinstance(tree, Text) and Field.LANGUAGE in tree.fields) or any(map(names_language, children(tree)))


@dataclass(frozen=True, slots=True)
class _Planner:
    """The `Relaxation` to plans."""

    languages: Sequence[str]

    def leaf(self, leaf: Leaf) -> Plan:
        match leaf:
            case Everything():
                return EVERY
            case Dates():
                return Where(_build_year_condition(leaf))
            case Text(pattern, fields):
                return either([self._plan_field(pattern, field) for field in fields])
            case Heading():
                name = [matcher for word in leaf.name.split() for matcher in make_matchers(word)]
                qualifier = [matcher for word in leaf.qualifier.split() for matcher in make_matchers(word)]
                significant = [matcher for matcher in qualifier if not isinstance(matcher, str) or qualifier_words(matcher)]
                return either(
                    [
                        every([_plan_adjacent(name, column), *(plan_word(matcher, column) for matcher in significant)])
                        for column in (KEYWORDS, OTHER)
                    ]
                )

    def negate(self, part: Node) -> Plan:
        """Only leaves that are decided exactly exclude rows."""
        match part:
            case Everything():
                return NOTHING
            case Dates():
                return Where(f"({_build_year_condition(part)}) IS NOT TRUE")
            case Text(_, (Field.LANGUAGE,)) if len(self.languages) <= MOST_LANGUAGES:
                return Where(f"({self._build_language_condition(part)}) IS NOT TRUE")
        return EVERY

    def moves_not_inward(self, part: Node) -> bool:
        return True

    def every(self, parts: Sequence[tuple[Node, Plan]]) -> Plan:
        return every(plan for _, plan in parts)

    def either(self, parts: Sequence[tuple[Node, Plan]]) -> Plan:
        return either(plan for _, plan in parts)

    def _plan_field(self, pattern: Pattern, field: Field) -> Plan:
        if field in LACKING:
            return NOTHING
        if field is Field.LANGUAGE:
            return Where(self._build_language_condition(Text(pattern, (field,)))) if len(self.languages) <= MOST_LANGUAGES else EVERY
        if field in (Field.AUTHOR, Field.PMID, Field.DOI):
            return _plan_identity(pattern, field)
        return either([_plan_pattern(pattern, column) for column in COLUMNS.get(field, (OTHER,))])

    def _build_language_condition(self, leaf: Text) -> str:
        """Decided exactly: the evaluator compares each language of the library."""
        evaluator = Evaluator(leaf)
        return in_list("language", [name for name in self.languages if evaluator.matches(Document(Paper(doc_id="", language=name)))])


def every(parts: Iterable[Plan]) -> Plan:
    """Rows that fit all parts."""
    flat = flatten(parts, AllOf)
    if NOTHING in flat:
        return NOTHING
    return join_all([part for part in flat if not (isinstance(part, Where) and part.weak)] or flat)


def either(parts: Iterable[Plan]) -> Plan:
    """Rows that fit any part."""
    flat = flatten(parts, AnyOf)
    return EVERY if EVERY in flat else join_any(flat)


def is_findable(word: str) -> bool:
    """Whether the index finds this word of the evaluator in every regular text that holds it."""
    return (word.isascii() or not (is_irregular(word) or UNSEGMENTED.search(word))) and tokens(word) == [word]


def not_ascii(column: str) -> Where:
    """Rows whose text may hold a word that is not ASCII."""
    return Where(f"regexp_like({column}, '[^\\x00-\\x7F]')", weak=True)


def _build_year_condition(dates: Dates) -> str:
    limits = [f"year >= {int(dates.start[:4])}"] if dates.start else []
    limits += [f"year <= {int(dates.end[:4])}"] if dates.end else []
    return " AND ".join(limits) or "year IS NOT NULL"


def _plan_pattern(pattern: Pattern, column: str) -> Plan:
    match pattern:
        case Words(words):
            return _plan_adjacent([matcher for word in words for matcher in make_matchers(word)], column)
        case Either(parts):
            return either([_plan_pattern(part, column) for part in parts])
        case Near(parts):
            return every([_plan_pattern(part, column) for part in parts])


def _plan_adjacent(words: Sequence[Matcher], column: str) -> Plan:
    """Rows that hold these words next to each other. A run of words that the index knows as they are is a phrase."""
    parts: list[Plan] = []
    for is_known, run in groupby(words, key=lambda word: isinstance(word, str) and is_findable(word)):
        matchers_ = list(run)
        if is_known:
            known = tuple(word for word in matchers_ if isinstance(word, str))
            parts.append(Phrase(column, known) if len(known) > 1 else Match(column, known))
        else:
            parts += [plan_word(word, column) for word in matchers_]
    return every(parts)


def plan_word(word: Matcher, column: str) -> Plan:
    """Rows that hold one word of the evaluator in the column, or one that its pattern matches."""
    if not isinstance(word, str):
        return Wild(column, word)
    if is_findable(word):
        return Match(column, (word,))
    if len(word) == 1 and UNSEGMENTED.match(word):
        return Where(f"contains({column}, {literal(word)})")
    return not_ascii(column)


def _plan_identity(pattern: Pattern, field: Field) -> Plan:
    """Rows with the words of an author, a PMID or a DOI, in any order. `OTHER` holds them in the forms that the evaluator compares."""
    if not isinstance(pattern, Words):
        return NOTHING
    match field:
        case Field.AUTHOR:
            *before, last = [matcher for word in pattern.words for matcher in make_matchers(word)] or [""]
            plans = [plan_word(matcher, OTHER) for matcher in before]
            if isinstance(last, str) and 1 < len(last) <= MOST_INITIALS and before:
                # initials stand apart in `Smith J.A.`, whatever forms were stored with it
                return every([*plans, either([plan_word(last, OTHER), every([plan_word(letter, OTHER) for letter in last])])])
            return every([*plans, plan_word(last, OTHER)] if last else plans)
        case Field.PMID:
            return either(
                [every([plan_word(token, OTHER) for token in separate_words(word.lstrip("0")).split()]) for word in pattern.words]
            )
    # A DOI, compared without folding: words that a `*` may continue are left out.
    first, *rest = (separate_words(part).split() for part in normal_doi(" ".join(pattern.words)).split("*"))
    words = first
    if rest:
        words = words[:-1] + [word for part in rest[:-1] for word in part[1:-1]] + rest[-1][1:]
    return every([plan_word(word, OTHER) for word in words])


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
