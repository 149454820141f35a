"""Relaxation of a Boolean tree to a service's operators: a query that loses no hit.

Parts that a service cannot express become `Wider`. An AND leaves such parts out, which only adds hits; an OR with such a part cannot be
expressed at all, since leaving the part out would lose hits. Parts that no record of the service has (`Nothing`: a heading where there
are none) are left out of an OR, where they add no hit, and also of an AND, which only adds hits. NOT is sent only for parts that the
service expresses exactly: a wider part would take away too much.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from outrider.boolean.printer import printed
from outrider.boolean.relax import AllOf, AnyOf, all_of, any_of, relax
from outrider.state.boolean import And, Everything, Leaf, Node, Not, children

MOST_SHOWN = 90
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

    part: Bound


@dataclass(frozen=True, slots=True)
class Wider:
    """Any record may match: the service cannot express the part."""

    why: str


@dataclass(frozen=True, slots=True)
class Nothing:
    """No record of the service matches."""

    why: str


Bound: TypeAlias = "Term | AllOf[Bound] | AnyOf[Bound] | Without | Wider | Nothing"


@dataclass(frozen=True, slots=True)
class Bounded:
    """A relaxed query, and notes on the parts that were left out."""

    bound: Bound
    widened: tuple[str, ...] = ()
    lacking: tuple[str, ...] = ()


Say = Callable[[Leaf], Bounded]
"""Translates a leaf to the syntax of one service."""


def bounded(node: Node, say: Say) -> Bounded:
    return relax(node, _Bounding(say))


@dataclass(frozen=True, slots=True)
class _Bounding:
    """A `Relaxation`."""

    say: Say

    def leaf(self, leaf: Leaf) -> Bounded:
        return Bounded(Wider("it asks for every record")) if isinstance(leaf, Everything) else self.say(leaf)

    def negated(self, part: Node) -> Bounded:
        if isinstance(part, Everything):
            return Bounded(Nothing("it asks for no record"))
        found = relax(part, self)
        if isinstance(found.bound, Nothing):
            return Bounded(Wider("no record there has it, so that it takes nothing away"))
        if is_exact(found.bound) and not (found.widened or found.lacking):
            return Bounded(Without(found.bound))
        return Bounded(Wider("what NOT takes away is taken away here"))

    def moves_not_inward(self, part: Node) -> bool:
        return _holds_not(part)

    def every(self, parts: Sequence[tuple[Node, Bounded]]) -> Bounded:
        """The parts that can be expressed, or the reason why none can."""
        said = [(node, one) for node, one in parts if not isinstance(one.bound, Wider | Nothing)]
        left = [(node, one.bound) for node, one in parts if isinstance(one.bound, Wider | Nothing)]
        if not said:
            return Bounded(next((bound for _, bound in left if isinstance(bound, Nothing)), left[0][1]))
        widened = [f"{shown(node)}: {bound.why}" for node, bound in left]
        notes = [note for _, one in said for note in one.widened]
        lacking = tuple(note for _, one in said for note in one.lacking)
        return Bounded(all_of(one.bound for _, one in said), (*notes, *widened), lacking)

    def either(self, parts: Sequence[tuple[Node, Bounded]]) -> Bounded:
        """All parts, or the reason of the first one that cannot be expressed."""
        for node, one in parts:
            if isinstance(one.bound, Wider):
                return Bounded(Wider(f"among alternatives, {shown(node)}: {one.bound.why}"))
        said = [one for _, one in parts if not isinstance(one.bound, Nothing)]
        left = [(node, one.bound) for node, one in parts if isinstance(one.bound, Nothing)]
        if not said:
            return Bounded(left[0][1])
        lacking = [f"{shown(node)}: {bound.why}" for node, bound in left]
        widened = tuple(note for one in said for note in one.widened)
        return Bounded(any_of(one.bound for one in said), widened, (*(note for one in said for note in one.lacking), *lacking))


def _holds_not(node: Node) -> bool:
    return any(isinstance(part, Not) or _holds_not(part) for part in children(node))


def is_exact(bound: Bound) -> bool:
    match bound:
        case Term(_, exact):
            return exact
        case AllOf(parts) | AnyOf(parts):
            return all(map(is_exact, parts))
        case Without(part):
            return is_exact(part)
    return False


def conjuncts(node: Node) -> tuple[Node, ...]:
    """The parts that all must hold."""
    return tuple(inner for part in node.parts for inner in conjuncts(part)) if isinstance(node, And) else (node,)


def shown(node: Node) -> str:
    """A part of a query for a note, not all of it where it is long."""
    said = printed(node)
    return said if len(said) <= MOST_SHOWN else f"{said[: MOST_SHOWN - 1]}…"


def noted(notes: Iterable[str]) -> tuple[str, ...]:
    """Each note once; of very many the first, and how many there are."""
    once = tuple(dict.fromkeys(notes))
    return once if len(once) <= MOST_NOTES else (*once[:MOST_NOTES], f"and {len(once) - MOST_NOTES} more of this kind")
