"""Options and their parsing, and the services, that several commands share."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_args

import typer

from outrider.state.errors import BadRequest, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from outrider.library.library import Library
    from outrider.services import Services

Result = TypeVar("Result")
LANGSMITH_SWITCHES = ("LANGSMITH_TRACING", "LANGSMITH_TRACING_V2", "LANGCHAIN_TRACING", "LANGCHAIN_TRACING_V2")
"""Variables that make LangChain send its traces to LangSmith."""
YEARS = re.compile(r"(?P<first>[0-9]{4})?(?P<to>\s*[-\u2013]\s*)?(?P<last>[0-9]{4})?")

LibraryOption = Annotated[
    str | None,
    typer.Option(
        "--library",
        "-l",
        metavar="PATH",
        help="The library to use: a folder or an s3:// address. Default: OUTRIDER_LIBRARY, then the settings.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
OfflineOption = Annotated[
    bool,
    typer.Option("--offline", help="Contact nothing but this machine: search your library, and use a model only at a loopback address."),
]
OnOption = Annotated[
    str, typer.Option("--on", metavar="ray", help="Let the workers of a Ray cluster do the work.", show_default="this machine alone")
]
AddressOption = Annotated[
    str | None,
    typer.Option(
        "--address",
        metavar="HOST:PORT",
        help="With --on ray: the head node of the cluster, or auto for the one that runs on this machine. Default: the settings, then "
        "RAY_ADDRESS, else one is started on this machine for the command.",
    ),
]
FiltersOption = Annotated[
    str | None, typer.Option("--filters", "-f", metavar="JSON", help='Only records that match, such as \'{"year": {"$gte": 2020}}\'.')
]


RecordOption = Annotated[
    Path | None,
    typer.Option("--record", metavar="FILE", help="Also record the run in this .zip file, to replay it: outrider replay FILE."),
]


def open_services(library: str | None, *, offline: bool = False, record: Path | None = None, address: str | None = None) -> Services:
    """Services from the settings and the library of the command line; with `record`, their run is recorded in that file. `address`
    is that of a Ray cluster.

    Imported here, since the help must appear at once. Raises `BadRequest` for a file that cannot be written.
    """
    if record is not None:
        _check_recording(record)
    from outrider.services import Services
    from outrider.settings.environment import variable_name

    if offline:
        os.environ[variable_name("sources.offline")] = "true"  # for all settings that this process reads, such as those of the graphs
    services = Services.from_file(
        {"library.uri": library, "cluster.address": address, **({} if record is None else {"recorder.enabled": True})}
    )
    if services.destination is not None:
        services.destination.file = record
    if services.settings.sources.offline:
        for variable in LANGSMITH_SWITCHES:
            os.environ[variable] = "false"
    return services


def _check_recording(file: Path) -> None:
    if file.suffix.lower() != ".zip":
        raise BadRequest(f"--record writes a .zip file, not {file.name!r}")
    if file.is_dir() or not file.parent.is_dir():
        raise BadRequest(f"--record {file} cannot be written: {'it is a folder' if file.is_dir() else f'there is no folder {file.parent}'}")


def note_recording(services: Services) -> None:
    """Report where the recording of the run is, if one was asked for."""
    from outrider.interfaces.cli.terminal import note

    destination = services.destination
    if destination is None or destination.file is None:
        return
    if destination.written is None:
        note(f"{destination.file} is not written: {destination.problem or 'the run did not come to its end'}")
    else:
        note(f"Recorded in {destination.written} ({destination.size:,} bytes). To replay it: outrider replay {destination.written}")


def wait_for(work: Coroutine[Any, Any, Result]) -> Result:
    """The coroutine's result. Ctrl-C cancels it, so that it can finish pending writes, and ends the command with 130."""
    import asyncio

    return asyncio.run(work)


def call_services(work: Callable[[Services], Awaitable[Result]], library: str | None = None, *, offline: bool = False) -> Result:
    """The result of `work` on the services of the command line, which are closed after it."""
    services = open_services(library, offline=offline)

    async def call() -> Result:
        try:
            return await work(services)
        finally:
            services.close()

    return wait_for(call())


