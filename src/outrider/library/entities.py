"""Names of the graph's nodes: `kind:name`, spelled in one way, so that what two records share compares equal.

An author is `family, initial`: lists give `Knuth, D. E.`, `Donald E. Knuth` and `Knuth DE` for one person. Two people may share
that name; the weight of a shared author falls with the number of records that have it.

Which phrases of a query may be the name of an entity, so that one lookup tells.

A name of two words or more counts wherever it stands. One word counts where it is a third or more of what the query says: `aspirin side
effects` is about aspirin, `retry requests with a delay between them` is not about the package requests. A person is named with an
initial or with capital letters: `D. Knuth`, `Donald Knuth`, not `black box`. `type:name` is always an entity.
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

from outrider.linkage.identifiers import normal_arxiv, normal_distribution, normal_doi, normal_isbn, normal_pmcid, normal_pmid
from outrider.state.request import MAX_QUERY_CHARS
from outrider.text.words import STOP_WORDS

MAX_NAME_CHARS = 200
"""Longer keywords are sentences; nothing is shared by them."""
KIND = re.compile(r"([A-Za-z][\w-]{0,39}):(?!//)\s*(\S.*)", re.DOTALL)
NOT_NAME = re.compile(r"(?:[^\w+#]|_)+")
"""`c++` and `c#` are not `c`."""
NORMAL_DOI = re.compile(r"10\.\d{4,9}/[a-z0-9./_-]*[a-z0-9]")
"""Most targets by far, and as readers give them: five times as fast as normalising them once more."""
INITIALS = re.compile(r"[A-Z]{1,3}")
PARTICLES = frozenset("al bin da de del della den der di dos du el la le ten ter van vom von".split())
SUFFIXES = frozenset("jr sr ii iii iv".split())
MAX_PERSON_WORDS = 5
"""A longer name without a comma is a group's."""
RECORD = "doc"
"""Kind of a record's own id, which is compared as it stands."""
IDENTIFIERS: Mapping[str, Callable[[str], str | None]] = {
    "doi": normal_doi,
    "pmid": normal_pmid,
    "pmcid": normal_pmcid,
    "arxiv": normal_arxiv,
    "isbn": normal_isbn,
    "pypi": normal_distribution,
    "openalex": str.lower,
    "s2": str.lower,
    "github": str.lower,
}


class Entity(NamedTuple):
    """A node that is no record, or one of a record's own names."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


@lru_cache(maxsize=100_000)
def entity(kind: str, name: str) -> Entity | None:
    """The node of this name; None where nothing of the name is left, and for the rest of an address (`//host`)."""
    kind = kind.strip().lower()
    normal = _normal(kind, name.strip())
    return Entity(kind, normal) if normal and len(normal) <= MAX_NAME_CHARS and not normal.startswith("//") else None


@lru_cache(maxsize=100_000)
def parsed(text: str, kind: str = "") -> Entity | None:
    """From `kind:name`; a text without a kind is a name of the given `kind`, and nothing where none is given."""
    found = KIND.fullmatch(text.strip())
    if found:
        return entity(*found.groups())
    return entity(kind, text) if kind else None


def _normal(kind: str, name: str) -> str:
    if kind == RECORD:
        return name
    if kind in IDENTIFIERS:
        return name if NORMAL_DOI.fullmatch(name) else IDENTIFIERS[kind](name) or name.lower()
    return normal_author(name) if kind == "author" else normal_name(name)


def normal_name(name: str) -> str:
    """Case and accents dropped, words separated by one space, no punctuation but `+` and `#`."""
    name = name.casefold()
    if not name.isascii():
        letters = "".join(char for char in unicodedata.normalize("NFKD", name) if not unicodedata.combining(char))
        name = unicodedata.normalize("NFKC", letters.casefold())  # once more: decomposing brings capitals out of some symbols
    return NOT_NAME.sub(" ", name).strip()


def normal_author(name: str) -> str:
    """`family, i` of a person; the whole name of a group."""
    family, comma, given = name.partition(",")
    if not comma:
        family, given = _family_and_given(name.replace(".", ". ").split())
    first = normal_name(given)[:1]
    family = normal_name(family)
    return f"{family}, {first}" if family and first else family


def _family_and_given(words: list[str]) -> tuple[str, str]:
    while len(words) > 1 and words[-1].strip(".").lower() in SUFFIXES:
        words = words[:-1]
    if not 2 <= len(words) <= MAX_PERSON_WORDS:
        return " ".join(words), ""
    if INITIALS.fullmatch(words[-1]) and not INITIALS.fullmatch(words[0]):  # as PubMed writes it: Knuth DE
        return " ".join(words[:-1]), words[-1]
    start = len(words) - 1
    while start > 1 and words[start - 1].lower() in PARTICLES:
        start -= 1
    return " ".join(words[start:]), words[0]


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
