"""`outrider library neighbours`: what the graph connects with a record or an entity, and why."""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from outrider.interfaces.cli.options import JsonOption, LibraryOption, services, wait_for
from outrider.interfaces.cli.terminal import console, note, plain, table
from outrider.state.errors import BadRequest, did_you_mean, shorten

if TYPE_CHECKING:
    from outrider.library.search_engine import Engine

RECORD = "doc:"
"""A record's own node, by its id."""


def neighbours(
    name: Annotated[str, typer.Argument(metavar="NAME_OR_ID", help="An entity (aspirin, mesh:aspirin, 'Knuth, D') or a record's id.")],
    kind: Annotated[str | None, typer.Option("--type", "-t", help="List connected entities of this type (mesh, author) instead.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=10_000, help="How many to list.")] = 20,
    library: LibraryOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show what is connected with a record or an entity: records, or with --type entities that share records with it."""
    made = services(library)

    async def found() -> list[dict[str, Any]]:
        engine = await made.engine()
        is_record = bool(await engine.library.content_hashes([name]))
        named = (name,) if is_record else await _named(engine, name)
        if kind is None:
            return await _records(engine, named, limit)
        return await _entities(engine, (RECORD + name,) if is_record else named, kind, limit)

    rows = wait_for(found())
    if as_json:
        sys.stdout.write(json.dumps(rows, ensure_ascii=False) + "\n")
        return
    listing = table(*(("id", "title", "why") if kind is None else ("entity", "records", "such as")))
    for row in rows:
        listing.add_row(*(plain(cell) for cell in _cells(row)))
    if rows:
        console().print(listing)
    elif kind is not None:
        note(f"No record of {name} names anything of type {kind}.")
    note(f"{len(rows):,} shown; --limit shows more" if len(rows) == limit else f"{len(rows):,} found")


async def _named(engine: Engine, name: str) -> tuple[str, ...]:
    """The entities of this name; `BadRequest` where there are none."""
    found = await engine.graph.find_entities(name)
    if not found:
        known = [entity.partition(":")[2] for entity in await engine.graph.find_similar_names(name)]
        wrong = name.partition(":")[2] or name
        raise BadRequest(f"the library has no record and no entity {shorten(name)}{did_you_mean(wrong.casefold(), known)}")
    return found


async def _records(engine: Engine, anchors: tuple[str, ...], limit: int) -> list[dict[str, Any]]:
    from outrider.library.neighbours import explain_paths

    places = await engine.graph.find_neighbours(anchors, limit)
    records = {record.doc_id: record for record in await engine.library.fetch([place.doc_id for place in places])}
    return [
        {
            "doc_id": place.doc_id,
            "title": records[place.doc_id].title,
            "score": place.score,
            "why": explain_paths(place.paths, of=""),
            "paths": [{"anchor": path.anchor, "relation": path.relation, "through": path.through} for path in place.paths],
        }
        for place in places
        if place.doc_id in records
    ]


async def _entities(engine: Engine, starts: tuple[str, ...], kind: str, limit: int) -> list[dict[str, Any]]:
    """Most shared records first, ties by name."""
    shared: defaultdict[str, set[str]] = defaultdict(set)
    for start in starts:
        for entity, doc_ids in await engine.graph.find_connected(start, kind, limit):
            shared[entity].update(doc_ids)
    ranked = sorted(shared.items(), key=lambda pair: (-len(pair[1]), pair[0]))[:limit]
    return [{"entity": entity, "records": sorted(doc_ids)} for entity, doc_ids in ranked]


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    if "entity" in row:
        return row["entity"], f"{len(row['records']):,}", ", ".join(row["records"][:3])
    return row["doc_id"], row["title"], row["why"]
