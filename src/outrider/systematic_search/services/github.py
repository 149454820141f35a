"""GitHub's repositories to the last hit: words of name, description and topics, sliced by when a repository was made.

docs.github.com, "Searching for repositories", "Understanding the search syntax", "Troubleshooting search queries": words and quoted phrases
must all be there; at most 256 characters and five operators; brackets are promised nowhere, nor is a truncation. 1,000 results a query,
whatever the page; `created:` takes moments to the second. Forks are left out unless asked for.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from outrider.boolean.relax import AllOf, AnyOf
from outrider.sources.github.parse import NAME, found_in, refusal_in
from outrider.sources.github.repository import JSON
from outrider.sources.github.search import REFUSED
from outrider.sources.http.client import Params
from outrider.state.boolean import Field, Node
from outrider.state.errors import SourceUnavailable
from outrider.state.records import Record
from outrider.state.systematic import Harvest, MatchedPage, SentQuery
from outrider.systematic_search.services.client import Asker
from outrider.systematic_search.services.phrase_syntax import Speech
from outrider.systematic_search.services.relax import Bound, Bounded, Term, Wider
from outrider.systematic_search.services.slice_reader import Came, Part, harvested
from outrider.systematic_search.services.translate import Conjunct, Translated, translated
from outrider.systematic_search.services.verify_hits import Judge, Sight

MOST = 1_000
PAGE = 100
MOST_CHARS, MOST_OPERATORS = 256, 5
SLICED = len(" created:2026-01-01T00:00:00Z..2026-01-01T00:00:00Z")
FORKS = "fork:true"
FIRST = int(datetime(2007, 10, 1, tzinfo=UTC).timestamp())
"""Before the first repository."""
SEARCHED = frozenset({Field.TITLE, Field.ABSTRACT, Field.KEYWORDS, Field.ALL})
NOT_THERE = frozenset(Field) - SEARCHED
"""A README is not read by a search, and languages are those of programs."""
ACCEPTED = frozenset({200, REFUSED})
_OPERATORS = frozenset({"and", "or", "not"})


def phrase(words: str) -> Bound:
    return Term(words if words.isalnum() and words not in _OPERATORS else f'"{words}"')


SPEECH = Speech(NAME, SEARCHED, NOT_THERE, phrase, lambda piece: None, dated=False)
NOT_JOINED = Wider(f"{NAME} joins neither alternatives with other words nor more than {MOST_OPERATORS + 1} of them")


@dataclass(frozen=True, slots=True)
class GithubWorld:
    """A `WorldSource`."""

    asker: Asker
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    name: str = NAME

    def translate(self, tree: Node, text: str) -> SentQuery:
        made = translated(NAME, tree, SPEECH.leaf, lambda node: None)
        words = _words(made)
        query = _fitting(words) if words else _alternatives(made)
        return made.sent(f"{query} {FORKS}") if query else made.refused()

    def harvest(self, tree: Node, sent: SentQuery, into: Harvest, after: str = "") -> AsyncIterator[MatchedPage]:
        return harvested(_Reader(self.asker, sent, int(self.now().timestamp())), Judge(tree, look), into, after)


def _words(made: Translated) -> list[str]:
    """What every match holds; what else is asked for is left out then."""
    said = {place: words for place, (_, one) in enumerate(made.parts) if (words := _all(one.bound))}
    if said:
        _leave(made, [part for place, part in enumerate(made.parts) if place not in said])
    return list(dict.fromkeys(word for words in said.values() for word in words))


def _all(bound: Bound) -> tuple[str, ...]:
    match bound:
        case Term(text):
            return (text,)
        case AllOf(parts):
            return tuple(word for part in parts for word in _all(part))
    return ()


def _fitting(words: list[str]) -> str:
    """As many as there is room for, longest first: fewer find more."""
    kept: list[str] = []
    for word in sorted(words, key=lambda word: (-len(word), word)):
        if _fits(" ".join([*kept, word])):
            kept.append(word)
    return " ".join(word for word in words if word in kept)


def _alternatives(made: Translated) -> str:
    """The one part that can be said, of several the one with the fewest; the others are left out."""
    said = [(part, query) for part in made.parts if (query := _any(part[1].bound))]
    if not said:
        _leave(made, list(made.parts))
        return ""
    kept, query = min(said, key=lambda one: (one[1].count(" OR "), len(one[1])))
    _leave(made, [part for part in made.parts if part is not kept])
    return query


def _any(bound: Bound) -> str:
    if not isinstance(bound, AnyOf) or len(bound.parts) > MOST_OPERATORS + 1:
        return ""
    words = [_all(part) for part in bound.parts]
    said = " OR ".join(max(one, key=lambda word: (len(word), word)) for one in words) if all(words) else ""
    return said if said and _fits(said) else ""


def _fits(query: str) -> bool:
    return len(query) + len(FORKS) + 1 + SLICED <= MOST_CHARS


def _leave(made: Translated, parts: list[Conjunct]) -> None:
    made.left += [(node, Bounded(NOT_JOINED)) for node, _ in parts]
    made.parts = [part for part in made.parts if part not in parts]


def look(record: Record) -> Sight:
    """By its own name, without its owner's, which is not looked into."""
    own = record.model_copy(update={"title": record.title.rpartition("/")[2], "language": None})
    return Sight(own, frozenset(), NOT_THERE, headings=False, dates=False)


@dataclass(slots=True)
class _Reader:
    asker: Asker
    sent: SentQuery
    now: int
    name: str = NAME
    most: int | None = MOST

    async def read(self, part: Part, place: str, *, anyway: bool) -> Came:
        """`place` is the number of the page."""
        number = int(place or 1)
        query = self.sent.query if part is None else f"{self.sent.query} created:{_moment(part[0])}..{_moment(part[1])}"
        params: Params = {"q": query, "per_page": PAGE, "page": number, "sort": "stars", "order": "asc"}
        reply = await self.asker.get("/search/repositories", params, JSON, ACCEPTED)
        if reply.status == REFUSED:
            raise SourceUnavailable(f"{NAME} did not accept {reply.url}: {refusal_in(reply)}")
        found = found_in(reply)
        remarks = ["GitHub ran out of time before it had searched everything"] if found.incomplete else []
        remarks += [f"{found.nameless} repositories without a name"] if found.nameless else []
        more = number * PAGE < min(found.total or 0, MOST) and found.records
        return Came(found.records, found.total, str(number + 1) if more else "", tuple(remarks))

    def halves(self, part: Part) -> tuple[Part, Part] | None:
        first, last = part or (FIRST, max(self.now, FIRST) + 86_400)
        if first >= last:
            return None
        middle = (first + last) // 2
        return (first, middle), (middle + 1, last)

    def label(self, part: Part) -> str:
        return "all" if part is None else f"created {_moment(part[0])} to {_moment(part[1])}"


def _moment(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
