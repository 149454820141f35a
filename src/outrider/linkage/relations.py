"""Relations between different works, which are linked and not merged.

A preprint and its publication, a notice (correction, retraction, comment) and its article, parts of a series, a paper and its code. They
are recognised by titles (`Erratum to: ...`, `... Part II`), by identifiers of preprint servers, by Crossref's updates and by repository
addresses in abstracts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from outrider.linkage.evidence import ONE_TITLE, FieldLevel
from outrider.linkage.normalized_record import Keys

RelationKind = Literal["preprint of", "version of", "corrects", "retracts", "comments on", "part beside", "code of"]
PARTS = re.compile(
    r"\b(?:part|chapter|section|vol|volume|no) (?P<named>[ivx]{1,5}|\d{1,3}|one|two|three|four|five)\b|\b(?P<bare>ii|iii|iv|vi|vii|viii)\b"
)
NUMBERS = {
    word: at for words in ("i ii iii iv v vi vii viii ix x", "one two three four five") for at, word in enumerate(words.split(), start=1)
}
NOTICE_TITLE = 0.85
"""Least Indel similarity of the title that a notice names and the title of the article."""
MIN_COMMON_LETTERS = 12
"""Least length of the common beginning of two parts."""
OTHER_WORK = frozenset({"title's telling words", "title's words", "title's numbers"})
"""Fields that are evidence only if titles differ, as in mice and rats, or part 1 and part 2."""
SAME_AUTHORS = frozenset({"all", "both", "the only one", "all of one", "most"})
KINDS: dict[str, RelationKind] = {"corrects": "corrects", "retracts": "retracts", "code of": "code of", "comments on": "comments on"}


@dataclass(frozen=True, slots=True)
class Relation:
    """A relation between two different works, with its reason."""

    kind: RelationKind
    why: str
    forward: bool = True
    """Whether the first record, not the second, is the notice, preprint or code. Meaningless for versions and parts."""

    def reverse(self) -> Relation:
        return Relation(self.kind, self.why, not self.forward)


def find_relation(one: Keys, other: Keys, levels: tuple[FieldLevel, ...]) -> Relation | None:
    """The relation between two works that might be taken for one, None if there is none."""
    return _notice(one, other) or _parts(one, other) or _versions(one, other, levels)


def _notice(one: Keys, other: Keys) -> Relation | None:
    """Exactly one record is a notice, and it names the title of the other."""
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
    if not mine or not theirs or mine[0] == theirs[0] or mine[1] != theirs[1] or len(mine[1]) < MIN_COMMON_LETTERS:
        return None
    return Relation("part beside", f"parts {min(mine[0], theirs[0])} and {max(mine[0], theirs[0])} of {mine[1]!r}")


def _versions(one: Keys, other: Keys, levels: tuple[FieldLevel, ...]) -> Relation | None:
    """The records are on different servers, or only one is on a preprint server; they share no number, and their texts agree."""
    if one.server == other.server or ("doi", "equal") in levels or ("number", "equal") in levels:
        return None
    level = dict(levels)
    title = level.get("title", "").partition(",")[0]
    authors = level.get("authors", "").partition(",")[0]
    if title not in ONE_TITLE or not OTHER_WORK.isdisjoint(level) or authors not in SAME_AUTHORS or level.get("abstract") == "other":
        return None
    why = f"titles {title}, authors {authors}"
    if one.server and other.server:
        return Relation("version of", f"on two preprint servers, {why}")
    return Relation("preprint of", f"on a preprint server, {why}", forward=bool(one.server))


@lru_cache(maxsize=16_384)
def parse_part(whole: str) -> tuple[int, str] | None:
    """The number of a part and the normal title before it: 2 and "malaria" for "malaria part ii drugs"."""
    match = PARTS.search(whole)
    if not match:
        return None
    numeral = match["named"] or match["bare"]
    number = NUMBERS.get(numeral) or (int(numeral) if numeral.isdecimal() else 0)
    return number, whole[: match.start()].strip()


def find_links(keys: Sequence[Keys]) -> list[tuple[int, int, Relation]]:
    """Relations that records state themselves: two places and the relation of the first to the second; each pair once, in order."""
    holders: dict[tuple[str, str], list[int]] = {}
    for at, key in enumerate(keys):
        for pair in key.identifiers:
            holders.setdefault(pair, []).append(at)
    relations: dict[tuple[int, int], Relation] = {}
    for at, key in enumerate(keys):
        for kind, scheme, value in key.links:
            for other in holders.get((scheme, value), ()):
                one, two = min(at, other), max(at, other)
                if one != two:
                    forward = kind.endswith(" this") == (at != one)
                    relations.setdefault(
                        (one, two), Relation(KINDS[kind.removesuffix(" this")], f"it says so of {scheme} {value}", forward)
                    )
    return [(one, two, relation) for (one, two), relation in sorted(relations.items(), key=lambda pair: pair[0])]
