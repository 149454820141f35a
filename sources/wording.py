"""The words of a request as a service takes them. Each service parts and counts them in its own way; which words tell is one rule."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from outrider.state.ports import SourceQuery
from outrider.text.words import STOP_WORDS, WORD


def said_by(query: SourceQuery) -> tuple[str, ...]:
    """What a service that looks for every word is asked for: the keywords, else the text."""
    return query.keywords or (query.text,)


def content_words(texts: Iterable[str], part: re.Pattern[str] = WORD, around: str = "", *, lower: bool = True) -> list[str]:
    """The telling words among `parted_words`."""
    return telling(parted_words(texts, part, around, lower=lower))


def parted_words(texts: Iterable[str], part: re.Pattern[str] = WORD, around: str = "", *, lower: bool = True) -> list[str]:
    """What `part` finds, without the signs `around` it, each once in any case of letters, in order; in lower case, or as it is written."""
    known: dict[str, str] = {}
    for text in texts:
        for found in part.findall(text):
            word = found.strip(around)
            if WORD.search(word):
                known.setdefault(word.casefold(), word.lower() if lower else word)
    return list(known.values())


def telling(terms: Sequence[str]) -> list[str]:
    """Words and phrases that are more than stop words; all of them where nothing else is left ("to be or not to be")."""
    return [term for term in terms if not STOP_WORDS.issuperset(WORD.findall(term.lower()))] or list(terms)
