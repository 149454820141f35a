"""Key phrases of a request by RAKE (Rose, Engel, Cramer and Cowley 2010, "Automatic keyword extraction from individual documents")."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from outrider.text.words import STOP_WORDS

TOKEN = re.compile(r"(?:(?<![\w.])\.)?[^\W_]+(?:(?:[-.'’/]|[+#]+)[^\W_]+)*[+#]*|[^\s\w]")
"""Words as they are written, `C++`, `F#` and `.NET` among them; any other sign by itself."""
ASKING = frozenset("find show give want need look looking search searching please get let use used using like whose upon".split())
"""Words of the asking rather than of what is asked for; they end a phrase as stop words do."""
MAX_CONCEPTS = 8
MAX_WORDS = 4
"""A longer run of content words is a sentence without stop words rather than a concept; it is cut."""


def concepts(text: str) -> tuple[str, ...]:
    """At most eight phrases, in the order of the text, chosen by RAKE's sum of deg(word) / freq(word).

    A text of stop words only gives its words, so that "to be or not to be" can be searched.
    """
    phrases = _phrases(text)
    if not phrases:
        return tuple(dict.fromkeys(token for token in TOKEN.findall(text) if _is_word(token)))[:MAX_CONCEPTS]
    frequency = Counter(word.lower() for phrase in phrases for word in phrase)
    degree: Counter[str] = Counter()
    for phrase in phrases:
        degree.update({word.lower(): len(phrase) for word in phrase})
    score = {" ".join(phrase): sum(degree[word.lower()] / frequency[word.lower()] for word in phrase) for phrase in phrases}
    best = sorted(score, key=lambda phrase: (-score[phrase], phrase))[:MAX_CONCEPTS]
    return tuple(phrase for phrase in score if phrase in best)


def keywords(phrases: Iterable[str]) -> tuple[str, ...]:
    """The words of phrases as they are written, each once in any case of letters: for services that look for every word."""
    known: dict[str, str] = {}
    for word in " ".join(phrases).split():
        known.setdefault(word.casefold(), word)
    return tuple(known.values())


def _is_word(token: str) -> bool:
    """Rather than a sign by itself."""
    return any(map(str.isalnum, token))


def _phrases(text: str) -> list[list[str]]:
    phrases: list[list[str]] = [[]]
    seen: set[str] = set()
    for token in TOKEN.findall(text):
        if not _is_word(token) or token.lower() in STOP_WORDS | ASKING:
            phrases.append([])
        elif token.lower() not in seen:
            seen.add(token.lower())
            if len(phrases[-1]) == MAX_WORDS:
                phrases.append([])
            phrases[-1].append(token)
    return [phrase for phrase in phrases if phrase]
