"""The library's graph: entities by name, and neighbours of records and entities.

`LibraryGraph` implements the port `Neighbours` over the table of edges, in two or three queries that stay bounded, however many records
name one entity, and over the citations that services report (`citation_tables`), in two more where there are any.

**Paths.** A record leads to the records that it cites (or depends on, ...), to those that cite it, and to those that share an author, a
keyword, a MeSH term, a venue or a cited work with it. An entity leads to the records that name it. Two paths are independent where they
differ in anchor, relation or shared entity.

**Score.** The sum over the paths: `DIRECT` for a direct one, 1 / log2(1 + n) for one through an entity that n records name, after Adamic
& Adar (2003), "Friends and neighbors on the web", Social Networks 25(3): a rare keyword says more than a frequent one. So a further
path never lowers a record, and the order of the anchors does not matter.

**Universal entities.** An entity that the anchors share hardly more often than any records do (the keyword `python` in a library of
packages, a library's only journal) connects everything with everything: it is not followed, and explains nothing (`_is_telling`). PyPI's
classifiers (`Intended Audience :: Developers`) are boxes of a form: a request may name one, but two records that share one are not related,
nor are two packages with extras that require the same one.

**Hubs.** A name that more than `HUB` edges lead to (`computer`) is not followed either, which bounds the work.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from outrider.library.citation_tables import CITED_BY
from outrider.library.edges import CLASSIFIER, IS, EdgeRow
from outrider.library.entity_names import (
    IDENTIFIERS,
    RECORD,
    Entity,
    kind_fits,
    list_phrases,
    make_entity,
    normal_author,
    normal_name,
    parse_entity,
)
from outrider.library.filter_sql import in_list, literal
from outrider.state.errors import BadRequest
from outrider.state.hits import Path
from outrider.state.ports import Neighbour

if TYPE_CHECKING:
    from outrider.library.library import Library


HUB = 500
"""A name that more edges lead to is not followed."""
FEW = 10
"""An entity that at most this many records name is followed: a share of so few says nothing."""
LIFT = 3
"""How many times as frequent among the anchors as in the library any other entity must be."""
FIRST_ROWS = 10_000
"""Rows of a first query; later ones may be larger."""
MOST_RECORDS = 2_000
"""Records of one entity that are read."""
BEGINNING = 3
"""Letters of a mistyped name that are assumed to be right."""
INVERSE = {"cites": "cited by", "depends on": "needed by", "suggests": "suggested by"}
PLAIN = {"suggests": "can use", "suggested by": "can be used by"}
"""Relations of packages as a reason says them: an extra of one requires the other."""
DIRECT = 2.0
"""Of 0.5, 1 and 2: with keywords 2 was better on CACM, with citations alone often 0.5."""
EXTRAS = frozenset(PLAIN)
"""Relations that an extra makes. It names a tool of a package's developers as often as a related package."""
DEPENDENCIES = frozenset({"depends on", "needed by"})
"""Relations of packages that say little of a single one: most packages need common ones."""
UNSHARED = frozenset({CLASSIFIER, "suggests", CITED_BY})
"""Relations that connect no two records with one entity: the extras of packages name the tools of their developers, and a work that
cites an anchor is no work that it cites."""
NAMED_REASONS = 3
NAMING = frozenset({"author", "cites", IS})
"""Relations that name one person or one work: they say more than a subject, a journal or a dependency."""

Node = tuple[str, str]
"""An `Entity` as a row has it, kind and name; the two are equal."""
Route = tuple[tuple[str, str, str], float]
"""The fields of a `Path` and its weight: of thousands of paths only a few become a `Path`."""
Routes = tuple[Route, ...]
"""To one record, each once."""


