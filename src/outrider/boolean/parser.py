"""A query as text, read: its tree, what its author should know, and where it is wrong."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from outrider.boolean.diagnostics import BooleanSyntaxError, Finding, Findings
from outrider.boolean.field_tags import AMBIGUOUS_CODES, CODES, is_tag_name, list_spellings, parse_tag
from outrider.boolean.grammar import MAX_CHARS, MAX_TERMS
from outrider.boolean.lint import add_remarks
from outrider.boolean.occurrences import QUOTES
from outrider.boolean.ovid_parser import OvidLine, parse_ovid
from outrider.boolean.pubmed_parser import parse_pubmed
from outrider.state.boolean import And, Node, Pattern, Text, Words, children
from outrider.state.errors import BadRequest, did_you_mean, shorten

Syntax = Literal["pubmed", "ovid"]

_QUOTED = re.compile(f"[{QUOTES}][^{QUOTES}\n]*[{QUOTES}]")
_TAG = re.compile(r"\[([^\[\]\n]*)\]")
_CODE = "|".join(CODES)
_OVID = re.compile(
    rf"\.(?:{_CODE})(?:,\s*(?:{_CODE}))*(?:\.|(?=[\s)]|$))|\badj\d{{0,3}}\b|\b(?:or|and)/\d|\bexp\s+[^\s/]|[\w)]/(?=[\s)]|$)|^limit\s\d",
    re.MULTILINE,
)
_OPERATOR = re.compile(r"\b(?:AND|OR|NOT)\b")
_CLEAR_CODE = "|".join(sorted(CODES.keys() - AMBIGUOUS_CODES))
_CLEAR_OVID = re.compile(rf"\.(?:{_CLEAR_CODE})\.|\.(?:{_CODE})(?:,(?:{_CODE}))+\.|\bexp [A-Z][\w ,-]+/")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class ParsedQuery:
    """`tree` is what is asked for; `lines` are an Ovid history's, each with its own tree; `text` is the query as it was read."""

    text: str
    syntax: Syntax
    tree: Node
    warnings: tuple[Finding, ...]
    lines: tuple[OvidLine, ...] = ()


def parse(query: str | Mapping[str, str], syntax: Literal["auto", "pubmed", "ovid"] = "auto") -> ParsedQuery:
    """The query's tree and the remarks on it; `BooleanSyntaxError` says what cannot be read, and where.

    A mapping of fields to queries asks for all of them; its keys are PubMed's field tags without brackets:
    `{"title": "aspirin OR ibuprofen"}`.
    """
    if isinstance(query, Mapping):
        return _of_mapping(query)
    if not isinstance(query, str):
        raise BadRequest(f"a Boolean query is a text or a mapping of fields to texts, not {shorten(query)}")
    _checked(query)
    read: Syntax = detect_syntax(query) if syntax == "auto" else syntax
    if read not in ("pubmed", "ovid"):
        raise BadRequest(f"unknown syntax {syntax!r}{did_you_mean(syntax, ('auto', 'pubmed', 'ovid'))}; known: auto, pubmed, ovid")
    findings = Findings(query)
    tree, lines = parse_ovid(query, findings) if read == "ovid" else (parse_pubmed(query, findings), [])
    _bounded(tree, query)
    add_remarks(tree, findings)
    return ParsedQuery(query, read, tree, findings.all(), tuple(lines))


def detect_syntax(query: str) -> Syntax:
    """Which of the two a query is written in: what has more of the signs that only one of them uses; PubMed where neither has."""
    plain = _QUOTED.sub(" ", query)
    tags = sum(parse_tag(found.group(1)) is not None for found in _TAG.finditer(plain))
    signs = sum(1 for _ in _OVID.finditer(_TAG.sub(" ", plain).lower()))
    signs -= sum(1 for _ in re.finditer(r"\bADJ\d*\b", plain))  # our own printed form
    return "ovid" if signs > tags else "pubmed"


def uses_boolean_syntax(query: str) -> bool:
    """Whether a search by words alone would misread the query: it has operators, PubMed's field tags, or Ovid's codes or headings.

    Parentheses, quotes, `*` and `?` are no such sign: they also stand in plain text.
    """
    if _OPERATOR.search(query) or _CLEAR_OVID.search(query):
        return True
    return any(is_tag_name(match[1].partition(":")[0]) for match in _TAG.finditer(query))


def _of_mapping(query: Mapping[str, str]) -> ParsedQuery:
    """Each value is read by itself; the text of the whole is the values, one a line."""
    if not query:
        raise BadRequest("a mapping of fields to queries is empty; name a field, such as {'title': 'aspirin'}")
    parts, texts, start = [], [], 0
    text = "\n".join(map(str, query.values()))
    _checked(text)
    findings = Findings(text)
    for key, said in query.items():
        tag = parse_tag(key) if isinstance(key, str) else None
        if tag is None:
            raise BadRequest(f"unknown field {key!r} in a Boolean query{did_you_mean(str(key).lower(), list_spellings())}")
        if not isinstance(said, str):
            raise BadRequest(f"field {key!r} of a Boolean query takes a text, not {shorten(said)}")
        before = re.sub(r"[^\n]", " ", text[:start])
        parts.append(parse_pubmed(before + said, findings, (tag,)))
        texts.append(said)
        start += len(said) + 1
    tree = parts[0] if len(parts) == 1 else And(tuple(parts))
    _bounded(tree, text)
    add_remarks(tree, findings)
    return ParsedQuery(text, "pubmed", tree, findings.all())


def _checked(query: str) -> None:
    if len(query) > MAX_CHARS:
        raise BooleanSyntaxError(f"the query has {len(query):,} characters; at most {MAX_CHARS:,} are read", query, MAX_CHARS)
    if found := _CONTROL.search(query):
        raise BooleanSyntaxError(f"the control character U+{ord(found.group()):04X} cannot stand in a query", query, found.start())


def _bounded(tree: Node, text: str) -> None:
    """References of lines multiply: what they stand for, written out, may be no longer than a query."""
    sizes: dict[int, tuple[int, int]] = {}
    count, depth = _size(tree, sizes)
    if count > MAX_TERMS:
        raise BooleanSyntaxError(f"its lines stand for {count:,} terms; at most {MAX_TERMS:,} are searched", text, tree.at.start)
    if depth > MAX_TREE_DEPTH:
        raise BooleanSyntaxError(f"its lines are nested {depth} deep; at most {MAX_TREE_DEPTH} are read", text, tree.at.start)


MAX_TREE_DEPTH = 250
"""Of the tree. Parentheses make no more than 100; lines that refer to lines may make more."""


def _size(node: Node, sizes: dict[int, tuple[int, int]]) -> tuple[int, int]:
    """How many leaves a node stands for and how deep it is; shared parts are counted each time and visited once. Without recursion."""
    stack = [node]
    while stack:
        top = stack[-1]
        below = children(top)
        waiting = [child for child in below if id(child) not in sizes]
        if waiting:
            stack += waiting
            continue
        found = [sizes[id(child)] for child in below]
        own = 1 if not isinstance(top, Text) else _words(top.pattern)
        sizes[id(top)] = (sum(count for count, _ in found), 1 + max(depth for _, depth in found)) if found else (own, 1)
        stack.pop()
    return sizes[id(node)]


def _words(pattern: Pattern) -> int:
    """Leaves of a pattern, whose depth the parentheses bound."""
    return 1 if isinstance(pattern, Words) else sum(map(_words, pattern.parts))
