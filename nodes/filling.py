"""What a record lacks is taken from others of the same work; what stood on a page never passes for a service's word.

Anybody may put a title, a DOI and an abstract on a page. So a page gives a work of another kind no abstract, description or link, and
what it does give it (its text) goes as soon as a service says something, and is never kept under the service's id.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from pydantic import JsonValue

from outrider.identity.works import addressed
from outrider.state.records import LIBRARY, Record

FILLED = ("abstract", "description", "text", "url", "year", "venue", "citations", "stars", "language", "authors", "tags")
"""What a leader that lacks it takes from its duplicates, beside identifiers."""
NOTICES = ("update_to", "updated_by", "notices")
"""Metadata that says what corrects or retracts the work."""
EMPTY: tuple[object, ...] = (None, "", (), {})
WEB = "web"
"""Who gave what stood on a page, whoever found it."""
NOT_OF_PAGES = frozenset({"abstract", "description", "url"})
IDENTIFIER = "identifiers."
"""How a field of `filled_from` begins that is one."""


def filled(leader: Record, others: Sequence[Record]) -> Record:
    """The leader with what it lacks from the first of the others that has it; `metadata["filled_from"]` names the source of each field.

    Nothing it says changes, but that notices of all are its own, that it is retracted where any says so, and that what it has from a
    page gives way to what one of the others says.
    """
    own = own_words(leader)
    fillers = others if own is leader else (*others, leader)
    taken, known, sources = dict[str, object](), dict[str, str](), dict[str, JsonValue]()
    for name in FILLED:
        if getattr(own, name) not in EMPTY:
            continue
        given = [(value, _source(other, name)) for other in fillers if (value := _given(own, other, name)) not in EMPTY]
        if given:
            taken[name], sources[name] = min(given, key=_from_page)
    said = [(scheme, value, _source(other, IDENTIFIER + scheme)) for other in fillers for scheme, value in other.identifiers.pairs()]
    for scheme, value, source in sorted(said, key=lambda one: one[2] == WEB):
        if scheme not in known and not getattr(own.identifiers, scheme):
            known[scheme], sources[IDENTIFIER + scheme] = value, source
    metadata = {**own.metadata, **_notices([leader, *others])}
    if sources:
        metadata["filled_from"] = {**_filled_from(own), **sources}
    return own.model_copy(update={**taken, "identifiers": own.identifiers.model_copy(update=known), "metadata": metadata})


def own_words(record: Record) -> Record:
    """The record without what pages gave it; itself where it is a page, or has nothing from one."""
    from_pages = [] if record.kind == "page" else [name for name, who in _filled_from(record).items() if who == WEB]
    if not from_pages:
        return record
    fields = type(record).model_fields
    bare = {name: fields[name].get_default(call_default_factory=True) for name in from_pages if name in FILLED}
    schemes = {name.removeprefix(IDENTIFIER): None for name in from_pages if name.startswith(IDENTIFIER)}
    left = {name: who for name, who in _filled_from(record).items() if who != WEB}
    metadata = {name: said for name, said in record.metadata.items() if name != "filled_from"} | ({"filled_from": left} if left else {})
    return record.model_copy(update={**bare, "identifiers": record.identifiers.model_copy(update=schemes), "metadata": metadata})


def _given(leader: Record, other: Record, name: str) -> object:
    """What the leader may take. The page of one of its identifiers, at those who give it, is its link, too."""
    if name == "language" and (leader.kind == "repository") != (other.kind == "repository"):
        return None  # another language is meant
    if name in NOT_OF_PAGES and leader.kind != "page" and _source(other, name) == WEB:
        return other.url if name == "url" and addressed(other) in leader.identifiers.pairs() else None
    value: object = getattr(other, name)
    return value


def _from_page(given: tuple[object, JsonValue]) -> bool:
    return given[1] == WEB


def _filled_from(record: Record) -> Mapping[str, JsonValue]:
    said = record.metadata.get("filled_from")
    return said if isinstance(said, dict) else {}


def _source(record: Record, name: str) -> JsonValue:
    own = WEB if record.kind == "page" and record.source != LIBRARY else record.source
    return _filled_from(record).get(name, own)


def _notices(records: Sequence[Record]) -> dict[str, JsonValue]:
    """What any of them knows of retractions and corrections, each once."""
    united: dict[str, JsonValue] = {}
    if any(record.metadata.get("retracted") is True for record in records):
        united["retracted"] = True
    for name in NOTICES:
        lists = [said for record in records if isinstance(said := record.metadata.get(name), list)]
        once = {json.dumps(notice, sort_keys=True): notice for said in lists for notice in said}
        if once and isinstance(records[0].metadata.get(name) or [], list):
            united[name] = list(once.values())
    return united
