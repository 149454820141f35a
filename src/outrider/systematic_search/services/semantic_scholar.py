"""Semantic Scholar to the last hit, by its bulk search over titles and abstracts.

Academic Graph API 1.0, `/paper/search/bulk`: `+` and, `|` or, `"phrase"`, `"near words"~N`, `begin*`, parentheses; a thousand a page, ten
million in all; `total` is an estimate. The service stems English words, also those of its index, so the stem of a matching word may be
shorter than the searched beginning. A beginning is therefore searched together with the words that have such a stem.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from urllib.parse import quote

from outrider.boolean.relax import join_any
from outrider.sources.semantic_scholar import FIELDS, NAME, PAPERS, parse_page, year_range
from outrider.state.boolean import LACKING, Field, Node
from outrider.state.errors import Forbidden, Unauthorized
from outrider.state.intent import NumberRange
from outrider.state.records import Record
from outrider.state.systematic import Harvest, MatchedPage, SentQuery
from outrider.systematic_search.services.phrase_syntax import PhraseSyntax, slop, stem
from outrider.systematic_search.services.slice_reader import Part, ServiceClient, ServicePage, Unsliced, read_slices
from outrider.systematic_search.services.translate import Condition, Filters, Term, read_years, render, translate
from outrider.systematic_search.services.verify_hits import HitVerifier, RecordView, view_without_tags

MOST = 10_000_000
MOST_BYTES = 6_000
"""Of the expression in an address."""
NOT_THERE = frozenset({Field.KEYWORDS, Field.MESH, Field.BODY, Field.PUBLICATION_TYPE, Field.LANGUAGE, *LACKING})
"""Its fields of study and types are made by machine."""
SHORTEST, LONGEST_ENDING = 4, 8
"""Letters of a beginning, and the most that a stemmer removes."""
ENDINGS = ("", "e", "y", "le")
"""Endings that make a shortened beginning a word with the same stem: `disable` has the stem of words that `disabil*` means."""
STOP_WORDS = frozenset(
    """a an and are as at be but by for if in into is it no not of on or such that the their then there these they this to was will
    with s t""".split()
)
"""Lucene's English stop words: a search for nothing else finds nothing. A lone `s` or `t` is the rest of `'s` and `n't`."""


def phrase(words: str) -> Condition | None:
    return None if STOP_WORDS.issuperset(words.split()) else Term(f'"{words}"')


def wild(piece: str) -> Condition | None:
    """The beginning of a word with wildcards, and shorter words with the same stem; None if it is too short."""
    beginning = stem(piece)
    if not (len(beginning) >= SHORTEST and beginning.isascii() and beginning.isalnum()):
        return None
    cut = range(max(SHORTEST - 1, len(beginning) - LONGEST_ENDING), len(beginning) + 1)
    words = dict.fromkeys(f"{beginning[:length]}{ending}" for length in cut for ending in ENDINGS)
    return join_any((Term(f"{beginning}*"), *(term for word in words if not word.startswith(beginning) and (term := phrase(word)))))


def near(words: tuple[str, ...], distance: int) -> Condition | None:
    return None if STOP_WORDS.issuperset(words) else Term(f'"{" ".join(words)}"~{slop(len(words), distance)}')


SYNTAX = PhraseSyntax(NAME, frozenset({Field.TITLE, Field.ABSTRACT}), NOT_THERE, phrase, wild, near=near)


@dataclass(frozen=True, slots=True)
class SemanticScholarSource:
    """A `RemoteSource`."""

    client: ServiceClient
    name: str = NAME

    def translate(self, tree: Node, text: str) -> SentQuery:
        return translate_query(tree)

    def harvest(self, tree: Node, sent_query: SentQuery, into: Harvest, after: str = "") -> AsyncIterator[MatchedPage]:
        return read_slices(_Reader(self.client, sent_query), HitVerifier(tree, view_record), into, after)


def translate_query(tree: Node) -> SentQuery:
    """An expression for the bulk search, with its years as parameters."""
    translation = translate(NAME, tree, SYNTAX.translate_leaf, make_filters)
    query = translation.shorten(lambda condition: render(condition, " + ", " | "), lambda text: len(quote(text)) <= MOST_BYTES)
    if not query:
        return translation.refuse_too_long()
    # the years that all ranges have in common; an empty range is kept, and finds nothing
    low = max((int(year) for name, year in translation.filters if name == "from" and year), default=None)
    high = min((int(year) for name, year in translation.filters if name == "to" and year), default=None)
    return translation.make_query(query, tuple(year_range(NumberRange.model_construct(min=low, max=high)).items()))


def make_filters(node: Node) -> Filters | None:
    """First and last year of dates; None for another node."""
    years = read_years(node)
    return None if years is None else (("from", str(years[0] or "")), ("to", str(years[1] or "")))


def view_record(record: Record) -> RecordView:
    """Publishers withhold many abstracts, which the service searches nevertheless."""
    return view_without_tags(record, NOT_THERE)


@dataclass(slots=True)
class _Reader(Unsliced):
    client: ServiceClient
    query: SentQuery
    name: str = NAME
    most: int | None = MOST

    async def read(self, part: Part, place: str, *, anyway: bool) -> ServicePage:
        """In the order of the service's own ids; `place` is its token."""
        params = {"query": self.query.query, **dict(self.query.parameters), "fields": FIELDS, "sort": "paperId:asc"}
        try:
            reply = await self.client.get(f"{PAPERS}/search/bulk", {**params, "token": place} if place else params)
        except Forbidden as error:
            if not self.client.service.headers:
                raise
            raise Unauthorized(f"{error}; check the key of {NAME}, or remove it to search without one") from error
        page = parse_page(await reply.decode())
        remarks = (f"{page.entries - len(page.papers)} papers without an id",) if len(page.papers) < page.entries else ()
        return ServicePage(page.papers, page.total, page.token if page.entries else "", remarks)
