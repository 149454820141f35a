"""Citations that services report: works that are known from links alone, and the links, beside the library's records.

**Works** (`citation_works`). One row for each name of a work, an identifier such as `doi:10.1/x` or `doc:<id>`; `key` is the name under
which the work is stored, and only the row of that name has its partial record. Services that name one work differently meet in a shared
name, unless the identifiers contradict each other (`linkage.lookup_match`). Such works are in no table that a search reads, so they are
never hits. One that becomes a record is followed to it by its names.

**Links** (`citation_links`). One row for each citation and source. A second answer replaces the first, so that writing is idempotent, and
the sources that agree on a citation are its rows. A row also has the names of both ends, as its source gave them: the graph of the
library goes from a record to another one in two reads.

A row of a link is written after the works that it connects. A process that dies in between leaves works without links, which do no harm.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from outrider.library import maintenance
from outrider.library.address_and_locks import Location
from outrider.library.edges import IS
from outrider.library.entity_names import RECORD, Entity, make_entity, parse_entity
from outrider.library.filter_sql import in_list
from outrider.library.lance_errors import retry_conflicts
from outrider.library.record_table import CHUNK, open_listed_table, open_table
from outrider.library.schema import PRIMARY_KEY
from outrider.library.text_search import ALL_ROWS
from outrider.linkage.lookup_match import identifiers_contradict
from outrider.linkage.merge import fill_missing
from outrider.runtime.threads_and_loops import finish
from outrider.state.citations import CitationLink, CitationNetwork
from outrider.state.records import Identifiers, Paper, Record

if TYPE_CHECKING:
    from lancedb.db import AsyncConnection
    from lancedb.table import AsyncTable

    from outrider.library.library import Library

WORKS, LINKS = "citation_works", "citation_links"
WORK_COLUMNS = ("name", "key", "paper")
LINK_COLUMNS = ("id", "citing", "cited", "citing_names", "cited_names", "source", "date")
INDEXED = {WORKS: ("name", "key"), LINKS: ("citing", "cited")}
CITES, CITED_BY = "cites", "cited_by"
OWN_LISTS = "library"
"""The source of a citation that the reference list of a record states."""
MOST_LINKS = 4_000
"""Links of a search's anchors that its graph follows; those that most sources report come first."""
NOT_STORED = frozenset({"text", "edges"})
"""Fields of a partial record that are left out."""


class LinkCounts(NamedTuple):
    """What one write changed."""

    works: int
    """New works."""
    links: int
    """New links of a source."""
    to_themselves: int
    """Links from a work to itself, which are left out."""
    contradicting: int
    """Works that share an identifier with another one and contradict it in a stronger one; each stands for itself."""


class AnchorLink(NamedTuple):
    """A citation of a record, seen from it."""

    name: str
    """The name under which the record is known."""
    relation: str
    """`CITES` or `CITED_BY`."""
    other: Entity


@dataclass(frozen=True, slots=True)
class _StoredWork:
    key: str
    names: tuple[str, ...]
    paper: Paper


def list_names(work: Record) -> tuple[str, ...]:
    """The names of a work, strongest first: its identifiers, or its id where it has none."""
    entities = [make_entity(scheme, value) for scheme, value in work.identifiers.pairs()]
    names = tuple(dict.fromkeys(str(entity) for entity in entities if entity))
    return names or (str(Entity(RECORD, work.doc_id)),)


def work_name(work: Record) -> str:
    """Its strongest name: `CitationLink`s that are added together with works name them so."""
    return list_names(work)[0]


