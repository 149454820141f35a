"""The text of XML elements."""

from __future__ import annotations

from xml.etree.ElementTree import Element  # the type only


def flat(element: Element | None) -> str:
    """All text under an element on one line, white space collapsed; empty where there is none."""
    return one_line("".join(element.itertext())) if element is not None else ""


def one_line(text: str) -> str:
    return " ".join(text.split())
