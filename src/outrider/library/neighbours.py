"""Lookups in the table of edges that stay bounded, however many records name one entity.

The library's own graph behind the port `Neighbours`: one hop over the table of edges, in two or three calls.

**Paths.** From a record the ways out are: what it cites (or depends on, ...), what cites it, and what shares an author, a keyword, a
MeSH term, a venue or a cited work with it. From an entity: the records that name it. Two paths are independent where they differ in
anchor, relation or shared entity.

**Score.** The sum over the paths: `DIRECT` for a direct one, 1 / log2(1 + n) for one through an entity that n records name, after Adamic
& Adar (2003), "Friends and neighbors on the web", Social Networks 25(3): a rare keyword says more than a frequent one. So a further
path never lowers a record, and the order of the anchors does not matter.

**Hubs.** A name that more than `lookup.HUB` edges lead to (a journal, `computer`) connects everything with everything and is not followed.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from outrider.library.edges import IS, EdgeRow
from outrider.library.entities import IDENTIFIERS, RECORD, Entity, counts, entity, normal_author, normal_name, parsed, phrases
from outrider.library.filter_sql import any_of, literal
from outrider.state.errors import BadRequest
from outrider.state.hits import Path
from outrider.state.ports import Neighbour

if TYPE_CHECKING:
    from outrider.library.library import Library


HUB = 500
"""A name that more edges lead to is not followed."""
ROOM = 10_000
"""Rows asked for at first."""
MOST_RECORDS = 2_000
"""Records of one entity that are read."""

BEGINNING = 3
"""Letters that are taken to be right in a name that is mistyped."""

Node = tuple[str, str]
"""An `Entity` as a row has it, kind and name; the two are equal."""


@dataclass(frozen=True, slots=True)
class Lookup:
    """Lookups in the latest version of the table."""

    library: Library

    async def of_records(self, doc_ids: Iterable[str], kind: str = "") -> list[EdgeRow]:
        """All edges of these records, or those to entities of one kind."""
        asked = sorted(set(doc_ids))
        where = any_of("doc_id", asked) + (f" AND {any_of('kind', [kind])}" if kind else "")
        return await self.library.edges(where) if asked else []

    async def to_entities(self, entities: Iterable[Node]) -> list[EdgeRow]:
        """Edges to these entities, hubs too; of each at most `MOST_RECORDS`, the first that the table gives."""
        wanted = sorted(set(entities))
        if not wanted:
            return []
        rows = await self.library.edges(_among(wanted), MOST_RECORDS)
        if len(rows) == MOST_RECORDS:  # a frequent one may have crowded the others out
            each = [self.library.edges(f"{_among([node])} AND {any_of('kind', [node[0]])}", MOST_RECORDS) for node in wanted]
            rows = [row for found in await asyncio.gather(*each) for row in found]
        return [row for row in rows if row[2:] in wanted]

    async def named(self, names: Iterable[str]) -> Counter[Entity]:
        """The entities of these names with how many edges lead to each; of frequent ones at least that many."""
        counts: Counter[Entity] = Counter()
        asked = set(names)
        while asked:
            rows = await self.library.edges(any_of("name", sorted(asked)), ROOM)
            counts.update(Entity(row[2], row[3]) for row in rows)
            if len(rows) < ROOM:
                break
            asked -= {row[3] for row in rows}
        return counts

    async def beginning(self, name: str) -> set[Entity]:
        """Some entities whose names begin as this one does."""
        letters = name[:BEGINNING]
        rows = await self.library.edges(f"starts_with(name, {literal(letters)})", ROOM) if letters else []
        return {Entity(row[2], row[3]) for row in rows}

    async def ends(self, entities: Iterable[Node], hubs: set[str]) -> Mapping[Node, list[EdgeRow]]:
        """The edges to these entities. Of a hub only that of the record that it is the name of.

        Names that turn out to be hubs are added to `hubs`, which the caller keeps, so that each is met once.
        """
        wanted = frozenset(entities)
        rows = await self._to_names({name for _, name in wanted}, hubs)
        own = [node for node in wanted if node[1] in hubs and (node[0] == RECORD or node[0] in IDENTIFIERS)]
        if own:
            rows += await self.library.edges(f"relation = '{IS}' AND {_among(own)}", ROOM)
        found: defaultdict[Node, list[EdgeRow]] = defaultdict(list)
        for row in rows:
            found[row[2:]].append(row)
        return {node: found[node] for node in wanted & found.keys()}

    async def _to_names(self, names: set[str], hubs: set[str]) -> list[EdgeRow]:
        """All edges to these names but to hubs, which are found out on the way: they fill the room."""
        room = ROOM
        while asked := names - hubs:
            rows = await self.library.edges(any_of("name", sorted(asked)), room)
            counts = Counter(row[3] for row in rows) if len(rows) > HUB else Counter[str]()
            found = {name for name, count in counts.items() if count > HUB}
            hubs |= found
            if len(rows) < room:
                return [row for row in rows if row[3] not in found] if found else rows
            room = room if found else room * 4
        return []


def _among(entities: Iterable[Node]) -> str:
    return any_of("name", sorted({name for _, name in entities}))


INVERSE = {"cites": "cited by", "depends on": "needed by", "suggests": "suggested by"}
DIRECT = 2.0
"""Of 0.5, 1 and 2: with keywords 2 was better on CACM, with citations alone often 0.5."""
SHOWN_REASONS = 3
Way = tuple[tuple[str, str, str], float]
"""The fields of a `Path`, of which there would be thousands that are only counted, and its weight."""
Ways = tuple[Way, ...]
"""To one record, each once."""


class LibraryGraph:
    """The graph of one library. Reads the latest version, as the library does."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._hubs: tuple[int, set[str]] = (-1, set())

    async def entities(self, text: str) -> tuple[str, ...]:
        """See `phrases`. Most specific: most words, then fewest records."""
        asked = phrases(text)
        if not asked:
            return ()
        found = await Lookup(self._library).named(asked)
        kept = [node for node in found if counts(asked[node.name], node.kind)]
        return tuple(str(node) for node in sorted(kept, key=lambda node: (-len(node.name.split()), found[node], node)))

    async def named(self, name: str) -> tuple[str, ...]:
        """A name without a type is looked up as every type writes it."""
        node = parsed(name)
        asked = {node.name} if node else {normal_name(name), normal_author(name), *(found.name for found in _identified(name))}
        found = await Lookup(self._library).named(asked)
        return tuple(str(other) for other in sorted(found) if other == (node or entity(other.kind, name)))

    async def alike(self, name: str) -> tuple[str, ...]:
        """Of those that share the first `lookup.BEGINNING` letters, a bounded number."""
        node = parsed(name)
        found = await Lookup(self._library).beginning(node.name if node else normal_name(name))
        return tuple(map(str, sorted(other for other in found if other.kind != RECORD)))

    async def around(self, anchors: Sequence[str], limit: int) -> list[Neighbour]:
        """Best first, ties by doc_id. An anchor is among them where another anchor leads to it.

        Of entity anchors that very many records name, `lookup.MOST_RECORDS` are seen.
        """
        asked = sorted(set(anchors))
        entities: dict[Node, str] = {found: anchor for anchor in asked if (found := parsed(anchor))}
        if not asked:
            return []
        lookup = Lookup(self._library)
        own, named, hubs = await asyncio.gather(lookup.of_records(asked), lookup.to_entities(entities), self._known_hubs())
        ends = await lookup.ends((row[2:] for row in own), hubs)
        held = {row[0] for row in own}
        ways: dict[str, Ways] = {}
        for doc_id, relation, kind, name in named:
            anchor = entities[kind, name]
            if anchor not in held:  # else a record's id that reads like an entity, such as pypi:httpx
                _add(ways, doc_id, (((anchor, _word(relation), f"{kind}:{name}"), DIRECT),))
        weights = {node: _shared(found) for node, found in ends.items()}
        for start in own:
            node = start[2:]
            if node in ends:
                _go_on(start, ends[node], weights[node], ways)
        return _best(ways, limit)

    async def connected(self, entity: str, kind: str, limit: int) -> list[tuple[str, tuple[str, ...]]]:
        """Most shared first, ties by name. Of an entity that very many records name, `lookup.MOST_RECORDS` are read."""
        start = parsed(entity)
        if start is None:
            raise BadRequest(f"{entity!r} is no entity; write it as type:name, such as mesh:aspirin")
        lookup = Lookup(self._library)
        named = await lookup.to_entities([start])
        records: defaultdict[str, set[str]] = defaultdict(set)
        for doc_id, relation, found, name in await lookup.of_records((row[0] for row in named), kind.lower()):
            if relation != IS and (found, name) != start:
                records[f"{found}:{name}"].add(doc_id)
        ranked = sorted(records.items(), key=lambda pair: (-len(pair[1]), pair[0]))
        return [(name, tuple(sorted(found))) for name, found in ranked[: max(limit, 0)]]

    async def _known_hubs(self) -> set[str]:
        """Hubs that were met in this version of the edges; those met next are added."""
        version = await self._library.edges_version()
        if version != self._hubs[0]:
            self._hubs = (version, set())
        return self._hubs[1]