@dataclass(frozen=True, slots=True)
class EdgeLookup:
    """Queries of the latest version of the table of edges."""

    library: Library

    async def find_by_record(self, doc_ids: Iterable[str], kind: str = "") -> list[EdgeRow]:
        """All edges of these records, or those to entities of one kind."""
        ids = sorted(set(doc_ids))
        where = in_list("doc_id", ids) + (f" AND {in_list('kind', [kind])}" if kind else "")
        return await self.library.edges(where) if ids else []

    async def find_by_entity(self, entities: Iterable[Node]) -> list[EdgeRow]:
        """Edges to these entities, hubs too; of each at most `MOST_RECORDS`, the first that the table gives."""
        nodes = sorted(set(entities))
        if not nodes:
            return []
        rows = await self.library.edges(_build_name_condition(nodes), MOST_RECORDS)
        if len(rows) == MOST_RECORDS:  # a frequent one may have crowded the others out
            each = [self.library.edges(f"{_build_name_condition([node])} AND {in_list('kind', [node[0]])}", MOST_RECORDS) for node in nodes]
            rows = [row for answer in await asyncio.gather(*each) for row in answer]
        return [row for row in rows if row[2:] in nodes]

    async def count_by_name(self, names: Iterable[str]) -> Counter[Entity]:
        """The entities of these names with the number of edges to each; for frequent ones at least that many."""
        counts: Counter[Entity] = Counter()
        remaining = set(names)
        while remaining:
            rows = await self.library.edges(in_list("name", sorted(remaining)), FIRST_ROWS)
            counts.update(Entity(row[2], row[3]) for row in rows)
            if len(rows) < FIRST_ROWS:
                break
            remaining -= {row[3] for row in rows}
        return counts

    async def find_by_beginning(self, name: str) -> set[Entity]:
        """Some entities whose names begin with the first letters of this one."""
        beginning = name[:BEGINNING]
        rows = await self.library.edges(f"starts_with(name, {literal(beginning)})", FIRST_ROWS) if beginning else []
        return {Entity(row[2], row[3]) for row in rows}

    async def find_other_ends(self, entities: Iterable[Node], hubs: set[str]) -> Mapping[Node, list[EdgeRow]]:
        """The edges to these entities. Of a hub only the edge of the record that it is the name of.

        New hubs are added to `hubs`, which the caller keeps, so that each is detected once.
        """
        nodes = frozenset(entities)
        names = {name for _, name in nodes}
        rows: list[EdgeRow] = []
        room = FIRST_ROWS
        while remaining := names - hubs:
            rows = await self.library.edges(in_list("name", sorted(remaining)), room)
            counts = Counter(row[3] for row in rows) if len(rows) > HUB else Counter[str]()
            new_hubs = {name for name, count in counts.items() if count > HUB}
            hubs |= new_hubs
            if len(rows) < room:
                rows = [row for row in rows if row[3] not in new_hubs] if new_hubs else rows
                break
            room = room if new_hubs else room * 4  # hubs fill the room: without them it may be large enough
            rows = []
        own = [node for node in nodes if node[1] in hubs and (node[0] == RECORD or node[0] in IDENTIFIERS)]
        if own:
            rows += await self.library.edges(f"relation = '{IS}' AND {_build_name_condition(own)}", FIRST_ROWS)
        ends: defaultdict[Node, list[EdgeRow]] = defaultdict(list)
        for row in rows:
            ends[row[2:]].append(row)
        return {node: ends[node] for node in nodes & ends.keys()}


def _build_name_condition(entities: Iterable[Node]) -> str:
    return in_list("name", sorted({name for _, name in entities}))


