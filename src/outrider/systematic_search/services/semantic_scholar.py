"""Semantic Scholar to the last hit: its bulk search over titles and abstracts, led on by a token.

Academic Graph API 1.0, `/paper/search/bulk`: `+` and, `|` or, `"phrase"`, `"near words"~N`, `begin*`, parentheses; a thousand a page, ten
million in all; `total` is an estimate. All words are stemmed in English, also those of the index: a word that begins as asked may stand
there shorter than what was asked. A beginning is therefore asked for together with the words that it may have been cut to.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from urllib.parse import quote

from outrider.boolean.relax import any_of
from outrider.sources.semantic_scholar import FIELDS, NAME, PAPERS, page_of, year_range
from outrider.state.boolean import LACKING, Field, Node
from outrider.state.errors import Forbidden, Unauthorized
from outrider.state.intent import NumberRange
from outrider.state.records import Record
from outrider.state.systematic import Harvest, MatchedPage, SentQuery
from outrider.systematic_search.services.client import Asker
from outrider.systematic_search.services.phrase_syntax import Speech, slop, stem
from outrider.systematic_search.services.relax import Bound, Term
from outrider.systematic_search.services.slice_reader import Came, Part, Unsliced, harvested
from outrider.systematic_search.services.translate import Filters, rendered, translated, years_of
from outrider.systematic_search.services.verify_hits import Judge, Sight, seen_without_tags

MOST = 10_000_000
MOST_BYTES = 6_000
"""Of the expression as it stands in an address."""
NOT_THERE = frozenset({Field.KEYWORDS, Field.MESH, Field.BODY, Field.PUBLICATION_TYPE, Field.LANGUAGE, *LACKING})
"""Its fields of study and types are made by machine."""
SHORTEST, LONGEST_ENDING = 4, 8
"""Letters of a beginning, and how many of them a stemmer may have cut off."""
ENDINGS = ("", "e", "y", "le")
"""What makes a cut beginning a word again that is stemmed alike: `disabil*`, and `disable`, which is cut to the same."""
STOPPED = frozenset(
    """a an and are as at be but by for if in into is it no not of on or such that the their then there these they this to was will
    with s t""".split()
)
"""Lucene's English stop words: whoever asks for nothing else gets nothing. A lone `s` or `t` is what is left of `'s` and `n't`."""


def phrase(words: str) -> Bound | None:
    return None if STOPPED.issuperset(words.split()) else Term(f'"{words}"')


def wild(piece: str) -> Bound | None:
    beginning = stem(piece)
    if not (len(beginning) >= SHORTEST and beginning.isascii() and beginning.isalnum()):
        return None
    cut = range(max(SHORTEST - 1, len(beginning) - LONGEST_ENDING), len(beginning) + 1)
    whole = dict.fromkeys(f"{beginning[:length]}{ending}" for length in cut for ending in ENDINGS)
    return any_of((Term(f"{beginning}*"), *(bound for word in whole if not word.startswith(beginning) and (bound := phrase(word)))))


def near(words: tuple[str, ...], distance: int) -> Bound | None:
    return None if STOPPED.issuperset(words) else Term(f'"{" ".join(words)}"~{slop(len(words), distance)}')


SPEECH = Speech(NAME, frozenset({Field.TITLE, Field.ABSTRACT}), NOT_THERE, phrase, wild, near=near)


@dataclass(frozen=True, slots=True)
class SemanticScholarWorld:
    """A `WorldSource`."""

    asker: Asker
    name: str = NAME

    def translate(self, tree: Node, text: str) -> SentQuery:
        made = translated(NAME, tree, SPEECH.leaf, filters_of)
        query = made.shortened(lambda bound: rendered(bound, " + ", " | "), lambda said: len(quote(said)) <= MOST_BYTES)
        if not query:
            return made.refused_as_too_long()
        return made.sent(query, _one_range(made.filters))

    def harvest(self, tree: Node, sent: SentQuery, into: Harvest, after: str = "") -> AsyncIterator[MatchedPage]:
        return harvested(_Reader(self.asker, sent), Judge(tree, look), into, after)


def filters_of(node: Node) -> Filters | None:
    years = years_of(node)
    return None if years is None else (("from", str(years[0] or "")), ("to", str(years[1] or "")))


def _one_range(filters: list[tuple[str, str]]) -> Filters:
    """Of several ranges what all of them hold. One that ends before it begins stays so: it finds nothing, as it should."""
    low = max((int(year) for name, year in filters if name == "from" and year), default=None)
    high = min((int(year) for name, year in filters if name == "to" and year), default=None)
    return tuple(year_range(NumberRange.model_construct(min=low, max=high)).items())


def look(record: Record) -> Sight:
    """Of many papers a publisher keeps the abstract back, which is looked into all the same."""
    return seen_without_tags(record, NOT_THERE)


@dataclass(slots=True)
class _Reader(Unsliced):
    asker: Asker
    sent: SentQuery
    name: str = NAME
    most: int | None = MOST

    async def read(self, part: Part, place: str, *, anyway: bool) -> Came:
        """In order of the service's own ids; `place` is its token."""
        params = {"query": self.sent.query, **dict(self.sent.parameters), "fields": FIELDS, "sort": "paperId:asc"}
        try:
            reply = await self.asker.get(f"{PAPERS}/search/bulk", {**params, "token": place} if place else params)
        except Forbidden as error:
            if not self.asker.service.headers:
                raise
            raise Unauthorized(f"{error}; check the key of {NAME}, or take it away to ask without one") from error
        page = page_of(reply.json())
        remarks = (f"{page.seen - len(page.papers)} papers without an id",) if len(page.papers) < page.seen else ()
        return Came(page.papers, page.total, page.token if page.seen else "", remarks)
