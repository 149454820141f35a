"""Code of papers and papers of repositories: own texts joined with stored evidence"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from outrider.code_links.combine import combine_evidence
from outrider.code_links.names import list_names
from outrider.code_links.read_record import read_all_evidence
from outrider.library.edges import IS
from outrider.library.filter_sql import in_list
from outrider.library.record_table import chunk_ids
from outrider.state.code_links import CodeLink, KnownLinks, LinkEvidence
from outrider.state.errors import LibraryMissing
from outrider.state.records import LIBRARY, Record

if TYPE_CHECKING:
    from outrider.library.library import Library


@dataclass(frozen=True, slots=True)
class CodeFinder:
    """The links of records: what they say themselves, and what the library's tables say about them.

    Without a library, only what the records say themselves, each other's texts included.
    """

    open_library: Callable[[], Awaitable[Library]] | None

    async def find(self, records: Sequence[Record]) -> KnownLinks:
        """Links by record, each with its other end as a record where one is known."""
        library = await self._open()
        # what a record of the library says was stored with it
        own = await read_all_evidence(records if library is None else [record for record in records if record.source != LIBRARY])
        if not own and (library is None or not await library.code_links.exists()):
            return KnownLinks()
        names = {record.doc_id: list_names(record) for record in records}
        every = {name for known in names.values() for name in known}
        stored = await library.code_links.find(every) if library else []
        links = group_links([*stored, *own], names)
        far = {name for found in links.values() for link in found for name in (link.work, link.target)} - every
        by_name: dict[str, Record] = {name: record for record in records for name in names[record.doc_id]}
        if library and far:
            by_name |= await library.code_repositories.find(far)
            by_name |= await find_records_by_name(library, far)
        return KnownLinks({doc_id: tuple(found) for doc_id, found in links.items()}, by_name)

    async def _open(self) -> Library | None:
        if self.open_library is None:
            return None
        try:
            return await self.open_library()
        except LibraryMissing:
            return None


def group_links(evidence: Sequence[LinkEvidence], names: Mapping[str, Sequence[str]]) -> dict[str, tuple[CodeLink, ...]]:
    """By record, the links of which it is an end. Evidence under several names of a record is about one work."""
    if not evidence:  # as in most searches
        return {}
    canonical: defaultdict[str, list[str]] = defaultdict(list)
    holders: defaultdict[str, list[str]] = defaultdict(list)
    for doc_id, known in names.items():
        holders[known[0]].append(doc_id)
        for name in known:  # a preprint and its publication have the same title
            canonical[name] = list(dict.fromkeys((*canonical[name], known[0])))
    # what is stored of a record that is here, too, is the same evidence
    unique = {
        (one.read_in, one.place, one.field, one.start, work, target): one
        for one in evidence
        for work in canonical.get(one.work, [one.work])
        for target in canonical.get(one.target, [one.target])
    }
    renamed = [one.model_copy(update={"work": key[4], "target": key[5]}) for key, one in unique.items()]
    links: defaultdict[str, list[CodeLink]] = defaultdict(list)
    for link in combine_evidence(renamed):
        for end in dict.fromkeys((link.work, link.target)):
            for doc_id in holders.get(end, ()):
                links[doc_id].append(link)
    return {doc_id: tuple(found) for doc_id, found in links.items()}


async def find_records_by_name(library: Library, names: Collection[str]) -> dict[str, Record]:
    """The library's records that have one of these names, with cut texts."""
    ids: dict[str, str] = {name: name.removeprefix("doc:") for name in names if name.startswith("doc:")}
    by_value: defaultdict[str, list[str]] = defaultdict(list)
    for name in names:
        by_value[name.partition(":")[2]].append(name)
    for chunk in chunk_ids(sorted(by_value)):
        for doc_id, _, kind, value in sorted(await library.edges(f"{in_list('name', chunk)} AND relation = '{IS}'")):
            if f"{kind}:{value}" in by_value[value]:
                ids.setdefault(f"{kind}:{value}", doc_id)
    records = {record.doc_id: record for record in await library.brief(sorted(set(ids.values())))}
    return {name: records[doc_id] for name, doc_id in sorted(ids.items()) if doc_id in records}
