"""Conversion of the grammar's parse tree to the query's tree.

`Conventions` say what differs between platforms: the order of operators, the fields of a term without one, and how words without quotation
marks are joined.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from outrider.boolean.diagnostics import BooleanSyntaxError, Findings
from outrider.boolean.field_tags import Tag, sort_fields
from outrider.boolean.field_values import convert_hyphen_range, date_node, find_qualifier, find_successor, is_dates, list_qualifiers
from outrider.boolean.filters_and_limits import REFUSED, SUBSETS, compact, find_filter, list_filters
from outrider.boolean.grammar import MAX_TERMS, Lexeme
from outrider.boolean.occurrences import MOST_WILD, WILD, split_term
from outrider.state.boolean import (
    LACKING,
    MAX_DISTANCE,
    WORD_FIELDS,
    And,
    Either,
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
from outrider.state.errors import did_you_mean

if TYPE_CHECKING:
    from lark import Tree

Tags = tuple[Tag, ...]
Levels = tuple[frozenset[str], ...]
"""Operators by precedence, those that bind tightest first. Within a level they apply from left to right."""
LEFT_TO_RIGHT: Levels = (frozenset(("AND", "OR", "NOT")),)
SAME_FIELDS = "terms joined by proximity search the same fields; put the field after a parenthesis around them"


@dataclass(frozen=True, slots=True)
class Conventions:
    """What a platform means where a query does not say it."""

    name: str
    untagged: Tags
    """The fields of a term without a field."""
    untagged_note: str
    words: Literal["phrase", "and", "and if untagged"]
    """How words without quotation marks are joined."""
    levels: Levels
    order: str
    """For remarks on operators that are mixed without parentheses."""
    hyphen_ranges: bool = False
    """Whether `2010-2014` is a range of years."""


@dataclass(slots=True)
class Builder:
    """Builds one query, or one line."""

    text: str
    findings: Findings
    conventions: Conventions
    terms: int = 0

    def build(self, tree: Tree[Any], inherited: Tags = ()) -> Node:
        return self._build_chain(tree.children[0], inherited)

    def _build_chain(self, chain: Tree[Any], inherited: Tags) -> Node:
        """The operands, joined in the platform's order; a run of one operator is one node."""
        lead, *links = chain.children
        operands = [self._build_operand(lead.children, inherited)]
        operators: list[Lexeme] = []
        for link in links:
            signs = [child for child in link.children if isinstance(child, Lexeme)]
            start = signs[0].start if signs else _span(link).start
            if not signs:
                self.findings.add("missing operator", "no operator before this term; AND is assumed", start)
            if signs and signs[-1].kind == "NOT" and signs[0].kind != "OR":
                # `a NOT b` and `a AND NOT b`: the operator NOT; `a OR NOT b` joins a negated operand
                operands.append(self._build_operand(link.children[-1:], inherited))
                operators.append(Lexeme("NOT", None, start, signs[-1].start))
            else:
                operand = [child for child in link.children if not (isinstance(child, Lexeme) and child.kind in ("AND", "OR"))]
                operands.append(self._build_operand(operand, inherited))
                operators.append(Lexeme(signs[0].kind if signs else "AND", None, start, start))
        self._remark_order(operators)
        return _fold(operands, operators, self.conventions.levels)

    def _remark_order(self, operators: list[Lexeme]) -> None:
        """A remark where parentheses would show which operator applies first."""
        kinds = [operator.kind for operator in operators]
        if "OR" in kinds and len(set(kinds)) > 1:
            change = next(operator for operator in operators if (operator.kind == "OR") != (kinds[0] == "OR"))
            names, at = "OR mixed with AND or NOT", change.start
        elif (
            "NOT" in kinds
            and "AND" in kinds[kinds.index("NOT") :]
            and not any(level >= {"AND", "NOT"} for level in self.conventions.levels)
        ):
            names, at = "AND after NOT", operators[kinds.index("NOT")].start
        else:
            return
        self.findings.add("mixed operators", f"{names} without parentheses; evaluated {self.conventions.order}: add parentheses", at)

    def _build_operand(self, children: Iterable[Any], inherited: Tags) -> Node:
        """An operand with or without NOT before it."""
        *sign, item = children
        if len(item.children) == 1:
            node = self._build_unit(item.children[0], inherited)
        else:
            own: list[tuple[Tags, Lexeme]] = []
            pattern = self._build_near(item, own)
            tags = own[0][0] if own else inherited or self.conventions.untagged
            for others, field in own:
                if others != tags:
                    raise BooleanSyntaxError(SAME_FIELDS, self.text, field.start)
            node = Text(pattern, self._word_fields(tags, pattern.at.start), pattern.at)
        return Not(node, Span(sign[0].start, node.at.end)) if sign else node

    def _build_unit(self, unit: Tree[Any], inherited: Tags) -> Node:
        children: list[Any] = unit.children
        own = _find_field(children)
        match unit.data:
            case "group":
                chain = next(child for child in children if not isinstance(child, Lexeme))
                node = self._build_chain(chain, own.value if own else inherited)
                return replace(node, at=Span(children[0].start, children[-1].end)) if own else node
            case "term":
                term = next(child for child in children if child.kind in ("TEXT", "QUOTED"))
                return self._build_term(term, own.value if own else inherited, _span(unit))
            case "range":
                # `"2019/01/01"[dp] : "2020"[dp]`; the last field counts
                at = _span(unit)
                start, end = (child.value for child in children if child.kind in ("TEXT", "QUOTED"))
                if not is_dates(children[-1].value):
                    raise BooleanSyntaxError("a range is for dates", self.text, at.start)
                return self._count(date_node(f"{start}:{end}", children[-1].value[0].kind == "entry", self.text, at))
        ready: Node = children[0].value
        if inherited:
            message = "the field of the parenthesis does not apply to this line or heading, which has its own"
            self.findings.add("unsupported", message, children[0].start)
        return ready

    def _build_term(self, term: Lexeme, tags: Tags, at: Span) -> Node:
        words = self._split_words(term.value, at)
        if self.conventions.name == "PubMed" and "hasabstract" in map(str.lower, words):
            self._build_filter("hasabstract", at)
        is_split = term.kind == "TEXT" and len(words) > 1 and self.conventions.words != "phrase"
        if tags:
            if is_split and self.conventions.words == "and" and all(WORD_FIELDS.issuperset(tag.fields) and tag.fields for tag in tags):
                return And(tuple(_join_fields([self._build_leaf(word, tag, at) for tag in tags], at) for word in words), at)
            return _join_fields([self._build_leaf(term.value, tag, at) for tag in tags], at)
        if self.conventions.words != "and if untagged":
            note = self.conventions.untagged_note
        elif term.kind == "QUOTED":
            note = "a quotation without a field is searched in all fields"
        elif is_split:
            note = "PubMed maps words without a field by itself; here each is searched in all fields, joined by AND"
        else:
            note = "PubMed maps a word without a field by itself; here it is searched in all fields"
        self.findings.add("mapped by PubMed" if self.conventions.name in ("PubMed", "Ovid") else "approximated", note, term.start)
        untagged = self.conventions.untagged
        if not is_split:
            return _join_fields([self._build_leaf(term.value, tag, at) for tag in untagged], at)
        return And(tuple(self._build_text((word,), tag.fields, at) for word in words for tag in untagged), at)

    def _build_leaf(self, text: str, tag: Tag, at: Span) -> Node:
        if tag.kind in ("dates", "entry"):
            dates = convert_hyphen_range(text) if self.conventions.hyphen_ranges else text
            return self._count(date_node(dates, tag.kind == "entry", self.text, at))
        words = self._split_words(text, at)
        if tag.kind == "heading":
            name, *qualifiers = " ".join(words).split("/")
            explode = tag.explode or (tag.plus_explodes and name.endswith("+"))
            names = [self.name_qualifier(qualifier.strip(), at) for qualifier in qualifiers] or [""]
            name = name.rstrip("+").strip() if tag.plus_explodes else name.strip()
            return _join_fields([self._count(Heading(name, qualifier, explode, tag.major, at)) for qualifier in names], at)
        if tag.kind == "qualifier":
            return self._count(Heading("", self.name_qualifier(" ".join(words), at), at=at))
        if tag.fields == (Field.SUBSET,):
            return self._build_filter(" ".join(words), at)
        if tag.distance is not None and len(words) < 2:
            self.findings.add("unsupported", "proximity needs two words; this single word is searched as it is", at)
        elif tag.distance is not None:
            if any(WILD.search(word) for word in words):
                self.findings.add("unsupported", "PubMed does not truncate within a proximity search; a library does", at)
            near = Near(tuple(Words((word,), at) for word in words), tag.distance, at=at)
            return self._count(Text(near, self._word_fields((tag,), at.start), at))
        return self._build_text(words, tag.fields, at)

    def _build_filter(self, text: str, at: Span) -> Node:
        """`humans[Filter]`: a condition that records can answer, or a subset that only PubMed knows."""
        name = compact(text)
        if name in REFUSED:
            raise BooleanSyntaxError(f"the filter “{text}” is not supported: {REFUSED[name]}", self.text, at.start, ["no such filter"])
        node = find_filter(text, at)
        if node is not None:
            return self._count(node)
        if text.lower() not in SUBSETS and not text.lower().startswith("jsubset"):
            hint = did_you_mean(text.lower(), list_filters())
            raise BooleanSyntaxError(f"“{text}” is no filter or subset of PubMed that is known here{hint}", self.text, at.start)
        return self._count(Text(Words(self._split_words(text, at), at), (Field.SUBSET,), at))

    def name_qualifier(self, text: str, at: Span) -> str:
        """The qualifier's name for a name or a code. Raises `BooleanSyntaxError` for an unknown one."""
        name = find_qualifier(text)
        if name is None:
            hint = did_you_mean(text.lower(), list_qualifiers())
            raise BooleanSyntaxError(f"“{text}” is no MeSH qualifier{hint}", self.text, at.start, ["a qualifier such as surgery, or su"])
        successor = find_successor(name)
        if successor is not None:
            instead = f"; since then records have “{successor}”: add it with OR" if successor else ""
            self.findings.add("not in a library", f"NLM removed the qualifier “{name}” by 2019{instead}", at)
        return name

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
        field = _find_field(children)
        if field is not None:
            own.append((field.value, field))
        if unit.data == "term":
            at = _span(unit)
            self.terms += 1
            term = next(child for child in children if child.kind in ("TEXT", "QUOTED"))
            words = self._split_words(term.value, at)
            if term.kind == "TEXT" and len(words) > 1 and self.conventions.words == "and":
                self.findings.add("approximated", "words without quotation marks beside a proximity operator are read as a phrase", at)
            return Words(words, at)
        if unit.data != "group":
            raise BooleanSyntaxError(
                "only words can be near each other", self.text, _span(unit).start, ["a word", "a phrase", "words joined by OR"]
            )
        parts = []
        chain = next(child for child in children if not isinstance(child, Lexeme))
        for number, link in enumerate(chain.children):
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


