"""OpenAlex to the last hit: titles and abstracts without stemming, by a cursor, which has no bound.

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
from outrider.systematic_search.services.client import Asker
from outrider.systematic_search.services.phrase_syntax import Speech, slop, stem
from outrider.systematic_search.services.relax import Bound, Term
from outrider.systematic_search.services.slice_reader import CursorReader, harvested
from outrider.systematic_search.services.translate import Filters, rendered, translated, values_of, years_of
from outrider.systematic_search.services.verify_hits import Judge, Sight, seen_without_tags
from outrider.text.languages_and_work_types import normal_language

FIELD = "title_and_abstract.search.exact"
MOST_BYTES = 3_000
"""Of the filter as it stands in an address, which must hold the fields, a cursor and a key, too."""
MOST_VALUES = 50
NOT_THERE = frozenset({Field.KEYWORDS, Field.MESH, Field.BODY, Field.PUBLICATION_TYPE, *LACKING})
"""Its keywords and topics are made by machine, its types are others than PubMed's, and its headings cannot be asked for by name."""
CHINESE = ("zh", "zh-cn", "zh-tw")
_PREFIX = re.compile(r"[a-z0-9]{3,}\*")
_ONE = re.compile(r"[a-z0-9]+\{#\}[a-z0-9]*")
_NONE_OR_ONE = re.compile(r"([a-z0-9]+)\{\?\}([a-z0-9]*)")
_OPERATORS = frozenset({"and", "or", "not"})


def phrase(words: str) -> Bound:
    return Term(words if words.isascii() and words.isalnum() and words not in _OPERATORS else f'"{words}"')


def wild(piece: str) -> Bound | None:
    """What has more signs than one, or others, is asked for by its beginning."""
    if _ONE.fullmatch(piece):
        return Term(piece.replace("{#}", "?"))
    if found := _NONE_OR_ONE.fullmatch(piece):
        return AnyOf((phrase("".join(found.groups())), Term("?".join(found.groups()))))
    beginning = f"{stem(piece)}*"
    return Term(beginning) if _PREFIX.fullmatch(beginning) else None


def near(words: tuple[str, ...], distance: int) -> Bound:
    return Term(f'"{" ".join(words)}"~{slop(len(words), distance)}')


SPEECH = Speech(NAME, frozenset({Field.TITLE, Field.ABSTRACT}), NOT_THERE, phrase, wild, near=near)


@dataclass(frozen=True, slots=True)
class OpenalexWorld:
    """A `WorldSource`."""

    asker: Asker
    name: str = NAME

    def translate(self, tree: Node, text: str) -> SentQuery:
        made = translated(NAME, tree, SPEECH.leaf, filters_of)
        filters = [f"{name}:{value}" for name, value in made.filters]
        expression = made.shortened(
            lambda bound: rendered(bound, " AND ", " OR "), lambda said: len(quote(",".join([*filters, f"{FIELD}:{said}"]))) <= MOST_BYTES
        )
        if not expression and (made.widened or not filters):
            return made.refused_as_too_long()
        return made.sent(",".join([*filters, *([f"{FIELD}:{expression}"] if expression else [])]))

    def harvest(self, tree: Node, sent: SentQuery, into: Harvest, after: str = "") -> AsyncIterator[MatchedPage]:
        params: Params = {"filter": sent.query, "per_page": PER_PAGE, "select": FIELDS}
        reader = CursorReader(self.asker, WORKS, params, ("meta", "next_cursor"), "an id")
        return harvested(reader, Judge(tree, look), into, after)


def filters_of(node: Node) -> Filters | None:
    years = years_of(node)
    if years is not None:
        ends = zip(("from_publication_date", "to_publication_date"), years, ("01-01", "12-31"), strict=True)
        return tuple((name, f"{year:04d}-{day}") for name, year, day in ends if year is not None)
    for name, field, normal in (
        ("language", Field.LANGUAGE, normal_language),
        ("doi", Field.DOI, normal_doi),
        ("pmid", Field.PMID, normal_pmid),
    ):
        said = values_of(node, field)
        values = [normal(value) for value in said or ()]
        if values and all(values) and len(values) <= MOST_VALUES and not any(set(str(value)) & set(",|") for value in values):
            every = [one for value in values for one in (CHINESE if field is Field.LANGUAGE and value == "zh" else (str(value),))]
            return ((name, "|".join(dict.fromkeys(every))),)
    return None


def look(record: Record) -> Sight:
    seen = seen_without_tags(record, NOT_THERE)
    absent = seen.absent if record.language else seen.absent | {Field.LANGUAGE}
    return seen._replace(absent=absent, headings=bool(getattr(record, "mesh", ())))
