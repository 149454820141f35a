"""Merging the records of one work, and linking related works.

A related work is another work that belongs to this one (a correction, a retraction, a part, its code) or another version of it. The link
is stored on both sides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from outrider.linkage.lookup_match import preprint_server
from outrider.linkage.merge import fill_missing, leading
from outrider.state.hits import Candidate, Duplicate, Related
from outrider.state.records import Record

if TYPE_CHECKING:
    from outrider.linkage.relations import Relation

VERSIONS = frozenset({"preprint of", "version of"})
"""Relations between versions of the same work."""
Explain = Callable[[Candidate, Candidate, Sequence[Candidate]], str]
"""Gives the reason why the second candidate is the same work as the first, the leader of the group."""
INVERSE = {
    "preprint of": "has preprint",
    "corrects": "corrected by",
    "retracts": "retracted by",
    "comments on": "commented on by",
    "code of": "has code",
}
"""Names of relations seen from the object; all others have the same name from both sides."""


TELLING_FIRST = ("retracts", "corrects", "comments on", "part beside", "code of", "preprint of", "version of")
"""Relations in the order in which they are shown, if two works have several records and these are related in several ways."""


class Link(NamedTuple):
    one: str
    """An id."""
    other: str
    relation: Relation


def sort_links(links: Iterable[Link]) -> tuple[Link, ...]:
    """The links in an order that does not depend on that of the candidates, each from the smaller id: the first of two works counts."""
    turned = (link if link.one <= link.other else Link(link.other, link.one, link.relation.reverse()) for link in links)
    return tuple(sorted(turned, key=lambda link: (TELLING_FIRST.index(link.relation.kind), link.one, link.other, link.relation.why)))


def list_records(work: Candidate) -> tuple[Record, ...]:
    """The records that the work was merged from, unchanged, so that a merge can be undone."""
    return work.members or (work.record,)


def merge_members(members: Sequence[Candidate], explain: Explain, *, versions: bool = False) -> Candidate:
    """One candidate for all members. With `versions`, records of another preprint server than the leader's fill no fields."""
    if len(members) == 1:
        return members[0]
    group = sorted(members, key=fused_order)
    leader = min(group, key=lambda candidate: leading(candidate.record))
    server = preprint_server(leader.record)
    others = [candidate for candidate in group if candidate is not leader]
    others.sort(key=lambda candidate: (preprint_server(candidate.record) != server, leading(candidate.record)))
    duplicates = list(leader.duplicates)
    for other in others:
        record, why = other.record, explain(leader, other, group)
        duplicates += (Duplicate(doc_id=record.doc_id, source=record.source, origin=record.origin, why=why), *other.duplicates)
    fillers = [other.record for other in others if not versions or preprint_server(other.record) == server]
    work = replace(
        leader,
        record=fill_missing(leader.record, fillers),
        found_by=tuple(dict.fromkeys(found_by for candidate in group for found_by in candidate.found_by)),
        duplicates=tuple(duplicates),
        related=tuple(dict.fromkeys(link for candidate in (leader, *others) for link in candidate.related)),
        members=tuple(record for candidate in (leader, *others) for record in list_records(candidate)),
        score=max(candidate.score for candidate in group),
    )
    if not any("fused" in candidate.scores for candidate in group):
        return work
    # As in RRF a list counts once, by its best record; further copies in the same list add nothing.
    counted: set[tuple[str, str, str]] = set()
    fused = 0.0
    for candidate in group:
        lists = {(found_by.source, found_by.strategy, found_by.query) for found_by in candidate.found_by}
        if counted.isdisjoint(lists):
            fused += candidate.scores.get("fused", 0.0)
        counted |= lists
    return replace(work, scores={**leader.scores, "fused": fused}, score=fused)


def sort_by_fused_score(works: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """Sort by fused score, then id, if all have one; scores above 1 are divided by the best. Later steps cut and rely on this order."""
    best = max((work.scores.get("fused", 0.0) for work in works), default=0.0)
    if best > 1.0:
        works = [
            replace(work, scores={**work.scores, "fused": work.scores["fused"] / best}, score=work.score / best)
            if "fused" in work.scores
            else work
            for work in works
        ]
    return tuple(sorted(works, key=fused_order) if all("fused" in work.scores for work in works) else works)


def fused_order(work: Candidate) -> tuple[float, str]:
    """Sort key: best fused score first, then the id."""
    return (-work.scores.get("fused", 0.0), work.record.doc_id)


def link_related_works(works: Sequence[Candidate], links: Iterable[Link], unfolded: Sequence[Candidate]) -> list[Candidate]:
    """The works with their related works. `unfolded` are the works before versions were folded."""
    links = list(links)
    if not links and not any(work.related for work in works):
        return list(works)
    at = {doc_id: position for position, work in enumerate(works) for doc_id in _ids(work)}
    part = {doc_id: position for position, work in enumerate(unfolded) for doc_id in _ids(work)}
    related: list[dict[str, Related]] = []
    for work in works:
        # Links from before, under the ids that these works have now.
        own = {*_ids(work)}
        current = (
            link
            if link.doc_id in own or link.doc_id not in at
            else link.model_copy(update={"doc_id": works[at[link.doc_id]].record.doc_id})
            for link in work.related
        )
        related.append({link.doc_id: link for link in current})
    for one, other, relation in links:
        here, there = at[one], at[other]
        if here != there:
            related[here].setdefault(works[there].record.doc_id, _make_related(works[there], relation, relation.forward))
            related[there].setdefault(works[here].record.doc_id, _make_related(works[here], relation, not relation.forward))
        elif relation.kind in VERSIONS:
            own_part = part[works[here].record.doc_id]
            for mine, theirs, forward in ((one, other, relation.forward), (other, one, not relation.forward)):
                if part[mine] == own_part != part[theirs]:
                    version = unfolded[part[theirs]]
                    related[here].setdefault(version.record.doc_id, _make_related(version, relation, forward))
    ordered = [tuple(sorted(by_id.values(), key=lambda link: (link.relation, link.doc_id))) for by_id in related]
    return [work if now == work.related else replace(work, related=now) for work, now in zip(works, ordered, strict=True)]


def _ids(work: Candidate) -> tuple[str, ...]:
    return (work.record.doc_id, *(duplicate.doc_id for duplicate in work.duplicates))


def _make_related(work: Candidate, relation: Relation, forward: bool) -> Related:
    name = relation.kind if forward else INVERSE.get(relation.kind, relation.kind)
    return Related(relation=name, doc_id=work.record.doc_id, title=work.record.title, why=relation.why)
