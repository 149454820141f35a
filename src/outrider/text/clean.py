"""Characters that command rather than say: terminals obey escape sequences, screens obey overrides of the writing direction.

The text of XML elements.
"""

from __future__ import annotations

import re
from xml.etree.ElementTree import Element  # the type only

CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]+")
"""C0 and C1 controls, zero-width and direction marks, isolates and overrides."""


def without_control(text: str, replacement: str = " ") -> str:
    """The text on one line: each run of control characters becomes `replacement`."""
    return CONTROL.sub(replacement, text)


def flat(element: Element | None) -> str:
    """All text under an element on one line, white space collapsed; empty where there is none."""
    return one_line("".join(element.itertext())) if element is not None else ""


def one_line(text: str) -> str:
    return " ".join(text.split())
