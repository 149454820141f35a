"""Translation of a Boolean tree to one query of a service: relaxation and filters.

A relaxed query loses no hit. A part that a service cannot express is `Wider`. An AND leaves such parts out, which only adds hits; an OR
with such a part cannot be expressed at all, since leaving the part out would lose hits. A part that no record of the service matches
(`Nothing`: a heading where there are none) is left out of an OR, where it adds no hit, and also of an AND, which only adds hits. NOT is
sent only for parts that the service expresses exactly: a wider part would exclude too much.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from outrider.boolean.printer import format_tree
from outrider.boolean.relax import AllOf, AnyOf, join_all, join_any, relax
from outrider.state.boolean import And, Dates, Everything, Field, Leaf, Node, Not, Or, Text, Words, children
from outrider.state.errors import SourceOff
from outrider.state.systematic import Harvest, MatchedPage, SentQuery

LONGEST_PART = 90
"""Characters of a part of a query in a note."""
MOST_NOTES = 12


@dataclass(frozen=True, slots=True)
class Term:
    """An expression in the service's own syntax."""

    text: str
    exact: bool = False
    """Whether it matches exactly the records that the leaf matches, and no more."""


@dataclass(frozen=True, slots=True)
class Without:
    """All records but those of a part that is expressed exactly."""

    part: Condition


@dataclass(frozen=True, slots=True)
class Wider:
    """Any record may match: the service cannot express the part."""

    why: str


@dataclass(frozen=True, slots=True)
class Nothing:
    """No record of the service matches."""

    why: str


Condition: TypeAlias = "Term | AllOf[Condition] | AnyOf[Condition] | Without | Wider | Nothing"


@dataclass(frozen=True, slots=True)
class RelaxedPart:
    """The condition for a part of a query, and notes on what was left out of it."""

    condition: Condition
    widened: tuple[str, ...] = ()
    lacking: tuple[str, ...] = ()


TranslateLeaf = Callable[[Leaf], RelaxedPart]
"""Translates a leaf to the syntax of one service."""
Filters = tuple[tuple[str, str], ...]
Conjunct = tuple[Node, RelaxedPart]


def relax_query(node: Node, translate_leaf: TranslateLeaf) -> RelaxedPart:
    """The weakest query that the service can express and that loses no hit."""
    return relax(node, _ServiceRelaxation(translate_leaf))


@dataclass(frozen=True, slots=True)
class _ServiceRelaxation:
    """A `Relaxation`."""

    translate_leaf: TranslateLeaf

    def leaf(self, leaf: Leaf) -> RelaxedPart:
        return RelaxedPart(Wider("it asks for every record")) if isinstance(leaf, Everything) else self.translate_leaf(leaf)

    def negate(self, part: Node) -> RelaxedPart:
        if isinstance(part, Everything):
            return RelaxedPart(Nothing("it asks for no record"))
        relaxed = relax(part, self)
        if isinstance(relaxed.condition, Nothing):
            return RelaxedPart(Wider("no record there has it, so that it takes nothing away"))
        if is_exact(relaxed.condition) and not (relaxed.widened or relaxed.lacking):
            return RelaxedPart(Without(relaxed.condition))
        return RelaxedPart(Wider("records that NOT excludes are removed here"))

    def moves_not_inward(self, part: Node) -> bool:
        return any(isinstance(child, Not) or self.moves_not_inward(child) for child in children(part))

    def every(self, parts: Sequence[tuple[Node, RelaxedPart]]) -> RelaxedPart:
        """The parts that can be expressed, or the reason why none can."""
        expressed = [relaxed for _, relaxed in parts if not isinstance(relaxed.condition, Wider | Nothing)]
        inexpressible = [(node, relaxed.condition) for node, relaxed in parts if isinstance(relaxed.condition, Wider | Nothing)]
        if not expressed:
            return RelaxedPart(next((condition for _, condition in inexpressible if isinstance(condition, Nothing)), inexpressible[0][1]))
        notes = [note for relaxed in expressed for note in relaxed.widened]
        notes += [f"{abbreviate(node)}: {condition.why}" for node, condition in inexpressible]
        lacking = tuple(note for relaxed in expressed for note in relaxed.lacking)
        return RelaxedPart(join_all(relaxed.condition for relaxed in expressed), tuple(notes), lacking)

    def either(self, parts: Sequence[tuple[Node, RelaxedPart]]) -> RelaxedPart:
        """All parts, or the reason of the first one that cannot be expressed."""
        for node, relaxed in parts:
            if isinstance(relaxed.condition, Wider):
                return RelaxedPart(Wider(f"among alternatives, {abbreviate(node)}: {relaxed.condition.why}"))
        expressed = [relaxed for _, relaxed in parts if not isinstance(relaxed.condition, Nothing)]
        inexpressible = [(node, relaxed.condition) for node, relaxed in parts if isinstance(relaxed.condition, Nothing)]
        if not expressed:
            return RelaxedPart(inexpressible[0][1])
        widened = tuple(note for relaxed in expressed for note in relaxed.widened)
        lacking = [note for relaxed in expressed for note in relaxed.lacking]
        lacking += [f"{abbreviate(node)}: {condition.why}" for node, condition in inexpressible]
        return RelaxedPart(join_any(relaxed.condition for relaxed in expressed), widened, tuple(lacking))


def is_exact(condition: Condition) -> bool:
    """Whether a condition matches the same records as the part it stands for."""
    match condition:
        case Term(_, exact):
            return exact
        case AllOf(parts) | AnyOf(parts):
            return all(map(is_exact, parts))
        case Without(part):
            return is_exact(part)
    return False


