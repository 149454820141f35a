"""GitHub's repositories to the last hit, sliced by time of creation.

Words of name, description and topics match.

docs.github.com, "Searching for repositories", "Understanding the search syntax", "Troubleshooting search queries": all words and quoted
phrases must match; at most 256 characters and five operators; parentheses and truncation are not documented. 1,000 results a query,
whatever the page; `created:` takes times to the second. Forks are included on request only.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from outrider.boolean.relax import AllOf, AnyOf
from outrider.sources.github.parse import NAME, find_refusal, parse_search_page
from outrider.sources.github.repository import JSON
from outrider.sources.github.search import REFUSED
from outrider.sources.http.client import Params
from outrider.state.boolean import Field, Node
from outrider.state.errors import SourceUnavailable
from outrider.state.records import Record
from outrider.state.systematic import Harvest, MatchedPage, SentQuery
from outrider.systematic_search.services.phrase_syntax import PhraseSyntax
from outrider.systematic_search.services.slice_reader import Part, ServiceClient, ServicePage, read_slices
from outrider.systematic_search.services.translate import Condition, Conjunct, RelaxedPart, Term, Translation, Wider, translate
from outrider.systematic_search.services.verify_hits import HitVerifier, RecordView

MOST = 1_000
PAGE = 100
MOST_CHARS, MOST_OPERATORS = 256, 5
SLICE_CHARS = len(" created:2026-01-01T00:00:00Z..2026-01-01T00:00:00Z")
FORKS = "fork:true"
FIRST = int(datetime(2007, 10, 1, tzinfo=UTC).timestamp())
"""Before the first repository."""
SEARCHED = frozenset({Field.TITLE, Field.ABSTRACT, Field.KEYWORDS, Field.ALL})
NOT_THERE = frozenset(Field) - SEARCHED
"""A search does not read a README, and languages are those of programs."""
ACCEPTED = frozenset({200, REFUSED})
_OPERATORS = frozenset({"and", "or", "not"})
NOT_JOINED = Wider(f"{NAME} joins neither alternatives with other words nor more than {MOST_OPERATORS + 1} of them")


def phrase(words: str) -> Condition:
    return Term(words if words.isalnum() and words not in _OPERATORS else f'"{words}"')


SYNTAX = PhraseSyntax(NAME, SEARCHED, NOT_THERE, phrase, lambda piece: None, dated=False)


@dataclass(frozen=True, slots=True)
class GithubSource:
    """A `RemoteSource`."""

    client: ServiceClient
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    name: str = NAME

    def translate(self, tree: Node, text: str) -> SentQuery:
        return translate_query(tree, FORKS)

    def harvest(self, tree: Node, sent_query: SentQuery, into: Harvest, after: str = "") -> AsyncIterator[MatchedPage]:
        reader = _Reader(self.client, sent_query, int(self.now().timestamp()))
        return read_slices(reader, HitVerifier(tree, view_record), into, after)


def translate_query(tree: Node, qualifiers: str = "") -> SentQuery:
    """The words that GitHub can join, then the qualifiers."""
    translation = translate(NAME, tree, SYNTAX.translate_leaf, lambda node: None)
    query = _join_required_words(translation)
    query = _join_alternatives(translation) if query is None else query
    return translation.make_query(f"{query} {qualifiers}".rstrip()) if query else translation.refuse()


def _join_required_words(translation: Translation) -> str | None:
    """The words that every match contains, as many as fit, longest first; fewer words find more. None without such words."""
    words = list(dict.fromkeys(word for _, part in translation.parts for word in _list_words(part.condition)))
    if not words:
        return None
    _leave_out(translation, [part for part in translation.parts if not _list_words(part[1].condition)])
    chosen: list[str] = []
    for word in sorted(words, key=lambda word: (-len(word), word)):
        if _fits(" ".join([*chosen, word])):
            chosen.append(word)
    return " ".join(word for word in words if word in chosen)


def _list_words(condition: Condition) -> tuple[str, ...]:
    """The words of a condition without alternatives; else none."""
    match condition:
        case Term(text):
            return (text,)
        case AllOf(parts):
            return tuple(word for part in parts for word in _list_words(part))
    return ()


def _join_alternatives(translation: Translation) -> str:
    """The part with the fewest alternatives, one word of each joined by OR; the other parts are left out. Empty if no part is possible."""
    queries: list[tuple[Conjunct, str]] = []
    for part in translation.parts:
        condition = part[1].condition
        words = [_list_words(alternative) for alternative in condition.parts] if isinstance(condition, AnyOf) else []
        if all(words) and 0 < len(words) <= MOST_OPERATORS + 1:
            query = " OR ".join(max(alternative, key=lambda word: (len(word), word)) for alternative in words)
            if _fits(query):
                queries.append((part, query))
    if not queries:
        _leave_out(translation, translation.parts)
        return ""
    chosen, query = min(queries, key=lambda pair: (pair[1].count(" OR "), len(pair[1])))
    _leave_out(translation, [part for part in translation.parts if part is not chosen])
    return query


def _fits(query: str) -> bool:
    return len(query) + len(FORKS) + 1 + SLICE_CHARS <= MOST_CHARS


def _leave_out(translation: Translation, parts: list[Conjunct]) -> None:
    translation.omitted += [(node, RelaxedPart(NOT_JOINED)) for node, _ in parts]
    translation.parts = [part for part in translation.parts if part not in parts]


def view_record(record: Record) -> RecordView:
    """The repository's own name, without its owner's, which GitHub does not search."""
    own = record.model_copy(update={"title": record.title.rpartition("/")[2], "language": None})
    return RecordView(own, frozenset(), NOT_THERE, headings=False, dates=False)


@dataclass(slots=True)
class _Reader:
    client: ServiceClient
    query: SentQuery
    now: int
    name: str = NAME
    most: int | None = MOST

    async def read(self, part: Part, place: str, *, anyway: bool) -> ServicePage:
        """`place` is the number of the page."""
        number = int(place or 1)
        query = self.query.query if part is None else f"{self.query.query} created:{_format_moment(part[0])}..{_format_moment(part[1])}"
        params: Params = {"q": query, "per_page": PAGE, "page": number, "sort": "stars", "order": "asc"}
        reply = await self.client.get("/search/repositories", params, JSON, ACCEPTED)
        if reply.status == REFUSED:
            raise SourceUnavailable(f"{NAME} did not accept {reply.url}: {find_refusal(reply)}")
        await reply.decode()
        page = parse_search_page(reply)
        remarks = ["GitHub ran out of time before it had searched everything"] if page.incomplete else []
        remarks += [f"{page.nameless} repositories without a name"] if page.nameless else []
        has_more = number * PAGE < min(page.total or 0, MOST) and page.records
        return ServicePage(page.records, page.total, str(number + 1) if has_more else "", tuple(remarks))

    def halves(self, part: Part) -> tuple[Part, Part] | None:
        first, last = part or (FIRST, max(self.now, FIRST) + 86_400)
        if first >= last:
            return None
        middle = (first + last) // 2
        return (first, middle), (middle + 1, last)

    def label(self, part: Part) -> str:
        return "all" if part is None else f"created {_format_moment(part[0])} to {_format_moment(part[1])}"


def _format_moment(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
