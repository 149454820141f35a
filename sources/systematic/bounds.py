"""What a service can be asked for so that nothing is lost: a query that every record of it matches which the tree matches.

A tree is bounded from above, part by part. What cannot be said bounds nothing (`Wider`): among the parts of an AND it is left out,
which only adds; an OR with such a part cannot be said at all, since leaving it out would lose hits. What no record of the service has
(`Nothing`: a heading where there are none) is left out of an OR, where it adds no hit, and, generously, of an AND. NOT is said only of
what is said exactly: a service that finds more than is meant would take away too much.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from outrider.boolean.printing import printed
from outrider.state.boolean import And, Everything, Leaf, Node, Not, Or, children

MOST_SHOWN = 90
MOST_NOTES = 12


@dataclass(frozen=True, slots=True)
class Term:
    """In the service's own words."""

    text: str
    exact: bool = False
    """Whether the service finds by it what is meant and no more."""


@dataclass(frozen=True, slots=True)
class AllOf:
    parts: tuple[Bound, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    parts: tuple[Bound, ...]


@dataclass(frozen=True, slots=True)
class Without:
    """All but what is said exactly by the part."""

    part: Bound


@dataclass(frozen=True, slots=True)
class Wider:
    """Any record may be meant: it cannot be said."""

    why: str


@dataclass(frozen=True, slots=True)
class Nothing:
    """No record of the service has it."""

    why: str


Bound = Term | AllOf | AnyOf | Without | Wider | Nothing


@dataclass(frozen=True, slots=True)
class Bounded:
    """A bound, and what was left out on the way."""

    bound: Bound
    widened: tuple[str, ...] = ()
    lacking: tuple[str, ...] = ()


Say = Callable[[Leaf], Bounded]
"""How a service is asked for a leaf."""


def bounded(node: Node, say: Say) -> Bounded:
    match node:
        case And(parts):
            return every([(part, bounded(part, say)) for part in parts])
        case Or(parts):
            return _any([(part, bounded(part, say)) for part in parts])
        case Not(part):
            return _without(part, say)
        case Everything():
            return Bounded(Wider("it asks for every record"))
    return say(node)


def every(parts: Sequence[tuple[Node, Bounded]]) -> Bounded:
    """Of an AND: what can be said of it, or why nothing can."""
    said = [(node, one) for node, one in parts if not isinstance(one.bound, Wider | Nothing)]
    left = [(node, one.bound) for node, one in parts if isinstance(one.bound, Wider | Nothing)]
    if not said:
        return Bounded(next((bound for _, bound in left if isinstance(bound, Nothing)), left[0][1]))
    widened = [f"{shown(node)}: {bound.why}" for node, bound in left if isinstance(bound, Wider | Nothing)]
    notes = [note for _, one in said for note in one.widened]
    lacking = tuple(note for _, one in said for note in one.lacking)
    return Bounded(all_of(one.bound for _, one in said), (*notes, *widened), lacking)


def _any(parts: Sequence[tuple[Node, Bounded]]) -> Bounded:
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


def _without(part: Node, say: Say) -> Bounded:
    match part:
        case Not(inner):
            return bounded(inner, say)
        case Everything():
            return Bounded(Nothing("it asks for no record"))
        case And(parts) if _holds_not(part):
            return bounded(Or(tuple(map(Not, parts))), say)
        case Or(parts) if _holds_not(part):
            return bounded(And(tuple(map(Not, parts))), say)
    found = bounded(part, say)
    if isinstance(found.bound, Nothing):
        return Bounded(Wider("no record there has it, so that it takes nothing away"))
    if is_exact(found.bound) and not (found.widened or found.lacking):
        return Bounded(Without(found.bound))
    return Bounded(Wider("what NOT takes away is taken away here"))


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


def all_of(parts: Iterable[Bound]) -> Bound:
    """Without what says the same twice."""
    flat = [inner for part in parts for inner in (part.parts if isinstance(part, AllOf) else (part,))]
    once = tuple(dict.fromkeys(flat))
    return once[0] if len(once) == 1 else AllOf(once)


def any_of(parts: Iterable[Bound]) -> Bound:
    flat = [inner for part in parts for inner in (part.parts if isinstance(part, AnyOf) else (part,))]
    once = tuple(dict.fromkeys(flat))
    return once[0] if len(once) == 1 else AnyOf(once)


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
