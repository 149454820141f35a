"""The network of citations around some works: reported links and reference lists

Names of works meet in nodes: a record with its identifiers, or a work that is known from links alone with all names that services gave it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from outrider.library.citation_tables import CITES, name_strength
from outrider.library.edges import IS
from outrider.library.entity_names import RECORD, Entity, parse_entity
from outrider.library.filter_sql import in_list
from outrider.library.record_table import CHUNK
from outrider.state.citations import CitationNetwork
from outrider.state.records import Identifiers, Paper, Record

if TYPE_CHECKING:
    from outrider.library.library import Library

OWN_LISTS = "library"
"""The source of a citation that the reference list of a record states."""


class _Nodes:
    """Names of works and the nodes that they belong to.

    A node is the id of a record, or the strongest name of a work that is none.
    """

    def __init__(self, library: Library) -> None:
        self._library = library
        self._groups: dict[str, set[str]] = {}
        """All names of the work, by each of them."""
        self._records: dict[str, str] = {}
        """Id of the record by `doc:` name."""
        self._papers: dict[str, Paper] = {}
        """By key, as services described the works."""

    async def place(self, names: Collection[str]) -> None:
        """Look up all names of the works that have one of these."""
        new = set(names) - self._groups.keys()
        citations = self._library.citations
        works = await citations.read_works(set((await citations.find_keys(new)).values()))
        records = await _read_record_names(self._library, new | {name for work in works.values() for name in work.names})
        further = set((await citations.find_keys({name for own in records.values() for name in own})).values())
        works |= await citations.read_works(further - works.keys())
        self._papers.update((key, work.paper) for key, work in works.items())
        self._records.update((str(Entity(RECORD, doc_id)), doc_id) for doc_id in records)
        for group in (*(work.names for work in works.values()), *records.values(), *((name,) for name in sorted(new))):
            self._join(group)

    def _join(self, names: Iterable[str]) -> None:
        together = set(names)
        for name in tuple(together):
            together |= self._groups.get(name, set())
        self._groups.update(dict.fromkeys(together, together))

    def names(self, name: str) -> set[str]:
        return self._groups[name]

    def is_known(self, name: str) -> bool:
        """Whether a record or a stored work has the name."""
        names = self.names(name)
        return not names.isdisjoint(self._records) or not names.isdisjoint(self._papers)

    def record_id(self, name: str) -> str | None:
        """The first of the records that are this work."""
        return min((self._records[one] for one in self.names(name) if one in self._records), default=None)

    def node(self, name: str) -> str:
        return self.record_id(name) or min(self.names(name), key=name_strength)

    def paper(self, name: str) -> Paper:
        names = sorted(self.names(name), key=name_strength)
        return next((self._papers[one] for one in names if one in self._papers), None) or _unknown_paper(names)


async def load_network(library: Library, targets: Sequence[str], depth: int = 1) -> CitationNetwork:
    """The works up to `depth` citations away from the targets, in either direction, and the citations on the way.

    A target is the id of a record or `scheme:value`. Citations come from the stored links and from the reference lists of records. A
    target that nothing is known of is not in the network.
    """
    nodes = _Nodes(library)
    asked = {str(entity) for target in targets for entity in (Entity(RECORD, target), parse_entity(target)) if entity}
    await nodes.place(asked)
    frontier = {min(nodes.names(name)) for name in asked if nodes.is_known(name)}
    seen, links = set(frontier), set[tuple[str, str, str]]()
    for _ in range(depth):
        names = {name for one in frontier for name in nodes.names(one)}
        keys = set((await library.citations.find_keys(names)).values())
        found = {(link.citing, link.cited, link.source) for link in await library.citations.read_links(keys)}
        found |= await _read_own_lists(library, {record for one in frontier if (record := nodes.record_id(one))}, names)
        await nodes.place({end for link in found for end in link[:2]})
        links |= found
        frontier = {min(nodes.names(end)) for link in found for end in link[:2]} - seen
        seen |= frontier
    node_of = {name: nodes.node(name) for name in {*seen, *(end for link in links for end in link[:2])}}
    by_node = {node_of[name]: name for name in sorted(seen)}
    sources: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    for citing, cited, source in links:
        if node_of[citing] != node_of[cited]:
            sources[node_of[citing], node_of[cited]].add(source)
    ids = [node for node, name in by_node.items() if nodes.record_id(name)]
    records = {record.doc_id: as_paper(record) for record in await library.brief(ids)}
    works = {node: records.get(node) or nodes.paper(by_node[node]) for node in sorted(by_node)}
    by_pair = {pair: tuple(sorted(sources[pair])) for pair in sorted(sources)}
    return CitationNetwork(works, by_pair, frozenset(works.keys() - records.keys()))


async def find_records(library: Library, targets: Mapping[str, str]) -> dict[str, str]:
    """The ids of the records that targets are: by their id, or by the name that belongs to the target."""
    names = {str(Entity(RECORD, target)) for target in targets} | set(targets.values())
    records = await _read_record_names(library, names)
    by_name = {name: doc_id for doc_id in sorted(records, reverse=True) for name in records[doc_id]}
    found = {target: target if target in records else by_name.get(name) for target, name in targets.items()}
    return {target: doc_id for target, doc_id in found.items() if doc_id}


async def find_nodes(library: Library, keys: Collection[str]) -> dict[str, str]:
    """The keys that works have in a network now, by an id or a name of each; works that nothing is known of are left out.

    The key of a placeholder changes when its record enters the library.
    """
    nodes = _Nodes(library)
    names = {key: [str(entity) for entity in (Entity(RECORD, key), parse_entity(key)) if entity] for key in keys}
    await nodes.place({name for own in names.values() for name in own})
    known = {key: next((name for name in own if nodes.is_known(name)), "") for key, own in names.items()}
    return {key: nodes.node(name) for key, name in known.items() if name}


async def _read_own_lists(library: Library, records: Collection[str], names: Collection[str]) -> set[tuple[str, str, str]]:
    """Citations in reference lists, as links by name: those of these records, and those of others that cite one of the names."""
    links = set()
    for chunk in _chunks(records):
        rows = await library.edges(f"{in_list('doc_id', chunk)} AND relation = '{CITES}'")
        links |= {(str(Entity(RECORD, row[0])), f"{row[2]}:{row[3]}", OWN_LISTS) for row in rows}
    for chunk in _chunks({entity.name for name in names if (entity := parse_entity(name))}):
        rows = await library.edges(f"{in_list('name', chunk)} AND relation = '{CITES}'")
        links |= {(str(Entity(RECORD, row[0])), f"{row[2]}:{row[3]}", OWN_LISTS) for row in rows if f"{row[2]}:{row[3]}" in names}
    return links


async def _read_record_names(library: Library, names: Collection[str]) -> dict[str, set[str]]:
    """All names of the records that have one of these names, by id."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for chunk in _chunks({entity.name for name in names if (entity := parse_entity(name))}):
        for doc_id, _, kind, name in await library.edges(f"{in_list('name', chunk)} AND relation = '{IS}'"):
            if f"{kind}:{name}" in names:
                found[doc_id].add(f"{kind}:{name}")
    for chunk in _chunks(found):
        for doc_id, _, kind, name in await library.edges(f"{in_list('doc_id', chunk)} AND relation = '{IS}'"):
            found[doc_id].add(f"{kind}:{name}")
    return dict(found)


def _chunks(values: Iterable[str]) -> list[list[str]]:
    ordered = sorted(values)
    return [ordered[start : start + CHUNK] for start in range(0, len(ordered), CHUNK)]


def as_paper(record: Record) -> Paper:
    """A record of another kind as a paper: only the common fields count here."""
    fields = {name: getattr(record, name) for name in type(record).model_fields if name in Paper.model_fields and name != "kind"}
    return record if isinstance(record, Paper) else Paper.model_validate(fields)


def _unknown_paper(names: Sequence[str]) -> Paper:
    """A work of which only identifiers are known."""
    pairs = (name.partition(":") for name in names)
    identifiers = {scheme: value for scheme, _, value in pairs if scheme in Identifiers.model_fields}
    return Paper(doc_id=names[0], identifiers=Identifiers(**identifiers), source="")
