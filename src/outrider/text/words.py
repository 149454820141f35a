"""Words and stems of any script, for ranking in memory."""

from __future__ import annotations

import re
import threading
from functools import cache, lru_cache
from typing import Any

WORD = re.compile(r"[^\W_]+")
PARTED = bytes(byte if byte > 127 or chr(byte).isalnum() else 32 for byte in range(256))
"""For `bytes.translate`: what is ASCII and neither a letter nor a digit becomes a space."""
CONTINUOUS = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\u0e00-\u0e7f]")
"""Scripts written without spaces: Han, kana, Thai. Their runs are cut into overlapping pairs of characters."""

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
"""Also given to the ranking index: LanceDB's own list for its `icu` tokenizer mixes many languages and drops `ai`, `cat`, `dog`
and `war` from English text.
"""

_stemming = threading.Lock()


def words(text: str) -> list[str]:
    """Lower-case words in order; a run of Han, kana or Thai becomes its overlapping character pairs."""
    parted = text.lower().encode("utf-8", "surrogatepass").translate(PARTED).decode("utf-8", "surrogatepass").split()
    if text.isascii():  # several times as fast as the regular expression, which it equals there
        return parted
    return [word for part in parted for word in ((part,) if part.isascii() else _runs(part))]


def _runs(part: str) -> list[str]:
    runs: list[str] = WORD.findall(part)
    if not CONTINUOUS.search(part):
        return runs
    return [
        piece
        for run in runs
        for piece in (([run[at : at + 2] for at in range(len(run) - 1)] or [run]) if CONTINUOUS.search(run) else (run,))
    ]


def content_words(text: str) -> list[str]:
    """Words that are not stop words; all of them where nothing else is left ("to be or not to be")."""
    every = words(text)
    return [word for word in every if word not in STOP_WORDS] or every


def stems(text: str) -> list[str]:
    """Content words, stemmed (Snowball English, Porter 2001); words of other languages mostly stay as they are."""
    return [stem(word) for word in content_words(text)]


@lru_cache(maxsize=100_000)
def stem(word: str) -> str:
    with _stemming:  # a Stemmer object is not safe to share between threads
        stemmed: str = _stemmer().stemWord(word)
    return stemmed


@cache
def _stemmer() -> Any:
    import Stemmer

    return Stemmer.Stemmer("english", 0)  # without a cache of its own, which takes longer than stemming: `stem` has one
