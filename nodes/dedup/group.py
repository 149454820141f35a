"""Groups of candidates that are the same work, by evidence, decisions and pages."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING

from outrider.linkage.clustering import Groups
from outrider.linkage.lookup_match import page_identifier, shared_identifier
from outrider.linkage.merge import richness
from outrider.linkage.prefilter import prefilter
from outrider.nodes.dedup.merge import VERSIONS, Link, list_records, sort_links
from outrider.nodes.dedup.model_proposals import Pair, model_may_join
from outrider.state.duplicate_decisions import Decisions, make_pair
from outrider.state.hits import Candidate
from outrider.state.records import Record

if TYPE_CHECKING:
    from outrider.linkage.judge_pair import Judgement, Weights
    from outrider.linkage.normalized_record import Keys

JOINED_BEFORE = "joined before"
NO_DETAILS = "same work as another duplicate"
UNKNOWN_YEARS_APART = 99
"""Difference in years if one year is unknown."""


@dataclass(frozen=True, slots=True)
class Grouping:
    groups: Sequence[list[int]]
    """Positions of the given works, each once."""
    links: tuple[Link, ...]
    ambiguous_pairs: tuple[tuple[str, str], ...]
    """Ids of two works that may be the same, most likely first."""
    needs_another_pass: bool
    """Whether merged works may match further works: a page joined, or a match by evidence was prevented."""


@dataclass(frozen=True, slots=True)
class PairJudge:
    """Evidence and decisions about pairs of records in one run; keys and judgements are cached."""

    decisions: Decisions
    _keys: dict[int, tuple[Record, Keys]] = field(default_factory=dict)
    _judgements: dict[tuple[int, int], tuple[Keys, Keys, Judgement]] = field(default_factory=dict)
    """By the addresses of two keys, whose hashes take longer than most judgements. Both are held, or another key might get an address."""

    def keys(self, record: Record) -> Keys:
        from outrider.linkage.normalized_record import make_keys

        cached = self._keys.get(id(record))
        if cached is None:
            cached = self._keys[id(record)] = (record, make_keys(record))  # with the record, so that its id is not reused
        return cached[1]

    def judge(self, one: Record, other: Record) -> Judgement:
        from outrider.linkage.evidence_weights import WEIGHTS

        return self.judge_keys(self.keys(one), self.keys(other), WEIGHTS)

    def judge_keys(self, one: Keys, other: Keys, weights: Weights) -> Judgement:
        """Symmetric."""
        from outrider.linkage.judge_pair import judge_keys

        pair = (id(one), id(other)) if id(one) < id(other) else (id(other), id(one))
        if (cached := self._judgements.get(pair)) is None:
            cached = self._judgements[pair] = one, other, judge_keys(one, other, weights)
        return cached[-1]

    def are_split(self, one: Candidate, other: Candidate) -> bool:
        """Whether a user decided that they are different works."""
        if not self.decisions:
            return False
        return any(self.decisions.are_apart(a.doc_id, b.doc_id) for a, b in product(list_records(one), list_records(other)))

    def contradicts(self, one: Candidate, other: Candidate) -> bool:
        """Whether a record of one cannot be the same work as a record of the other; versions of one work do not contradict."""
        if self.are_split(one, other):
            return True
        judgements = (self.judge(a, b) for a, b in product(list_records(one), list_records(other)))
        return any(judgement.contradicts and not (judgement.relation and judgement.relation.kind in VERSIONS) for judgement in judgements)

    def are_other_editions(self, one: Candidate, other: Candidate) -> bool:
        """Whether both have a record in the same venue and these are not surely the same: a preprint belongs to only one of them."""
        pairs = product(list_records(one), list_records(other))
        return any(self.keys(a).server == self.keys(b).server and self.judge(a, b).verdict != "same" for a, b in pairs)

    def explain(self, leader: Candidate, other: Candidate, group: Sequence[Candidate]) -> str:
        """Why `other` is in the group: a decision, evidence with the leader, a page's address, or evidence with another member."""
        if decision := self.decisions.same.get(make_pair(leader.record.doc_id, other.record.doc_id)):
            return decision
        if evidence := self._explain_match(leader.record, other.record):
            return evidence
        for page, work in ((other.record, leader.record), (leader.record, other.record)):
            if (address := page_identifier(page)) and address in work.identifiers.pairs():
                return f"the page of {' '.join(address)}"
        for member in group:
            if member is not other and (evidence := self._explain_match(member.record, other.record)):
                return f"same work as {member.record.doc_id}: {evidence}"
        return NO_DETAILS

    def _explain_match(self, one: Record, other: Record) -> str:
        judgement = self.judge(one, other)
        if judgement.verdict != "same":
            return ""
        theirs = other.identifiers.pairs()
        shared = next((f"same {scheme} {value}; " for scheme, value in one.identifiers.pairs() if (scheme, value) in theirs), "")
        return shared + ", ".join(str(evidence) for evidence in judgement.evidence if evidence.weight)