def call_library(uri: str | None, work: Callable[[Library], Awaitable[Result]]) -> Result:
    """The result of `work` on the library."""
    services = open_services(uri)

    async def call() -> Result:
        return await work(await services.library())

    return wait_for(call())


def parse_filters(text: str | None) -> dict[str, Any] | None:
    """The JSON object of `--filters`. Raises `BadRequest` for anything else."""
    if text is None:
        return None
    try:
        value = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise BadRequest(f'--filters is not JSON ({error}); write for example \'{{"year": {{"$gte": 2020}}}}\'') from error
    if not isinstance(value, dict):
        raise BadRequest(f'--filters takes a JSON object such as \'{{"language": "Rust"}}\', not {text!r}')
    return value


def narrow_filters(
    filters: dict[str, Any] | None,
    year: str | None,
    first: str | None,
    last: str | None,
    kinds: Sequence[str] | None,
    labels: Sequence[str] | None = None,
    *,
    no_retracted: bool = False,
) -> dict[str, Any] | None:
    """The filters, and those of `--year` or `--from` and `--to`, `--kind`, `--label` and `--no-retracted`, all of them required.

    Raises `BadRequest`.
    """
    from outrider.state.records import Kind

    if year is not None and (first is not None or last is not None):
        raise BadRequest("--year and --from, --to mean the same; give one of them, such as --year 2019-2021")
    parts = [filters] if filters else []
    if year is not None:
        parts.append({"year": parse_years(year)})
    elif first is not None or last is not None:
        bounds = {"$gte": ("--from", first), "$lte": ("--to", last)}
        parts.append({"year": _check_order({sign: _parse_year(name, text) for sign, (name, text) in bounds.items() if text is not None})})
    for kind in kinds or ():
        if kind not in get_args(Kind):
            raise BadRequest(f"--kind takes {', '.join(get_args(Kind))}, not {kind!r}{did_you_mean(kind, get_args(Kind))}")
    if kinds:
        parts.append({"kind": {"$in": [*kinds]}})
    if labels:
        parts.append({"labels": {"$in": [*labels]}})
    if no_retracted:
        parts.append({"retracted": False})
    return {"$and": parts} if len(parts) > 1 else parts[0] if parts else filters


def parse_years(text: str) -> dict[str, int]:
    """The conditions of `2020`, `2020-`, `-2015` or `2019-2021`. Raises `BadRequest`."""
    match = YEARS.fullmatch(text.strip())
    if match is None or not (match["first"] or match["last"]):
        raise BadRequest(f"--year takes 2020, 2020-, -2015 or 2019-2021, not {text!r}")
    first, last = match["first"], match["last"] if match["to"] else match["first"]
    return _check_order({sign: int(number) for sign, number in (("$gte", first), ("$lte", last)) if number})


def _parse_year(name: str, text: str) -> int:
    if not re.fullmatch(r"[0-9]{4}", text.strip()):
        raise BadRequest(f"{name} takes a year such as 2020, not {text!r}")
    return int(text)


def _check_order(bounds: dict[str, int]) -> dict[str, int]:
    if len(bounds) == 2 and bounds["$gte"] > bounds["$lte"]:
        raise BadRequest(f"no year is from {bounds['$gte']} and up to {bounds['$lte']}; exchange the two")
    return bounds


def parse_columns(texts: list[str]) -> dict[str, str]:
    """Field -> column from the values of `--map`. Raises `BadRequest`."""
    columns: dict[str, str] = {}
    for part in (part for text in texts for part in text.split(",")):
        field, equals, column = (piece.strip() for piece in part.partition("="))
        if not (field and equals and column):
            raise BadRequest(f"--map takes FIELD=COLUMN pairs such as title=Heading,year=Published, not {part!r}")
        if columns.setdefault(field, column) != column:
            raise BadRequest(f"--map names two columns for {field!r}: {columns[field]!r} and {column!r}")
    return columns
