"""Verification of a service's records by our evaluator, as far as their text is available."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from outrider.boolean.evaluator import Evaluator
from outrider.state.boolean import And, Dates, Everything, Field, Heading, Node, Not, Or, Text
from outrider.state.records import Record
from outrider.state.systematic import Matched, Proof


class RecordView(NamedTuple):
    """A record as its service means it, and which of its parts are not available."""

    record: Record
    """The record without values that the service made by machine, such as its own keywords."""
    hidden: frozenset[Field] = frozenset()
    """Fields that the service searches and does not return."""
    lacking: frozenset[Field] = frozenset()
    """Fields that the service does not have: a text that must stand in one of these cannot be checked."""
    headings: bool = True
    """Whether all of its headings are available."""
    dates: bool = True


ViewRecord = Callable[[Record], RecordView]
_Unknown = tuple[frozenset[Field], frozenset[Field], bool, bool]


def view_without_tags(record: Record, lacking: frozenset[Field]) -> RecordView:
    """A view without tags, which the service made, and without headings. Services search abstracts also where they do not return them."""
    hidden = frozenset() if record.abstract else frozenset({Field.ABSTRACT, Field.ALL})
    return RecordView(record.model_copy(update={"tags": ()}), hidden, lacking, headings=False, dates=record.year is not None)


@dataclass(slots=True)
class HitVerifier:
    """Checks the records of one service against one tree."""

    tree: Node
    view: ViewRecord
    keeps_all: bool = False
    """Whether the service read the query as written: then all its records are hits, whatever our evaluator finds."""
    _evaluators: dict[_Unknown, tuple[Evaluator, Evaluator]] = field(default_factory=dict)

    def find_proof(self, record: Record) -> Proof | None:
        """None if the available text shows that the tree does not match."""
        view = self.view(record)
        unknown = view[1:]
        if unknown not in self._evaluators:
            certain, possible = (Evaluator(_assume(self.tree, view, matches=matches)) for matches in (False, True))
            self._evaluators[unknown] = certain, possible
        certain, possible = self._evaluators[unknown]
        if certain.matches(view.record):
            return "verified"
        return "as the source says" if self.keeps_all or possible.matches(view.record) else None

    def verify(self, records: Iterable[Record]) -> tuple[Matched, ...]:
        """The records that match, or may match."""
        proofs = ((record, self.find_proof(record)) for record in records)
        return tuple(Matched(record, proof) for record, proof in proofs if proof is not None)


def _assume(node: Node, view: RecordView, *, matches: bool) -> Node:
    """The tree for records of this view. `matches`: leaves that cannot be checked count as true; else as the record shows them."""
    match node:
        case And(parts):
            return And(tuple(_assume(part, view, matches=matches) for part in parts))
        case Or(parts):
            return Or(tuple(_assume(part, view, matches=matches) for part in parts))
        case Not(part):
            return Not(_assume(part, view, matches=not matches))
        case Text(_, fields):
            is_unknown = not view.hidden.isdisjoint(fields) or view.lacking.issuperset(fields)
        case Heading():
            is_unknown = not view.headings
        case Dates():
            is_unknown = not view.dates
        case _:
            is_unknown = False
    return Everything() if matches and is_unknown else node
