"""Ends of lines that are no part of a history's queries: counts, dates of runs, full stops."""

from __future__ import annotations

import re
from functools import lru_cache

from outrider.boolean.diagnostics import BooleanSyntaxError

DASHES = "-\u2010\u2011\u2012\u2013\u2014\u2212"
"""Hyphens and dashes that word processors write in ranges."""
LABEL = r"(?:\d{1,4}(?:\.\d{1,2})?[A-Za-z]?|[A-Za-z]\d{0,2}|[IVXivx]{1,5})"
_SET = rf"{LABEL}(?:\s*[{DASHES}]\s*{LABEL})?"
SETS = rf"{_SET}(?:\s*,\s*{_SET})*"
"""`1-5,7` or `2a-2c`."""
ONLY_REFERENCES = re.compile(r"(?:[\s()&|]|[#Ss]?\d{1,4}(?!\w)|\b(?:and|or|not)\b)+", re.IGNORECASE)
_NUMBERS = rf"[#Ss]?\d{{1,4}}(?:\s*[{DASHES},]\s*[#Ss]?\d{{1,4}})*"
_COMMAND = re.compile(
    rf"\s*(?:(?:and|or)\s*/\s*{_NUMBERS}|{_NUMBERS}\s*/\s*(?:and|or)|limit\s+{LABEL}\s+to\s.*[^\s.;,]"
    rf"|remove\s+duplicates\s+from\s+{LABEL}|\{{\s*(?:and|or)\s[#\d\s,{DASHES}]+\}})\s*",
    re.IGNORECASE | re.DOTALL,
)
"""A line that combines or narrows others: `or/1-5`, `1-5/or`, `limit 9 to english`, `{OR #1-#3}`."""
_JOINED = re.compile(r"\d[\s)]*(?:\b(?:and|or|not)\b|[&|])[\s(]*(?:not\b[\s(]*)?[#Ss]?\d", re.IGNORECASE)
_ENDS_WITH_REFERENCE = re.compile(r"[\d)}]\s*\Z|/\s*(?:and|or)\s*\Z", re.IGNORECASE)
_MONTHS = "Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec"
_HITS = re.compile(
    r"(?<=[\s./)\]])\(\s*\d[\d,]*\s*\)\s*$|\t[^\S\t]*\d[\d,]*\s*$|(?<=\S)\s++\d[\d,]*+\s+\d{1,2}:\d\d:\d\d\s*$"
    rf"|(?<=\S)\s++\d[\d,]*+\s+\d{{1,2}}\s+(?:{_MONTHS})[a-z]*\.?\s+\d{{4}}\s*$|(?<=\S)\s++\d[\d,]*+\s+document\s+results?\s*$",
    re.IGNORECASE,
)
"""Counts with a mark of their own: parentheses, a tab, or the time or date of the run behind them."""
_BARE_HITS = re.compile(r"(?<=\S)[^\S\n]+(?P<count>\d[\d,]*)\s*$")
_THOUSANDS = re.compile(r"\d{1,3}(?:,\d{3})+")
_ENDS_OPEN = re.compile(r"\b(?:and|or|not|adj\d*|to)\s*\Z|[=<>/:]\s*\Z", re.IGNORECASE)
_ENDS_FIELD = re.compile(r"(?:\]|\.[a-z]{2}(?:,[a-z]{2})*\.?|\w/|:[a-z]{2}(?:,[a-z]{2})*)\s*\Z")
_ENDS_TERM = re.compile(r"(?:[)\]}./\"”*]|:[a-z]{2}(?:,[a-z]{2})*)\s*\Z")
_ENTITY = re.compile(r"&#?\w+;\s*\Z")


@lru_cache(maxsize=16)
def has_only_references(line: str) -> bool:
    """Whether a line has nothing but numbers and operators. Cached, since scanners ask at each number of a line."""
    return ONLY_REFERENCES.fullmatch(line) is not None


def is_combination(line: str) -> bool:
    """Whether a line has nothing but references to others, with or without operators."""
    return (ONLY_REFERENCES.fullmatch(line) is not None and any(map(str.isdigit, line))) or _COMMAND.fullmatch(line) is not None


def cut_stop(line: str) -> str:
    """The line without a full stop, comma or semicolon that ends it as a sentence; Ovid's `heart.ti.` keeps its stop."""
    before = line.rstrip(" \t\r\n.;,")
    if not before or not line[len(before) :].strip() or _ENTITY.search(line):
        return line
    if is_combination(before) or before[-1] in ')]}/"”':
        return before
    return line.rstrip(" \t\r\n;") if line.rstrip().endswith(";") else line


def cut_counts(parts: list[tuple[int, str]], text: str) -> list[tuple[int, str, int]]:
    """Start and text of each line without its count of hits, and the offset of a count behind a mere blank, else -1.

    A number behind a blank is a count if every line ends with one, and some line shows that it is no word. Raises `BooleanSyntaxError` if
    only some lines have what looks like a count.
    """
    texts = [(start, _HITS.sub("", part)) for start, part in parts]
    counts = [
        None if match and _ENDS_OPEN.search(part, 0, match.start()) else match for _, part in texts for match in [_BARE_HITS.search(part)]
    ]
    if len(texts) > 1 and all(counts) and any(_is_count(match) for match in counts if match):
        return [
            (start, part[: match.start()], start + match.start("count"))
            for (start, part), match in zip(texts, counts, strict=True)
            if match
        ]
    for (start, part), match in zip(texts, counts, strict=True):
        if match is None or len(texts) == 1:
            continue
        before = part[: match.start()]
        if _THOUSANDS.fullmatch(match["count"]) or _ENDS_FIELD.search(before) or _is_combined(before):
            problem = f"“{match['count']}” may be this line's count of hits or a word: delete it, or quote it if it is a word"
            raise BooleanSyntaxError(problem, text, start + match.start("count"), ["an operator before it"])
    return [(start, part, -1) for start, part in texts]


def _is_count(match: re.Match[str]) -> bool:
    before = match.string[: match.start()]
    return _THOUSANDS.fullmatch(match["count"]) is not None or _ENDS_TERM.search(before) is not None or _is_combined(before)


def _is_combined(line: str) -> bool:
    """Whether a line combines others and is complete."""
    is_joined = _JOINED.search(line) is not None or _COMMAND.fullmatch(line) is not None
    return is_joined and is_combination(line) and _ENDS_WITH_REFERENCE.search(line) is not None
