"""Conversion of the grammar's parse tree to the query's tree.

Operators apply from left to right, and fields to the terms before them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from outrider.boolean.diagnostics import BooleanSyntaxError, Findings
from outrider.boolean.field_tags import Tag, sort_fields
from outrider.boolean.field_values import date_node, is_dates
from outrider.boolean.grammar import MAX_TERMS, Lexeme
from outrider.boolean.occurrences import MOST_WILD, WILD, split_term
from outrider.state.boolean import (
    LACKING,
    MAX_DISTANCE,
    WORD_FIELDS,
    And,
    Either,
    Everything,
    Field,
    Heading,
    Near,
    Node,
    Not,
    Or,
    Pattern,
    Span,
    Text,
    Words,
)

if TYPE_CHECKING:
    from lark import Tree

Tags = tuple[Tag, ...]
SAME_FIELDS = "terms joined by proximity search the same fields; put the field after a parenthesis around them"
MIXED = "OR mixed with AND or NOT without parentheses; evaluated from left to right, as in PubMed: add parentheses"


@dataclass(slots=True)
class Builder:
    """Builds one query, or one line. `untagged` are the fields of a term without a tag; `parts_words` splits such a term into words."""

    text: str
    findings: Findings
    untagged: Tags
    parts_words: bool
    terms: int = 0

    def build(self, tree: Tree[Any], inherited: Tags = ()) -> Node:
        return self._build_chain(tree.children[0], inherited)

    def _build_chain(self, chain: Tree[Any], inherited: Tags) -> Node:
        """`a OR b AND c` is `(a OR b) AND c`; a run of one operator is one node."""
        lead, *links = chain.children
        parts = [self._build_operand(lead.children, inherited)]
        run: type[And | Or] | None = None
        is_mixed = False
        for link in links:
            first = link.children[0]
            operator: type[And | Or] = Or if isinstance(first, Lexeme) and first.kind == "OR" else And
            if not isinstance(first, Lexeme):
                self.findings.add("missing operator", "no operator before this term; AND is assumed", _span(link))
            if run not in (None, operator) and not is_mixed:
                self.findings.add("mixed operators", MIXED, first.start if isinstance(first, Lexeme) else _span(link))
                is_mixed = True
            if run is not operator:
                parts, run = [_join(run, parts)], operator
            operands = [child for child in link.children if not (isinstance(child, Lexeme) and child.kind in ("AND", "OR"))]
            parts.append(self._build_operand(operands, inherited))
        return _join(run, parts)

    def _build_operand(self, children: Iterable[Any], inherited: Tags) -> Node:
        """An operand with or without NOT before it."""
        *sign, item = children
        if len(item.children) == 1:
            node = self._build_unit(item.children[0], inherited)
        else:
            own: list[tuple[Tags, Lexeme]] = []
            pattern = self._build_near(item, own)
            tags = own[0][0] if own else inherited or self.untagged
            for others, field in own:
                if others != tags:
                    raise BooleanSyntaxError(SAME_FIELDS, self.text, field.start)
            node = Text(pattern, self._word_fields(tags, pattern.at.start), pattern.at)
        return Not(node, Span(sign[0].start, node.at.end)) if sign else node

    def _build_unit(self, unit: Tree[Any], inherited: Tags) -> Node:
        children: list[Any] = unit.children
        match unit.data:
            case "group":
                has_field = len(children) > 3
                node = self._build_chain(children[1], children[3].value if has_field else inherited)
                return replace(node, at=Span(children[0].start, children[-1].end)) if has_field else node
            case "term":
                tags = children[1].value if len(children) > 1 else inherited
                return self._build_term(children[0], tags, _span(unit))
            case "range":
                # `"2019/01/01"[dp] : "2020"[dp]`; the last field counts
                at = _span(unit)
                start, end = (child.value for child in children if child.kind in ("TEXT", "QUOTED"))
                if not is_dates(children[-1].value):
                    raise BooleanSyntaxError("a range is for dates", self.text, at.start)
                return self._count(date_node(f"{start}:{end}", children[-1].value[0].kind == "entry", self.text, at))
        ready: Node = children[0].value
        return ready

    def _build_term(self, term: Lexeme, tags: Tags, at: Span) -> Node:
        if tags:
            return _join_fields([self._build_leaf(term.value, tag, at) for tag in tags], at)
        words = self._split_words(term.value, at)
        if not self.parts_words:
            mapped = "a term without a field is searched in title, abstract, keywords and headings (.mp.)"
        elif term.kind == "QUOTED":
            mapped = "a quotation without a field is searched in all fields"
        elif len(words) > 1:
            mapped = "PubMed maps words without a field by itself; here each is searched in all fields, joined by AND"
        else:
            mapped = "PubMed maps a word without a field by itself; here it is searched in all fields"
        self.findings.add("mapped by PubMed", mapped, term.start)
        if term.kind == "QUOTED" or not self.parts_words or len(words) == 1:
            return _join_fields([self._build_leaf(term.value, tag, at) for tag in self.untagged], at)
        return And(tuple(self._build_text((word,), tag.fields, at) for word in words for tag in self.untagged), at)

    def _build_leaf(self, text: str, tag: Tag, at: Span) -> Node:
        if tag.kind in ("dates", "entry"):
            return self._count(date_node(text, tag.kind == "entry", self.text, at))
        words = self._split_words(text, at)
        if tag.kind == "heading":
            name, _, qualifier = " ".join(words).partition("/")
            return self._count(Heading(name.strip(), qualifier.strip(), tag.explode, tag.major, at))
        if tag.kind == "qualifier":
            return self._count(Heading("", " ".join(words), at=at))
        if tag.fields == (Field.SUBSET,) and [word.lower() for word in words] == ["all"]:
            return self._count(Everything(at))
        if tag.distance is not None and len(words) < 2:
            self.findings.add("unsupported", "proximity needs two words; this single word is searched as it is", at)
        elif tag.distance is not None:
            if any(WILD.search(word) for word in words):
                self.findings.add("unsupported", "PubMed does not truncate within a proximity search; a library does", at)
            near = Near(tuple(Words((word,), at) for word in words), tag.distance, at=at)
            return self._count(Text(near, self._word_fields((tag,), at.start), at))
        return self._build_text(words, tag.fields, at)

    def _build_text(self, words: tuple[str, ...], fields: tuple[Field, ...], at: Span) -> Node:
        if fields == (Field.PMID,) and not all(word.isascii() and word.isdigit() for word in words):
            raise BooleanSyntaxError("a PMID is a number", self.text, at.start)
        return self._count(Text(Words(words, at), fields, at))

    def _count(self, node: Node) -> Node:
        """The node, unless the query has too many terms."""
        self.terms += 1
        if self.terms > MAX_TERMS:
            raise BooleanSyntaxError(f"more than {MAX_TERMS:,} terms", self.text, node.at.start)
        return node

    def _split_words(self, term: str, at: Span) -> tuple[str, ...]:
        words = split_term(term)
        if not words:
            raise BooleanSyntaxError("a term without a letter or digit", self.text, at.start, ["a term"])
        if any(len(WILD.findall(word)) > MOST_WILD for word in words):
            raise BooleanSyntaxError(f"more than {MOST_WILD} truncation signs in one word", self.text, at.start)
        return words

    def _build_near(self, item: Tree[Any], own: list[tuple[Tags, Lexeme]]) -> Pattern:
        """`a adj3 b adj2 c` is `(a adj3 b) adj2 c`. Adds the fields inside to `own`."""
        first, *rest = list[Any](item.children)
        pattern = self._build_pattern(first, own)
        for operator, unit in zip(rest[::2], rest[1::2], strict=True):
            right = self._build_pattern(unit, own)
            distance, ordered = operator.value
            pattern = Near((pattern, right), distance, ordered, Span(pattern.at.start, right.at.end))
        return pattern

    def _build_pattern(self, unit: Tree[Any], own: list[tuple[Tags, Lexeme]]) -> Pattern:
        children: list[Any] = unit.children
        field = next((child for child in children if isinstance(child, Lexeme) and child.kind == "FIELD"), None)
        if field is not None:
            own.append((field.value, field))
        if unit.data == "term":
            at = _span(unit)
            self.terms += 1
            return Words(self._split_words(children[0].value, at), at)
        if unit.data != "group":
            raise BooleanSyntaxError(
                "only words can be near each other", self.text, _span(unit).start, ["a word", "a phrase", "words joined by OR"]
            )
        parts = []
        for number, link in enumerate(children[1].children):
            signs = [child for child in link.children if isinstance(child, Lexeme)]
            if any(sign.kind != "OR" for sign in signs) or (number and not signs):
                start = signs[0].start if signs else _span(link).start
                raise BooleanSyntaxError(
                    "terms that are near others can be joined by OR only; quote “and” where it belongs to a phrase",
                    self.text,
                    start,
                    ["OR"],
                )
            parts.append(self._build_near(link.children[-1], own))
        return parts[0] if len(parts) == 1 else Either(tuple(parts), Span(parts[0].at.start, parts[-1].at.end))

    def _word_fields(self, tags: Tags, at: int) -> tuple[Field, ...]:
        """Fields whose words can be near each other; for a heading the words of headings."""
        fields = sort_fields(
            field for tag in tags for field in (tag.fields if tag.kind == "text" else (Field.MESH,) if tag.kind == "heading" else ())
        )
        if not fields or any(field not in WORD_FIELDS | LACKING for field in fields):
            raise BooleanSyntaxError("this field has no running text and does not support proximity", self.text, at)
        return fields


def parse_adjacency(digits: str, text: str, at: int) -> tuple[int, bool]:
    """Words between, and whether the order counts: `adj` is adjacent in this order, `adj3` in any order with at most two words between."""
    if not digits:
        return 0, True
    if not 1 <= int(digits) <= MAX_DISTANCE:
        raise BooleanSyntaxError(f"proximity is from 1 to {MAX_DISTANCE:,} words", text, at)
    return int(digits) - 1, False


def _join(operator: type[And | Or] | None, parts: list[Node]) -> Node:
    return parts[0] if operator is None else operator(tuple(parts), Span(parts[0].at.start, parts[-1].at.end))


def _join_fields(nodes: list[Node], at: Span) -> Node:
    return nodes[0] if len(nodes) == 1 else Or(tuple(nodes), at)


def _span(tree: Tree[Any]) -> Span:
    """From the first token of a subtree to its last."""
    first: Any = tree
    last: Any = tree
    while not isinstance(first, Lexeme):
        first = first.children[0]
    while not isinstance(last, Lexeme):
        last = last.children[-1]
    return Span(first.start, last.end)