def group_works(works: Sequence[Candidate], judge: PairJudge) -> Grouping:
    """Group works by evidence, decisions and pages. Only works that `linkage.prefilter` finds similar are compared closely."""
    groups = Groups(len(works))
    links: list[Link] = []
    ambiguous: list[tuple[float, tuple[str, str]]] = []
    again = False
    nodes = [(at, record) for at, work in enumerate(works) for record in _compared_records(work)]
    similar = prefilter([record for _, record in nodes], [at for at, _ in nodes])
    if judge.decisions:  # a decision may connect works that no similarity connects
        named = judge.decisions.decided_ids()
        connected = {at for members in similar for at in members} | {at for at, record in nodes if record.doc_id in named}
        similar = [sorted(connected)] if len(connected) > 1 else []
    for members in similar:
        more_links, more_ambiguous, prevented = _resolve_by_evidence(works, members, judge, groups)
        links += more_links
        ambiguous += more_ambiguous
        again |= prevented
    again |= _join_pages(groups, works, judge)
    return Grouping(groups.members(), sort_links(links), tuple(dict.fromkeys(pair for _, pair in sorted(ambiguous))), again)


def _compared_records(work: Candidate) -> Iterator[Record]:
    """The records that a work was merged from, and the work itself if it has an identifier that none of them has."""
    if not work.members:
        yield work.record
        return
    identifiers = {pair for record in work.members for pair in record.identifiers.pairs()}
    if not identifiers.issuperset(work.record.identifiers.pairs()):
        yield work.record
    yield from work.members


def _resolve_by_evidence(
    works: Sequence[Candidate], members: Sequence[int], judge: PairJudge, groups: Groups
) -> tuple[list[Link], list[tuple[float, tuple[str, str]]], bool]:
    """Join the same works in `groups`. Returns links, ambiguous pairs with their negative scores, and whether a match was prevented."""
    from outrider.linkage.clustering import make_overrides
    from outrider.linkage.evidence_weights import WEIGHTS
    from outrider.linkage.resolve import resolve_keys

    every = ((at, record) for at in members for record in _compared_records(works[at]))
    nodes = sorted(every, key=lambda node: node[1].doc_id)  # of records with equal keys the first one gets the links
    first: dict[int, int] = {}
    tied = {(first[at], node): JOINED_BEFORE for node, (at, _) in enumerate(nodes) if first.setdefault(at, node) != node}
    overrides = make_overrides(judge.decisions, [record.doc_id for _, record in nodes], tied)
    resolution = resolve_keys([judge.keys(record) for _, record in nodes], WEIGHTS, overrides, judge.judge_keys)
    for group in resolution.groups:
        for node in group[1:]:
            groups.join(nodes[group[0]][0], nodes[node][0])
    ids = [works[at].record.doc_id for at, _ in nodes]
    links = [Link(ids[link.one], ids[link.other], link.relation) for link in resolution.related]
    ambiguous = [
        (-round(pair.judgement.score, 6), make_pair(ids[pair.one], ids[pair.other]))
        for pair in resolution.ambiguous_pairs
        if model_may_join(pair.judgement)
    ]
    return links, ambiguous, any(pair.judgement.verdict == "same" for pair in resolution.ambiguous_pairs)


