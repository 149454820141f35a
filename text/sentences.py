"""Where sentences begin and end: character offsets into the text as it is, nothing normalised away."""

from __future__ import annotations

import re

BOUNDARY = re.compile(
    r"""
      (?:[.!?…]+["'”’)\]]*)(?=\s+["'“‘(\[]*[^\sa-z])   # a full stop that no lower-case letter follows
    | [。！？]+["'”’」』）]*                              # full-width stops need no space
    | \n[ \t]*(?=\n)                                     # a blank line
    | \n(?=[ \t]*(?:[-*+•>|]|\#{1,6}|\d{1,3}[.)])[ \t])  # a list item, heading or table row
    | ^\#{1,6}[ \t][^\n]*(?=\n)                          # the end of a heading
    """,
    re.VERBOSE | re.MULTILINE,
)
ABBREVIATION = re.compile(
    r"""
    (?:\b(?:[A-Za-z]|e\.g|i\.e|al|vs|cf|ca|figs?|eqs?|refs?|sec|nos?|vol|pp|eds?|dr|mr|mrs|ms|prof|st|inc|ltd|co|approx|resp|dept|univ
    |jr|sr|ph\.d)\.)$
    """,
    re.IGNORECASE | re.VERBOSE,
)
MAX_SENTENCE_CHARS = 2_000
"""A longer run without a boundary (a table, a minified line) is cut at white space, so that units stay quotable."""


def sentence_spans(text: str) -> list[tuple[int, int]]:
    """Half-open [start, end) offsets of the sentences, in order, without surrounding white space, empty ones left out.

    Time is linear in the length of the text. Rules, not a model: a full stop ends a sentence unless it closes an
    abbreviation or an initial, or a lower-case letter follows.
    """
    spans: list[tuple[int, int]] = []
    start = 0
    for found in BOUNDARY.finditer(text):
        if found.group().startswith(".") and ABBREVIATION.search(text, max(start, found.start() - 12), found.start() + 1):
            continue
        _add(spans, text, start, found.end())
        start = found.end()
    _add(spans, text, start, len(text))
    return spans


def _add(spans: list[tuple[int, int]], text: str, start: int, end: int) -> None:
    while end - start > MAX_SENTENCE_CHARS:
        space = text.rfind(" ", start + 1, start + MAX_SENTENCE_CHARS)
        cut = space if space > start else start + MAX_SENTENCE_CHARS
        _add_trimmed(spans, text, start, cut)
        start = cut
    _add_trimmed(spans, text, start, end)


def _add_trimmed(spans: list[tuple[int, int]], text: str, start: int, end: int) -> None:
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    if start < end:
        spans.append((start, end))
