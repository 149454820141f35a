"""`outrider library`: what is in it, whether it is sound, single records, tags."""

from __future__ import annotations

import dataclasses
import json
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from outrider.interfaces.cli.options import FiltersOption, JsonOption, LibraryOption, read_filters, services, wait_for
from outrider.interfaces.cli.terminal import BAD_INPUT, console, note, plain, table
from outrider.state.errors import BadRequest
from outrider.state.filters import parse_filter
from outrider.text.words import words

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from outrider.library.library import Library
    from outrider.state.embedding import TokensRead
    from outrider.state.records import Record

library_app = typer.Typer(help="See and tend the library.", no_args_is_help=True)


@library_app.command()
def info(library: LibraryOption = None, as_json: JsonOption = False) -> None:
    """What the library holds, and where it lies."""
    about = _with_library(library, lambda opened: opened.info())
    said = dataclasses.asdict(about)
    if as_json:
        _print_json(said)
        return
    listing = table("", "")
    for name, value in said.items():
        listing.add_row(name, plain("none; embed with: outrider library reindex" if name == "vectors" and value is None else _shown(value)))
    console().print(listing)


@library_app.command()
def check(library: LibraryOption = None, as_json: JsonOption = False) -> int:
    """Read every record and say what is wrong; exit code 3 where something is."""
    problems = _with_library(library, lambda opened: opened.check())
    if as_json:
        _print_json({"sound": not problems, "problems": list(problems)})
    else:
        for problem in problems:
            console().print(plain(problem, "red"))
        if not problems:
            console().print("The library is sound.")
    return 3 if problems else 0


@library_app.command("list")
def list_records(
    filters: FiltersOption = None,
    phrase: Annotated[str | None, typer.Option("--phrase", help="Only records with exactly these words in this order.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=100_000, help="How many to list.")] = 20,
    offset: Annotated[int, typer.Option("--offset", min=0, help="How many to leave out first.")] = 0,
    library: LibraryOption = None,
    as_json: JsonOption = False,
) -> None:
    """List records, ordered by id."""
    where = parse_filter(read_filters(filters) or {})
    if phrase is not None and not words(phrase):
        raise BadRequest("--phrase has no letter or digit to search for")

    async def page(opened: Library) -> tuple[list[Record], int]:
        if phrase is None:
            return await opened.page(where, limit, offset), await opened.count(where)
        ids = sorted(await opened.match(phrase, where=where))
        return await opened.fetch(ids[offset : offset + limit]), len(ids)

    records, total = _with_library(library, page)
    if as_json:
        _print_json({"total": total, "offset": offset, "records": [_brief(record) for record in records]})
        return
    listing = table("id", "kind", "year", "title")
    for record in records:
        listing.add_row(plain(record.doc_id), record.kind, str(record.year or ""), plain(record.title or record.full_text()[:80]))
    console().print(listing)
    note(f"{len(records):,} of {total:,} records" + (f", from {offset:,}" if offset else ""))


@library_app.command()
def show(
    doc_id: Annotated[str, typer.Argument(metavar="ID", help="A record's id, as search and list show it.")],
    library: LibraryOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show one record whole."""

    async def read(opened: Library) -> tuple[list[Record], dict[str, TokensRead]]:
        return await opened.fetch([doc_id]), await opened.tokens_read([doc_id])

    found, tokens = _with_library(library, read)
    if not found:
        raise BadRequest(f"the library holds no record {doc_id!r}; `outrider library list` shows the ids")
    said = found[0].model_dump(mode="json", exclude_defaults=True) | {"kind": found[0].kind}
    vector = tokens.get(doc_id)
    if as_json:
        _print_json(said | {"embedded": vector and vector._asdict()})
        return
    for name, value in (said | {"embedded": _embedded(vector)}).items():
        console().print(plain(name, "bold"), plain(_shown(value)), sep="  ", soft_wrap=True)


@library_app.command()
def remove(
    doc_ids: Annotated[list[str], typer.Argument(metavar="ID...", help="Records to remove.")],
    library: LibraryOption = None,
    as_json: JsonOption = False,
) -> int:
    """Remove records. Reading their files again brings them back; a tagged version keeps them. Exit code 2 where none of them is there."""

    async def removed(opened: Library) -> tuple[int, list[str]]:
        held = {record.doc_id for record in await opened.fetch(doc_ids)}
        return await opened.remove(doc_ids), [doc_id for doc_id in doc_ids if doc_id not in held]

    count, unknown = _with_library(library, removed)
    if as_json:
        _print_json({"removed": count, "unknown": unknown})
    else:
        console().print(f"{count:,} removed")
        if unknown:
            note(f"Not in the library: {', '.join(unknown)}")
    return 0 if count else BAD_INPUT


@library_app.command()
def tag(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="The tag; without one, all tags are listed.")] = None,
    delete: Annotated[bool, typer.Option("--delete", help="Remove the tag instead.")] = False,
    library: LibraryOption = None,
    as_json: JsonOption = False,
) -> None:
    """Name the library's present version, so that clean-up keeps it; list the tags, or remove one."""
    if delete and name is None:
        raise BadRequest("--delete needs the name of a tag")

    async def tagged(opened: Library) -> dict[str, int]:
        if name is not None:
            await (opened.untag(name) if delete else opened.tag(name))
        known: dict[str, int] = await opened.tags()
        return known

    tags = _with_library(library, tagged)
    if as_json:
        _print_json(tags)
        return
    listing = table("tag", "version")
    for known, version in tags.items():
        listing.add_row(plain(known), str(version))
    console().print(listing)


def _with_library(uri: str | None, work: Callable[[Library], Awaitable[Any]]) -> Any:
    made = services(uri)

    async def opened() -> Any:
        return await work(await made.library())

    return wait_for(opened())


def _embedded(read: TokensRead | None) -> str:
    if read is None:
        return "no"
    return "yes" if read.tokens is None or read.of is None else f"{read.tokens:,} of {read.of:,} tokens"


def _brief(record: Record) -> dict[str, Any]:
    return record.model_dump(mode="json", exclude={"text"}, exclude_defaults=True) | {"kind": record.kind}


def _print_json(value: object) -> None:
    sys.stdout.write(json.dumps(value, ensure_ascii=False) + "\n")


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        parts = {name: _shown(part) if isinstance(part, dict) else part for name, part in value.items() if part not in (None, {})}
        return ", ".join(f"{name} {part}" for name, part in parts.items()) or "none"
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or "none"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