class CitationTables:
    """Works and links of one library."""

    def __init__(self, location: Location, connection: AsyncConnection) -> None:
        self._location = location
        self._connection = connection
        self._readers: dict[str, AsyncTable] = {}

    def close(self) -> None:
        for reader in self._readers.values():
            reader.close()  # type: ignore[no-untyped-call]

    # Writing

    async def add(self, works: Sequence[Paper], links: Sequence[CitationLink]) -> LinkCounts:
        """Add works, or fill the gaps of known ones, and links between them by `work_name`. Everything again changes nothing.

        A cancelled call ends after the write.
        """
        if not works:
            return LinkCounts(0, 0, 0, 0)
        async with self._location.write():
            return await finish(retry_conflicts(lambda: self._write(works, links)))

    async def _write(self, works: Sequence[Paper], links: Sequence[CitationLink]) -> LinkCounts:
        table = await self._create(WORKS, WORK_COLUMNS, "name")
        stored = await self._read_stored(table, {name for work in works for name in list_names(work)})
        joined = _join_works(works, stored)
        if joined.rows:
            merge = table.merge_insert("name").when_matched_update_all().when_not_matched_insert_all()
            await merge.execute(self._build(WORK_COLUMNS, joined.rows))
        for old, new in joined.renamed.items():
            await self._move_links(old, new)
        ends = [(link, joined.keys[link.citing], joined.keys[link.cited]) for link in links]
        rows = {
            f"{citing}\t{cited}\t{link.source}": {
                "id": f"{citing}\t{cited}\t{link.source}",
                "citing": citing,
                "cited": cited,
                "citing_names": "\t".join(joined.names[citing]),
                "cited_names": "\t".join(joined.names[cited]),
                "source": link.source,
                "date": link.date,
            }
            for link, citing, cited in ends
            if citing != cited
        }
        added = await self._put_links(list(rows.values())) if rows else 0
        await self._compact()
        to_themselves = sum(citing == cited for _, citing, cited in ends)
        return LinkCounts(joined.added, added, to_themselves, joined.contradicting)

    async def _put_links(self, rows: Sequence[dict[str, Any]]) -> int:
        table = await self._create(LINKS, LINK_COLUMNS, "id")
        merge = table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
        return int((await merge.execute(self._build(LINK_COLUMNS, rows))).num_inserted_rows)

    async def _move_links(self, old: str, new: str) -> None:
        """Give the links of one key to another: two stored works have turned out to be one."""
        table = await self._open(LINKS)
        if table is None:
            return
        rows = await _read(table, f"{in_list('citing', [old])} OR {in_list('cited', [old])}", LINK_COLUMNS)
        moved = []
        for row in rows:
            citing, cited = (new if row[end] == old else row[end] for end in ("citing", "cited"))
            if citing != cited:
                moved.append({**row, "id": f"{citing}\t{cited}\t{row['source']}", "citing": citing, "cited": cited})
        if moved:
            await self._put_links(moved)
        if rows:
            await table.delete(f"{in_list('citing', [old])} OR {in_list('cited', [old])}")

    async def _read_stored(self, table: AsyncTable, names: Collection[str]) -> dict[str, _StoredWork]:
        """The stored works with one of these names, by key."""
        keys = {row["key"] for row in await _read_each(table, "name", names, ("name", "key"))}
        rows = await _read_each(table, "key", keys, WORK_COLUMNS)
        return _collect_works(rows)

    async def _compact(self) -> None:
        for name in (WORKS, LINKS):
            table = await self._open(name)
            if table is not None and await maintenance.due(table):
                await table.optimize(cleanup_older_than=maintenance.KEEP_METADATA)

    async def _create(self, name: str, columns: Sequence[str], primary_key: str) -> AsyncTable:
        from lancedb.index import BTree

        table = await self._open(name)
        if table is None:
            table = await self._connection.create_table(name, schema=self._schema(columns, primary_key), exist_ok=True)
            for column in INDEXED[name]:
                await table.create_index(column, config=BTree())
        return table

    @staticmethod
    def _schema(columns: Sequence[str], primary_key: str) -> Any:
        import pyarrow as pa

        return pa.schema(
            [pa.field(name, pa.string(), nullable=False, metadata=PRIMARY_KEY if name == primary_key else None) for name in columns]
        )

    def _build(self, columns: Sequence[str], rows: Sequence[dict[str, Any]]) -> Any:
        import pyarrow as pa

        return pa.Table.from_pylist([*rows], schema=self._schema(columns, columns[0]))

    async def _open(self, name: str) -> AsyncTable | None:
        return await open_table(self._connection, name)

    # Reading

    async def count(self) -> tuple[int, int]:
        """The number of works and of links, agreeing sources counted once each."""
        with self._location.translate_errors():
            works, links = await self._open(WORKS), await self._open(LINKS)
            return (
                0 if works is None else await works.count_rows("name = key"),
                0 if links is None else await links.count_rows(),
            )

    async def find_anchor_links(self, names: Collection[str]) -> list[AnchorLink]:
        """The citations of records with these names: two reads, or none where no citation was ever stored."""
        with self._location.translate_errors():
            works, links = await self._reader(WORKS), await self._reader(LINKS)
            if works is None or links is None or not names:
                return []
            anchors = defaultdict(list)
            for row in await _read(works, in_list("name", sorted(names)), ("name", "key")):
                anchors[row["key"]].append(row["name"])
            if not anchors:
                return []
            rows = await _read(links, _either_end(anchors), LINK_COLUMNS)
        agreement: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
        for row in rows:
            agreement[row["citing"], row["cited"]].add(row["source"])
        rows.sort(key=lambda row: (-len(agreement[row["citing"], row["cited"]]), row["id"]))
        found: dict[AnchorLink, None] = {}
        for row in rows[:MOST_LINKS]:
            for near, far, relation in (("citing", "cited", CITES), ("cited", "citing", CITED_BY)):
                others = filter(None, map(parse_entity, row[f"{far}_names"].split("\t")))
                found.update(
                    dict.fromkeys(AnchorLink(min(anchors[row[near]]), relation, other) for other in others if row[near] in anchors)
                )
        return list(found)

    async def find_keys(self, names: Collection[str]) -> dict[str, str]:
        """The keys of works by name, of those that are stored."""
        with self._location.translate_errors():
            table = await self._reader(WORKS)
            return {} if table is None else {row["name"]: row["key"] for row in await _read_each(table, "name", names, ("name", "key"))}

    async def read_works(self, keys: Collection[str]) -> dict[str, _StoredWork]:
        """By key."""
        with self._location.translate_errors():
            table = await self._reader(WORKS)
            return {} if table is None else _collect_works(await _read_each(table, "key", keys, WORK_COLUMNS))

    async def read_links(self, keys: Collection[str]) -> list[CitationLink]:
        """The links from or to these works, by key, sorted."""
        with self._location.translate_errors():
            table = await self._reader(LINKS)
            if table is None:
                return []
            rows: dict[str, dict[str, Any]] = {}
            ordered = sorted(keys)
            for start in range(0, len(ordered), CHUNK):
                found = await _read(table, _either_end(ordered[start : start + CHUNK]), LINK_COLUMNS)
                rows.update((row["id"], row) for row in found)
        return [CitationLink(row["citing"], row["cited"], row["source"], row["date"]) for _, row in sorted(rows.items())]

    async def _reader(self, name: str) -> AsyncTable | None:
        if name not in self._readers:
            table = await open_listed_table(self._connection, name)
            if table is None:
                return None
            self._readers[name] = table
        return self._readers[name]


