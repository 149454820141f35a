"""`outrider mcp`."""

from __future__ import annotations

from typing import Annotated

import typer

from outrider.serve.cli.options import LibraryOption, services


def mcp(
    http: Annotated[bool, typer.Option("--http", help="Streamable HTTP at /mcp instead of standard input and output.")] = False,
    host: Annotated[str, typer.Option("--host", help="The address to listen on; other than loopback it needs keys.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", "-p", min=0, max=65_535, help="The port; 0 takes a free one.")] = 8_001,
    library: LibraryOption = None,
) -> None:
    """Offer tools to models by the Model Context Protocol: search, systematic, analyze, library_ingest, library_search, export."""
    from outrider.serve.mcp import run_http, run_stdio

    made = services(library)
    try:
        if http:
            run_http(made, host, port)
        else:
            run_stdio(made)
    finally:
        made.close()
