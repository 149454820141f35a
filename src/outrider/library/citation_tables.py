"""Tables of reported citations: works that are known from links alone, and the links.

**Works** (`citation_works`). One row for each name of a work, an identifier such as `doi:10.1/x` or `doc:<id>`; `key` is the name under
which the work is stored, and only the row of that name has its partial record. Services that name one work differently meet in a shared
name, unless the identifiers contradict each other (`linkage.lookup_match`). Such works are in no table that a search reads, so they are
never hits. One that becomes a record is followed to it by its names.

**Links** (`citation_links`). One row for each citation and source. A second answer replaces the first, so that writing is idempotent, and
the sources that agree on a citation are its rows. A row also has the names of both ends, as its source gave them: the graph of the
library goes from a record to another one in two reads.

A row of a link is written after the works that it connects, and moved before a work is joined with another one. A process that dies in
between leaves works without links, which do no harm, and the next write of the same joins them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from outrider.library.address_and_locks import Location
from outrider.library.entity_names import RECORD, Entity, make_entity, parse_entity
from outrider.library.filter_sql import in_list
from outrider.library.lance_errors import retry_conflicts
from outrider.library.maintenance import KEEP_METADATA
from outrider.library.record_table import CHUNK, KeptTable, open_table
from outrider.library.schema import PRIMARY_KEY
from outrider.library.text_search import ALL_ROWS
from outrider.linkage.lookup_match import identifiers_contradict
from outrider.linkage.merge import fill_missing
from outrider.runtime.threads_and_loops import finish
from outrider.state.records import Identifiers, Paper, Record

if TYPE_CHECKING:
    from lancedb.db import AsyncConnection
    from lancedb.table import AsyncTable

    from outrider.state.citations import CitationLink


WORKS, LINKS = "citation_works", "citation_links"
WORK_COLUMNS = ("name", "key", "paper")
LINK_COLUMNS = ("id", "citing", "cited", "citing_names", "cited_names", "source", "date")
INDEXED = {WORKS: ("name", "key"), LINKS: ("citing", "cited")}
CITES, CITED_BY = "cites", "cited_by"
MOST_LINKS = 4_000
"""Links of a search's anchors that its graph follows; those that most sources report come first."""
FIX = "read the citations of these works again"
COMPACT_EVERY = 64
"""Commits after which a table is compacted."""
STRENGTHS = {scheme: place for place, scheme in enumerate(Identifiers.model_fields)}
"""Of the schemes of names, the strongest first."""


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
        self._kept = {name: KeptTable(location, connection, name) for name in (WORKS, LINKS)}

    def close(self) -> None:
        for table in self._kept.values():
            table.close()

    # Writing

    async def add(self, works: Sequence[Paper], links: Sequence[CitationLink]) -> LinkCounts:
        """Add works, or fill the gaps of known ones, and links between them by `work_name`. Everything again changes nothing.

        A cancelled call ends after the write.
        """
        if not works:
            return LinkCounts(0, 0, 0, 0)
        if await self._location.find_state() != "library":  # a write would make a folder in its place
            raise self._location.missing_error()
        async with self._location.write():
            return await finish(retry_conflicts(lambda: self._write(works, links)))

    async def _write(self, works: Sequence[Paper], links: Sequence[CitationLink]) -> LinkCounts:
        table = await self._create(WORKS, WORK_COLUMNS, "name")
        stored = await self._read_stored(table, {name for work in works for name in list_names(work)})
        joined = _join_works(works, stored)
        for old, new in joined.renamed.items():
            await self._move_links(old, new)
        if joined.rows:
            merge = table.merge_insert("name").when_matched_update_all().when_not_matched_insert_all()
            done = await merge.execute(self._build(WORK_COLUMNS, joined.rows))
            await self._compact(table, done.version)
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
        to_themselves = sum(citing == cited for _, citing, cited in ends)
        return LinkCounts(joined.added, added, to_themselves, joined.contradicting)

    async def _put_links(self, rows: Sequence[dict[str, Any]]) -> int:
        table = await self._create(LINKS, LINK_COLUMNS, "id")
        merge = table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
        done = await merge.execute(self._build(LINK_COLUMNS, rows))
        await self._compact(table, done.version)
        return int(done.num_inserted_rows)

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

    async def _compact(self, table: AsyncTable, version: int) -> None:
        """Every so many versions: asking the table with each write of a job whether it is due takes as long as writing."""
        if version % COMPACT_EVERY == 0:
            await table.optimize(cleanup_older_than=KEEP_METADATA)

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
            works, links = await self._kept[WORKS].open(), await self._kept[LINKS].open()
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
            table = await self._kept[WORKS].open()
            return {} if table is None else {row["name"]: row["key"] for row in await _read_each(table, "name", names, ("name", "key"))}

    async def read_works(self, keys: Collection[str]) -> dict[str, _StoredWork]:
        """By key."""
        with self._location.translate_errors():
            table = await self._kept[WORKS].open()
            return {} if table is None else _collect_works(await _read_each(table, "key", keys, WORK_COLUMNS))

    async def read_links(self, keys: Collection[str]) -> list[CitationLink]:
        """The links from or to these works, by key, sorted."""
        from outrider.state.citations import CitationLink  # many models, which no search needs

        with self._location.translate_errors():
            table = await self._kept[LINKS].open()
            if table is None:
                return []
            rows: dict[str, dict[str, Any]] = {}
            ordered = sorted(keys)
            for start in range(0, len(ordered), CHUNK):
                found = await _read(table, _either_end(ordered[start : start + CHUNK]), LINK_COLUMNS)
                rows.update((row["id"], row) for row in found)
        return [CitationLink(row["citing"], row["cited"], row["source"], row["date"]) for _, row in sorted(rows.items())]

    async def find_problems(self) -> tuple[str, ...]:
        """Names of works that are not stored, and links from or to such works: no write leaves any, whenever its process dies."""
        works, links = await self._open(WORKS), await self._open(LINKS)
        if works is None:
            return () if links is None else (f"citations are stored without their works; {FIX}",)
        rows = (await works.query().select(["name", "key"]).limit(ALL_ROWS).to_arrow()).to_pydict()
        stored = {name for name, key in zip(rows["name"], rows["key"], strict=True) if name == key}
        nameless = sum(key not in stored for key in rows["key"])
        problems = [f"{nameless:,} names of works belong to none that is stored; {FIX}"] if nameless else []
        if links is not None:
            ends = (await links.query().select(["citing", "cited"]).limit(ALL_ROWS).to_arrow()).to_pydict()
            loose = sum(not {citing, cited} <= stored for citing, cited in zip(ends["citing"], ends["cited"], strict=True))
            problems += [f"{loose:,} citations connect works that are not stored; {FIX}"] if loose else []
        return tuple(problems)


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
        shared = sorted({key_of[name] for name in names if name in key_of}, key=lambda key: (key not in stored, name_strength(key)))
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
        every = tuple(sorted({*own, *(name for member in members for name in member.names)}, key=name_strength))
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


def name_strength(name: str) -> tuple[int, str]:
    return (STRENGTHS.get(name.partition(":")[0], len(STRENGTHS)), name)


def _collect_works(rows: Iterable[dict[str, Any]]) -> dict[str, _StoredWork]:
    names: defaultdict[str, list[str]] = defaultdict(list)
    papers: dict[str, Paper] = {}
    for row in rows:
        names[row["key"]].append(row["name"])
        if row["paper"]:
            papers[row["key"]] = Paper.model_validate_json(row["paper"])
    return {key: _StoredWork(key, tuple(sorted(names[key], key=name_strength)), paper) for key, paper in sorted(papers.items())}


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
