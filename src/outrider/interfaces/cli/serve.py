"""`outrider mcp`.

`outrider serve`, and `outrider serve key`.
"""

from __future__ import annotations

import json
import sys
from typing import Annotated

import platformdirs
import typer

from outrider.interfaces.cli.options import JsonOption, LibraryOption, services
from outrider.interfaces.cli.terminal import note
from outrider.state.errors import BadRequest


def mcp(
    http: Annotated[bool, typer.Option("--http", help="Streamable HTTP at /mcp instead of standard input and output.")] = False,
    host: Annotated[str, typer.Option("--host", help="The address to listen on; other than loopback it needs keys.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", "-p", min=0, max=65_535, help="The port; 0 takes a free one.")] = 8_001,
    library: LibraryOption = None,
) -> None:
    """Offer tools to models by the Model Context Protocol: search, systematic, analyze, library_ingest, library_search, export."""
    from outrider.interfaces.mcp import run_http, run_stdio

    made = services(library)
    try:
        if http:
            run_http(made, host, port)
        else:
            run_stdio(made)
    finally:
        made.close()


serve_app = typer.Typer(help="Offer searches over HTTP: REST, events and LangServe.", invoke_without_command=True)


@serve_app.callback()
def serve(
    context: typer.Context,
    host: Annotated[str, typer.Option("--host", help="The address to listen on; other than loopback it needs keys.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", "-p", min=0, max=65_535, help="The port; 0 takes a free one.")] = 8_000,
    library: LibraryOption = None,
) -> None:
    """Offer searches over HTTP: LangServe at /search, REST at /api, figures at /metrics, its description at /openapi.json.

    Whoever reaches it from another machine needs a key: `outrider serve key NAME` makes one.
    """
    if context.invoked_subcommand is None:
        from outrider.interfaces.http import run_server

        run_server(services(library), host, port)


@serve_app.command()
def key(
    name: Annotated[str, typer.Argument(help="Whose key it is: letters, digits, - and _.")],
    as_json: JsonOption = False,
) -> None:
    """Make an API key. The key itself is shown once and kept nowhere; the settings hold its hash."""
    from outrider.interfaces.http.auth import hash_of, new_key
    from outrider.settings.serving import KEY_NAME

    if not KEY_NAME.match(name):
        raise BadRequest(f"a key's owner is named by up to 64 letters, digits, - and _, not {name!r}")
    made = new_key()
    if as_json:
        sys.stdout.write(json.dumps({"name": name, "key": made, "hash": hash_of(made)}) + "\n")
        return
    sys.stdout.write(made + "\n")
    place = platformdirs.user_config_path("outrider", appauthor=False) / "search_config.yaml"
    note(f"This is the key; it is not shown again. The server accepts it with these lines in {place}, or in a file named with --config:")
    for line in ("serve:", "  api_keys:", f"    {name}: {hash_of(made)}"):
        sys.stderr.write(line + "\n")
