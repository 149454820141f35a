"""`outrider serve`, `outrider serve key` and `outrider mcp`: the HTTP and MCP servers."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from outrider.interfaces.cli.options import JsonOption, LibraryOption, OfflineOption, open_services
from outrider.interfaces.cli.terminal import note, print_json
from outrider.state.errors import BadRequest

serve_app = typer.Typer(help="Serve searches over HTTP: REST, events and LangServe.", invoke_without_command=True)
HostOption = Annotated[str, typer.Option("--host", help="The address to listen on; other than loopback it needs keys.")]
PortOption = Annotated[int, typer.Option("--port", "-p", min=0, max=65_535, help="The port; 0 takes a free one.")]


def mcp(
    http: Annotated[bool, typer.Option("--http", help="Streamable HTTP at /mcp instead of standard input and output.")] = False,
    host: HostOption = "127.0.0.1",
    port: PortOption = 8_001,
    library: LibraryOption = None,
    offline: OfflineOption = False,
) -> None:
    """Serve tools to models by the Model Context Protocol: search, systematic, analyze, library_ingest, library_search, export, jobs."""
    from outrider.interfaces.mcp import run_http, run_stdio

    services = open_services(library, offline=offline)
    try:
        if http:
            run_http(services, host, port)
        else:
            run_stdio(services)
    finally:
        services.close()


@serve_app.callback()
def serve(
    context: typer.Context,
    host: HostOption = "127.0.0.1",
    port: PortOption = 8_000,
    library: LibraryOption = None,
    offline: OfflineOption = False,
) -> None:
    """Serve searches over HTTP: LangServe at /search, REST at /api, metrics at /metrics, its description at /openapi.json.

    A client on another machine needs a key: `outrider serve key NAME` makes one.
    """
    if context.invoked_subcommand is None:
        from outrider.interfaces.http import run_server

        run_server(open_services(library, offline=offline), host, port)


@serve_app.command()
def key(
    name: Annotated[str, typer.Argument(help="The owner of the key: letters, digits, - and _.")],
    as_json: JsonOption = False,
) -> None:
    """Make an API key. The key is shown once and stored nowhere; the settings hold its hash."""
    import platformdirs

    from outrider.interfaces.http.access import hash_key, new_key
    from outrider.settings.sections import KEY_NAME

    if not KEY_NAME.match(name):
        raise BadRequest(f"the name of a key's owner has up to 64 letters, digits, - and _, not {name!r}")
    api_key = new_key()
    if as_json:
        print_json({"name": name, "key": api_key, "hash": hash_key(api_key)})
        return
    sys.stdout.write(api_key + "\n")
    path = platformdirs.user_config_path("outrider", appauthor=False) / "search_config.yaml"
    note(f"This is the key; it is not shown again. The server accepts it with these lines in {path}, or in a file named with --config:")
    for line in ("serve:", "  api_keys:", f"    {name}: {hash_key(api_key)}"):
        sys.stderr.write(line + "\n")
