"""Words of a query: how many are searched, and whether any carries meaning."""

from __future__ import annotations

import re
from collections.abc import Iterator

from outrider.text.words import STOP_WORDS

MAX_QUERY_TERMS = 1_024
"""Distinct words of one query that are searched; from the next new word on the rest of the text is left out."""
MAX_QUERY_CHARS = 20_000
"""Characters of one query that are searched: scripts without spaces have no word boundaries to count."""

WORD = re.compile(r"[^\W_]+")


def words(text: str) -> Iterator[str]:
    """The words of a text in order, case folded; digits count as words, `_` separates."""
    return (found.group().casefold() for found in WORD.finditer(text))


def searched(text: str) -> str:
    """What is asked of the index: the text up to `MAX_QUERY_CHARS` and `MAX_QUERY_TERMS`; empty where it holds no word.

    Repeated words stay, since their frequency weighs.
    """
    text = text[:MAX_QUERY_CHARS]
    seen: set[str] = set()
    end = 0
    for found in WORD.finditer(text):
        seen.add(found.group().casefold())
        if len(seen) > MAX_QUERY_TERMS:
            break
        end = found.end()
    return text[:end]


def only_stop_words(text: str) -> bool:
    """Whether the ranking index, which leaves stop words out, has nothing to look up."""
    return all(word in STOP_WORDS for word in words(text))
