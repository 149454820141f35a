"""Several authors in one string, as tables and catalogues write them.

`Blum, A., Furst, M., & Rudich, S.`, `A. Blum, M. Furst and S. Rudich`, `Alfons Kemper, Ada Lovelace, Alan Turing`, and ASySD's
`Adeli K.Lewis G. F.`. Cut only where the parts must be names: `Garcia Marquez, Gabriel Jose` may be one, and stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

AND = re.compile(r"\s*(?:,|\s)\s*(?:and|&)\s+", re.IGNORECASE)
INITIALS = re.compile(r"(?:[^\W\d_]{1,2}\.[\s-]*|[^\W\d_](?:[\s-]+|$))+")
LEADING_INITIAL = re.compile(r"(?:^|\s)[^\W\d_]\.?\s+\w{2,}")
RUN_TOGETHER = re.compile(r"(?<=[A-Z]\.)(?=[^\W\d_a-z][\w'’-]+\s)")
FAMILY_AND_INITIALS = re.compile(r"[^\W\d_][\w'’-]+(?:\s[\w'’-]+)*(?:\s(?:[A-Z]\.)(?:[\s-]?[A-Z]\.)*)(?:\s(?:Jr|Sr|I{2,3}|IV)\.?)?")
MAX_CHARS = 10_000


def parted_authors(said: str) -> tuple[str, ...]:
    """The names in one string, in order; the string itself where it does not show where one ends."""
    if len(said) > MAX_CHARS:
        return (said,)
    parts = [part for part in AND.split(said.strip(" ,")) if part]
    return tuple(name for part in parts for name in _parted(part)) or (said,)


def _parted(part: str) -> Sequence[str]:
    pieces = [piece for piece in (piece.strip() for piece in part.split(",")) if piece]
    if len(pieces) < 2:
        names = [name.strip() for name in RUN_TOGETHER.split(part)]
        return names if all(map(FAMILY_AND_INITIALS.fullmatch, names)) else [part.strip(" ,")]
    names = list(_paired(pieces))
    if len(names) == 1 or not all(" " in name for name in names):
        return [part.strip(" ,")]
    told = len(names) < len(pieces) or len(names) > 2 or any(map(LEADING_INITIAL.search, names))
    return names if told else [part.strip(" ,")]


def _paired(pieces: Sequence[str]) -> Iterator[str]:
    """Initials that stand alone belong to the name before them."""
    at = 0
    while at < len(pieces):
        initials = at + 1 < len(pieces) and not INITIALS.fullmatch(pieces[at]) and INITIALS.fullmatch(pieces[at + 1])
        yield f"{pieces[at]}, {pieces[at + 1]}" if initials else pieces[at]
        at += 2 if initials else 1
