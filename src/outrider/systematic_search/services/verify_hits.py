"""What our evaluator says of a record that a service gave, where the text at hand allows to say it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from outrider.boolean.evaluator import Evaluator
from outrider.state.boolean import And, Dates, Everything, Field, Heading, Leaf, Node, Not, Or, Text
from outrider.state.records import Record
from outrider.state.systematic import Matched, Proof


class Sight(NamedTuple):
    """A record as its service means it, and what of it is not at hand."""

    record: Record
    """As it is judged: without what the service made up by machine, such as its own keywords."""
    absent: frozenset[Field] = frozenset()
    """Fields that the service has looked into and does not show."""
    lacking: frozenset[Field] = frozenset()
    """Fields that it has not at all: a text that is asked for in these alone cannot be judged."""
    headings: bool = True
    """Whether its headings are at hand, all of them."""
    dates: bool = True


def seen_without_tags(record: Record, lacking: frozenset[Field]) -> Sight:
    """Without its tags, which are the service's own making, or headings. Abstracts that are not shown are looked into all the same."""
    absent = frozenset() if record.abstract else frozenset({Field.ABSTRACT, Field.ALL})
    return Sight(record.model_copy(update={"tags": ()}), absent, lacking, headings=False, dates=record.year is not None)


Look = Callable[[Record], Sight]
_Unknown = tuple[frozenset[Field], frozenset[Field], bool, bool]


@dataclass(slots=True)
class Judge:
    """A tree, ready to be asked of a service's records."""

    tree: Node
    look: Look
    keeps_all: bool = False
    """Whether the service read the query as it was written: then what it found stays, whatever we see in it."""
    _known: dict[_Unknown, tuple[Evaluator, Evaluator]] = field(default_factory=dict)

    def proof(self, record: Record) -> Proof | None:
        """None where the text at hand shows that the tree does not match."""
        sight = self.look(record)
        unknown = sight[1:]
        if unknown not in self._known:
            self._known[unknown] = (Evaluator(assumed(self.tree, sight, hope=False)), Evaluator(assumed(self.tree, sight, hope=True)))
        certain, possible = self._known[unknown]
        if certain.matches(sight.record):
            return "verified"
        return "as the source says" if self.keeps_all or possible.matches(sight.record) else None

    def judged(self, records: Iterable[Record]) -> tuple[Matched, ...]:
        found = ((record, self.proof(record)) for record in records)
        return tuple(Matched(record, proof) for record, proof in found if proof is not None)


def assumed(node: Node, sight: Sight, *, hope: bool) -> Node:
    """The tree with every leaf that cannot be judged taken for true, or for what the record shows of it, so that it holds more, or less."""
    match node:
        case And(parts):
            return And(tuple(assumed(part, sight, hope=hope) for part in parts))
        case Or(parts):
            return Or(tuple(assumed(part, sight, hope=hope) for part in parts))
        case Not(part):
            return Not(assumed(part, sight, hope=not hope))
    return Everything() if hope and _is_unknown(node, sight) else node


def _is_unknown(leaf: Leaf, sight: Sight) -> bool:
    match leaf:
        case Text(_, fields):
            return not sight.absent.isdisjoint(fields) or sight.lacking.issuperset(fields)
        case Heading():
            return not sight.headings
        case Dates():
            return not sight.dates
    return False
