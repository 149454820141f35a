"""OpenAlex to the last hit: unstemmed titles and abstracts, by a cursor without a limit.

developers.openalex.org of October 2026, "Search", "Filter", "Page through results". `filter=title_and_abstract.search.exact:` holds a
Boolean expression: AND, OR, parentheses, `"phrase"`, `"near words"~N`, `gen*` behind three letters, `wom?n`; stemmed fields refuse
wildcards. Filters are joined by commas; a whole address has 4,094 bytes. A page of a search costs 0.001 USD of the day's budget.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from urllib.parse import quote

from outrider.boolean.relax import AnyOf
from outrider.linkage.identifiers import normal_doi, normal_pmid
from outrider.sources.http.client import Params
from outrider.sources.openalex import FIELDS, NAME, PER_PAGE, WORKS
from outrider.state.boolean import LACKING, Field, Node
from outrider.state.records import Record
from outrider.state.systematic import Harvest, MatchedPage, SentQuery
from outrider.systematic_search.services.phrase_syntax import PhraseSyntax, slop, stem
from outrider.systematic_search.services.slice_reader import CursorReader, ServiceClient, read_slices
from outrider.systematic_search.services.translate import Condition, Filters, Term, read_values, read_years, render, translate
from outrider.systematic_search.services.verify_hits import HitVerifier, RecordView, view_without_tags
from outrider.text.languages_and_work_types import normal_language

FIELD = "title_and_abstract.search.exact"
MOST_BYTES = 3_000
"""Of the filter in an address, which must have room for the fields, a cursor and a key, too."""
MOST_VALUES = 50
NOT_THERE = frozenset({Field.KEYWORDS, Field.MESH, Field.BODY, Field.PUBLICATION_TYPE, *LACKING})
"""Its keywords and topics are made by machine, its types differ from PubMed's, and its headings cannot be searched by name."""
CHINESE = ("zh", "zh-cn", "zh-tw")
_PREFIX = re.compile(r"[a-z0-9]{3,}\*")
_ONE = re.compile(r"[a-z0-9]+\{#\}[a-z0-9]*")
_NONE_OR_ONE = re.compile(r"([a-z0-9]+)\{\?\}([a-z0-9]*)")
_OPERATORS = frozenset({"and", "or", "not"})


def phrase(words: str) -> Condition:
    return Term(words if words.isascii() and words.isalnum() and words not in _OPERATORS else f'"{words}"')


def wild(piece: str) -> Condition | None:
    """A word with several wildcards, or with another one, is searched by its beginning."""
    if _ONE.fullmatch(piece):
        return Term(piece.replace("{#}", "?"))
    if optional := _NONE_OR_ONE.fullmatch(piece):
        return AnyOf((phrase("".join(optional.groups())), Term("?".join(optional.groups()))))
    beginning = f"{stem(piece)}*"
    return Term(beginning) if _PREFIX.fullmatch(beginning) else None


def near(words: tuple[str, ...], distance: int) -> Condition:
    return Term(f'"{" ".join(words)}"~{slop(len(words), distance)}')


SYNTAX = PhraseSyntax(NAME, frozenset({Field.TITLE, Field.ABSTRACT}), NOT_THERE, phrase, wild, near=near)


@dataclass(frozen=True, slots=True)
class OpenalexSource:
    """A `RemoteSource`."""

    client: ServiceClient
    name: str = NAME

    def translate(self, tree: Node, text: str) -> SentQuery:
        return translate_query(tree)

    def harvest(self, tree: Node, sent_query: SentQuery, into: Harvest, after: str = "") -> AsyncIterator[MatchedPage]:
        params: Params = {"filter": sent_query.query, "per_page": PER_PAGE, "select": FIELDS}
        reader = CursorReader(self.client, WORKS, params, ("meta", "next_cursor"), "an id")
        return read_slices(reader, HitVerifier(tree, view_record), into, after)


def translate_query(tree: Node) -> SentQuery:
    """The value of OpenAlex's parameter `filter`."""
    translation = translate(NAME, tree, SYNTAX.translate_leaf, make_filters)
    filters = [f"{name}:{value}" for name, value in translation.filters]
    expression = translation.shorten(
        lambda condition: render(condition, " AND ", " OR "),
        lambda text: len(quote(",".join([*filters, f"{FIELD}:{text}"]))) <= MOST_BYTES,
    )
    if not expression and (translation.widened or not filters):
        return translation.refuse_too_long()
    return translation.make_query(",".join([*filters, *([f"{FIELD}:{expression}"] if expression else [])]))


def make_filters(node: Node) -> Filters | None:
    """OpenAlex's filters for dates, languages and identifiers; None for another node."""
    years = read_years(node)
    if years is not None:
        ends = zip(("from_publication_date", "to_publication_date"), years, ("01-01", "12-31"), strict=True)
        return tuple((name, f"{year:04d}-{day}") for name, year, day in ends if year is not None)
    for name, field, normal in (
        ("language", Field.LANGUAGE, normal_language),
        ("doi", Field.DOI, normal_doi),
        ("pmid", Field.PMID, normal_pmid),
    ):
        values = [normal(value) for value in read_values(node, field) or ()]
        if values and all(values) and len(values) <= MOST_VALUES and not any(set(str(value)) & set(",|") for value in values):
            is_language = field is Field.LANGUAGE
            spellings = [spelling for value in values for spelling in (CHINESE if is_language and value == "zh" else (str(value),))]
            return ((name, "|".join(dict.fromkeys(spellings))),)
    return None


def view_record(record: Record) -> RecordView:
    view = view_without_tags(record, NOT_THERE)
    hidden = view.hidden if record.language else view.hidden | {Field.LANGUAGE}
    return view._replace(hidden=hidden, headings=bool(getattr(record, "mesh", ())))
