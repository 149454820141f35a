"""Synthetic records in any number, with the noise of catalogues, made from real ones.

They show how the time of deduplication grows, and how well it works at size. A work takes a third each of three real titles and a made-up
word, halves of two real abstracts, authors of two, a year near a real one, and a random volume and pages. The made-up words, like names of
substances and genes, keep titles as varied in many records as in few: vocabulary grows with the number of titles (Heaps' law), which a few
thousand real titles alone would not show. A third of the works have one to three copies, each with some of: fields dropped, initials for
given names, abbreviated pages, another case, a typing error, an abbreviated journal, a cut abstract, a DOI as an address.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from bench.identity.sets import LabelledSet
from outrider.state.records import Identifiers, Paper

COPIED = 1 / 3
MOST_COPIES = 3
FAULTS = 3
"""Kinds of noise on one copy at most."""
SYLLABLES = ("ba", "ce", "di", "fo", "gu", "ha", "je", "ki", "lo", "mu", "na", "pe", "ri", "so", "tu", "va", "we", "xi", "yo", "zu")


def grown(real: Sequence[Paper], titles: Sequence[str], count: int, seed: int = 0) -> LabelledSet:
    """`count` records; the same for the same seed."""
    random = Random(seed)
    records, works = list[Paper](), list[int]()
    while len(records) < count:
        work = _work(real, titles, len(records), count, random)
        copies = random.randint(1, MOST_COPIES) if random.random() < COPIED else 0
        number = len(records)
        for copy in [work, *(_noisy(work, random) for _ in range(copies))]:
            records.append(copy.model_copy(update={"doc_id": f"grown:{len(records)}"}))
            works.append(number)
    order = list(range(count))
    random.shuffle(order)
    return LabelledSet(f"{count:,} grown", tuple(records[at] for at in order), tuple(works[at] for at in order))


def _work(real: Sequence[Paper], titles: Sequence[str], number: int, count: int, random: Random) -> Paper:
    one, other, third = (random.choice(real) for _ in range(3))
    first = random.randint(1, 2_000)
    return one.model_copy(
        update={
            "title": _title(titles, count, random),
            "url": None,
            "authors": tuple(dict.fromkeys((*one.authors[:3], *third.authors[-3:]))),
            "abstract": " ".join(other.abstract.split()[40:] + one.abstract.split()[:60]),
            "year": (one.year or 2000) - random.randint(0, 15),
            "volume": str(random.randint(1, 300)),
            "pages": f"{first}-{first + random.randint(1, 20)}",
            "identifiers": Identifiers(doi=f"10.{random.randint(1000, 9999)}/j.{number}.{random.randint(0, 10**6)}"),
        }
    )


def _title(titles: Sequence[str], count: int, random: Random) -> str:
    head, middle, tail = (random.choice(titles).split() for _ in range(3))
    parts = head[: max(2, len(head) // 3)], middle[len(middle) // 3 : len(middle) * 2 // 3], tail[len(tail) * 2 // 3 :]
    return " ".join((*parts[0], *parts[1], _made_up(int(count ** random.random())), *parts[2]))


def _made_up(number: int) -> str:
    """A word for each number; small numbers, which are drawn oftener (Zipf), have short ones."""
    word = "n"
    while number:
        number, at = divmod(number, len(SYLLABLES))
        word = SYLLABLES[at] + word
    return f"{word}ib"


def _noisy(work: Paper, random: Random) -> Paper:
    for change in random.sample(NOISE, random.randint(1, FAULTS)):
        work = work.model_copy(update=change(work, random))
    return work


def _typed(work: Paper, random: Random) -> dict[str, object]:
    at = random.randrange(max(1, len(work.title)))
    return {"title": work.title[:at] + work.title[at + 1 :]}


def _short_pages(work: Paper, random: Random) -> dict[str, object]:
    first, _, last = (work.pages or "").partition("-")
    common = next((at for at, pair in enumerate(zip(first, last, strict=False)) if pair[0] != pair[1]), 0)
    return {"pages": f"{first}-{last[common:]}" if len(first) == len(last) else work.pages}


NOISE: Sequence[Callable[[Paper, Random], dict[str, object]]] = (
    lambda work, random: {"identifiers": Identifiers()},
    lambda work, random: {"abstract": ""},
    lambda work, random: {"abstract": work.abstract[: len(work.abstract) // 2]},
    lambda work, random: {"volume": None, "issue": None, "pages": None},
    lambda work, random: {"authors": tuple(f"{name.split(',')[0].split()[0]} {name.split()[-1][:1]}." for name in work.authors)},
    lambda work, random: {"authors": work.authors[:1]},
    lambda work, random: {"title": work.title.upper()},
    lambda work, random: {"title": f"{work.title}."},
    lambda work, random: {"venue": " ".join(word[:4] for word in (work.venue or "").split()) or None},
    lambda work, random: {"year": None},
    lambda work, random: {"identifiers": Identifiers(doi=f"https://doi.org/{work.identifiers.doi}")},
    _typed,
    _short_pages,
)