@dataclass(frozen=True, slots=True)
class _JoinedWorks:
    """Rows to write, and the key of each work of a batch by `work_name`."""

    rows: list[dict[str, Any]]
    keys: dict[str, str]
    names: dict[str, tuple[str, ...]]
    """By key."""
    renamed: dict[str, str]
    """Stored keys that are given up for another one."""
    added: int
    contradicting: int


def _join_works(works: Sequence[Paper], stored: Mapping[str, _StoredWork]) -> _JoinedWorks:
    """Join each work with the known ones that share a name with it, in order: the result depends on nothing else."""
    known = dict(stored)
    key_of = {name: work.key for work in stored.values() for name in work.names}
    renamed: dict[str, str] = {}
    keys: dict[str, str] = {}
    contradicting = 0
    changed: set[str] = set()
    for work in works:
        paper = work.model_copy(update={"text": "", "edges": ()})
        names = list_names(paper)
        shared = sorted({key_of[name] for name in names if name in key_of}, key=lambda key: (key not in stored, _strength(key)))
        same = [key for key in shared if not identifiers_contradict(paper, known[key].paper)]
        own = tuple(name for name in names if name not in key_of or key_of[name] in same)
        if len(same) < len(shared):
            contradicting += 1
            own = own or (names[0],)
        if not same and key_of.get(own[0]):  # every name of it belongs to a work that it contradicts
            keys[work_name(work)] = key_of[own[0]]
            continue
        key = same[0] if same else own[0]
        members = [known.pop(other) for other in same]
        every = tuple(sorted({*own, *(name for member in members for name in member.names)}, key=_strength))
        merged = _merge_papers([*(member.paper for member in members), paper])
        if not members or members[0].paper != merged or members[0].names != every or len(members) > 1:
            changed.add(key)
        known[key] = _StoredWork(key, every, merged)
        key_of.update(dict.fromkeys(every, key))
        for other in same[1:]:
            changed.discard(other)
            renamed.update({old: key for old, new in renamed.items() if new == other})
            if other in stored:
                renamed[other] = key
        keys[work_name(work)] = key
    keys = {name: key_of.get(key, key) for name, key in keys.items()}  # a later work may have joined two earlier ones
    rows = [
        {"name": name, "key": key, "paper": known[key].paper.model_dump_json(exclude_defaults=True) if name == key else ""}
        for key in sorted(changed)
        for name in known[key].names
    ]
    added = sum(key not in stored for key in changed)
    return _JoinedWorks(rows, keys, {key: known[key].names for key in set(keys.values())}, renamed, added, contradicting)


