"""`outrider library warm`: search for popular queries ahead of their users."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from outrider.interfaces.cli.options import JsonOption, LibraryOption, call_services
from outrider.interfaces.cli.terminal import Progress, console, count, note, plain, print_json
from outrider.state.errors import BadRequest

if TYPE_CHECKING:
    from outrider.services import Services
    from outrider.usecases.warm_queries import WarmReport


def warm(
    file: Annotated[Path | None, typer.Option("--from", metavar="FILE", help="Queries, one a line.")] = None,
    popular: Annotated[
        int | None, typer.Option("--popular", min=1, max=10_000, metavar="N", help="The N most frequent past queries (learning.history).")
    ] = None,
    library: LibraryOption = None,
    as_json: JsonOption = False,
) -> None:
    """Search the library for popular queries ahead of their users, so that its files are in the memory of this machine.

    Nothing else is asked, and nothing is remembered of it. A server does the same at its start with serve.warm_file or serve.warm_queries.
    """
    from outrider.usecases.warm_queries import find_popular_queries, read_queries, warm_queries

    if (file is None) == (popular is None):
        raise BadRequest("give --from FILE or --popular N")
    named = read_queries(file) if file else None

    async def run(services: Services) -> WarmReport:
        queries = named or await find_popular_queries(services.settings, popular or 0)
        with Progress("searching", quiet=as_json) as bar:
            return await warm_queries(services, queries, progress=partial(bar.show, "searching"))

    report = call_services(run, library)
    if as_json:
        print_json(report)
        return
    console().print(plain(f"{count(report.warmed, 'query')} of {report.queries:,} searched for in {report.seconds:,.1f} s"))
    if report.error:
        note(report.error)
