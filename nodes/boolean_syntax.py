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


def conjunction(terms: Iterable[str]) -> str:
    """Terms joined with AND, each quoted where it is not one plain word."""
    return " AND ".join(quoted(term) for term in terms)


def quoted(term: str) -> str:
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
