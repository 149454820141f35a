"""Crossref to the last hit: one word of the title, years and DOIs.

api.crossref.org/swagger-ui of October 2026, "Works": words are ranked, not required, and there are no operators; `filter` takes dates and
DOIs. So only a single word is certain to match. Abstracts cannot be searched. A cursor has no limit, and expires after five minutes.
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
from outrider.systematic_search.services.phrase_syntax import PhraseSyntax
from outrider.systematic_search.services.semantic_scholar import STOP_WORDS
from outrider.systematic_search.services.slice_reader import CursorReader, ServiceClient, read_slices
from outrider.systematic_search.services.translate import Condition, Filters, RelaxedPart, Term, Wider, read_values, read_years, translate
from outrider.systematic_search.services.verify_hits import HitVerifier, RecordView, view_without_tags

ROWS = 500
SHORTEST = 3
MOST_VALUES = 20
TITLE = "query.title"
NOT_THERE = frozenset({Field.KEYWORDS, Field.MESH, Field.BODY, Field.PUBLICATION_TYPE, Field.LANGUAGE, *LACKING})
"""Crossref's lists have no language."""
NO_OR = Wider(f"{NAME} does not combine words; it can require only one")


def phrase(words: str) -> Condition | None:
    """The longest word of a phrase."""
    usable = [word for word in words.split() if word.isascii() and word.isalnum() and len(word) >= SHORTEST and word not in STOP_WORDS]
    return Term(max(usable, key=_by_length)) if usable else None


SYNTAX = PhraseSyntax(NAME, frozenset({Field.TITLE}), NOT_THERE, phrase, lambda piece: None)


@dataclass(frozen=True, slots=True)
class CrossrefSource:
    """A `RemoteSource`."""

    client: ServiceClient
    name: str = NAME

    def translate(self, tree: Node, text: str) -> SentQuery:
        translation = translate(NAME, tree, SYNTAX.translate_leaf, make_filters)
        words = [_find_required_word(part.condition) for _, part in translation.parts]
        translation.omitted += [(node, RelaxedPart(NO_OR)) for (node, _), word in zip(translation.parts, words, strict=True) if not word]
        translation.parts = [part for part, word in zip(translation.parts, words, strict=True) if word]
        filters = ",".join(f"{name}:{value}" for name, value in translation.filters)
        if not translation.parts and not any(name == "doi" for name, _ in translation.filters):
            return translation.refuse()
        if translation.parts:
            translation.widened.append("of the required words, one is sent")
        return translation.make_query(max(words, key=_by_length, default=""), (("filter", filters),) if filters else ())

    def harvest(self, tree: Node, sent_query: SentQuery, into: Harvest, after: str = "") -> AsyncIterator[MatchedPage]:
        words = {TITLE: sent_query.query} if sent_query.query else {}
        params: Params = {"rows": ROWS, "select": ",".join(FIELDS), **dict(sent_query.parameters), **words}
        reader = CursorReader(self.client, WORKS, params, ("message", "next-cursor"), "a DOI")
        return read_slices(reader, HitVerifier(tree, view_record), into, after)


def _by_length(word: str) -> tuple[int, str]:
    return len(word), word


def _find_required_word(condition: Condition) -> str:
    """The longest word that every match contains; empty without one."""
    match condition:
        case Term(word):
            return word
        case AllOf(parts):
            return max(map(_find_required_word, parts), key=_by_length)
    return ""


def make_filters(node: Node) -> Filters | None:
    """Crossref's filters for dates and DOIs; None for another node."""
    years = read_years(node)
    if years is not None:
        ends = zip(("from-pub-date", "until-pub-date"), years, strict=True)
        return tuple((name, f"{year:04d}") for name, year in ends if year is not None)
    dois = [normal_doi(value) for value in read_values(node, Field.DOI) or ()]
    if dois and all(dois) and len(dois) <= MOST_VALUES and not any("," in str(doi) for doi in dois):
        return tuple(("doi", str(doi)) for doi in dois)  # filters of one name are alternatives
    return None


def view_record(record: Record) -> RecordView:
    return view_without_tags(record, NOT_THERE)