def _merge_papers(papers: Sequence[Paper]) -> Paper:
    """The first with its gaps filled from the others, identifiers too."""
    first, *others = papers
    if not others:
        return first
    identifiers = {scheme: value for paper in reversed(papers) for scheme, value in paper.identifiers.pairs()}
    filled = fill_missing(first, [other for other in others if other != first])
    title = next((paper.title for paper in papers if paper.title), "")
    prints = {name: next((getattr(paper, name) for paper in papers if getattr(paper, name)), None) for name in ("volume", "issue", "pages")}
    metadata = {name: value for name, value in filled.metadata.items() if name != "filled_from"}
    update = {"title": title, **prints, "identifiers": Identifiers(**identifiers), "metadata": metadata}
    return Paper.model_validate({**dict(filled), **update})


def _strength(name: str) -> tuple[int, str]:
    scheme = name.partition(":")[0]
    schemes = [*Identifiers.model_fields]
    return (schemes.index(scheme) if scheme in schemes else len(schemes), name)


def _collect_works(rows: Iterable[dict[str, Any]]) -> dict[str, _StoredWork]:
    names: defaultdict[str, list[str]] = defaultdict(list)
    papers: dict[str, Paper] = {}
    for row in rows:
        names[row["key"]].append(row["name"])
        if row["paper"]:
            papers[row["key"]] = Paper.model_validate_json(row["paper"])
    return {key: _StoredWork(key, tuple(sorted(names[key], key=_strength)), paper) for key, paper in sorted(papers.items())}


def _either_end(keys: Iterable[str]) -> str:
    ordered = sorted(keys)
    return f"{in_list('citing', ordered)} OR {in_list('cited', ordered)}"


async def _read(table: AsyncTable, where: str, columns: Sequence[str]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = (await table.query().where(where).select(list(columns)).limit(ALL_ROWS).to_arrow()).to_pylist()
    return rows


async def _read_each(table: AsyncTable, column: str, values: Collection[str], columns: Sequence[str]) -> list[dict[str, Any]]:
    ordered = sorted(values)
    rows: list[dict[str, Any]] = []
    for start in range(0, len(ordered), CHUNK):
        rows += await _read(table, in_list(column, ordered[start : start + CHUNK]), columns)
    return rows


# The network


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
        return self.record_id(name) or min(self.names(name), key=_strength)

    def paper(self, name: str) -> Paper:
        names = sorted(self.names(name), key=_strength)
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
    by_node = {nodes.node(name): name for name in sorted(seen)}
    sources: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    for citing, cited, source in links:
        if nodes.node(citing) != nodes.node(cited):
            sources[nodes.node(citing), nodes.node(cited)].add(source)
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
