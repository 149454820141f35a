"""Records of one work made one candidate: who leads, what fills its gaps, and why each of the others is the same work."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from outrider.linkage.confirm_work import preprint_server
from outrider.linkage.merge import fill_missing, leading
from outrider.state.hits import Candidate, Duplicate, FoundBy, Related
from outrider.state.records import Record

if TYPE_CHECKING:
    from outrider.linkage.relations import Relation

VERSIONS = frozenset({"preprint of", "version of"})
"""Relations of one work to itself in another dress."""
Explain = Callable[[Candidate, Candidate, Sequence[Candidate]], str]
"""Why the second is the work of the first, which leads all of them."""


class Link(NamedTuple):
    one: str
    """An id."""
    other: str
    relation: Relation


def list_records(work: Candidate) -> tuple[Record, ...]:
    """The records that it was made of, exactly as they came: what merging can be undone to."""
    return work.members or (work.record,)


def merge_members(members: Sequence[Candidate], why: Explain, *, versions: bool = False) -> Candidate:
    """`versions`: those of another preprint server than the leader's fill nothing."""
    if len(members) == 1:
        return members[0]
    group = sorted(members, key=fused_order)
    leader = min(group, key=lambda candidate: leading(candidate.record))
    server = preprint_server(leader.record)
    others = sorted(
        (one for one in group if one is not leader), key=lambda one: (preprint_server(one.record) != server, leading(one.record))
    )
    fillers = [one.record for one in others if not versions or preprint_server(one.record) == server]
    folded = tuple(fold for other in others for fold in (_duplicate(other.record, why(leader, other, group)), *other.duplicates))
    whole = replace(
        leader,
        record=fill_missing(leader.record, fillers),
        found_by=_once(found for candidate in group for found in candidate.found_by),
        duplicates=leader.duplicates + folded,
        related=tuple(dict.fromkeys(link for one in (leader, *others) for link in one.related)),
        members=tuple(record for one in (leader, *others) for record in list_records(one)),
        score=max(one.score for one in group),
    )
    if not any("fused" in one.scores for one in group):
        return whole
    fused = _fused(group)
    return replace(whole, scores={**leader.scores, "fused": fused}, score=fused)


def sort_by_fused_score(works: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """By fused score, then id, where all have one; divided by the best above 1. What comes after cuts, and trusts the order."""
    best = max((work.scores.get("fused", 0.0) for work in works), default=0.0)
    if best > 1.0:
        works = [_divided(work, best) for work in works]
    return tuple(sorted(works, key=fused_order) if all("fused" in work.scores for work in works) else works)


def fused_order(work: Candidate) -> tuple[float, str]:
    return (-work.scores.get("fused", 0.0), work.record.doc_id)


def _divided(work: Candidate, best: float) -> Candidate:
    if "fused" not in work.scores:
        return work
    return replace(work, scores={**work.scores, "fused": work.scores["fused"] / best}, score=work.score / best)


def _fused(group: Sequence[Candidate]) -> float:
    """The work's fused score, `group` best first: as in RRF a list counts once, by its best record; further copies there add nothing."""
    counted: set[tuple[str, str, str]] = set()
    total = 0.0
    for candidate in group:
        lists = {(found.source, found.strategy, found.query) for found in candidate.found_by}
        if counted.isdisjoint(lists):
            total += candidate.scores.get("fused", 0.0)
        counted |= lists
    return total


def _duplicate(record: Record, why: str) -> Duplicate:
    return Duplicate(doc_id=record.doc_id, source=record.source, origin=record.origin, why=why)


def _once(places: Iterable[FoundBy]) -> tuple[FoundBy, ...]:
    return tuple(dict.fromkeys(places))


FROM_THE_OTHER = {
    "preprint of": "has preprint",
    "corrects": "corrected by",
    "retracts": "retracted by",
    "comments on": "commented on by",
    "code of": "has code",
}
"""How a relation is called from its object; those that are not here are the same from both sides."""


def link_related_works(works: Sequence[Candidate], links: Iterable[Link], before: Sequence[Candidate]) -> list[Candidate]:
    """The works with what belongs to them; `before` are these before versions were folded, each with its own links, where it had some."""
    links = list(links)
    if not links and not any(work.related for work in works):
        return list(works)
    at = {doc_id: place for place, work in enumerate(works) for doc_id in _ids(work)}
    part = {doc_id: place for place, work in enumerate(before) for doc_id in _ids(work)}
    found: list[dict[str, Related]] = [{one.doc_id: one for one in _still(work, works, at)} for work in works]
    for one, other, relation in links:
        here, there = at[one], at[other]
        if here != there:
            found[here].setdefault(works[there].record.doc_id, _related(works[there], relation, relation.forward))
            found[there].setdefault(works[here].record.doc_id, _related(works[here], relation, not relation.forward))
        elif relation.kind in VERSIONS:
            own = part[works[here].record.doc_id]
            for mine, theirs, forward in ((one, other, relation.forward), (other, one, not relation.forward)):
                if part[mine] == own != part[theirs]:
                    version = before[part[theirs]]
                    found[here].setdefault(version.record.doc_id, _related(version, relation, forward))
    return [_with(work, related) for work, related in zip(works, found, strict=True)]


def _ids(work: Candidate) -> tuple[str, ...]:
    return (work.record.doc_id, *(fold.doc_id for fold in work.duplicates))


def _still(work: Candidate, works: Sequence[Candidate], at: dict[str, int]) -> Iterable[Related]:
    """What was known of it before, under the ids by which these works go now."""
    own = {*_ids(work)}
    for one in work.related:
        if one.doc_id in own or one.doc_id not in at:
            yield one
        else:
            yield one.model_copy(update={"doc_id": works[at[one.doc_id]].record.doc_id})


def _related(work: Candidate, relation: Relation, forward: bool) -> Related:
    name = relation.kind if forward else FROM_THE_OTHER.get(relation.kind, relation.kind)
    return Related(relation=name, doc_id=work.record.doc_id, title=work.record.title, why=relation.why)


def _with(work: Candidate, related: dict[str, Related]) -> Candidate:
    ordered = tuple(sorted(related.values(), key=lambda one: (one.relation, one.doc_id)))
    return work if ordered == work.related else replace(work, related=ordered)
