"""Merging of records of one work: which one leads, and how its gaps are filled.

Anybody may put a title, a DOI and an abstract on a web page. So a page gives a work of another kind no abstract, description or link.
What a page does give (its text) is replaced as soon as a service gives the same field, and is never stored under the service's id.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from outrider.linkage.evidence import compare_venues
from outrider.linkage.lookup_match import page_identifier
from outrider.linkage.names_and_titles import normal_title
from outrider.linkage.normalized_record import find_server
from outrider.state.full_text import LOCATIONS, carry_text
from outrider.state.notices import CHECKS, NOTES, is_reported, list_notices
from outrider.state.records import LIBRARY, Record
from outrider.text.screening_labels import LABEL_NOTES, drop_columns, list_labels

FILLED = ("abstract", "description", "text", "url", "year", "venue", "citations", "stars", "language", "authors", "tags")
"""Fields that a leading record without them takes from its duplicates, besides identifiers."""
NOT_MERGED = frozenset({"kind", "doc_id", "source", "origin", "metadata", "identifiers", "edges"})
"""Fields that imported records never take from each other; identifiers are merged one by one."""
NOTICES = ("update_to", "updated_by", "notices")
"""Metadata about corrections and retractions of the work."""
HEADINGS = ("mesh_qualified", "mesh_major")
"""Metadata that list more of the record's MeSH terms."""
TYPES = ("publication_types",)
SERIALS = ("issn", "other_issns", "journal_abbreviation")
"""Metadata about the journal."""
EMPTY: tuple[object, ...] = (None, "", (), {})
WEB = "web"
"""The source of everything that was read from a web page, whichever search returned the page."""
NOT_OF_PAGES = frozenset({"abstract", "description", "url"})
REPORTED_BY = "retracted_reported_by"
"""In the metadata: whose flag `retracted` is, if it is not the leader's."""
IDENTIFIER = "identifiers."
"""Prefix of identifier fields in `filled_from`."""


def richness(record: Record) -> tuple[int, bool, int, int, str]:
    """Smaller is richer: filled fields, then a DOI, a longer abstract, more citations; the id breaks ties (smaller first)."""
    filled = sum(value not in EMPTY for value in vars(record).values())
    filled += len(record.identifiers.pairs())
    return (-filled, not record.identifiers.doi, -len(record.abstract), -(record.citations or 0), record.doc_id)


def leading(record: Record) -> tuple[bool, bool, bool, tuple[int, bool, int, int, str]]:
    """Smallest leads: the user's own text, then abstract; records of services before web pages; then the richest."""
    own = record.source == LIBRARY
    return (not (own and record.text), not (own and record.abstract), record.kind == "page", richness(record))


def fill_missing(leader: Record, others: Sequence[Record]) -> Record:
    """The leader with its gaps filled from the first of the others that has a value; `metadata["filled_from"]` names each field's source.

    The leader's own values stay, with four exceptions: notices of all records are united, the record is retracted where any record says
    so, values from a page are replaced by those of a service, and a fetched full text by a better one.
    """
    own = strip_page_values(leader)
    donors = others if own is leader else (*others, leader)
    values, sources = _fill(own, [_Donor(donor) for donor in donors], FILLED)
    metadata: dict[str, JsonValue] = {**own.metadata, **_unite_notices(leader, others)}
    if sources:
        metadata["filled_from"] = {**_filled_from(own), **sources}
    if LOCATIONS not in metadata and (
        named := next((record.metadata[LOCATIONS] for record in others if LOCATIONS in record.metadata), None)
    ):
        metadata[LOCATIONS] = named
    merged = own.model_copy(update={**values, "metadata": metadata})
    for other in others:
        merged = carry_text(merged, other)
    return _carry_notices(merged, others)


def _unite_notices(leader: Record, others: Sequence[Record]) -> dict[str, JsonValue]:
    """The metadata of retractions and corrections that any of the records names, each once."""
    metadata: dict[str, JsonValue] = {}
    records = [leader, *others]
    if flagged := next((record for record in records if record.metadata.get("retracted") is True), None):
        metadata["retracted"] = True
        reporter = flagged.metadata.get(REPORTED_BY, flagged.source)
        if flagged is not leader and not reporter == leader.source == LIBRARY:
            metadata[REPORTED_BY] = reporter
    for name in NOTICES:
        lists = [notices for record in records if isinstance(notices := record.metadata.get(name), list)]
        if (once := _unite(lists)) and isinstance(leader.metadata.get(name) or [], list):
            metadata[name] = once
    return metadata


def _carry_notices(merged: Record, others: Sequence[Record]) -> Record:
    """The merged record with notices that only its duplicates have: by a title, a type of publication, or a later check."""
    known = list_notices(merged)
    services = (record for record in others if record.kind != "page")  # anybody may write `RETRACTED` above a page
    lost = [notice for record in services for notice in list_notices(record) if not is_reported(notice, known)]
    if not lost:
        return merged
    checks = merged.metadata.get(CHECKS)
    former = [one for one in checks if isinstance(one, dict)] if isinstance(checks, list) else []
    last = former[-1] if former else {}
    dumped: list[JsonValue] = [notice.model_dump(mode="json", exclude_defaults=True) for notice in dict.fromkeys((*known, *lost))]
    entry: JsonValue = {**last, "services": ["duplicates"], "notices": dumped}
    return merged.model_copy(update={"metadata": {**merged.metadata, CHECKS: [*former, entry]}})


