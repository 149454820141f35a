"""Options that several commands share."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from outrider.state.errors import BadRequest

if TYPE_CHECKING:
    from outrider.services import Services

Result = TypeVar("Result")

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
FiltersOption = Annotated[
    str | None, typer.Option("--filters", "-f", metavar="JSON", help='Only records that match, such as \'{"year": {"$gte": 2020}}\'.')
]


def services(library: str | None, *, offline: bool = False) -> Services:
    """Services from the settings, with the library of the command line where one is named; loaded only now."""
    from outrider.services import Services

    return Services.from_file({"library.uri": library, "sources.offline": offline or None})


def wait_for(work: Coroutine[Any, Any, Result]) -> Result:
    """The coroutine's result. Ctrl-C cancels it, so that it can finish what it holds, and ends the command with 130."""
    return asyncio.run(work)


def read_filters(text: str | None) -> dict[str, Any] | None:
    if text is None:
        return None
    try:
        value = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise BadRequest(f'--filters is no JSON ({error}); write for example \'{{"year": {{"$gte": 2020}}}}\'') from error
    if not isinstance(value, dict):
        raise BadRequest(f'--filters takes a JSON object such as \'{{"language": "Rust"}}\', not {text!r}')
    return value