def _identified(text: str) -> Iterator[Entity]:
    """The text as each kind of identifier would be written."""
    return (found for kind in IDENTIFIERS if (found := entity(kind, text)))


def _shared(ends: Iterable[EdgeRow]) -> float:
    """What a path through an entity that these name is worth."""
    return 1 / math.log2(1 + max(1, len({row[0] for row in ends if row[1] != IS})))


def _go_on(start: EdgeRow, ends: Iterable[EdgeRow], shared: float, ways: MutableMapping[str, Ways]) -> None:
    """The ways on from an anchor's edge: to the record it leads to, or to those that have an edge to the same entity.

    Written down rather than handed back: there are a thousand in a search.
    """
    anchor, relation, kind, name = start
    word, through = _word(relation), f"{kind}:{name}"
    both: Ways = (((anchor, word, through), shared),)
    for doc_id, other, _, _ in ends:
        if doc_id == anchor:
            continue
        if relation != IS != other:
            found = ways.get(doc_id)  # as `_add` does; most of a search's ways are these
            if found is None:
                ways[doc_id] = both
            elif both[0] not in found:
                ways[doc_id] = found + both
        elif relation == other:
            _add(ways, doc_id, (((anchor, IS, through), DIRECT),))
        else:
            _add(ways, doc_id, (((anchor, word if other == IS else _inverse(_word(other)), ""), DIRECT),))


