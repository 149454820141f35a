"""What a message says of a wrong value: the value itself, cut, and the known name that is most like it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

MAX_SHOWN_CHARS = 60
CUTOFF = 0.6
"""Share of letters in common from which two names are alike (difflib's own default)."""


def nearest(wrong: object, known: Iterable[str], cutoff: float = CUTOFF) -> str | None:
    """The known name most like the wrong one; None where none is."""
    return next(iter(difflib.get_close_matches(str(wrong), list(known), n=1, cutoff=cutoff)), None)


def did_you_mean(wrong: object, known: Iterable[str]) -> str:
    """`; did you mean 'year'?`, to be put behind the complaint; empty where no known name is like it."""
    close = nearest(wrong, known)
    return f"; did you mean {close!r}?" if close else ""


def shown(value: object) -> str:
    """The value as Python writes it, cut to `MAX_SHOWN_CHARS`."""
    text = repr(value)
    return text if len(text) <= MAX_SHOWN_CHARS else text[: MAX_SHOWN_CHARS - 3] + "..."
