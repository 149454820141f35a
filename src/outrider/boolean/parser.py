"""Parsing of a Boolean query to a tree with warnings, in PubMed's or Ovid's syntax."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from outrider.boolean.diagnostics import BooleanSyntaxError, Finding, Findings, add_remarks
from outrider.boolean.field_tags import AMBIGUOUS_CODES, CODES, is_tag_name, list_spellings, parse_tag
from outrider.boolean.grammar import MAX_CHARS, MAX_TERMS
from outrider.boolean.occurrences import QUOTES
from outrider.boolean.ovid_parser import OvidLine, parse_ovid
from outrider.boolean.pubmed_parser import parse_pubmed
from outrider.state.boolean import And, Either, Near, Node, Pattern, Text, children
from outrider.state.errors import BadRequest, did_you_mean, shorten

Syntax = Literal["pubmed", "ovid"]

MAX_TREE_DEPTH = 250
"""Depth of the tree. Parentheses cause at most 100 levels; lines that refer to lines may cause more."""

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
    """`lines` are those of an Ovid history, each with its own tree; `text` is the query as it was parsed."""

    text: str
    syntax: Syntax
    tree: Node
    warnings: tuple[Finding, ...]
    lines: tuple[OvidLine, ...] = ()


def parse(query: str | Mapping[str, str], syntax: Literal["auto", "pubmed", "ovid"] = "auto") -> ParsedQuery:
    """The query's tree and the warnings about it. Raises `BooleanSyntaxError` with the place of an error, `BadRequest`.

    The queries of a mapping are joined by AND; its keys are PubMed's field tags without brackets:
    `{"title": "aspirin OR ibuprofen"}`.
    """
    if isinstance(query, Mapping):
        return _parse_mapping(query)
    if not isinstance(query, str):
        raise BadRequest(f"a Boolean query is a text or a mapping of fields to texts, not {shorten(query)}")
    _check_text(query)
    detected: Syntax = detect_syntax(query) if syntax == "auto" else syntax
    if detected not in ("pubmed", "ovid"):
        raise BadRequest(f"unknown syntax {syntax!r}{did_you_mean(syntax, ('auto', 'pubmed', 'ovid'))}; known: auto, pubmed, ovid")
    findings = Findings(query)
    tree, lines = parse_ovid(query, findings) if detected == "ovid" else (parse_pubmed(query, findings), [])
    _check_size(tree, query)
    add_remarks(tree, findings)
    return ParsedQuery(query, detected, tree, findings.all(), tuple(lines))


def detect_syntax(query: str) -> Syntax:
    """The syntax of which a query has more of the signs that the other lacks; PubMed if neither has any."""
    plain = _QUOTED.sub(" ", query)
    tags = sum(parse_tag(match.group(1)) is not None for match in _TAG.finditer(plain))
    signs = sum(1 for _ in _OVID.finditer(_TAG.sub(" ", plain).lower()))
    signs -= sum(1 for _ in re.finditer(r"\bADJ\d*\b", plain))  # our own printed form
    return "ovid" if signs > tags else "pubmed"


def uses_boolean_syntax(query: str) -> bool:
    """Whether a search by words alone would misread the query: it has operators, PubMed's field tags, or Ovid's codes or headings.

    Parentheses, quotes, `*` and `?` are no sign of it, since plain text contains them, too.
    """
    if _OPERATOR.search(query) or _CLEAR_OVID.search(query):
        return True
    return any(is_tag_name(match[1].partition(":")[0]) for match in _TAG.finditer(query))


def _parse_mapping(query: Mapping[str, str]) -> ParsedQuery:
    """Each value is parsed by itself; the text of the whole has one value a line."""
    if not query:
        raise BadRequest("a mapping of fields to queries is empty; name a field, such as {'title': 'aspirin'}")
    parts, start = [], 0
    text = "\n".join(map(str, query.values()))
    _check_text(text)
    findings = Findings(text)
    for key, value in query.items():
        tag = parse_tag(key) if isinstance(key, str) else None
        if tag is None:
            raise BadRequest(f"unknown field {key!r} in a Boolean query{did_you_mean(str(key).lower(), list_spellings())}")
        if not isinstance(value, str):
            raise BadRequest(f"field {key!r} of a Boolean query takes a text, not {shorten(value)}")
        before = re.sub(r"[^\n]", " ", text[:start])
        parts.append(parse_pubmed(before + value, findings, (tag,)))
        start += len(value) + 1
    tree = parts[0] if len(parts) == 1 else And(tuple(parts))
    _check_size(tree, text)
    add_remarks(tree, findings)
    return ParsedQuery(text, "pubmed", tree, findings.all())


def _check_text(query: str) -> None:
    if len(query) > MAX_CHARS:
        raise BooleanSyntaxError(f"the query has {len(query):,} characters; at most {MAX_CHARS:,} are read", query, MAX_CHARS)
    if match := _CONTROL.search(query):
        raise BooleanSyntaxError(f"the control character U+{ord(match.group()):04X} is not allowed in a query", query, match.start())


def _check_size(tree: Node, text: str) -> None:
    """Raise `BooleanSyntaxError` for a tree that is too large: lines that refer to lines multiply their terms."""
    # shared parts count each time and are visited once; without recursion, since the tree may be deep
    sizes: dict[int, tuple[int, int]] = {}
    stack = [tree]
    while stack:
        top = stack[-1]
        below = children(top)
        unmeasured = [child for child in below if id(child) not in sizes]
        if unmeasured:
            stack += unmeasured
            continue
        counts, depths = zip(*(sizes[id(child)] for child in below), strict=True) if below else ((_count_leaves(top),), (0,))
        sizes[id(top)] = sum(counts), 1 + max(depths)
        stack.pop()
    count, depth = sizes[id(tree)]
    if count > MAX_TERMS:
        raise BooleanSyntaxError(f"its lines expand to {count:,} terms; at most {MAX_TERMS:,} are searched", text, tree.at.start)
    if depth > MAX_TREE_DEPTH:
        raise BooleanSyntaxError(f"its lines are nested {depth} deep; at most {MAX_TREE_DEPTH} are read", text, tree.at.start)


def _count_leaves(part: Node | Pattern) -> int:
    """Terms of a leaf or pattern; parentheses limit the depth of a pattern."""
    if isinstance(part, Text):
        return _count_leaves(part.pattern)
    return sum(map(_count_leaves, part.parts)) if isinstance(part, Near | Either) else 1
