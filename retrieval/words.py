"""Words of a query: which carry no meaning, and how many are searched.

The ranking index gets this stop-word list explicitly. LanceDB's own list for the `icu` tokenizer mixes many languages and
drops `ai`, `cat`, `dog` and `war` from English text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

MAX_QUERY_TERMS = 1_024
"""Distinct words of one query that are searched; from the next new word on the rest of the text is left out."""
MAX_QUERY_CHARS = 20_000
"""Characters of one query that are searched: scripts without spaces have no word boundaries to count."""

WORD = re.compile(r"[^\W_]+")

# English function words: articles, pronouns, prepositions, conjunctions, auxiliaries, and what contractions leave when
# they are split at the apostrophe. No content word, however frequent: BM25's idf takes care of those.
STOP_WORDS = frozenset(
    """
    a an the this that these those such same other own
    i me my myself we our ours ourselves you your yours yourself yourselves he him his himself she her hers herself
    it its itself they them their theirs themselves one
    who whom whose which what when where why how
    and or nor but if because as while than then so also though although whether either neither both
    of at by for with about against between into through during before after above below to from up down in out on off
    over under again further until upon within without onto toward towards via per among
    am is are was were be been being have has had having do does did doing done can could may might must shall should
    will would ought
    not no only just very too more most few some any all each every here there now once ever
    s t d m ll re ve don didn doesn isn aren wasn weren hasn haven hadn won wouldn shan shouldn couldn mustn needn mightn ain
    """.split()
)


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
