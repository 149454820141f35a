"""Boolean queries that any source understands: words, "phrases", AND, OR, NOT, parentheses; no field names."""

from __future__ import annotations

import re
from collections.abc import Iterable

from outrider.state.request import searchable

PART = re.compile(r'\s*("[^"]*"|[()]|[^\s()"]+)')
OPERATORS = frozenset({"AND", "OR", "NOT"})
OPERATOR = re.compile(r"\b(?:AND|OR|NOT)\b")
FIELD = re.compile(r"[\[\]]|^\w+:")
"""`[Title]`, `title:`: each source has its own."""
PLAIN = re.compile(r"[^\W_]+(?:[-+#.'’/][^\W_]+)*[+#]*")


def conjunction(terms: Iterable[str], left_out: Iterable[str] = ()) -> str:
    """Terms joined with AND, each quoted where it is not one plain word; then NOT before each operand of `left_out`, as it is."""
    return " NOT ".join((" AND ".join(quote(term) for term in terms), *left_out))


def quote(term: str) -> str:
    """The term as one operand: in quotes unless it is one plain word."""
    return term if PLAIN.fullmatch(term) and term not in OPERATORS else f'"{term.replace(chr(34), " ").strip()}"'


def parses(query: str) -> bool:
    """Whether the query is whole: operands between operators, parentheses and quotes closed. Words side by side mean AND."""
    parts = _parts(query)
    wanted, depth, before = True, 0, "("
    for part in parts:
        if part == ")":
            if wanted or not depth:
                return False
            depth -= 1
        elif part == "(":
            wanted, depth = True, depth + 1
        elif part in OPERATORS:
            if wanted and (part != "NOT" or before not in ("AND", "OR")):
                return False
            wanted = True
        elif not searchable(part) or (part[0] != '"' and FIELD.search(part)):
            return False
        else:
            wanted = False
        before = part
    return bool(parts) and not wanted and not depth


def split_negated(query: str) -> tuple[str, tuple[str, ...]]:
    """The words and phrases that a query wants, and the operands that it leaves out by NOT; one that does not parse wants all its words.

    `liver (scan OR "x-ray") NOT heart` gives `liver scan "x-ray"` and `heart`.
    """
    if not parses(query):
        return OPERATOR.sub(" ", query), ()
    parts = _parts(query)
    wanted: list[str] = []
    left_out: list[str] = []
    at = 0
    while at < len(parts):
        begin, at = at, at + 1
        if parts[begin] == "NOT":
            at = _after_operand(parts, at)
            left_out.append(" ".join(parts[begin + 1 : at]))
        elif parts[begin] not in {"(", ")", *OPERATORS}:
            wanted.append(parts[begin])
    return " ".join(wanted), tuple(left_out)


def _after_operand(parts: list[str], at: int) -> int:
    """The place behind the word, phrase or parenthesis that begins at `at`."""
    depth = 0
    for place in range(at, len(parts)):
        depth += (parts[place] == "(") - (parts[place] == ")")
        if not depth:
            return place + 1
    return len(parts)


def _parts(query: str) -> list[str]:
    """Empty where a quote is left open."""
    parts, at, text = [], 0, query.strip()
    while at < len(text):
        found = PART.match(text, at)
        if not found:
            return []
        parts.append(found.group(1))
        at = found.end()
    return parts
