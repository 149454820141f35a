"""Words and stems of any script, for ranking in memory."""

from __future__ import annotations

import re
import threading
from functools import cache
from typing import Any

WORD = re.compile(r"\w+")
CONTINUOUS = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\u0e00-\u0e7f]")
"""Scripts written without spaces: Han, kana, Thai. Their runs are cut into overlapping pairs of characters."""

STOP_WORDS = frozenset(
    """a about above after again all also am an and any are as at be because been before being below between both but by can cannot
    could did do does doing done down during each either else ever every few for from further had has have having he her here hers
    him his how however i if in into is it its itself just let like many may me might more most much must my neither no nor not
    now of off on once one only or other our ours out over own per please rather same shall she should since so some such than that
    the their them then there therefore these they this those through thus to too under until up upon us use used using very via was
    we were what when where whether which while who whom whose why will with within without would yet you your yours
    find give show want need look looking search get me""".split()
)  # fmt: skip

_stemming = threading.Lock()


def words(text: str) -> list[str]:
    """Lower-case words in order; a run of Han, kana or Thai becomes its overlapping character pairs."""
    found: list[str] = []
    for run in WORD.findall(text.lower()):
        found.extend(_pairs(run) if CONTINUOUS.search(run) else (run,))
    return found


def content_words(text: str) -> list[str]:
    """Words that are not stop words; all of them where nothing else is left ("to be or not to be")."""
    every = words(text)
    return [word for word in every if word not in STOP_WORDS] or every


def stems(text: str) -> list[str]:
    """Content words, stemmed (Snowball English, Porter 2001); words of other languages mostly stay as they are."""
    return stemmed(content_words(text))


def stemmed(many: list[str]) -> list[str]:
    with _stemming:  # a Stemmer object is not safe to share between threads
        return list(_stemmer().stemWords(many))


@cache
def _stemmer() -> Any:
    import Stemmer

    return Stemmer.Stemmer("english")


def _pairs(run: str) -> list[str]:
    return [run[at : at + 2] for at in range(len(run) - 1)] or [run]
