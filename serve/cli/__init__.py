"""The `outrider` command. Exit codes: 0 answered, 2 bad input, 3 nothing could be searched, 4 rejected model key, 130 interrupted.

Results go to standard output, progress and warnings to standard error. Modules here import nothing heavy at the top: the help
must appear at once.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
from typing import Annotated, Any

import typer

from outrider import __version__
from outrider.serve.cli.config import config_app, doctor
from outrider.serve.cli.export import export
from outrider.serve.cli.ingest import ingest
from outrider.serve.cli.library import library_app
from outrider.serve.cli.neighbours import neighbours
from outrider.serve.cli.probe import probe
from outrider.serve.cli.reindex import reindex
from outrider.serve.cli.search import search
from outrider.serve.cli.server import serve
from outrider.serve.cli.terminal import INTERRUPTED, note
from outrider.serve.cli.training import train_reranker
from outrider.state.errors import SearchError

BAD_INPUT = 2

app = typer.Typer(
    name="outrider",
    help="Search papers, code and your own library at once; get the sentences that answer, with the trail to check them.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
)
app.command()(search)
app.command()(ingest)
library_app.command()(reindex)
library_app.command()(neighbours)
library_app.command()(probe)
library_app.command()(train_reranker)
app.add_typer(library_app, name="library")
app.command()(export)
app.add_typer(config_app, name="config")
app.command()(doctor)
app.command()(serve)


def _version(asked: bool) -> None:
    if asked:
        sys.stdout.write(f"outrider {__version__}\n")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")] = False,
) -> None:
    pass


def run(arguments: list[str]) -> int:
    """Run the command and return its exit code; what a user can mend is one line, never a traceback."""
    logging.basicConfig(level=logging.ERROR, format="%(levelname)s %(name)s: %(message)s")  # libraries warn about files that are read well
    try:
        returned = app(arguments, prog_name="outrider", standalone_mode=False)
    except typer.TyperException as error:
        usage: Any = error  # the public base of what typer raises for a wrong command line; each can show itself
        usage.show()
        return BAD_INPUT
    except SearchError as error:
        note(f"Error: {error}")
        return error.exit_code
    except (KeyboardInterrupt, typer.Abort):
        returned = INTERRUPTED
    except BrokenPipeError:  # the reader of our output, such as `head`, has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    if returned == INTERRUPTED:  # also what typer makes of Ctrl-C
        note("Interrupted. What was done is kept; the same command goes on from there.")
    return abs(returned) if isinstance(returned, int) else 0
