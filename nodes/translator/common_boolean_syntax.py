"""Boolean queries that any source understands: words, phrases, AND, OR, NOT."""

from __future__ import annotations

import re
from collections.abc import Iterable

from outrider.state.request import searchable

PART = re.compile(r'\s*("[^"]*"|[()]|[^\s()"]+)')
OPERATORS = frozenset({"AND", "OR", "NOT"})
OPERATOR = re.compile(r"\b(?:AND|OR|NOT)\b")
FIELD = re.compile(r"[\[\]]|^\w+:")
"""`[Title]`, `title:`: each source has its own names."""
PLAIN = re.compile(r"[^\W_]+(?:[-+#.'’/][^\W_]+)*[+#]*")


def conjunction(terms: Iterable[str], left_out: Iterable[str] = ()) -> str:
    """Terms joined with AND, each quoted unless it is one plain word; then NOT before each operand of `left_out`, unchanged."""
    return " NOT ".join((" AND ".join(quote(term) for term in terms), *left_out))


def quote(term: str) -> str:
    """The term as one operand: in quotes unless it is one plain word."""
    return term if PLAIN.fullmatch(term) and term not in OPERATORS else f'"{term.replace(chr(34), " ").strip()}"'


def parses(query: str) -> bool:
    """Whether operands stand between operators, and parentheses and quotes are closed. Adjacent words mean AND."""
    parts = _split(query)
    expects_operand, depth, before = True, 0, "("
    for part in parts:
        if part == ")":
            if expects_operand or not depth:
                return False
            depth -= 1
        elif part == "(":
            expects_operand, depth = True, depth + 1
        elif part in OPERATORS:
            if expects_operand and (part != "NOT" or before not in ("AND", "OR")):
                return False
            expects_operand = True
        elif not searchable(part) or (part[0] != '"' and FIELD.search(part)):
            return False
        else:
            expects_operand = False
        before = part
    return bool(parts) and not expects_operand and not depth


def split_negated(query: str) -> tuple[str, tuple[str, ...]]:
    """The words and phrases that a query requires or allows, and the operands that NOT excludes. Without valid syntax all words count.

    `liver (scan OR "x-ray") NOT heart` gives `liver scan "x-ray"` and `heart`.
    """
    if not parses(query):
        return OPERATOR.sub(" ", query), ()
    parts = _split(query)
    included: list[str] = []
    excluded: list[str] = []
    at = 0
    while at < len(parts):
        begin, at = at, at + 1
        if parts[begin] == "NOT":
            depth = (parts[at] == "(") - (parts[at] == ")")
            while depth and at + 1 < len(parts):  # the operand ends with its closing parenthesis
                at += 1
                depth += (parts[at] == "(") - (parts[at] == ")")
            at += 1
            excluded.append(" ".join(parts[begin + 1 : at]))
        elif parts[begin] not in {"(", ")", *OPERATORS}:
            included.append(parts[begin])
    return " ".join(included), tuple(excluded)


def _split(query: str) -> list[str]:
    """Words, phrases, operators and parentheses; empty if a quote is not closed."""
    parts, at, text = [], 0, query.strip()
    while at < len(text):
        match = PART.match(text, at)
        if not match:
            return []
        parts.append(match.group(1))
        at = match.end()
    return parts