class LibraryGraph:
    """The graph of one library. Reads the latest version, as the library does."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._lookup = EdgeLookup(library)
        self._hubs: tuple[int, set[str]] | None = None
        """Hubs that lookups met, and the version of the edges; None as long as none was met, and no version is needed."""

    async def entities(self, text: str) -> tuple[str, ...]:
        """See `list_phrases`. Most specific first: most words, then fewest records. Universal ones are left out."""
        kinds = list_phrases(text)
        if not kinds:
            return ()
        counts, size = await asyncio.gather(self._lookup.count_by_name(kinds), self._library.size())
        nodes = [node for node in counts if kind_fits(kinds[node.name], node.kind) and _is_telling(counts[node], 1, size, 1)]
        return tuple(str(node) for node in sorted(nodes, key=lambda node: (-len(node.name.split()), counts[node], node)))

    async def named(self, name: str) -> tuple[str, ...]:
        """A name without a type is looked up in the spelling of every type."""
        node = parse_entity(name)
        identifiers = [entity.name for kind in IDENTIFIERS if (entity := make_entity(kind, name))]
        counts = await self._lookup.count_by_name({node.name} if node else {normal_name(name), normal_author(name), *identifiers})
        return tuple(str(other) for other in sorted(counts) if other == (node or make_entity(other.kind, name)))

    async def alike(self, name: str) -> tuple[str, ...]:
        """Of the entities that share the first `BEGINNING` letters, a bounded number."""
        node = parse_entity(name)
        entities = await self._lookup.find_by_beginning(node.name if node else normal_name(name))
        return tuple(map(str, sorted(entity for entity in entities if entity.kind != RECORD)))

    async def around(self, anchors: Sequence[str], limit: int) -> list[Neighbour]:
        """Best first, ties by doc_id. An anchor is among them where another anchor leads to it.

        Of entity anchors that very many records name, `MOST_RECORDS` records are read.
        """
        starts = sorted(set(anchors))
        entities: dict[Node, str] = {node: anchor for anchor in starts if (node := parse_entity(anchor))}
        if not starts:
            return []
        lookup = self._lookup
        own, named, hubs, size = await asyncio.gather(
            lookup.find_by_record(starts), lookup.find_by_entity(entities), self._read_hubs(), self._library.size()
        )
        own = [row for row in own if row[1] != CLASSIFIER]
        own = await self._add_reported_links(own)
        ends = await lookup.find_other_ends((row[2:] for row in own), hubs)
        if hubs and self._hubs is None:
            self._hubs = (-1, set())  # of an unknown version: the next lookup meets them again, and keeps them
        records = {row[0] for row in own}
        sharing: Counter[Node] = Counter(shared for _, shared in {(row[0], row[2:]) for row in own if row[1] != IS})
        weights: dict[Node, float] = {}
        for end, rows in ends.items():
            number = len({row[0] for row in rows if row[1] != IS})
            if _is_telling(number, sharing[end], size, len(records)):
                weights[end] = 1 / math.log2(1 + max(1, number))
        routes: dict[str, Routes] = {}
        for doc_id, relation, kind, name in named:
            anchor = entities[kind, name]
            if anchor not in records:  # else a record's id that reads like an entity, such as pypi:httpx
                _add_route(routes, doc_id, (((anchor, _spell(relation), f"{kind}:{name}"), DIRECT),))
        for start in own:
            if start[2:] in ends:
                _add_routes(start, ends[start[2:]], weights.get(start[2:]), routes)
        return _rank_neighbours(routes, limit)

    async def _add_reported_links(self, own: list[EdgeRow]) -> list[EdgeRow]:
        """The edges of anchors, and the citations that services report of them, as edges."""
        anchors: defaultdict[str, list[str]] = defaultdict(list)
        for doc_id, relation, kind, name in own:
            if relation == IS:
                anchors[f"{kind}:{name}"].append(doc_id)
        links = await self._library.citations.find_anchor_links(anchors)
        reported = [(doc_id, link.relation, *link.other) for link in links for doc_id in anchors[link.name]]
        return list(dict.fromkeys((*own, *reported))) if reported else own

    async def _read_hubs(self) -> set[str]:
        """Hubs that earlier lookups met in these edges; `find_other_ends` adds to them."""
        if self._hubs is None:
            return set()
        version = await self._library.edges_version()
        if version != self._hubs[0]:
            self._hubs = (version, set())
        return self._hubs[1]

    async def connected(self, entity: str, kind: str, limit: int) -> list[tuple[str, tuple[str, ...]]]:
        """Most shared first, ties by name. Of an entity that very many records name, `MOST_RECORDS` are read."""
        start = parse_entity(entity)
        if start is None:
            raise BadRequest(f"{entity!r} is no entity; write it as type:name, such as mesh:aspirin")
        named = await self._lookup.find_by_entity([start])
        records: defaultdict[str, set[str]] = defaultdict(set)
        for doc_id, relation, other, name in await self._lookup.find_by_record((row[0] for row in named), kind.lower()):
            if relation != IS and (other, name) != start:
                records[f"{other}:{name}"].add(doc_id)
        ranked = sorted(records.items(), key=lambda pair: (-len(pair[1]), pair[0]))
        return [(name, tuple(sorted(doc_ids))) for name, doc_ids in ranked[: max(limit, 0)]]


def _is_telling(named_by: int, shared_by: int, size: int, anchors: int) -> bool:
    """Whether an entity that `named_by` of a library's `size` records name, and `shared_by` of the `anchors`, connects them by more than
    chance. With one anchor: whether at most one record in `LIFT` names it.
    """
    return named_by <= FEW or shared_by * size >= LIFT * named_by * anchors


def _add_routes(start: EdgeRow, ends: Iterable[EdgeRow], weight: float | None, routes: MutableMapping[str, Routes]) -> None:
    """Add the routes over an anchor's edge: to the record it leads to, or to those that have an edge to the same entity.

    `weight` is that of a path through the entity, None if there is none. `routes` is changed in place: a search has a thousand of them.
    """
    anchor, relation, kind, name = start
    word, through = _spell(relation), f"{kind}:{name}"
    shared: Routes = (((anchor, word, through), weight or 0.0),)
    for doc_id, other, _, _ in ends:
        if doc_id == anchor:
            continue
        if relation != IS != other:
            if weight is None or relation in UNSHARED or other in UNSHARED:
                continue
            known = routes.get(doc_id)  # as in `_add_route`; most of a search's routes are these
            if known is None:
                routes[doc_id] = shared
            elif shared[0] not in known:
                routes[doc_id] = known + shared
        elif relation == other:
            _add_route(routes, doc_id, (((anchor, IS, through), DIRECT),))
        else:
            _add_route(routes, doc_id, (((anchor, word if other == IS else _invert(_spell(other)), ""), DIRECT),))


def _add_route(routes: MutableMapping[str, Routes], doc_id: str, route: Routes) -> None:
    """One more route to a record, once: as most have one, no tuple is built for the first."""
    known = routes.get(doc_id)
    if known is None:
        routes[doc_id] = route
    elif route[0] not in known:
        routes[doc_id] = known + route


def _rank_neighbours(routes: Mapping[str, Routes], limit: int) -> list[Neighbour]:
    """Best first, ties by doc_id; of a neighbour's paths the weightiest first, then by relation."""
    scores = {id_: known[0][1] if len(known) == 1 else math.fsum(weight for _, weight in known) for id_, known in routes.items()}
    least = min(sorted(scores.values(), reverse=True)[: max(limit, 0)], default=math.inf)  # numbers alone: there are a thousand
    first = sorted((-score, doc_id) for doc_id, score in scores.items() if score >= least)[: max(limit, 0)]
    neighbours = []
    for below, doc_id in first:
        ordered = sorted(routes[doc_id], key=lambda route: (-route[1], route[0][1], route[0][2], route[0][0]))
        neighbours.append(Neighbour(doc_id, -below, tuple(Path(*fields) for fields, _ in ordered)))
    return neighbours


