"""From the grammar's tree to the query's: operators from left to right, fields given to what they stand behind."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
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
SAME_FIELDS = "terms that are near each other stand in the same fields; put the field behind a parenthesis around them"
MIXED = "OR beside AND or NOT without parentheses; read from left to right, as PubMed does: write the parentheses"


@dataclass(slots=True)
class Builder:
    """Builds one query, or one line of it. `untagged` are the fields of a term that names none; PubMed parts such a term into words."""

    text: str
    findings: Findings
    untagged: Tags
    parts_words: bool
    terms: int = 0

    def build(self, tree: Tree[Any], inherited: Tags = ()) -> Node:
        return self._chain(tree.children[0], inherited)

    def _chain(self, chain: Tree[Any], inherited: Tags) -> Node:
        """`a OR b AND c` is `(a OR b) AND c`; a run of one operator is one node."""
        lead, *joined = chain.children
        parts = [self._signed(lead.children, inherited)]
        run: type[And | Or] | None = None
        told = False
        for link in joined:
            operator, at = _operator(link.children)
            if not isinstance(link.children[0], Lexeme):
                self.findings.add("missing operator", "no operator stands before this term; AND is taken", _span(link))
            if run not in (None, operator) and not told:
                self.findings.add("mixed operators", MIXED, _span(link) if at is None else at)
                told = True
            if run is not operator:
                parts, run = [_closed(run, parts)], operator
            parts.append(self._signed(_operands(link.children), inherited))
        return _closed(run, parts)

    def _signed(self, children: Iterable[Any], inherited: Tags) -> Node:
        """An operand with NOT before it or not."""
        *sign, item = children
        node = self._item(item, inherited)
        return Not(node, Span(sign[0].start, node.at.end)) if sign else node

    def _item(self, item: Tree[Any], inherited: Tags) -> Node:
        if len(item.children) == 1:
            return self._unit(item.children[0], inherited)
        own: list[tuple[Tags, Lexeme]] = []
        pattern = self._near(item, own)
        tags = own[0][0] if own else inherited or self.untagged
        for others, field in own:
            if others != tags:
                raise BooleanSyntaxError(SAME_FIELDS, self.text, field.start)
        return Text(pattern, self._word_fields(tags, pattern.at.start), pattern.at)

    def _unit(self, unit: Tree[Any], inherited: Tags) -> Node:
        children: list[Any] = unit.children
        match unit.data:
            case "group":
                node = self._chain(children[1], children[3].value if len(children) > 3 else inherited)
                return _placed(node, Span(children[0].start, children[-1].end)) if len(children) > 3 else node
            case "term":
                field = children[1] if len(children) > 1 else None
                return self._term(children[0], field.value if field else inherited, _span(unit), tagged=field is not None)
            case "range":
                return self._range(children, _span(unit))
        ready: Node = children[0].value
        return ready

    def _term(self, said: Lexeme, tags: Tags, at: Span, *, tagged: bool) -> Node:
        if tags:
            return _any([self._leaf(said.value, tag, at) for tag in tags], at)
        words = self._words(said.value, at)
        self._remark_untagged(said, len(words))
        if said.kind == "QUOTED" or not self.parts_words or len(words) == 1:
            return _any([self._leaf(said.value, tag, at) for tag in self.untagged], at)
        return And(tuple(self._text((word,), tag.fields, at) for word in words for tag in self.untagged), at)

    def _remark_untagged(self, said: Lexeme, count: int) -> None:
        if not self.parts_words:
            self.findings.add(
                "mapped by PubMed", "a term without a field is looked for in title, abstract, keywords and headings (.mp.)", said.start
            )
        elif said.kind == "QUOTED":
            self.findings.add("mapped by PubMed", "a quotation without a field is looked for in all fields", said.start)
        elif count > 1:
            self.findings.add(
                "mapped by PubMed",
                "PubMed maps words without a field by itself; here each is looked for in all fields, joined by AND",
                said.start,
            )
        else:
            self.findings.add(
                "mapped by PubMed", "PubMed maps a word without a field by itself; here it is looked for in all fields", said.start
            )

    def _leaf(self, said: str, tag: Tag, at: Span) -> Node:
        if tag.kind in ("dates", "entry"):
            return self._counted(date_node(said, tag.kind == "entry", self.text, at))
        words = self._words(said, at)
        if tag.kind == "heading":
            name, _, qualifier = " ".join(words).partition("/")
            return self._counted(Heading(name.strip(), qualifier.strip(), tag.explode, tag.major, at))
        if tag.kind == "qualifier":
            return self._counted(Heading("", " ".join(words), at=at))
        if tag.fields == (Field.SUBSET,) and [word.lower() for word in words] == ["all"]:
            return self._counted(Everything(at))
        if tag.distance is not None:
            return self._proximity(words, tag, at)
        return self._text(words, tag.fields, at)

    def _proximity(self, words: tuple[str, ...], tag: Tag, at: Span) -> Node:
        if len(words) < 2:
            self.findings.add("unsupported", "proximity needs two words; this is one, looked for as it stands", at)
            return self._text(words, tag.fields, at)
        if any(WILD.search(word) for word in words):
            self.findings.add("unsupported", "PubMed does not truncate within a proximity search; a library does", at)
        near = Near(tuple(Words((word,), at) for word in words), tag.distance or 0, at=at)
        return self._counted(Text(near, self._word_fields((tag,), at.start), at))

    def _text(self, words: tuple[str, ...], fields: tuple[Field, ...], at: Span) -> Node:
        if fields == (Field.PMID,) and not all(word.isascii() and word.isdigit() for word in words):
            raise BooleanSyntaxError("a PMID is a number", self.text, at.start)
        return self._counted(Text(Words(words, at), fields, at))

    def _counted(self, node: Node) -> Node:
        self.terms += 1
        if self.terms > MAX_TERMS:
            raise BooleanSyntaxError(f"more than {MAX_TERMS:,} terms", self.text, node.at.start)
        return node

    def _words(self, said: str, at: Span) -> tuple[str, ...]:
        words = split_term(said)
        if not words:
            raise BooleanSyntaxError("a term without a letter or digit", self.text, at.start, ["a term"])
        if any(len(WILD.findall(word)) > MOST_WILD for word in words):
            raise BooleanSyntaxError(f"more than {MOST_WILD} truncation signs in one word", self.text, at.start)
        return words

    def _range(self, children: list[Any], at: Span) -> Node:
        """`"2019/01/01"[dp] : "2020"[dp]`; the last field counts."""
        ends = [one for one in children if one.kind in ("TEXT", "QUOTED")]
        tags: Tags = children[-1].value
        if not is_dates(tags):
            raise BooleanSyntaxError("a range is for dates", self.text, at.start)
        return self._counted(date_node(f"{ends[0].value}:{ends[1].value}", tags[0].kind == "entry", self.text, at))

    def _near(self, item: Tree[Any], own: list[tuple[Tags, Lexeme]]) -> Pattern:
        """`a adj3 b adj2 c` is `(a adj3 b) adj2 c`."""
        first, *rest = list[Any](item.children)
        pattern = self._pattern(first, own)
        for operator, unit in zip(rest[::2], rest[1::2], strict=True):
            right = self._pattern(unit, own)
            distance, ordered = operator.value
            pattern = Near((pattern, right), distance, ordered, Span(pattern.at.start, right.at.end))
        return pattern

    def _pattern(self, unit: Tree[Any], own: list[tuple[Tags, Lexeme]]) -> Pattern:
        children: list[Any] = unit.children
        field = next((one for one in children if isinstance(one, Lexeme) and one.kind == "FIELD"), None)
        if field is not None:
            own.append((field.value, field))
        if unit.data == "term":
            at = _span(unit)
            self.terms += 1
            return Words(self._words(children[0].value, at), at)
        if unit.data == "group":
            return self._either(children[1], own)
        raise BooleanSyntaxError(
            "only words can be near each other", self.text, _span(unit).start, ["a word", "a phrase", "words joined by OR"]
        )

    def _either(self, chain: Tree[Any], own: list[tuple[Tags, Lexeme]]) -> Pattern:
        lead, *joined = chain.children
        parts = []
        for link in (lead, *joined):
            signs = [one for one in link.children if isinstance(one, Lexeme)]
            if any(one.kind != "OR" for one in signs) or (link is not lead and not signs):
                at = signs[0].start if signs else _span(link).start
                raise BooleanSyntaxError(
                    "terms that are near others can be joined by OR only; quote “and” where it belongs to a phrase", self.text, at, ["OR"]
                )
            parts.append(self._near(link.children[-1], own))
        return parts[0] if len(parts) == 1 else Either(tuple(parts), Span(parts[0].at.start, parts[-1].at.end))

    def _word_fields(self, tags: Tags, at: int) -> tuple[Field, ...]:
        """Fields in which words can be near each other; of a heading its words."""
        fields = sort_fields(
            field for tag in tags for field in (tag.fields if tag.kind == "text" else (Field.MESH,) if tag.kind == "heading" else ())
        )
        if not fields or any(field not in WORD_FIELDS | LACKING for field in fields):
            raise BooleanSyntaxError("this field holds no running words; proximity cannot be asked for in it", self.text, at)
        return fields


def parse_adjacency(digits: str, text: str, at: int) -> tuple[int, bool]:
    """Words between, and whether the order counts: `adj` is side by side in this order, `adj3` in any order with at most two between."""
    if not digits:
        return 0, True
    if not 1 <= int(digits) <= MAX_DISTANCE:
        raise BooleanSyntaxError(f"proximity is from 1 to {MAX_DISTANCE:,} words", text, at)
    return int(digits) - 1, False


def _operator(children: list[Any]) -> tuple[type[And | Or], int | None]:
    """What joins a term to those before it, and where that stands."""
    first = children[0]
    if isinstance(first, Lexeme):
        return (Or if first.kind == "OR" else And), first.start
    return And, None


def _closed(run: type[And | Or] | None, parts: list[Node]) -> Node:
    return parts[0] if run is None else run(tuple(parts), Span(parts[0].at.start, parts[-1].at.end))


def _operands(children: list[Any]) -> list[Any]:
    return [one for one in children if not (isinstance(one, Lexeme) and one.kind in ("AND", "OR"))]


def _any(nodes: list[Node], at: Span) -> Node:
    return nodes[0] if len(nodes) == 1 else Or(tuple(nodes), at)


def _placed(node: Node, at: Span) -> Node:
    return replace(node, at=at)


def _span(tree: Tree[Any]) -> Span:
    lexemes = list(_lexemes(tree))
    return Span(lexemes[0].start, lexemes[-1].end)


def _lexemes(tree: Any) -> Iterator[Lexeme]:
    if isinstance(tree, Lexeme):
        yield tree
    else:
        for child in tree.children:
            yield from _lexemes(child)
