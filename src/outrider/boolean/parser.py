"""Parsing of a Boolean query, in the syntax of any platform, to a tree with warnings."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from outrider.boolean.detect_syntax import (
    NAMES,
    blank_button,
    blank_heading,
    blank_label,
    blank_line_words,
    blank_sort_order,
    detect_syntax,
    refuse_foreign_syntax,
    refuse_mixed_platforms,
    unquote,
    uses_boolean_syntax,
)
from outrider.boolean.diagnostics import BooleanSyntaxError, Finding, Findings, add_remarks
from outrider.boolean.field_tags import NAMES as FIELD_NAMES
from outrider.boolean.field_tags import list_spellings, parse_tag
from outrider.boolean.grammar import MAX_CHARS, MAX_TERMS
from outrider.boolean.history import HistoryLine, refuse_comments
from outrider.boolean.ovid_parser import parse_ovid
from outrider.boolean.platform_parser import parse_platform
from outrider.boolean.platforms import PLATFORMS
from outrider.boolean.pubmed_parser import blank_columns, parse_pubmed
from outrider.state.boolean import And, Either, Near, Node, Pattern, Text, children
from outrider.state.errors import BadRequest, did_you_mean, shorten

__all__ = ["ParsedQuery", "Syntax", "SyntaxChoice", "detect_syntax", "parse", "uses_boolean_syntax"]

Syntax = Literal["pubmed", "ovid", "wos", "scopus", "embase", "ebsco", "proquest", "cochrane"]
SyntaxChoice = Literal["auto", "pubmed", "ovid", "wos", "scopus", "embase", "ebsco", "proquest", "cochrane"]

MAX_TREE_DEPTH = 250
"""Depth of the tree. Parentheses cause at most 100 levels; lines that refer to lines may cause more."""
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class ParsedQuery:
    """`lines` are those of a search history, each with its own tree; `text` is the query as it was parsed."""

    text: str
    syntax: Syntax
    tree: Node
    warnings: tuple[Finding, ...]
    lines: tuple[HistoryLine, ...] = ()


def parse(query: str | Mapping[str, str], syntax: SyntaxChoice = "auto") -> ParsedQuery:
    """The query's tree and the warnings about it. Raises `BooleanSyntaxError` with the place of an error, `BadRequest`.

    The queries of a mapping are joined by AND; its keys are PubMed's field tags without brackets:
    `{"title": "aspirin OR ibuprofen"}`.
    """
    if isinstance(query, Mapping):
        return _parse_mapping(query)
    if not isinstance(query, str):
        raise BadRequest(f"a Boolean query is a text or a mapping of fields to texts, not {shorten(query)}")
    _check_text(query)
    known = get_args(Syntax)
    rows = blank_columns(query)
    choice = "pubmed" if syntax == "auto" and rows != query else syntax
    detected: Syntax = detect_syntax(query) if choice == "auto" else choice  # type: ignore[assignment] # checked below
    if detected not in known:
        choices = ("auto", *known)
        raise BadRequest(f"unknown syntax {syntax!r}{did_you_mean(syntax, choices)}; known: {', '.join(choices)}")
    findings = Findings(query)
    text = blank_line_words(blank_heading(blank_label(rows)))
    refuse_comments(text)
    if detected == "pubmed":
        text = blank_sort_order(text)
        refuse_mixed_platforms(text, detected, is_named=syntax == "pubmed")
        refuse_foreign_syntax(text, is_named=syntax == "pubmed")
        tree, lines = parse_pubmed(text, findings)
    elif detected == "ovid":
        refuse_mixed_platforms(text, detected)
        tree, lines = parse_ovid(text, findings)
    else:
        text = blank_button(text) if detected == "scopus" else text
        unquoted = unquote(text)
        if unquoted != text:
            findings.add("quotes", "quotation marks around the whole query are ignored", query.index(query.strip()[0]))
        if syntax == "auto":
            findings.add("platform", f"read as {NAMES[detected]}; --syntax names another platform", len(query) - len(query.lstrip()))
        refuse_mixed_platforms(unquoted, detected)
        tree, lines = parse_platform(unquoted, PLATFORMS[detected], findings)
    _check_size(tree, query)
    add_remarks(tree, findings)
    return ParsedQuery(query, detected, tree, findings.all(), tuple(lines))


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
            wrong = str(key).lower()
            hint = did_you_mean(wrong, [*map(str.lower, FIELD_NAMES.values()), "mesh", "year"]) or did_you_mean(wrong, list_spellings())
            known = "" if hint else "; name a field tag of PubMed, such as title, abstract, tiab, mesh, author, journal, language or year"
            raise BadRequest(f"unknown field {shorten(key)} in a Boolean query{hint}{known}")
        if not isinstance(value, str):
            raise BadRequest(f"field {key!r} of a Boolean query takes a text, not {shorten(value)}")
        before = re.sub(r"[^\n]", " ", text[:start])
        refuse_mixed_platforms(before + value, "pubmed", is_named=False)
        refuse_foreign_syntax(before + value, is_named=False)
        tree, _ = parse_pubmed(before + value, findings, (tag,))
        parts.append(tree)
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