def _add(ways: MutableMapping[str, Ways], doc_id: str, way: Ways) -> None:
    """One more way to a record: as most have one, nothing is made for the first."""
    found = ways.get(doc_id)
    if found is None:
        ways[doc_id] = way
    elif way[0] not in found:
        ways[doc_id] = found + way


def _best(ways: Mapping[str, Ways], limit: int) -> list[Neighbour]:
    scores = {id_: found[0][1] if len(found) == 1 else math.fsum(weight for _, weight in found) for id_, found in ways.items()}
    least = min(sorted(scores.values(), reverse=True)[: max(limit, 0)], default=math.inf)  # numbers alone: there are a thousand
    first = sorted((-score, doc_id) for doc_id, score in scores.items() if score >= least)
    return [Neighbour(doc_id, -below, _listed(ways[doc_id])) for below, doc_id in first[: max(limit, 0)]]


def _listed(ways: Ways) -> tuple[Path, ...]:
    """Weightiest first, then by relation."""
    ordered = sorted(ways, key=lambda way: (-way[1], way[0][1], way[0][2], way[0][0])) if len(ways) > 1 else ways
    return tuple(Path(*fields) for fields, _ in ordered)


@lru_cache(maxsize=1_000)
def _word(relation: str) -> str:
    return relation.replace("_", " ")


@lru_cache(maxsize=1_000)
def _inverse(word: str) -> str:
    """The relation as seen from its other end; the same word where the language has no other."""
    return next((here if word == there else there for here, there in INVERSE.items() if word in (here, there)), word)


def explained(paths: Sequence[Path], of: str = "of your best hits") -> str:
    """Why a record is a neighbour: `cites 3 of your top 10; shares author knuth, d with 2 of your top 10`.

    With an empty `of`, for a single anchor: `cites it`.
    """
    if len(paths) == 1:
        return _counted(*_reason(paths[0].anchor, paths[0].relation, paths[0].through), 1, of)
    anchors: defaultdict[tuple[str, bool], set[str]] = defaultdict(set)
    for path in paths:
        anchors[_reason(path.anchor, path.relation, path.through)].add(path.anchor)
    ranked = sorted(anchors.items(), key=lambda pair: (pair[0][1], -len(pair[1]), pair[0])) if len(anchors) > 1 else anchors.items()
    said = [_counted(reason, counted, len(found), of) for (reason, counted), found in ranked]
    more = len(said) - SHOWN_REASONS
    return "; ".join(said[:SHOWN_REASONS]) + (f"; and {more} more" if more > 0 else "")


def _counted(reason: str, counted: bool, anchors: int, of: str) -> str:
    if not counted:
        return reason
    return f"{reason} {anchors} {of}" if of else f"{reason} it"


@lru_cache(maxsize=10_000)
def _reason(anchor: str, relation: str, through: str) -> tuple[str, bool]:
    """What such a path says of the record, and whether it is to be said of how many anchors."""
    kind, _, name = through.partition(":")
    if not kind:
        return _inverse(relation), True
    if _is(anchor, through):
        return f"{relation} {name}", False
    if kind == RECORD or kind in IDENTIFIERS:
        return f"{relation} {through} like", True
    return f"shares {relation} {name} with", True


def _is(anchor: str, through: str) -> bool:
    found = parsed(anchor)
    return found is not None and str(found) == through
