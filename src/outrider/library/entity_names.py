"""Entities of the graph: normal forms of names, and phrases of a query that may be names.

An entity is written `kind:name`, in one spelling, so that the same name in two records compares equal. An author is `family, initial`:
lists give `Knuth, D. E.`, `Donald E. Knuth` and `Knuth DE` for one person. Two people may share that name; the weight of a shared author
falls with the number of records that have it.

In a query, a name of two words or more counts wherever it stands. One word counts where it is a third or more of the significant words:
`aspirin side effects` is about aspirin, `retry requests with a delay between them` is not about the package requests. A person is named
with an initial or with capital letters: `D. Knuth`, `Donald Knuth`, not `black box`. `type:name` is always an entity.
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

from outrider.linkage.identifiers import (
    find_identifiers,
    normal_arxiv,
    normal_distribution,
    normal_doi,
    normal_isbn,
    normal_pmcid,
    normal_pmid,
)
from outrider.state.request import MAX_QUERY_CHARS
from outrider.text.words import STOP_WORDS

MAX_NAME_CHARS = 200
"""Longer keywords are sentences, which no two records share."""
KIND = re.compile(r"([A-Za-z][\w-]{0,39}):(?!//)\s*(\S.*)", re.DOTALL)
NOT_NAME = re.compile(r"(?:[^\w+#]|_)+")
"""`c++` and `c#` are not `c`."""
NORMAL_DOI = re.compile(r"10\.\d{4,9}/[a-z0-9./_-]*[a-z0-9]")
"""The form of most targets, as readers write them: checking it is five times as fast as normalising them once more."""
INITIALS = re.compile(r"[A-Z]{1,3}")
PARTICLES = frozenset("al bin da de del della den der di dos du el la le ten ter van vom von".split())
SUFFIXES = frozenset("jr sr ii iii iv".split())
MAX_PERSON_WORDS = 5
"""A longer name without a comma is a group's."""
MAX_WORDS = 6
MAX_TEXT_WORDS = 64
"""Of a longer text only the beginning is read."""
SIGNIFICANT_SHARE = 1 / 3
PERSON = re.compile(r"(?<!\w)((?:[A-Z]\w*\.?,?[ ]?){2,4})(?!\w)")
ANY = ""
"""Any kind but persons."""
RECORD = "doc"
"""Kind of a record's own id, which is compared unchanged."""
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
def make_entity(kind: str, name: str) -> Entity | None:
    """The entity of this name; None for a name without letters, and for the rest of an address (`//host`)."""
    kind, name = kind.strip().lower(), name.strip()
    if kind == RECORD:
        normal = name
    elif kind in IDENTIFIERS:
        normal = name if NORMAL_DOI.fullmatch(name) else IDENTIFIERS[kind](name) or name.lower()
    else:
        normal = normal_author(name) if kind == "author" else normal_name(name)
    return Entity(kind, normal) if normal and len(normal) <= MAX_NAME_CHARS and not normal.startswith("//") else None


@lru_cache(maxsize=100_000)
def parse_entity(text: str, kind: str = "") -> Entity | None:
    """From `kind:name`; a text without a kind is a name of the kind passed, and no entity without one."""
    match = KIND.fullmatch(text.strip())
    if match:
        return make_entity(*match.groups())
    return make_entity(kind, text) if kind else None


def normal_name(name: str) -> str:
    """Case and accents dropped, words separated by one space, no punctuation but `+` and `#`."""
    name = name.casefold()
    if not name.isascii():
        letters = "".join(char for char in unicodedata.normalize("NFKD", name) if not unicodedata.combining(char))
        name = unicodedata.normalize("NFKC", letters.casefold())  # once more: decomposing brings capitals out of some symbols
    return NOT_NAME.sub(" ", name).strip()


def normal_author(name: str) -> str:
    """`family, i` of a person; the whole name of a group."""
    family, comma, forenames = name.partition(",")
    if not comma:
        family, forenames = _split_name(name.replace(".", ". ").split())
    initial = normal_name(forenames)[:1]
    family = normal_name(family)
    return f"{family}, {initial}" if family and initial else family


def _split_name(words: list[str]) -> tuple[str, str]:
    """Family name and forenames; a group has only the former."""
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


def list_phrases(text: str) -> dict[str, frozenset[str]]:
    """Names by which the text may call entities, each with the kinds that it may be the name of."""
    text = text[:MAX_QUERY_CHARS]
    if whole := parse_entity(text):
        return {whole.name: frozenset({whole.kind})}
    kinds: defaultdict[str, set[str]] = defaultdict(set)
    for explicit in filter(None, map(parse_entity, text.split())):
        kinds[explicit.name].add(explicit.kind)
    for scheme, value in find_identifiers(text):
        kinds[value.lower()].add(scheme)
    for name in _list_runs(text):
        kinds[name].add(ANY)
    for run in PERSON.findall(text):
        words = run.replace(",", " ").replace(".", ". ").split()
        # Capitalised words in a row, and neighbours among them, as a person's name in either order.
        for part in (words[start:end] for start in range(len(words) - 1) for end in range(start + 2, len(words) + 1)):
            kinds[normal_author(" ".join(part))].add("author")
            kinds[normal_author(f"{part[0]}, {' '.join(part[1:])}")].add("author")
    return {name: frozenset(options) for name, options in kinds.items()}


def kind_fits(kinds: frozenset[str], kind: str) -> bool:
    """Whether an entity of this kind is among the kinds of `list_phrases`."""
    return kind in kinds or (ANY in kinds and kind != "author")


def _list_runs(text: str) -> Iterator[str]:
    """Runs of words that neither begin nor end with a stop word."""
    words = normal_name(text).split()[:MAX_TEXT_WORDS]
    significant = len([word for word in words if word not in STOP_WORDS]) or len(words)
    for start, first in enumerate(words):
        for end in range(start + 1, min(start + MAX_WORDS, len(words)) + 1):
            whole = start == 0 and end == len(words)
            is_long = end - start > 1 or 1 / significant >= SIGNIFICANT_SHARE
            if whole or (first not in STOP_WORDS and words[end - 1] not in STOP_WORDS and is_long):
                yield " ".join(words[start:end])
