"""Which candidates are one work: what evidence says, what a person decided, and pages of one identifier. Nothing is merged here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING

from outrider.linkage.clustering import Groups
from outrider.linkage.confirm_work import page_identifier, shared_identifier
from outrider.linkage.merge import richness
from outrider.linkage.prefilter import prefilter
from outrider.nodes.dedup.merge import VERSIONS, Link, list_records
from outrider.nodes.dedup.model_proposals import Pair, model_may_join
from outrider.state.decisions import Decisions, make_pair
from outrider.state.hits import Candidate
from outrider.state.records import Record

if TYPE_CHECKING:
    from outrider.linkage.judge import Judgement, Weights
    from outrider.linkage.keys import Keys

JOINED_BEFORE = "joined before"
NO_DETAILS = "same work as another duplicate"
UNKNOWN_YEARS_APART = 99
"""Years apart, where one is not known."""


@dataclass(frozen=True, slots=True)
class Grouping:
    groups: Sequence[list[int]]
    """Places of the works given, each once."""
    links: tuple[Link, ...]
    ambiguous_pairs: tuple[tuple[str, str], ...]
    """Ids of two works that may be one, surest first."""
    needs_another_pass: bool
    """Whether merged works might be seen as one with others: where a page joined, or what evidence joined was kept apart."""


@dataclass(frozen=True, slots=True)
class PairJudge:
    """Evidence and decisions about the records of one run; what was read of a record once is kept."""

    decisions: Decisions
    _keys: dict[int, tuple[Record, Keys]] = field(default_factory=dict)
    _judgements: dict[tuple[Keys, Keys], Judgement] = field(default_factory=dict)

    def keys(self, record: Record) -> Keys:
        from outrider.linkage.keys import make_keys

        known = self._keys.get(id(record))
        if known is None:
            known = self._keys[id(record)] = (record, make_keys(record))  # the record too, so that its id stays its own
        return known[1]

    def judge(self, one: Record, other: Record) -> Judgement:
        from outrider.linkage.evidence_weights import WEIGHTS

        return self.judge_keys(self.keys(one), self.keys(other), WEIGHTS)

    def judge_keys(self, one: Keys, other: Keys, weights: Weights) -> Judgement:
        """Symmetric."""
        from outrider.linkage.judge import judge_keys

        if (known := self._judgements.get((one, other)) or self._judgements.get((other, one))) is None:
            known = self._judgements[one, other] = judge_keys(one, other, weights)
        return known

    def are_split(self, one: Candidate, other: Candidate) -> bool:
        """Whether a person keeps them apart."""
        if not self.decisions:
            return False
        return any(self.decisions.are_apart(a.doc_id, b.doc_id) for a, b in product(list_records(one), list_records(other)))

    def contradicts(self, one: Candidate, other: Candidate) -> bool:
        """Whether a record of the one cannot be the work of one of the other, versions of one work aside."""
        return self.are_split(one, other) or any(self._against(a, b) for a, b in product(list_records(one), list_records(other)))

    def are_other_editions(self, one: Candidate, other: Candidate) -> bool:
        """Whether both have a record in the same place of publication and these are not surely one: a preprint belongs to one of them."""
        pairs = product(list_records(one), list_records(other))
        return any(self.keys(a).server == self.keys(b).server and self.judge(a, b).verdict != "same" for a, b in pairs)

    def _against(self, one: Record, other: Record) -> bool:
        judgement = self.judge(one, other)
        return judgement.contradicts and not (judgement.relation and judgement.relation.kind in VERSIONS)

    def explain(self, leader: Candidate, other: Candidate, group: Sequence[Candidate]) -> str:
        """Why `other` is in a group: a decision, evidence with the leader, its address, evidence with another."""
        if decided := self.decisions.same.get(make_pair(leader.record.doc_id, other.record.doc_id)):
            return decided
        if said := self._same(leader.record, other.record):
            return said
        for page, work in ((other.record, leader.record), (leader.record, other.record)):
            if (address := page_identifier(page)) and address in work.identifiers.pairs():
                return f"the page of {' '.join(address)}"
        near = ((one, said) for one in group if one is not other and (said := self._same(one.record, other.record)))
        return next((f"same work as {one.record.doc_id}: {said}" for one, said in near), NO_DETAILS)

    def _same(self, one: Record, other: Record) -> str:
        judgement = self.judge(one, other)
        if judgement.verdict != "same":
            return ""
        theirs = other.identifiers.pairs()
        shared = next((f"same {scheme} {value}; " for scheme, value in one.identifiers.pairs() if (scheme, value) in theirs), "")
        return shared + ", ".join(str(evidence) for evidence in judgement.evidence if evidence.weight)


def group_works(works: Sequence[Candidate], judging: PairJudge) -> Grouping:
    """Only works that look like another are read closely (`src/outrider/linkage/prefilter.py`)."""
    groups = Groups(len(works))
    links, grey, again = _resolved(works, judging, groups)
    again |= _join_pages(groups, works, judging)
    return Grouping(groups.members(), links, grey, again)


def _parts(work: Candidate) -> Iterator[Record]:
    """What is judged of a work: what it was made of, and itself where it has an identifier that none of those has."""
    if not work.members:
        yield work.record
        return
    known = {pair for record in work.members for pair in record.identifiers.pairs()}
    if not known.issuperset(work.record.identifiers.pairs()):
        yield work.record
    yield from work.members


def _near(works: Sequence[Candidate], decisions: Decisions) -> list[list[int]]:
    """Places of works that could be one with another: apart what no chain of likeness connects, unless something was decided."""
    nodes = [(at, record) for at, work in enumerate(works) for record in _parts(work)]
    found = prefilter([record for _, record in nodes], [at for at, _ in nodes])
    if not decisions:
        return found
    named = decisions.decided_ids()
    together = {at for members in found for at in members} | {at for at, record in nodes if record.doc_id in named}
    return [sorted(together)] if len(together) > 1 else []


def _resolved(works: Sequence[Candidate], judging: PairJudge, groups: Groups) -> tuple[tuple[Link, ...], tuple[tuple[str, str], ...], bool]:
    """Joins in `groups` what is one; links and grey pairs by id, and whether two that would be one were kept apart."""
    links, grey, again = list[Link](), list[tuple[float, tuple[str, str]]](), False
    for near in _near(works, judging.decisions):
        mine, unsure, more = _resolved_among(works, near, judging, groups)
        links += mine
        grey += unsure
        again |= more
    return tuple(links), tuple(dict.fromkeys(pair for _, pair in sorted(grey))), again


def _resolved_among(
    works: Sequence[Candidate], near: Sequence[int], judging: PairJudge, groups: Groups
) -> tuple[list[Link], list[tuple[float, tuple[str, str]]], bool]:
    """Of grey pairs the negative score first."""
    from outrider.linkage.evidence_weights import WEIGHTS
    from outrider.linkage.overrides import make_overrides
    from outrider.linkage.resolve import resolve_keys

    nodes = [(at, record) for at in near for record in _parts(works[at])]
    first: dict[int, int] = {}
    tied = {(first[at], node): JOINED_BEFORE for node, (at, _) in enumerate(nodes) if first.setdefault(at, node) != node}
    fixed = make_overrides(judging.decisions, [record.doc_id for _, record in nodes], tied)
    found = resolve_keys([judging.keys(record) for _, record in nodes], WEIGHTS, fixed, judging.judge_keys)
    for members in found.groups:
        for node in members[1:]:
            groups.join(nodes[members[0]][0], nodes[node][0])
    ids = [works[at].record.doc_id for at, _ in nodes]
    links = [Link(ids[link.one], ids[link.other], link.relation) for link in found.related]
    unsure = [
        (-round(pair.judgement.score, 6), make_pair(ids[pair.one], ids[pair.other]))
        for pair in found.ambiguous_pairs
        if model_may_join(pair.judgement)
    ]
    again = any(pair.judgement.verdict == "same" for pair in found.ambiguous_pairs)
    return links, unsure, again


def _join_pages(groups: Groups, works: Sequence[Candidate], judging: PairJudge) -> bool:
    """Whether pages joined works: the page of an identifier that agrees with no title is of the work that has it.

    Unless several have it, since supplements share one DOI.

    What shares is looked at before any page has joined, so that their order means nothing.
    """
    pages = {at: address for at, work in enumerate(works) if (address := page_identifier(work.record))}
    if not pages:
        return False
    by_identifier: dict[tuple[str, str], list[int]] = {}
    for at, work in enumerate(works):
        for pair in {pair for record in (work.record, *work.members) for pair in record.identifiers.pairs()}:
            by_identifier.setdefault(pair, []).append(at)
    found = {root for at, work in enumerate(works) if {*map(page_identifier, list_records(work))} != {pages.get(root := groups.root(at))}}
    alone = sorted((page for page in pages if groups.root(page) not in found), key=lambda page: works[page].record.doc_id)
    named_ids = judging.decisions.decided_ids() if judging.decisions else frozenset[str]()
    firsts: dict[object, int] = {}
    joins: list[Pair] = []
    for page in alone:
        known = frozenset(record.doc_id for record in list_records(works[page])) & named_ids  # what is kept apart stands for no other
        joins.append((page, firsts.setdefault((pages[page], works[page].record.identifiers.pairs(), known), page)))
    for page in firsts.values():
        address, record = pages[page], works[page].record
        others = [at for at in by_identifier[address] if groups.together(page, at) or _shares(record, works[at])]
        named = [at for at in others if pages.get(at) != address]
        if len({groups.root(at) for at in named}) <= 1:
            joins += ((page, at) for at in named or others)
    joined = False
    for page, at in sorted(joins, key=lambda pair: (works[pair[0]].record.doc_id, works[pair[1]].record.doc_id)):
        if page != at and not _parted(groups, works, page, at, judging):
            groups.join(page, at)
            joined = True
    return joined


def _parted(groups: Groups, works: Sequence[Candidate], one: int, other: int, judging: PairJudge) -> bool:
    """Whether a person keeps any of the one's group apart from any of the other's."""
    if not judging.decisions:
        return False
    roots = groups.root(one), groups.root(other)
    mine, theirs = ([work for at, work in enumerate(works) if groups.root(at) == root] for root in roots)
    return any(judging.are_split(a, b) for a, b in product(mine, theirs))


def _shares(page: Record, work: Candidate) -> bool:
    """With any record that the work was made of: merging does not change whose page it is."""
    return any(shared_identifier(page, record) for record in (work.record, *work.members))


def find_versions(works: Sequence[Candidate], links: Sequence[Link], judging: PairJudge) -> dict[Pair, str]:
    """Places of works that are versions of one work, and why: preprints with their publication, and no second publication through them."""
    at = {record.doc_id: place for place, work in enumerate(works) for record in list_records(work)}
    linked = ((at[link.one], at[link.other], link.relation) for link in links if link.relation.kind in VERSIONS)
    found = {(one, other): relation for one, other, relation in linked if one != other}
    ordered = sorted(found, key=lambda pair: _nearest(works[pair[0]].record, works[pair[1]].record))
    joins = CompatibleGroups(works, lambda one, other: judging.contradicts(one, other) or judging.are_other_editions(one, other))
    return {pair: f"versions of one work: {found[pair].why}" for pair in ordered if joins.join(*pair)}


def _nearest(one: Record, other: Record) -> tuple[object, ...]:
    apart = UNKNOWN_YEARS_APART if one.year is None or other.year is None else abs(one.year - other.year)
    return (apart, *sorted((richness(one), richness(other))))


class CompatibleGroups:
    """Groups of works that grow as long as no two of theirs are `against` each other."""

    def __init__(self, works: Sequence[Candidate], against: Callable[[Candidate, Candidate], bool]) -> None:
        self._works, self._against = works, against
        self._members: dict[int, list[int]] = {at: [at] for at in range(len(works))}
        self.groups = Groups(len(works))

    def join(self, one: int, other: int) -> bool:
        """Whether they are together now."""
        first, second = sorted((self.groups.root(one), self.groups.root(other)))
        if first == second:
            return True
        if any(self._against(self._works[a], self._works[b]) for a, b in product(self._members[first], self._members[second])):
            return False
        self.groups.join(first, second)
        self._members[first] += self._members.pop(second)
        return True


def make_blocks(grey: Sequence[Pair], most: int) -> list[list[int]]:
    """Disjoint blocks of two to `most` places that hang together by grey pairs, in order of the first; the surest pairs go first."""
    joined: dict[int, list[int]] = {}
    for one, other in grey:
        first, second = joined.setdefault(one, [one]), joined.setdefault(other, [other])
        if first is not second and len(first) + len(second) <= most:
            first += second
            joined.update(dict.fromkeys(second, first))
    blocks = {id(block): sorted(block) for block in joined.values() if len(block) > 1}
    return sorted(blocks.values())
