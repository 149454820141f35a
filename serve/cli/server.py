"""`outrider serve`."""

from __future__ import annotations

from typing import Annotated

import typer

from outrider.serve.cli.options import LibraryOption, services


def serve(
    host: Annotated[str, typer.Option("--host", help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", "-p", min=0, max=65_535, help="The port; 0 takes a free one.")] = 8_000,
    library: LibraryOption = None,
) -> None:
    """Offer the search graph over HTTP at /search (LangServe: invoke, batch, stream, playground, schemas)."""
    from outrider.serve.http import run_server

    run_server(services(library), host, port)
