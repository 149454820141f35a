"""A search for repositories in GitHub's own syntax.

Documentation: docs.github.com/rest/search/search ("Constructing a search query"), and on searching: "Searching for repositories" and
"Understanding the search syntax". Words are looked for in names, descriptions and topics, and all of them must be there; a query holds at
most 256 characters of words and five operators (AND, OR, NOT). Brackets are nowhere promised for repositories, and are not used: whether
`a b OR c` is read as `(a b) OR c` or as `a (b OR c)`, it finds all that `a b` finds. Forks are left out by GitHub itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from outrider.sources.wording import parted_words, said_by, telling
from outrider.state.intent import NumberRange
from outrider.state.ports import EXPANDED, SourceQuery

MOST_CHARS, MOST_OPERATORS = 256, 5
MOST_WORDS, PLAIN_WORDS = 4, 3
"""A name, a line of description and some topics hardly hold more words of a request."""
WORD = re.compile(r"[^\s\x00-\x1f\x7f\"“”„:()\[\]{}<>=*,;!?|~^\\]+")
"""What GitHub would not read as syntax."""
OPERATORS = frozenset({"AND", "OR", "NOT"})


def question(query: SourceQuery, *, plain: bool = False) -> str:
    """The parameter `q`; empty where there is no word to look for. `plain` asks for less: three words, without language and topic."""
    words = _fitting(telling(_words(said_by(query))), PLAIN_WORDS if plain else MOST_WORDS)
    if not words:
        return ""
    asked = " ".join(words)
    if query.strategy == EXPANDED:
        asked = " OR ".join((asked, *_fitting(_others(query.widened, words), MOST_OPERATORS, MOST_CHARS - len(asked))))
    return " ".join((asked, *_wishes(query, plain=plain), *_bounds(query)))


def _words(terms: Iterable[str]) -> list[str]:
    """As they are written, without what would leave a word out or stand for an operator."""
    return [word.lower() if word in OPERATORS else word for word in parted_words(terms, WORD, "-", lower=False)]


def _others(terms: Iterable[str], words: Iterable[str]) -> Iterator[str]:
    """Terms that say more than `words`, those of several words in quotation marks."""
    known = {word.casefold() for word in words}
    for term in terms:
        parts = _words((term,))
        if parts and not known.issuperset(part.casefold() for part in parts):
            yield f'"{" ".join(parts)}"' if len(parts) > 1 else parts[0]


def _fitting(terms: Iterable[str], most: int, chars: int = MOST_CHARS) -> tuple[str, ...]:
    """The first `most` of those that together, a blank between two, have no more than `chars` characters."""
    kept: list[str] = []
    for term in dict.fromkeys(terms):
        if len(kept) < most and len(term) < chars:
            kept.append(term)
            chars -= len(term) + 1
    return tuple(kept)


def _wishes(query: SourceQuery, *, plain: bool) -> Iterator[str]:
    """One topic: beside the words a second one leaves next to nothing. None where a query is widened."""
    language, topics = query.repositories.language, query.repositories.topics
    if not plain and language and (parts := WORD.findall(language)):
        yield f'language:"{" ".join(parts)}"' if len(parts) > 1 else f"language:{parts[0]}"
    if not plain and topics and query.strategy != EXPANDED:
        yield f"topic:{'-'.join(_words(topics[:1])).lower()}"


def _bounds(query: SourceQuery) -> Iterator[str]:
    if stars := _stars(query.constraints.stars):
        yield f"stars:{stars}"
    if query.repositories.created_after:
        yield f"created:>={query.repositories.created_after.isoformat()}"
    yield "archived:false"


def _stars(wanted: NumberRange) -> str:
    if wanted.min is not None and wanted.max is not None:
        return f"{wanted.min}..{wanted.max}"
    return f">={wanted.min}" if wanted.min is not None else f"<={wanted.max}" if wanted.max is not None else ""
