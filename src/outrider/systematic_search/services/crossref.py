"""Crossref to the last hit, as far as its language goes: works with one word in the title, of some years, or with certain DOIs.

api.crossref.org/swagger-ui of October 2026, "Works": words are ranked, not required, and nothing joins them; `filter` takes dates and DOIs.
What is sure is a single word. Abstracts cannot be asked for. A cursor reads on without a bound, and is forgotten after five minutes.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

from outrider.boolean.relax import AllOf
from outrider.linkage.identifiers import normal_doi
from outrider.sources.crossref import FIELDS, NAME, WORKS
from outrider.sources.http.client import Params
from outrider.state.boolean import LACKING, Field, Node
from outrider.state.records import Record
from outrider.state.systematic import Harvest, MatchedPage, SentQuery
from outrider.systematic_search.services.client import Asker
from outrider.systematic_search.services.phrase_syntax import Speech
from outrider.systematic_search.services.relax import Bound, Bounded, Term, Wider
from outrider.systematic_search.services.semantic_scholar import STOPPED
from outrider.systematic_search.services.slice_reader import CursorReader, harvested
from outrider.systematic_search.services.translate import Filters, translated, values_of, years_of
from outrider.systematic_search.services.verify_hits import Judge, Sight, seen_without_tags

ROWS = 500
SHORTEST = 3
MOST_VALUES = 20
TITLE = "query.title"
NOT_THERE = frozenset({Field.KEYWORDS, Field.MESH, Field.BODY, Field.PUBLICATION_TYPE, Field.LANGUAGE, *LACKING})
"""Lists tell no language."""


def phrase(words: str) -> Bound | None:
    """Its longest word."""
    telling = [word for word in words.split() if word.isascii() and word.isalnum() and len(word) >= SHORTEST and word not in STOPPED]
    return Term(max(telling, key=_length)) if telling else None


NO_OR = Wider(f"{NAME} does not join words; it can be asked for one that must be there")
SPEECH = Speech(NAME, frozenset({Field.TITLE}), NOT_THERE, phrase, lambda piece: None)


@dataclass(frozen=True, slots=True)
class CrossrefWorld:
    """A `WorldSource`."""

    asker: Asker
    name: str = NAME

    def translate(self, tree: Node, text: str) -> SentQuery:
        made = translated(NAME, tree, SPEECH.leaf, filters_of)
        words = {place: word for place, (_, one) in enumerate(made.parts) if (word := _word(one.bound))}
        made.left += [(node, Bounded(NO_OR)) for place, (node, _) in enumerate(made.parts) if place not in words]
        made.parts = [part for place, part in enumerate(made.parts) if place in words]
        filters = ",".join(f"{name}:{value}" for name, value in made.filters)
        if not words and not any(name == "doi" for name, _ in made.filters):
            return made.refused()
        if words:
            made.widened.append("of the words that must be there, one is asked for")
        return made.sent(max(words.values(), key=_length, default=""), (("filter", filters),) if filters else ())

    def harvest(self, tree: Node, sent: SentQuery, into: Harvest, after: str = "") -> AsyncIterator[MatchedPage]:
        words = {TITLE: sent.query} if sent.query else {}
        params: Params = {"rows": ROWS, "select": ",".join(FIELDS), **dict(sent.parameters), **words}
        reader = CursorReader(self.asker, WORKS, params, ("message", "next-cursor"), "a DOI")
        return harvested(reader, Judge(tree, look), into, after)


def _length(word: str) -> tuple[int, str]:
    return len(word), word


def _word(bound: Bound) -> str:
    """One that every match holds."""
    match bound:
        case Term(word):
            return word
        case AllOf(parts):
            return max(map(_word, parts), key=_length)
    return ""


def filters_of(node: Node) -> Filters | None:
    years = years_of(node)
    if years is not None:
        ends = zip(("from-pub-date", "until-pub-date"), years, strict=True)
        return tuple((name, f"{year:04d}") for name, year in ends if year is not None)
    said = [normal_doi(value) for value in values_of(node, Field.DOI) or ()]
    if said and all(said) and len(said) <= MOST_VALUES and not any("," in str(doi) for doi in said):
        return tuple(("doi", str(doi)) for doi in said)  # of one name, any of the values
    return None


def look(record: Record) -> Sight:
    return seen_without_tags(record, NOT_THERE)
