"""Titles in a form in which the same title compares equal, in any script."""

from __future__ import annotations

import html
import re
import unicodedata

TAG = re.compile(r"</?[a-zA-Z][^<>]*>")
NOT_WORD = re.compile(r"[\W_]+")


def normal_title(title: str) -> str:
    """Case folded, accents, markup and punctuation dropped, words separated by one space; empty for a title without a word."""
    plain = TAG.sub(" ", html.unescape(title))
    folded = unicodedata.normalize("NFKD", plain).casefold()
    letters = "".join(char for char in folded if not unicodedata.combining(char))
    return NOT_WORD.sub(" ", unicodedata.normalize("NFC", letters)).strip()
