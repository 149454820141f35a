"""Records of one work as one: the richest leads, and what it lacks is taken from the others, field by field."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import JsonValue

from outrider.nodes.dedup_merging import richness
from outrider.nodes.filling import EMPTY
from outrider.state.records import Record

NOT_FILLED = frozenset({"kind", "doc_id", "source", "origin", "metadata", "identifiers", "edges"})


def one_record(members: Sequence[tuple[str, Record]]) -> Record:
    """Of (id, record). `metadata["merged"]` names all of them, `metadata["filled_from"]` whom each field that was filled is from.

    Nothing that the leader says changes. The most filled fields lead, then a DOI, the longer abstract, citations, the smaller id.
    """
    if len(members) == 1:
        return members[0][1]
    (leader_id, leader), *others = sorted(members, key=lambda one: (richness(one[1])[:-1], one[0]))
    taken, known, sources = dict[str, object](), dict[str, str](), dict[str, JsonValue]()
    for name in sorted(type(leader).model_fields.keys() - NOT_FILLED):
        if getattr(leader, name) in EMPTY:
            given = ((getattr(other, name), own) for own, other in others if getattr(other, name, None) not in EMPTY)
            if found := next(given, None):
                taken[name], sources[name] = found
    for own, other in others:
        for scheme, value in other.identifiers.pairs():
            if scheme not in known and not getattr(leader.identifiers, scheme):
                known[scheme], sources[f"identifiers.{scheme}"] = value, own
    told: dict[str, JsonValue] = {"merged": [leader_id, *(own for own, _ in others)], **({"filled_from": sources} if sources else {})}
    identifiers = leader.identifiers.model_copy(update=known)
    return leader.model_copy(update={**taken, "identifiers": identifiers, "metadata": {**leader.metadata, **told}})