def merge_lookups(stored: Record, fresh: Record) -> Record:
    """The record of one work that was looked up by several identifiers, of which services gave `stored` first and `fresh` now.

    The service whose record was stored first leads. What `fresh` has from its service replaces what that service gave before; everything
    else stays. So the order of the lookups decides only who leads, and a repeated lookup changes nothing. `metadata["records"]` lists the
    services' ids of both. A record that one service gave alone is replaced by its new answer.
    """
    own_id, listed = stored.metadata.get("record"), stored.metadata.get("records")
    ids: list[JsonValue] = list(listed) if isinstance(listed, list) else [own_id] if isinstance(own_id, str) else []
    renews = bool(ids) and isinstance(own_id, str) and own_id.partition(":")[0] == fresh.source
    if stored.kind != fresh.kind or not ids or (renews and len(ids) == 1):
        return fresh
    filled = _filled_from(stored)
    fields = sorted(type(fresh).model_fields.keys() - NOT_MERGED)
    defaults = {name: type(fresh).model_fields[name].get_default(call_default_factory=True) for name in fields}
    # of the stored record: what others gave to a leader that comes anew, or all but what the new record's service gave
    stale = [name for name in fields if (name not in filled if renews else filled.get(name) == fresh.source)]
    rest = {name: source for name, source in filled.items() if name not in stale}
    before = stored.model_copy(update={name: defaults[name] for name in stale} | {"metadata": {**stored.metadata, "filled_from": rest}})
    leader, other = (fresh, before) if renews else (before, fresh)
    merged = fill_missing(leader, [other])
    gaps, sources = _fill(merged, [_Donor(other)], [name for name in fields if name not in FILLED])
    named = {**_filled_from(merged), **sources}
    metadata: dict[str, JsonValue] = {**other.metadata, **merged.metadata, "records": list(dict.fromkeys([*ids, fresh.doc_id]))}
    metadata |= {"filled_from": named} if named else {}
    edges = tuple(dict.fromkeys((*leader.edges, *other.edges)))
    return merged.model_copy(update={**gaps, "edges": edges, "metadata": metadata})


def merge_records(members: Sequence[tuple[str, Record]], *, first_leads: bool = False) -> Record:
    """One record of several imported ones. `metadata["merged"]` lists their ids, `metadata["filled_from"]` maps filled fields to ids.

    The leader's own values stay. The leader has the most filled fields, then a DOI, the longer abstract, more citations, the smaller id;
    with `first_leads` it is the first. Lists and notices are united. Other metadata describes a copy (numbers in a database, dates of its
    entry) and stays the leader's own.
    """
    if len(members) == 1:
        return members[0][1]
    ranked = sorted(members[first_leads:], key=lambda member: (richness(member[1])[:-1], member[0]))
    (leader_id, leader), *others = [*members[:first_leads], *ranked]
    fields = sorted(type(leader).model_fields.keys() - NOT_MERGED)
    donors = [record for _, record in others]
    values, sources = _fill(leader, [_Donor(record, record_id) for record_id, record in others], fields)
    joined, described = _join_descriptions(leader, others)
    if "mesh" in fields:
        values["mesh"] = tuple(dict.fromkeys(word for record in (leader, *donors) for word in getattr(record, "mesh", ())))
    metadata: dict[str, JsonValue] = {**leader.metadata, **joined, **_unite_notices(leader, donors)}
    metadata = _join_labels(metadata, [leader, *donors])
    metadata["merged"] = [leader_id, *(record_id for record_id, _ in others)]
    if sources := sources | described:
        metadata["filled_from"] = sources
    return _carry_notices(leader.model_copy(update={**values, "metadata": metadata}), donors)


def _join_descriptions(leader: Record, others: Sequence[tuple[str, Record]]) -> tuple[dict[str, JsonValue], dict[str, JsonValue]]:
    """Metadata of the work that the leader lacks or that lists more, and the source of what it lacks.

    A preprint's type and server are not those of the article, nor the other way round.
    """
    server, venue = _find_print(leader)
    same_print = [
        (record_id, record)
        for record_id, record in others
        if (found := _find_print(record))[0] == server and compare_venues(*sorted((venue, found[1]))) != "other"
    ]
    metadata, sources = dict[str, JsonValue](), dict[str, JsonValue]()
    for names, donors in ((NOTES + HEADINGS, others), (TYPES, same_print)):
        for name in names:
            lists = [_list_items(record.metadata.get(name)) for record in (leader, *(record for _, record in donors))]
            if any(lists[1:]) and (items := _unite(lists)) != lists[0]:
                metadata[name] = items if len(items) > 1 or name in TYPES + HEADINGS else items[0]
                if not lists[0]:
                    sources[name] = next(record_id for record_id, record in donors if record.metadata.get(name))
    if not any(leader.metadata.get(name) for name in SERIALS):
        for record_id, record in same_print:
            if own := {name: value for name in SERIALS if (value := record.metadata.get(name))}:
                return metadata | own, sources | dict.fromkeys(own, record_id)
    return metadata, sources