def parse_adjacency(digits: str, text: str, at: int, *, ordered: bool = False) -> tuple[int, bool]:
    """Words between, and whether the order counts: `adj` is adjacent in this order, `adj3` in any order with at most two words between."""
    if not digits:
        return 0, True
    if not 1 <= int(digits) <= MAX_DISTANCE:
        raise BooleanSyntaxError(f"proximity is from 1 to {MAX_DISTANCE:,} words", text, at)
    return int(digits) - 1, ordered


Slot = tuple[type[And | Or] | None, list[Node]]
"""Operands that one operator joins so far; None is a single operand."""


def _fold(operands: Sequence[Node], operators: Sequence[Lexeme], levels: Levels) -> Node:
    """Join the operands level by level. `NOT` is AND with the negated right operand."""
    slots: list[Slot] = [(None, [node]) for node in operands]
    for level in levels:
        joined, remaining = [slots[0]], []
        for operator, slot in zip(operators, slots[1:], strict=True):
            if operator.kind not in level:
                joined.append(slot)
                remaining.append(operator)
                continue
            right = _join(slot)
            if operator.kind == "NOT":
                right = Not(right, Span(operator.end, right.at.end))
            joint: type[And | Or] = Or if operator.kind == "OR" else And
            if joined[-1][0] is joint:
                joined[-1][1].append(right)
            else:
                joined[-1] = (joint, [_join(joined[-1]), right])
        slots, operators = joined, remaining
    return _join(slots[0])


def _join(slot: Slot) -> Node:
    operator, parts = slot
    return parts[0] if operator is None else operator(tuple(parts), Span(parts[0].at.start, parts[-1].at.end))


def _join_fields(nodes: list[Node], at: Span) -> Node:
    return nodes[0] if len(nodes) == 1 else Or(tuple(nodes), at)


def _find_field(children: Iterable[Any]) -> Lexeme | None:
    """The field before or after a term or group."""
    return next((child for child in children if isinstance(child, Lexeme) and child.kind in ("FIELD", "PREFIX")), None)


def _span(tree: Tree[Any]) -> Span:
    """From the first token of a subtree to its last."""
    first: Any = tree
    last: Any = tree
    while not isinstance(first, Lexeme):
        first = first.children[0]
    while not isinstance(last, Lexeme):
        last = last.children[-1]
    return Span(first.start, last.end)