def _join_pages(groups: Groups, works: Sequence[Candidate], judge: PairJudge) -> bool:
    """Join the page of an identifier with the work that has this identifier, even if their titles differ; returns whether any joined.

    A page stays alone if several works have its identifier, since supplements share one DOI. All candidates are collected before any
    page joins, so that the order of pages has no effect.
    """
    pages = {at: address for at, work in enumerate(works) if (address := page_identifier(work.record))}
    if not pages:
        return False
    by_identifier: dict[tuple[str, str], list[int]] = {}
    for at, work in enumerate(works):
        for pair in {pair for record in (work.record, *work.members) for pair in record.identifiers.pairs()}:
            by_identifier.setdefault(pair, []).append(at)
    placed = {root for at, work in enumerate(works) if {*map(page_identifier, list_records(work))} != {pages.get(root := groups.root(at))}}
    alone = sorted((page for page in pages if groups.root(page) not in placed), key=lambda page: works[page].record.doc_id)
    decided_ids = judge.decisions.decided_ids() if judge.decisions else frozenset[str]()
    firsts: dict[object, int] = {}
    joins: list[Pair] = []
    for page in alone:
        decided = frozenset(record.doc_id for record in list_records(works[page])) & decided_ids  # a split page represents no other page
        joins.append((page, firsts.setdefault((pages[page], works[page].record.identifiers.pairs(), decided), page)))
    for page in firsts.values():
        address, record = pages[page], works[page].record
        # Every record of a work counts, since merging does not change whose page it is.
        others = [
            at
            for at in by_identifier[address]
            if groups.together(page, at) or any(shared_identifier(record, other) for other in (works[at].record, *works[at].members))
        ]
        named = [at for at in others if pages.get(at) != address]
        if len({groups.root(at) for at in named}) <= 1:
            joins += ((page, at) for at in named or others)
    joined = False
    for page, at in sorted(joins, key=lambda pair: (works[pair[0]].record.doc_id, works[pair[1]].record.doc_id)):
        if page != at and not _are_groups_split(groups, works, page, at, judge):
            groups.join(page, at)
            joined = True
    return joined


def _are_groups_split(groups: Groups, works: Sequence[Candidate], one: int, other: int, judge: PairJudge) -> bool:
    """Whether a user split any work of one group from any work of the other."""
    if not judge.decisions:
        return False
    roots = groups.root(one), groups.root(other)
    mine, theirs = ([work for at, work in enumerate(works) if groups.root(at) == root] for root in roots)
    return any(judge.are_split(a, b) for a, b in product(mine, theirs))


def find_versions(works: Sequence[Candidate], links: Sequence[Link], judge: PairJudge) -> dict[Pair, str]:
    """Positions of works that are versions of one work, with reasons: preprints with their publication, never two publications."""
    at = {record.doc_id: position for position, work in enumerate(works) for record in list_records(work)}
    pairs = ((at[link.one], at[link.other], link.relation) for link in links if link.relation.kind in VERSIONS)
    relations = {(one, other): relation for one, other, relation in pairs if one != other}

    def nearest_first(pair: Pair) -> tuple[object, ...]:
        one, other = works[pair[0]].record, works[pair[1]].record
        years = UNKNOWN_YEARS_APART if one.year is None or other.year is None else abs(one.year - other.year)
        return (years, *sorted((richness(one), richness(other))))

    groups = CompatibleGroups(works, lambda one, other: judge.contradicts(one, other) or judge.are_other_editions(one, other))
    ordered = sorted(relations, key=nearest_first)
    return {pair: f"versions of one work: {relations[pair].why}" for pair in ordered if groups.join(*pair)}


class CompatibleGroups:
    """Groups of works that grow as long as no two of their works conflict."""

    def __init__(self, works: Sequence[Candidate], conflicts: Callable[[Candidate, Candidate], bool]) -> None:
        self._works, self._conflicts = works, conflicts
        self._members: dict[int, list[int]] = {at: [at] for at in range(len(works))}
        self.groups = Groups(len(works))

    def join(self, one: int, other: int) -> bool:
        """Join the groups of two works; returns whether the works are together now."""
        first, second = sorted((self.groups.root(one), self.groups.root(other)))
        if first == second:
            return True
        if any(self._conflicts(self._works[a], self._works[b]) for a, b in product(self._members[first], self._members[second])):
            return False
        self.groups.join(first, second)
        self._members[first] += self._members.pop(second)
        return True


def make_blocks(ambiguous_pairs: Sequence[Pair], most: int) -> list[list[int]]:
    """Disjoint blocks of 2 to `most` positions connected by ambiguous pairs, ordered by first position; likely pairs are placed first."""
    blocks: dict[int, list[int]] = {}
    for one, other in ambiguous_pairs:
        first, second = blocks.setdefault(one, [one]), blocks.setdefault(other, [other])
        if first is not second and len(first) + len(second) <= most:
            first += second
            blocks.update(dict.fromkeys(second, first))
    return sorted({id(block): sorted(block) for block in blocks.values() if len(block) > 1}.values())
