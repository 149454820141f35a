"""Relaxation of a Boolean tree: a weaker condition that holds wherever the tree does.

An index or a service can decide only some leaves. A `Relaxation` makes the condition of each leaf and joins conditions; this module walks
the tree and flattens nested AND and OR. No match is lost as long as each method returns a condition that is at least as wide as its part.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from outrider.state.boolean import And, Leaf, Node, Not, Or

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class AllOf(Generic[T]):
    parts: tuple[T, ...]


@dataclass(frozen=True, slots=True)
class AnyOf(Generic[T]):
    parts: tuple[T, ...]


def flatten(parts: Iterable[T], joint: type[AllOf[Any]] | type[AnyOf[Any]]) -> tuple[T, ...]:
    """The parts, those of nested joints of the same kind among them, each once."""
    flat = (inner for part in parts for inner in (part.parts if isinstance(part, joint) else (part,)))
    return tuple(dict.fromkeys(flat))


def join_all(parts: Iterable[T]) -> T | AllOf[T]:
    """The only part, or all of them joined by AND."""
    flat = flatten(parts, AllOf)
    return flat[0] if len(flat) == 1 else AllOf(flat)


def join_any(parts: Iterable[T]) -> T | AnyOf[T]:
    """The only part, or all of them joined by OR."""
    flat = flatten(parts, AnyOf)
    return flat[0] if len(flat) == 1 else AnyOf(flat)


class Relaxation(Protocol[T]):
    """How conditions of one index or service are made and joined."""

    def leaf(self, leaf: Leaf) -> T: ...

    def negate(self, part: Node) -> T:
        """The condition for NOT part: a leaf, or a part whose NOT stays where it is."""

    def moves_not_inward(self, part: Node) -> bool:
        """Whether NOT of this AND or OR becomes an OR or AND of negated parts."""

    def every(self, parts: Sequence[tuple[Node, T]]) -> T:
        """The condition for an AND, of its parts with their conditions."""

    def either(self, parts: Sequence[tuple[Node, T]]) -> T:
        """The condition for an OR, of its parts with their conditions."""


def relax(node: Node, relaxation: Relaxation[T]) -> T:
    match node:
        case And(parts):
            return relaxation.every([(part, relax(part, relaxation)) for part in parts])
        case Or(parts):
            return relaxation.either([(part, relax(part, relaxation)) for part in parts])
        case Not(Not(part)):
            return relax(part, relaxation)
        case Not(And(parts) | Or(parts) as joint) if relaxation.moves_not_inward(joint):
            join = relaxation.either if isinstance(joint, And) else relaxation.every
            return join([(negation, relax(negation, relaxation)) for negation in map(Not, parts)])
        case Not(part):
            return relaxation.negate(part)
    return relaxation.leaf(node)
