"""What belongs to a work and is another: a correction, a retraction, a part, its code, another version. Seen from each side."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from outrider.nodes.dedup.group import VERSIONS, Link
from outrider.state.hits import Candidate, Related

if TYPE_CHECKING:
    from outrider.linkage.relations import Relation

FROM_THE_OTHER = {
    "preprint of": "has preprint",
    "corrects": "corrected by",
    "retracts": "retracted by",
    "comments on": "commented on by",
    "code of": "has code",
}
"""How a relation is called from its object; those that are not here are the same from both sides."""


def linked(works: Sequence[Candidate], links: Iterable[Link], before: Sequence[Candidate]) -> list[Candidate]:
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
