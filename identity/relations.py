"""Records that belong together and are not one work: what is linked, and not merged.

A preprint and its publication, a notice (correction, retraction, comment) and its article, parts of a series, a paper and its code. Titles
say it (`Erratum to: ...`, `... Part II`), preprint servers' identifiers do, and services: Crossref's updates, addresses of repositories.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from outrider.identity.evidence import TELLS, FieldLevel
from outrider.identity.keys import Keys

RelationKind = Literal["preprint of", "version of", "corrects", "retracts", "comments on", "part beside", "code of"]


@dataclass(frozen=True, slots=True)
class Relation:
    kind: RelationKind
    why: str
    forward: bool = True
    """The first of the two is the notice, preprint or code; False: the second. Of versions and parts it says nothing."""

    def reverse(self) -> Relation:
        return Relation(self.kind, self.why, not self.forward)


PARTS = re.compile(
    r"\b(?:part|chapter|section|vol|volume|no) (?P<named>[ivx]{1,5}|\d{1,3}|one|two|three|four|five)\b|\b(?P<bare>ii|iii|iv|vi|vii|viii)\b"
)
NUMBERS = {
    word: at for words in ("i ii iii iv v vi vii viii ix x", "one two three four five") for at, word in enumerate(words.split(), start=1)
}
NOTICE_TITLE = 0.85
"""Indel similarity of a notice's object to the article's title."""
FEWEST_LETTERS = 12
"""In the common beginning of two parts."""
OTHER_WORK = frozenset({"title's telling words", "title's words", "title's numbers"})
"""Fields of evidence that speak only where titles differ: in mice and in rats, part 1 and part 2."""
OUR_AUTHORS = frozenset({"all", "both", "the only one", "all of one", "most"})


def find_relation(one: Keys, other: Keys, said: tuple[FieldLevel, ...]) -> Relation | None:
    """How two works belong together that might be taken for one."""
    return _notice(one, other) or _parts(one, other) or _versions(one, other, said)


def _notice(one: Keys, other: Keys) -> Relation | None:
    """Exactly one is a notice, of what the other is called."""
    if (one.notice == "") == (other.notice == ""):
        return None
    forward = one.notice != ""
    notice, article = (one, other) if forward else (other, one)
    from rapidfuzz.distance import Indel

    kind, _, of = notice.notice.partition(" / ")
    if not of or Indel.normalized_similarity(of, article.title.compact) < NOTICE_TITLE:
        return None
    return Relation(KINDS[kind], "its title names the other's", forward)


def _parts(one: Keys, other: Keys) -> Relation | None:
    mine, theirs = parse_part(one.title.whole), parse_part(other.title.whole)
    if not mine or not theirs or mine[0] == theirs[0] or mine[1] != theirs[1] or len(mine[1]) < FEWEST_LETTERS:
        return None
    return Relation("part beside", f"parts {min(mine[0], theirs[0])} and {max(mine[0], theirs[0])} of {mine[1]!r}")


def _versions(one: Keys, other: Keys, said: tuple[FieldLevel, ...]) -> Relation | None:
    """One is on a preprint server and the other is not, or on another; they share no number, and the texts agree."""
    if one.server == other.server or ("doi", "equal") in said or ("number", "equal") in said:
        return None
    level = dict(said)
    title = level.get("title", "").partition(",")[0]
    authors = level.get("authors", "").partition(",")[0]
    if title not in TELLS or not OTHER_WORK.isdisjoint(level) or authors not in OUR_AUTHORS or level.get("abstract") == "other":
        return None
    why = f"titles {title}, authors {authors}"
    if one.server and other.server:
        return Relation("version of", f"on two preprint servers, {why}")
    return Relation("preprint of", f"on a preprint server, {why}", forward=bool(one.server))


@lru_cache(maxsize=16_384)
def parse_part(whole: str) -> tuple[int, str] | None:
    """The number of a part and what its normal title says before it: of "malaria part ii drugs" 2 and "malaria"."""
    found = PARTS.search(whole)
    if not found:
        return None
    said = found["named"] or found["bare"]
    number = NUMBERS.get(said) or (int(said) if said.isdecimal() else 0)
    return number, whole[: found.start()].strip()


def find_links(keys: Sequence[Keys]) -> list[tuple[int, int, Relation]]:
    """What records say themselves: the places of two and how the first belongs to the second; each pair once, in order."""
    holders: dict[tuple[str, str], list[int]] = {}
    for at, key in enumerate(keys):
        for pair in key.identifiers:
            holders.setdefault(pair, []).append(at)
    found: dict[tuple[int, int], Relation] = {}
    for at, key in enumerate(keys):
        for kind, scheme, value in key.links:
            for other in holders.get((scheme, value), ()):
                one, two = min(at, other), max(at, other)
                if one != two:
                    forward = kind.endswith(" this") == (at != one)
                    found.setdefault((one, two), Relation(KINDS[kind.removesuffix(" this")], f"it says so of {scheme} {value}", forward))
    return [(one, two, relation) for (one, two), relation in sorted(found.items(), key=lambda pair: pair[0])]


KINDS: dict[str, RelationKind] = {"corrects": "corrects", "retracts": "retracts", "code of": "code of", "comments on": "comments on"}
