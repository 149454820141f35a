"""Records into works: `resolve` finds candidates, judges them and groups what belongs together, whatever order the records come in.

Records whose keys are equal are one to begin with. Then pairs are joined from the surest down (greedy correlation clustering, Elsner and
Schudy 2009): two groups become one if their pairs speak for it on the whole, and none of them against it beyond doubt. So A~B~C never
chains where A and C contradict. Order among equals is that of the keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from outrider.identity.blocking import candidates
from outrider.identity.clustering import Clustering, Judge
from outrider.identity.deciding import Fixed, FixedClustering, fixed_by
from outrider.identity.encoding import in_order
from outrider.identity.judging import Judgement, Weights, judged
from outrider.identity.keys import Keys, keys_of
from outrider.identity.relations import Relation, links
from outrider.identity.weights import WEIGHTS
from outrider.state.decisions import NO_DECISIONS, Decisions
from outrider.state.records import Record


@dataclass(frozen=True, slots=True)
class Pair:
    """Places of two records with what was found of them."""

    one: int
    other: int
    judgement: Judgement


@dataclass(frozen=True, slots=True)
class Related:
    one: int
    other: int
    relation: Relation


@dataclass(frozen=True, slots=True)
class Resolution:
    """Places are those of the records given."""

    groups: tuple[tuple[int, ...], ...]
    """Every place once, singles included; places ascend, groups by their first."""
    reasons: tuple[tuple[str, ...], ...]
    """In parallel: why each group is one, a line for each join; none for a single."""
    grey: tuple[Pair, ...]
    """Pairs that stayed apart and may be one: for a model or a person. Surest first, between the first records of their groups."""
    related: tuple[Related, ...]
    """Between the first records of two groups, in order."""


def resolve(records: Iterable[Record], weights: Weights = WEIGHTS, decisions: Decisions = NO_DECISIONS) -> Resolution:
    """Time grows nearly with the number of records; memory by a few KB for each.

    What a person decided of records goes before evidence, by their `doc_id`.
    """
    listed = list(records)
    fixed = fixed_by(decisions, [record.doc_id for record in listed]) if decisions else None
    return resolved([keys_of(record) for record in listed], weights, fixed)


def resolved(given: Sequence[Keys], weights: Weights = WEIGHTS, fixed: Fixed | None = None, judge: Judge = judged) -> Resolution:
    """Equal keys are looked at once; where something is `fixed`, once for each name."""
    holders: dict[tuple[Keys, str], list[int]] = {}
    for at, key in enumerate(given):
        holders.setdefault((key, fixed.names[at] if fixed else ""), []).append(at)
    held = list(holders)
    nodes = [held[at] for at in in_order([key for key, _ in held], [name for _, name in held])]
    keys, names = [key for key, _ in nodes], [name for _, name in nodes]
    if fixed is None:
        work = Clustering(keys, candidates(keys), weights, judge)
    else:
        work = FixedClustering(keys, candidates(keys), weights, names, fixed, judge)
        number = {at: node for node, named in enumerate(nodes) for at in holders[named]}
        work.tie({(number[one], number[other]): why for (one, other), why in fixed.one.items()})
    work.run()
    return _Told(keys, [holders[node] for node in nodes], work).resolution()


class _Told:
    """What was found, in places of the records given."""

    def __init__(self, keys: Sequence[Keys], holders: Sequence[list[int]], work: Clustering) -> None:
        self._keys, self._holders, self._work = keys, holders, work

    def resolution(self) -> Resolution:
        lines = self._lines()
        found: list[tuple[tuple[int, ...], tuple[str, ...]]] = []
        for group, members in self._work.members.items():
            if len(members) == 1 == len(self._holders[members[0]]):
                found.append((tuple(self._holders[members[0]]), ()))
                continue
            if len(members) == 1 and self._work.as_copy(members[0]).verdict != "same":
                found += (((at,), ()) for at in self._holders[members[0]])
                continue
            places = tuple(sorted(at for member in members for at in self._holders[member]))
            found.append((places, tuple(lines.get(group, ())) if len(members) > 1 else _copies(len(places))))
        found.sort(key=lambda one: one[0])
        return Resolution(tuple(one for one, _ in found), tuple(why for _, why in found), tuple(self._grey()), tuple(self._related()))

    def _lines(self) -> Mapping[int, list[str]]:
        lines: dict[int, list[str]] = {}
        for one, other in self._work.joins:
            lines.setdefault(self._work.group_of[one], []).append(self._work.said(one, other))
        return lines

    def _first(self, group: int) -> int:
        return min(self._holders[member][0] for member in self._work.members[group])

    def _between(self, pairs: Iterable[tuple[int, int]]) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
        """Pairs of different groups, with the groups."""
        for one, other in pairs:
            groups = self._work.group_of[one], self._work.group_of[other]
            if groups[0] != groups[1]:
                yield (one, other), groups

    def _grey(self) -> Iterator[Pair]:
        best: dict[tuple[int, int], Judgement] = {}
        for pair, groups in self._between(self._work.pairs):
            judgement = self._work.of(*pair)
            key = (min(groups), max(groups))
            if judgement.verdict != "different" and (key not in best or best[key].score < judgement.score):
                best[key] = judgement
        firsts = ((min(places), max(places), judgement) for places, judgement in self._placed(best))
        pairs = [Pair(one, other, judgement) for one, other, judgement in firsts]
        yield from sorted((*pairs, *self._copies_apart()), key=lambda pair: (-round(pair.judgement.score, 6), pair.one, pair.other))

    def _placed(self, best: Mapping[tuple[int, int], Judgement]) -> Iterator[tuple[tuple[int, int], Judgement]]:
        yield from (((self._first(one), self._first(other)), judgement) for (one, other), judgement in best.items())

    def _copies_apart(self) -> Iterator[Pair]:
        """Records that say the same, and too little to be one."""
        for group, members in self._work.members.items():
            places = self._holders[members[0]]
            if len(members) == 1 < len(places) and self._work.as_copy(group).verdict == "unsure":
                yield from (Pair(places[0], other, self._work.as_copy(group)) for other in places[1:])

    def _related(self) -> Iterator[Related]:
        found: dict[tuple[int, int], Relation] = {}
        judged_pairs = ((pair, relation) for pair in self._work.pairs if (relation := self._work.of(*pair).relation))
        said = (((one, other), relation) for one, other, relation in links(self._keys))
        for pair, relation in (*said, *judged_pairs):
            for _, groups in self._between([pair]):
                one, other = self._first(groups[0]), self._first(groups[1])
                found.setdefault((min(one, other), max(one, other)), relation if one < other else relation.turned())
        for (one, other), relation in sorted(found.items(), key=lambda pair: pair[0]):
            yield Related(one, other, relation)


def _copies(count: int) -> tuple[str, ...]:
    return ("they say the same in every field",) if count > 1 else ()
