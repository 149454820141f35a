"""A tree as one query to a service: filters that hold for all of it, and one expression in the service's operators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from outrider.boolean.relax import AllOf, AnyOf, all_of
from outrider.state.boolean import Dates, Everything, Node, Or, Text, Words
from outrider.state.systematic import SentQuery
from outrider.systematic_search.services.relax import Bound, Bounded, Nothing, Say, Term, Wider, bounded, conjuncts, noted, shown

Filters = tuple[tuple[str, str], ...]
Conjunct = tuple[Node, Bounded]


@dataclass(slots=True)
class Translated:
    """What a query can be made of: filters, and parts that all must hold."""

    source: str
    filters: list[tuple[str, str]] = field(default_factory=list)
    parts: list[Conjunct] = field(default_factory=list)
    left: list[Conjunct] = field(default_factory=list)
    """What cannot be said."""
    widened: list[str] = field(default_factory=list)

    def sent(self, query: str, parameters: Filters = ()) -> SentQuery:
        notes = [note for _, one in self.parts for note in one.widened]
        return SentQuery(
            self.source,
            query,
            parameters,
            noted((*notes, *self.widened, *(f"{shown(node)}: {_why(one.bound)}" for node, one in self.left))),
            lacking=noted(note for _, one in self.parts for note in one.lacking),
        )

    def refused(self, why: str = "") -> SentQuery:
        """Asked for nothing, since what cannot be said would lose hits."""
        reasons = noted(f"{shown(node)}: {_why(one.bound)}" for node, one in self.left)
        said = why or f"nothing that narrows it can be said there; {'; '.join(reasons)}"
        return SentQuery(self.source, refused=said)

    def refused_as_too_long(self) -> SentQuery:
        """Not sent, since even the shortest part does not fit; `shortened` left nothing."""
        return self.refused(f"its shortest part is longer than an address may be: {self.widened[0]}" if self.widened else "")

    def shortened(self, render: Callable[[Bound], str], fits: Callable[[str], bool]) -> str:
        """The expression; where it is too long, without its longest parts, which only adds. Empty where nothing fits."""
        while self.parts:
            query = render(all_of(one.bound for _, one in self.parts))
            if fits(query):
                return query
            longest = max(self.parts, key=lambda part: len(render(part[1].bound)))
            self.parts.remove(longest)
            self.widened.append(f"{shown(longest[0])}: with it the query is longer than {self.source} takes")
        return ""


def translated(source: str, tree: Node, say: Say, filters: Callable[[Node], Filters | None]) -> Translated:
    made = Translated(source)
    for node in conjuncts(tree):
        filtering = filters(node)
        if filtering is not None:
            made.filters += filtering
            continue
        if isinstance(node, Everything):
            continue
        one = bounded(node, say)
        (made.left if isinstance(one.bound, Wider | Nothing) else made.parts).append((node, one))
    return made


def rendered(bound: Bound, and_: str, or_: str) -> str:
    """With parentheses around all that is joined, but for the whole."""
    match bound:
        case Term(text):
            return text
        case AllOf(parts):
            return and_.join(_operand(part, and_, or_) for part in parts)
        case AnyOf(parts):
            return or_.join(_operand(part, and_, or_) for part in parts)
    raise AssertionError(bound)  # what is left out never comes here


def _operand(part: Bound, and_: str, or_: str) -> str:
    said = rendered(part, and_, or_)
    return said if isinstance(part, Term) else f"({said})"


def _why(bound: Bound) -> str:
    return bound.why if isinstance(bound, Wider | Nothing) else ""


def years_of(node: Node) -> tuple[int | None, int | None] | None:
    """First and last year of dates, both ends included. None for anything else."""
    if not isinstance(node, Dates):
        return None
    return int(node.start[:4]) if node.start else None, int(node.end[:4]) if node.end else None


def values_of(node: Node, name: object) -> tuple[str, ...] | None:
    """The values of one field that is compared as a whole, alternatives each; None where it asks for anything else, or with signs."""
    leaves: Sequence[Node] = node.parts if isinstance(node, Or) else (node,)
    said: list[str] = []
    for leaf in leaves:
        if not (isinstance(leaf, Text) and leaf.fields == (name,) and isinstance(leaf.pattern, Words)):
            return None
        said.append(" ".join(leaf.pattern.words))
    return None if any("*" in value or "{" in value for value in said) else tuple(said)
