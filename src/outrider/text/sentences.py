"""Sentences of a text, as character offsets.

By rules, not by a model: on SciFact's abstracts the boundaries agree with the human segmentation as often as those of the tested
libraries, and are many times as fast (docs/dependencies.md).
"""

from __future__ import annotations

import re

CITATIONS = r"""(?:
    \[{1,2}(?:
        \d{1,4}(?:[ ]?[,–-][ ]?\d{1,4}){0,20}
      | [a-z]
      | (?:note|nb|n|fn)[ ]\d{1,3}
      | (?i:[a-z ]{0,30}(?:needed|verification|who\?|whom\?|when\?|where\?|which\?|why\?))
      | \^[\w-]{1,40}
    )\]{1,2}(?:\([^()\s]{1,300}\))?
  | [¹²³⁰-⁹]{1,3}
)*+"""
"""Citations and notes behind a sentence: `[3]`, `[a]`, `[note 1]`, `[citation needed]`, `²`, in Markdown `[^1]` and `[3](#note)`."""
BOUNDARY = re.compile(
    r"""
    (?=[.!?…。！？｡।॥۔؟።։\n\#\dA-Z<])(?:                              # what any of them begins with: no other place is looked at twice
      (?<![.!?…])(?<![.…][ ])[.!?…]++["'”’)\]]*+(?P<cited>"""
    + CITATIONS
    + r""")(?=\s++["'“‘(\[]*+[^\sa-z.…])   # a full stop, none of a row, and its citations
    | [。！？｡।॥۔؟።։។။]+["'”’」』）]*(?:"""
    + CITATIONS
    + r""")  # stops of other scripts need no space
    | \n[ \t]*(?=\n)                                                 # a blank line
    | \n(?=[ \t]*+(?:[-*+•>|]|\#{1,6}|\d{1,3}[.)])[ \t])             # a list item, heading or table row
    | ^\#{1,6}[ \t][^\n]*(?=\n)                                      # the end of a heading
    | ^\d{1,2}(?:\.\d{1,2})*\.?[ \t]+[A-Z][^\n.!?]{0,80}(?=\n\s*[A-Z]) # of one with a number
    | ^[A-Z][A-Z \t&,-]{3,60}(?=\n)                                  # of one in capitals
    | (?i:</(?:p|div|li|dd|dt|h[1-6]|tr|ul|ol|table|blockquote|section|article|title|pre)\s*>|<br\s*/?>)
    )
    """,
    re.VERBOSE | re.MULTILINE,
)
ABBREVIATION = re.compile(
    r"""
    (?:(?<!°)\b(?:[A-Za-z]|e\.g|i\.e|al|vs|cf|ca|figs?|eqs?|refs?|sec|nos?|vol|pp|eds?|dr|mr|mrs|ms|prof|st|inc|ltd|co|approx|resp|dept|univ
    |jr|sr|ph\.d|gen|col|capt|lt|sgt|rev|hon|gov|sen|assoc|corp|mt|bzw|ggf|vgl)\.)$
    | ^[ \t]*\(?\d{1,3}(?:\.\d{1,3})*\.$                                 # a number that begins its line
    """,
    re.IGNORECASE | re.MULTILINE | re.VERBOSE,
)
CITED_ABBREVIATION = re.compile(r"\b(?:[A-Z]|(?i:no|inc|ltd|co|corp|jr|sr|univ|ph\.d))\.$")
"""Abbreviations that end a sentence where a citation follows: a name goes on without one."""
BEFORE_NUMBER = re.compile(
    r"\b(?:ext|tel|chap|ch|art|para|sect|tab|min|max|ver|abb|nr|bd|jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec)\.$", re.IGNORECASE
)
"""Abbreviations that may also end a sentence; before a number they do not."""
NUMBER_BEHIND = re.compile(r"\.[ \t]+\d")
FENCE = re.compile(r"^(?:```|~~~)[^\n]*$", re.MULTILINE)
"""A line that begins or ends a piece of code in Markdown (https://spec.commonmark.org/0.31.2/#fenced-code-blocks)."""
MAX_SENTENCE_CHARS = 2_000
"""A longer run without a boundary (a table, a minified line) is cut at white space, so that units stay quotable."""
NEAR = 40
"""So far back a cut looks for a space that does not part a number from its unit."""


def sentence_spans(text: str) -> list[tuple[int, int]]:
    """Half-open [start, end) offsets of the sentences, in order, without surrounding white space, empty ones left out.

    Time is linear in the length of the text. A full stop, and the citations directly behind it, end a sentence unless it closes an
    abbreviation or an initial, or a lower-case letter follows. A fenced piece of code is one; a fence that nothing closes is text.
    """
    spans: list[tuple[int, int]] = []
    start = 0
    opened = None
    for fence in FENCE.finditer(text):
        if opened is None:
            opened = fence
        elif fence.group().rstrip() == opened.group()[:3]:
            _add_prose(spans, text, start, opened.start())
            _add(spans, text, opened.start(), fence.end())
            start, opened = fence.end(), None
    _add_prose(spans, text, start, len(text))
    return spans


def _add_prose(spans: list[tuple[int, int]], text: str, start: int, end: int) -> None:
    for match in BOUNDARY.finditer(text, start, end):
        stop, begin = match.start(), max(start, match.start() - 12)
        if text[stop] == "." and (
            (ABBREVIATION.search(text, begin, stop + 1) and not (match["cited"] and CITED_ABBREVIATION.search(text, begin, stop + 1)))
            or (NUMBER_BEHIND.match(text, stop) and BEFORE_NUMBER.search(text, begin, stop + 1))
        ):
            continue
        _add(spans, text, start, match.end())
        start = match.end()
    _add(spans, text, start, end)


def _add(spans: list[tuple[int, int]], text: str, start: int, end: int) -> None:
    while end - start > MAX_SENTENCE_CHARS:
        # at the last line break that fits, else at the last space, of several near it one with no number before it
        last = start + MAX_SENTENCE_CHARS
        cut = text.rfind("\n", start + 1, last)
        if cut <= start:
            space = first = text.rfind(" ", start + 1, last)
            while space > max(start, first - NEAR) and text[space - 1].isdigit():
                space = text.rfind(" ", start + 1, space)
            cut = space if space > start else first if first > start else last
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


def first_sentence(text: str) -> str:
    """The first sentence on one line; empty if the text has none."""
    start, end = next(iter(sentence_spans(text[:MAX_SENTENCE_CHARS])), (0, 0))
    return " ".join(text[start:end].split())