def abbreviate(node: Node) -> str:
    """A part of a query for a note, cut after `LONGEST_PART` characters."""
    text = format_tree(node)
    return text if len(text) <= LONGEST_PART else f"{text[: LONGEST_PART - 1]}…"


def limit_notes(notes: Iterable[str]) -> tuple[str, ...]:
    """Each note once; of very many the first, and their number."""
    once = tuple(dict.fromkeys(notes))
    return once if len(once) <= MOST_NOTES else (*once[:MOST_NOTES], f"and {len(once) - MOST_NOTES} more of this kind")


@dataclass(slots=True)
class Translation:
    """The material of a service's query: filters, and parts that are joined by AND."""

    source: str
    filters: list[tuple[str, str]] = field(default_factory=list)
    parts: list[Conjunct] = field(default_factory=list)
    omitted: list[Conjunct] = field(default_factory=list)
    """Parts that the service cannot express."""
    widened: list[str] = field(default_factory=list)

    def make_query(self, query: str, parameters: Filters = ()) -> SentQuery:
        """The query with its notes."""
        notes = [note for _, part in self.parts for note in part.widened]
        return SentQuery(
            self.source,
            query,
            parameters,
            limit_notes((*notes, *self.widened, *self._explain_omitted())),
            lacking=limit_notes(note for _, part in self.parts for note in part.lacking),
        )

    def refuse(self) -> SentQuery:
        """Send no query: leaving out the rest of the parts would lose hits."""
        reasons = limit_notes(self._explain_omitted())
        return SentQuery(self.source, refused=f"no part of the query can narrow the search there; {'; '.join(reasons)}")

    def refuse_too_long(self) -> SentQuery:
        """Send no query: `shorten` found no part that fits."""
        if not self.widened:
            return self.refuse()
        return SentQuery(self.source, refused=f"its shortest part is longer than an address may be: {self.widened[0]}")

    def _explain_omitted(self) -> list[str]:
        conditions = ((node, part.condition) for node, part in self.omitted)
        return [f"{abbreviate(node)}: {condition.why if isinstance(condition, Wider | Nothing) else ''}" for node, condition in conditions]

    def shorten(self, render_condition: Callable[[Condition], str], fits: Callable[[str], bool]) -> str:
        """The expression of the parts. While it is too long, its longest part goes, which only adds hits; empty if nothing fits."""
        while self.parts:
            query = render_condition(join_all(part.condition for _, part in self.parts))
            if fits(query):
                return query
            longest = max(self.parts, key=lambda part: len(render_condition(part[1].condition)))
            self.parts.remove(longest)
            self.widened.append(f"{abbreviate(longest[0])}: with it the query is longer than {self.source} takes")
        return ""


def translate(source: str, tree: Node, translate_leaf: TranslateLeaf, make_filters: Callable[[Node], Filters | None]) -> Translation:
    """Split a tree at its outermost ANDs into filters and relaxed parts."""
    translation, pending = Translation(source), [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, And):
            pending += reversed(node.parts)
        elif (filters := make_filters(node)) is not None:
            translation.filters += filters
        elif not isinstance(node, Everything):
            part = relax_query(node, translate_leaf)
            (translation.omitted if isinstance(part.condition, Wider | Nothing) else translation.parts).append((node, part))
    return translation


def render(condition: Condition, and_: str, or_: str) -> str:
    """An expression in the service's operators, with parentheses around each joined part, but not around the whole."""
    match condition:
        case Term(text):
            return text
        case AllOf(parts) | AnyOf(parts):
            operands = ((part, render(part, and_, or_)) for part in parts)
            joint = and_ if isinstance(condition, AllOf) else or_
            return joint.join(text if isinstance(part, Term) else f"({text})" for part, text in operands)
    raise AssertionError(condition)  # omitted parts never get here


def read_years(node: Node) -> tuple[int | None, int | None] | None:
    """First and last year of dates, both included. None for another node."""
    if not isinstance(node, Dates):
        return None
    return int(node.start[:4]) if node.start else None, int(node.end[:4]) if node.end else None


def read_values(node: Node, field: Field) -> tuple[str, ...] | None:
    """The alternative values of a field that is compared as a whole; None for another field, and for values with wildcards."""
    leaves: Sequence[Node] = node.parts if isinstance(node, Or) else (node,)
    values: list[str] = []
    for leaf in leaves:
        if not (isinstance(leaf, Text) and leaf.fields == (field,) and isinstance(leaf.pattern, Words)):
            return None
        values.append(" ".join(leaf.pattern.words))
    return None if any("*" in value or "{" in value for value in values) else tuple(values)


VARIES = "its totals and results differ between two calls of the same query, and no query of it reads to the last hit"
REFUSED = {
    "serpapi_scholar": f"Google Scholar, by SerpApi: {VARIES}",
    "serpapi_google": f"Google, by SerpApi: {VARIES}",
    "web": f"a result page of the web: {VARIES}",
}
UNSUPPORTED = {"arxiv": "its query language is not written by Outrider; search PubMed, OpenAlex or Semantic Scholar, which hold its papers"}


@dataclass(frozen=True, slots=True)
class RefusedSource:
    """A `RemoteSource` that never gets a query, and gives the reason: otherwise users could believe that it was searched."""

    name: str

    def translate(self, tree: Node, text: str) -> SentQuery:
        return SentQuery(self.name, refused=self.why, reproducible=self.name not in REFUSED)

    async def harvest(self, tree: Node, sent_query: SentQuery, into: Harvest, after: str = "") -> AsyncIterator[MatchedPage]:
        into.remarks.append(self.why)
        raise SourceOff(f"a systematic run sends no query to {self.name}: {self.why}")
        yield  # pragma: no cover - makes this an asynchronous generator

    @property
    def why(self) -> str:
        return REFUSED.get(self.name) or UNSUPPORTED[self.name]
