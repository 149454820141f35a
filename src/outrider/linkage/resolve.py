"""In-memory deduplication: groups records into works.

`resolve` finds candidate pairs, judges them and clusters them (`clustering.py`). The result does not depend on the order of the records:
ties are broken by the keys. Records with equal keys start as one node. A contradicting pair keeps its groups apart, so A~B~C never chains
where A and C contradict.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from outrider.linkage.blocking import candidate_pairs
from outrider.linkage.clustering import Clustering, OverriddenClustering, Overrides, make_overrides
from outrider.linkage.evidence_weights import WEIGHTS
from outrider.linkage.judge_pair import Judgement, Weights, judge_keys
from outrider.linkage.normalized_record import Keys, make_keys, sort_places
from outrider.linkage.relations import Relation, find_links
from outrider.state.duplicate_decisions import NO_DECISIONS, Decisions
from outrider.state.records import Record

COPIES = "every field is equal"
JudgeKeys = Callable[[Keys, Keys, Weights], Judgement]


@dataclass(frozen=True, slots=True)
class Pair:
    """The places of two records, with their judgement."""

    one: int
    other: int
    judgement: Judgement


@dataclass(frozen=True, slots=True)
class Related:
    """The places of two related records, with their relation."""

    one: int
    other: int
    relation: Relation


@dataclass(frozen=True, slots=True)
class Resolution:
    """The groups of a set of records. A place is an index into the input."""

    groups: tuple[tuple[int, ...], ...]
    """Every place once, singles included, in ascending order; groups are ordered by their first place."""
    reasons: tuple[tuple[str, ...], ...]
    """Parallel to `groups`: one line for each join; empty for a single record."""
    ambiguous_pairs: tuple[Pair, ...]
    """Pairs that a model or a person may decide, highest score first; each names the first records of two groups."""
    related: tuple[Related, ...]
    """Related works, each named by the first record of its group, in order."""


def resolve(records: Iterable[Record], weights: Weights = WEIGHTS, decisions: Decisions = NO_DECISIONS) -> Resolution:
    """Group records into works.

    Time grows almost linearly with the number of records; memory by about 7 KB a record. Decisions, which name records by their `doc_id`,
    override evidence.
    """
    listed = list(records)
    overrides = make_overrides(decisions, [record.doc_id for record in listed]) if decisions else None
    return resolve_keys([make_keys(record) for record in listed], weights, overrides)


def resolve_keys(
    records: Sequence[Keys], weights: Weights = WEIGHTS, overrides: Overrides | None = None, judge: JudgeKeys = judge_keys
) -> Resolution:
    """Group keys into works. Equal keys are judged once or, with overrides, once for each name."""
    holders: dict[tuple[Keys, str], list[int]] = {}
    for at, key in enumerate(records):
        holders.setdefault((key, overrides.names[at] if overrides else ""), []).append(at)
    distinct = list(holders)
    nodes = [distinct[at] for at in sort_places([key for key, _ in distinct], [name for _, name in distinct])]
    keys, names = [key for key, _ in nodes], [name for _, name in nodes]

    def judge_places(one: int, other: int) -> Judgement:
        return judge(keys[one], keys[other], weights)

    if overrides is None:
        work = Clustering(len(keys), candidate_pairs(keys), judge_places)
    else:
        work = OverriddenClustering(candidate_pairs(keys), names, overrides, judge_places)
        number = {at: node for node, named in enumerate(nodes) for at in holders[named]}
        work.join_pairs({(number[one], number[other]): why for (one, other), why in overrides.same.items()})
    work.run()
    return _Report(keys, [holders[node] for node in nodes], work).resolution()


def _rank(judgement: Judgement) -> tuple[bool, float]:
    return judgement.verdict == "same", judgement.score


class _Report:
    """Translates clusters of distinct keys into places of the input."""

    def __init__(self, keys: Sequence[Keys], holders: Sequence[list[int]], work: Clustering) -> None:
        self._keys, self._holders, self._work = keys, holders, work

    def resolution(self) -> Resolution:
        lines: dict[int, list[str]] = {}
        for one, other in self._work.joins:
            lines.setdefault(self._work.group_of[one], []).append(self._work.explain_join(one, other))
        groups: list[tuple[tuple[int, ...], tuple[str, ...]]] = []
        for group, members in self._work.members.items():
            if len(members) == 1 == len(self._holders[members[0]]):
                groups.append((tuple(self._holders[members[0]]), ()))
                continue
            if len(members) == 1 and self._work.judge_copy(members[0]).verdict != "same":
                groups += (((at,), ()) for at in self._holders[members[0]])
                continue
            places = tuple(sorted(at for member in members for at in self._holders[member]))
            groups.append((places, tuple(lines.get(group, ())) if len(members) > 1 else (COPIES,)))
        groups.sort(key=lambda group: group[0])
        return Resolution(
            tuple(places for places, _ in groups),
            tuple(why for _, why in groups),
            tuple(self._find_ambiguous_pairs()),
            tuple(self._find_related()),
        )

    def _first(self, group: int) -> int:
        return min(self._holders[member][0] for member in self._work.members[group])

    def _between(self, pairs: Iterable[tuple[int, int]]) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
        """The pairs that connect two different groups, with these groups."""
        for one, other in pairs:
            groups = self._work.group_of[one], self._work.group_of[other]
            if groups[0] != groups[1]:
                yield (one, other), groups

    def _find_ambiguous_pairs(self) -> list[Pair]:
        best: dict[tuple[int, int], Judgement] = {}
        for pair, groups in self._between(self._work.pairs):
            judgement = self._work.judgement(*pair)
            key = (min(groups), max(groups))
            # a match that was prevented before one that only may be one, whatever their scores
            if judgement.verdict != "different" and (key not in best or _rank(best[key]) < _rank(judgement)):
                best[key] = judgement
        firsts = ((self._first(one), self._first(other), judgement) for (one, other), judgement in best.items())
        pairs = [Pair(min(one, other), max(one, other), judgement) for one, other, judgement in firsts]
        for group, members in self._work.members.items():
            places = self._holders[members[0]]
            if len(members) == 1 < len(places) and self._work.judge_copy(group).verdict == "unsure":
                # copies with too little content to be one work
                pairs += (Pair(places[0], other, self._work.judge_copy(group)) for other in places[1:])
        return sorted(pairs, key=lambda pair: (-round(pair.judgement.score, 6), pair.one, pair.other))

    def _find_related(self) -> Iterator[Related]:
        relations: dict[tuple[int, int], Relation] = {}
        judged_pairs = ((pair, relation) for pair in self._work.pairs if (relation := self._work.judgement(*pair).relation))
        stated = (((one, other), relation) for one, other, relation in find_links(self._keys))
        for pair, relation in (*stated, *judged_pairs):
            for _, groups in self._between([pair]):
                one, other = self._first(groups[0]), self._first(groups[1])
                relations.setdefault((min(one, other), max(one, other)), relation if one < other else relation.reverse())
        for (one, other), relation in sorted(relations.items(), key=lambda pair: pair[0]):
            yield Related(one, other, relation)