@lru_cache(maxsize=1_000)
def _spell(relation: str) -> str:
    return relation.replace("_", " ")


@lru_cache(maxsize=1_000)
def _invert(word: str) -> str:
    """The relation as seen from its other end; the same word where there is no other."""
    return next((here if word == there else there for here, there in INVERSE.items() if word in (here, there)), word)


def explain_paths(paths: Sequence[Path], of: str = "of your best hits") -> str:
    """Why a record is a neighbour: `cites 3 of your top 10; shares author knuth, d with 2 of your top 10`; see `list_reasons`."""
    reasons = list_reasons(paths, of)
    more = len(reasons) - NAMED_REASONS
    return "; ".join(reasons[:NAMED_REASONS]) + (f"; and {more} more" if more > 0 else "")


def list_reasons(paths: Sequence[Path], of: str, *, named: bool = False, telling: bool = False) -> list[str]:
    """Every reason once, the most telling first.

    First the entities of the request, then what leads straight to the record, then works and persons, then other entities; of each
    kind that of most anchors first. A subject or a dependency of only one of several anchors is chance, and so is an extra of a package:
    it is left out where there is a better reason, with `telling` always. With an empty `of`, for a single anchor: `cites it`.
    With `named`, a reason of one anchor has its id: `cites result 3`.
    """
    anchors: defaultdict[tuple[str, bool], set[str]] = defaultdict(set)
    kinds: dict[tuple[str, bool], int] = {}
    for path in paths:
        reason = _find_reason(path.anchor, path.relation, path.through)
        anchors[reason].add(path.anchor)
        is_direct = not path.through and path.relation not in EXTRAS | DEPENDENCIES
        kinds.setdefault(reason, 0 if not reason[1] or is_direct else 1 if path.relation in NAMING else 2)
    ranked = sorted(anchors, key=lambda reason: (reason[1], kinds[reason], -len(anchors[reason]), reason))
    if of:
        strong = [reason for reason in ranked if kinds[reason] < 2 or (len(anchors[reason]) > 1 and reason[0] not in PLAIN.values())]
        ranked = strong if telling else strong or ranked
    return [_format_reason(*reason, anchors[reason], of, named=named) for reason in ranked]


def _format_reason(reason: str, is_counted: bool, anchors: Collection[str], of: str, *, named: bool) -> str:
    if not is_counted:
        return reason
    if not of:
        return f"{reason} it"
    return f"{reason} {next(iter(anchors))}" if named and len(anchors) == 1 else f"{reason} {len(anchors)} {of}"


@lru_cache(maxsize=10_000)
def _find_reason(anchor: str, relation: str, through: str) -> tuple[str, bool]:
    """The reason that such a path gives, and whether the number of anchors belongs to it."""
    kind, _, name = through.partition(":")
    if not kind:
        word = _invert(relation)
        return PLAIN.get(word, word), True
    if (node := parse_entity(anchor)) is not None and str(node) == through:
        return f"{relation} {name}", False
    if relation == IS:
        return f"shares {through} with", True
    if kind == RECORD or kind in IDENTIFIERS:
        return f"{relation} {name if kind == 'pypi' else through} like", True
    return f"shares {relation} {name} with", True