def _find_print(record: Record) -> tuple[str, str]:
    """The preprint server and the normal venue of a record, as far as known."""
    return find_server(dict(record.identifiers.pairs()), record.venue), normal_title(record.venue or "")


def _join_labels(metadata: Mapping[str, JsonValue], records: Sequence[Record]) -> dict[str, JsonValue]:
    """The metadata with the label that any of the records has; contradictory ones become notes, so that no reader overlooks one."""
    labels = dict.fromkeys(label for record in records for label in list_labels(record.metadata))
    contradictory = len(labels) > 1
    joined = drop_columns(metadata) if contradictory else {**metadata}
    notes = [LABEL_NOTES[label] for label in labels if label in LABEL_NOTES and (contradictory or label not in list_labels(joined))]
    if missing := [note for note in notes if note not in _list_items(joined.get("N1"))]:
        joined["N1"] = [*_list_items(joined.get("N1")), *missing]
    return joined


def _list_items(value: JsonValue) -> list[JsonValue]:
    return value if isinstance(value, list) else [] if value in EMPTY else [value]


def _unite(lists: Iterable[Iterable[JsonValue]]) -> list[JsonValue]:
    """All items, each once; they need not be hashable."""
    return [*{json.dumps(item, sort_keys=True): item for items in lists for item in items}.values()]


def strip_page_values(record: Record) -> Record:
    """The record without values from web pages; the same object where it is a page or has none of them."""
    from_pages = [] if record.kind == "page" else [name for name, source in _filled_from(record).items() if source == WEB]
    if not from_pages:
        return record
    fields = type(record).model_fields
    defaults = {name: fields[name].get_default(call_default_factory=True) for name in from_pages if name in FILLED}
    schemes = {name.removeprefix(IDENTIFIER): None for name in from_pages if name.startswith(IDENTIFIER)}
    rest = {name: source for name, source in _filled_from(record).items() if source != WEB}
    metadata = {name: value for name, value in record.metadata.items() if name != "filled_from"} | ({"filled_from": rest} if rest else {})
    return record.model_copy(update={**defaults, "identifiers": record.identifiers.model_copy(update=schemes), "metadata": metadata})


@dataclass(frozen=True, slots=True)
class _Donor:
    """A record that may fill gaps of another one."""

    record: Record
    record_id: str | None = None
    """The name of an imported record in `filled_from`. Without one, the source of each value is named, and the rules for pages apply."""

    def source(self, name: str) -> JsonValue:
        if self.record_id is not None:
            return self.record_id
        own = WEB if self.record.kind == "page" and self.record.source != LIBRARY else self.record.source
        return _filled_from(self.record).get(name, own)

    def from_page(self, name: str) -> bool:
        return self.record_id is None and self.source(name) == WEB

    def value(self, leader: Record, name: str) -> object:
        """What the leader may take; from a web page the link too, where it is the official page of one of the leader's identifiers."""
        if self.record_id is None and name == "language" and (leader.kind == "repository") != (self.record.kind == "repository"):
            return None  # a programming language on one side, a natural language on the other
        if name in NOT_OF_PAGES and leader.kind != "page" and self.from_page(name):
            return self.record.url if name == "url" and page_identifier(self.record) in leader.identifiers.pairs() else None
        value: object = getattr(self.record, name, None)
        return value


def _fill(leader: Record, donors: Sequence[_Donor], fields: Collection[str]) -> tuple[dict[str, object], dict[str, JsonValue]]:
    """New values for the leader's empty fields and identifiers, with their sources: the first donor's, values from pages last."""
    values, identifiers, sources = dict[str, object](), dict[str, str](), dict[str, JsonValue]()
    for name in fields:
        if getattr(leader, name) in EMPTY:
            offers = [(donor, value) for donor in donors if (value := donor.value(leader, name)) not in EMPTY]
            if offers:
                donor, values[name] = min(offers, key=lambda offer: offer[0].from_page(name))
                sources[name] = donor.source(name)
    named = [(donor, scheme, value) for donor in donors for scheme, value in donor.record.identifiers.pairs()]
    for donor, scheme, value in sorted(named, key=lambda one: one[0].from_page(IDENTIFIER + one[1])):
        if scheme not in identifiers and not getattr(leader.identifiers, scheme):
            identifiers[scheme], sources[IDENTIFIER + scheme] = value, donor.source(IDENTIFIER + scheme)
    values["identifiers"] = leader.identifiers.model_copy(update=identifiers)
    return values, sources


def _filled_from(record: Record) -> Mapping[str, JsonValue]:
    sources = record.metadata.get("filled_from")
    return sources if isinstance(sources, dict) else {}
