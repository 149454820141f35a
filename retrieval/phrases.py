"""Which phrases of a query may be the name of an entity, so that one lookup tells.

A name of two words or more counts wherever it stands. One word counts where it is a third or more of what the query says: `aspirin side
effects` is about aspirin, `retry requests with a delay between them` is not about the package requests. A person is named with an
initial or with capital letters: `D. Knuth`, `Donald Knuth`, not `black box`. `type:name` is always an entity.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

from outrider.retrieval.entities import normal_author, normal_name, parsed
from outrider.state.request import MAX_QUERY_CHARS
from outrider.text.words import STOP_WORDS

MAX_WORDS = 6
MAX_TEXT_WORDS = 64
"""Of a longer text the beginning is looked at."""
ENOUGH = 1 / 3
PERSON = re.compile(r"(?<!\w)((?:[A-Z]\w*\.?,?[ ]?){2,4})(?!\w)")
ANY = ""
"""Any kind but persons."""


def phrases(text: str) -> dict[str, frozenset[str]]:
    """Names by which entities may be called in the text, each with the kinds that it may be the name of."""
    text = text[:MAX_QUERY_CHARS]
    if whole := parsed(text):
        return {whole.name: frozenset({whole.kind})}
    found: defaultdict[str, set[str]] = defaultdict(set)
    for kind, name in (*_explicit(text), *((ANY, name) for name in _runs(text)), *(("author", name) for name in _persons(text))):
        found[name].add(kind)
    return {name: frozenset(kinds) for name, kinds in found.items()}


def counts(kinds: frozenset[str], kind: str) -> bool:
    return kind in kinds or (ANY in kinds and kind != "author")


def _explicit(text: str) -> Iterator[tuple[str, str]]:
    yield from filter(None, map(parsed, text.split()))


def _runs(text: str) -> Iterator[str]:
    """Runs of words that neither begin nor end with a stop word."""
    words = normal_name(text).split()[:MAX_TEXT_WORDS]
    said = len([word for word in words if word not in STOP_WORDS]) or len(words)
    for start, first in enumerate(words):
        for end in range(start + 1, min(start + MAX_WORDS, len(words)) + 1):
            whole = start == 0 and end == len(words)
            if whole or (first not in STOP_WORDS and words[end - 1] not in STOP_WORDS and (end - start > 1 or 1 / said >= ENOUGH)):
                yield " ".join(words[start:end])


def _persons(text: str) -> Iterator[str]:
    """Capitalised words in a row as a person's name, in either order, and neighbours among them."""
    for run in PERSON.findall(text):
        words = run.replace(",", " ").replace(".", ". ").split()
        for start in range(len(words) - 1):
            for end in range(start + 2, len(words) + 1):
                part = words[start:end]
                yield normal_author(" ".join(part))
                yield normal_author(f"{part[0]}, {' '.join(part[1:])}")
