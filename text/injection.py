"""Known ways of hiding an instruction for a model in a title, an abstract or a README, for a mark on the hit.

A mark is a warning, not the defence: that is the fence around what comes from outside, and the check of every answer. What no
pattern here knows passes unmarked, and a text about such attacks is marked although it is none.
"""

from __future__ import annotations

import base64
import binascii
import html
import re
import unicodedata
from collections.abc import Iterator

from outrider.text.injection_patterns import FOREIGN, MODEL, PATTERNS, possible

MAX_DECODED = 50
"""Runs of base64 that are looked into: a notebook holds pictures by the hundred."""
DECODED_CHARS = 4_000
"""Of each; a multiple of four, so that what is cut off still decodes."""

AS_BLANK, AS_NOTHING = b"_-\r\t\x0b\x0c\x1c\x1d\x1e\x1f", b"*`"
BLANKED = bytes(32 if byte in AS_BLANK else byte for byte in range(256))
TAGS = re.compile(r"[\U000e0020-\U000e007e]+")
STYLED = re.compile(r"[\uff01-\uff5e\u24b6-\u24e9\U0001d400-\U0001d7ff]+")
"""Letters of full width, in circles, and of mathematics: each stands for one plain letter."""
INVISIBLE = re.compile(r"[\u00ad\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufe00-\ufe0f\ufeff\U000e0000-\U000e01ef]+")
BLANK = re.compile(r"[\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]")
"""Beyond ASCII."""
UNUSUAL = re.compile("[" + "".join(one.pattern.strip("[]+") for one in (TAGS, STYLED, INVISIBLE, BLANK)) + "]")
"""Any of these, as one class: most texts hold none."""
FLAG = re.compile(r"\U0001f3f4[\U000e0020-\U000e007f]{1,8}")
"""The flags of England, Scotland and Wales are spelt in tags."""
HIDDEN = re.compile(
    r"""[\U000e0020-\U000e007e]{4}                  # tags: ASCII that no screen shows
      | [\u202d\u202e]                              # the writing direction overridden
      | [\u200b-\u200d\u2060-\u2064\ufeff]{6}       # a message in zero-width characters
      | (?:[A-Za-z][\u200b-\u200d\u2060\ufeff]){3}  # words broken up, to pass a filter
      | [\ufe00-\ufe0f\U000e0100-\U000e01ef]{4}     # bytes in variation selectors
    """,
    re.VERBOSE,
)
UNSEEN = re.compile(
    r"""<!--[^<]{1,600} | \[(?://|comment)\]:\s?\#[^\n]{1,600}
      | <[a-z]{1,10}\s[^<>]{0,200}?(?:display\s?:\s?none|font-size\s?:\s?0|visibility\s?:\s?hidden|color\s?:\s?(?:white|\#fff))[^<]{1,600}
    """,
    re.VERBOSE,
)
"""What a page does not show. It need not hold an order: only then it counts."""
UNSEEN_MARKS = ("<!--", "[//]:", "[comment]:", "display", "font-size", "visibility", "color")
"""One of them stands in whatever it finds."""
ORDER = re.compile(
    rf"\b(?:{MODEL}|models?|assistants?|reviewers?|graders?)\b[^.\n]{{0,80}}\b(?:must|should|please|rate|score|rank|recommend|ignore|say)\b"
    r"|\b(?:rate|score|rank|recommend)\s(?:this|it)\b"
)
BASE64 = re.compile(r"(?<![A-Za-z0-9+/=_-])[A-Za-z0-9+/]{32,}={0,2}")
IN_BASE64 = bytes(97 if byte < 128 and (chr(byte).isalnum() or chr(byte) in "+/") else 32 for byte in range(256))
LEAST_RUN = b"a" * 32
""""a" for all that base64 is written in: a search for a run of it takes a tenth of the time of the pattern."""


def suspicious(text: str) -> tuple[str, ...]:
    """The names of the patterns found, sorted: addressed, answer, encoded, fence, hidden, override, role, score.

    Time is linear in the length of the text.
    """
    found = set(_said(_plain(text)))
    if _hidden(text) or _ordered_unseen(text):
        found.add("hidden")
    if _said(_plain("\n".join(_decoded(text)))):
        found.add("encoded")
    return tuple(sorted(found))


def _said(plain: str) -> list[str]:
    """The names of the patterns that plain text holds."""
    foreign = not plain.isascii() and bool(FOREIGN.search(plain))
    names = possible(plain)
    return [one.name for one in PATTERNS if (foreign or one.name in names) and one.regex.search(plain)]


def _plain(text: str) -> str:
    """As a model may read it: entities, tags and styled letters as what they stand for, nothing invisible, no emphasis, blanks as one."""
    if "&" in text:
        text = html.unescape(text)
    if not text.isascii() and UNUSUAL.search(text):
        text = TAGS.sub(lambda found: "".join(chr(ord(char) - 0xE0000) for char in found.group()), text)
        text = STYLED.sub(lambda found: unicodedata.normalize("NFKC", found.group()), INVISIBLE.sub("", text))
        text = BLANK.sub(" ", text)
    text = text.lower().encode("utf-8", "surrogatepass").translate(BLANKED, AS_NOTHING).decode("utf-8", "surrogatepass")
    if "  " in text:
        text = re.sub(r"  +", " ", text)
    return re.sub(r"\n\s+", "\n", text.replace(" \n", "\n")) if "\n" in text else text


def _hidden(text: str) -> bool:
    return not text.isascii() and bool(INVISIBLE.search(text) and HIDDEN.search(FLAG.sub("", text)))


def _ordered_unseen(text: str) -> bool:
    """Whether what a page does not show gives orders."""
    if ("<" not in text and "[" not in text) or not any(mark in text for mark in UNSEEN_MARKS):
        return False
    unseen = _plain("\n".join(found.group() for found in UNSEEN.finditer(text)))
    return bool(_said(unseen) or ORDER.search(unseen))


def _decoded(text: str) -> Iterator[str]:
    if LEAST_RUN not in text.encode("ascii", "replace").translate(IN_BASE64):
        return
    for _, run in zip(range(MAX_DECODED), BASE64.finditer(text), strict=False):
        whole = run.group().rstrip("=")[:DECODED_CHARS]
        try:
            yield base64.b64decode(whole[: len(whole) // 4 * 4]).decode("utf-8")
        except (binascii.Error, UnicodeDecodeError):
            continue  # no text
