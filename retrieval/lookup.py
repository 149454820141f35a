"""Lookups in the table of edges that stay bounded, however many records name one entity."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from outrider.retrieval.edges import IS, Row
from outrider.retrieval.entities import IDENTIFIERS, RECORD, Entity
from outrider.retrieval.sql import any_of, literal

if TYPE_CHECKING:
    from outrider.retrieval.store import Library

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

    async def of_records(self, doc_ids: Iterable[str], kind: str = "") -> list[Row]:
        """All edges of these records, or those to entities of one kind."""
        asked = sorted(set(doc_ids))
        where = any_of("doc_id", asked) + (f" AND {any_of('kind', [kind])}" if kind else "")
        return await self.library.edges(where) if asked else []

    async def to_entities(self, entities: Iterable[Node]) -> list[Row]:
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

    async def ends(self, entities: Iterable[Node], hubs: set[str]) -> Mapping[Node, list[Row]]:
        """The edges to these entities. Of a hub only that of the record that it is the name of.

        Names that turn out to be hubs are added to `hubs`, which the caller keeps, so that each is met once.
        """
        wanted = frozenset(entities)
        rows = await self._to_names({name for _, name in wanted}, hubs)
        own = [node for node in wanted if node[1] in hubs and (node[0] == RECORD or node[0] in IDENTIFIERS)]
        if own:
            rows += await self.library.edges(f"relation = '{IS}' AND {_among(own)}", ROOM)
        found: defaultdict[Node, list[Row]] = defaultdict(list)
        for row in rows:
            found[row[2:]].append(row)
        return {node: found[node] for node in wanted & found.keys()}

    async def _to_names(self, names: set[str], hubs: set[str]) -> list[Row]:
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
