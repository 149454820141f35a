"""Authors, as PubMed looks for them: `smith j`, `smith ja`, `smith john`, `john smith`, `smith`."""

from __future__ import annotations

from outrider.boolean.occurrences import Column, matchers, occurrences
from outrider.state.boolean import Words
from outrider.text.tokens import tokens

MOST_INITIALS = 3


def is_author(words: tuple[str, ...], author: str) -> bool:
    """Whether the author is meant. Records write `Surname, Given` or `Given Surname`.

    Either the words stand next to each other in the name (surname first, or last, or behind the first given name); or they are the surname
    and then initials, of which the name may have more: PubMed's User Guide, "Searching by author".
    """
    surname, given = _parted(author)
    orders = (" ".join((*surname, *given)), " ".join((*given, *surname)), " ".join((*given[:1], *surname)))
    column = Column.of(orders)
    if next(occurrences(Words(words), column), None) is not None:
        return True
    asked = [matcher for word in words for matcher in matchers(word)]
    *before, initials = asked
    if not isinstance(initials, str) or len(initials) > MOST_INITIALS or list(before) != surname:
        return False
    return _initials(given).startswith(initials)


def initials_of(author: str) -> list[str]:
    """Every form of the initials that `is_author` knows for this author: `j`, `ja`."""
    said = _initials(_parted(author)[1])
    return [said[:length] for length in range(1, min(len(said), MOST_INITIALS) + 1)]


def _initials(given: list[str]) -> str:
    return "".join(name[0] for name in given)


def _parted(author: str) -> tuple[list[str], list[str]]:
    """Surname and given names; without a comma the last word is the surname."""
    surname, comma, given = author.partition(",")
    if comma:
        return tokens(surname), tokens(given)
    words = tokens(author)
    return words[-1:], words[:-1]
