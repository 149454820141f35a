"""The `outrider` command, one module for each command or group.

Exit codes: 0 answered, 2 bad input, 3 nothing could be searched, 4 rejected model key, 130 interrupted. Results go to standard
output, progress and warnings to standard error; errors as well, or with `--json` as JSON to standard output. Modules here import
nothing heavy at the top: the help must appear at once.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from outrider.interfaces.cli.analyze import analyze
from outrider.interfaces.cli.config import config_app, doctor
from outrider.interfaces.cli.dedup import dedup
from outrider.interfaces.cli.distill import distill
from outrider.interfaces.cli.export import export
from outrider.interfaces.cli.ingest import ingest
from outrider.interfaces.cli.library import decisions, dedup_library, library_app, merge, split
from outrider.interfaces.cli.library_training import calibrate_distiller, probe, train_reranker
from outrider.interfaces.cli.search import search
from outrider.interfaces.cli.serve import mcp, serve_app
from outrider.interfaces.cli.systematic import replay, systematic, verify
from outrider.interfaces.cli.terminal import BAD_INPUT, INTERRUPTED, note, report_error, report_json_error
from outrider.interfaces.cli.threads import threads_app
from outrider.state.errors import BadRequest, SearchError, explain_limit
from outrider.version import __version__

app = typer.Typer(
    name="outrider",
    help="Search papers, code and your own library at once, and get the sentences that answer, with their sources.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
)
app.command()(search)
app.command()(systematic)
app.command()(replay)
app.command()(verify)
app.command()(analyze)
app.command()(ingest)
library_app.command()(probe)
library_app.command()(train_reranker)
library_app.command("dedup")(dedup_library)
library_app.command()(split)
library_app.command()(merge)
library_app.command()(decisions)
library_app.command()(calibrate_distiller)
app.add_typer(library_app, name="library")
app.command()(dedup)
app.command()(distill)
app.command()(export)
app.add_typer(threads_app, name="threads")
app.add_typer(config_app, name="config")
app.command()(doctor)
app.add_typer(serve_app, name="serve")
app.command()(mcp)


def show_version(value: bool) -> None:
    if value:
        sys.stdout.write(f"outrider {__version__}\n")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[bool, typer.Option("--version", callback=show_version, is_eager=True, help="Show the version and exit.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log to standard error, as lines of JSON with the run's id.")] = False,
    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            metavar="FILE",
            help="Read this settings file, as a trusted one, instead of search_config.yaml in the working folder; also OUTRIDER_CONFIG.",
        ),
    ] = None,
) -> None:
    if config is not None:
        from outrider.settings.environment import CONFIG_VARIABLE

        os.environ[CONFIG_VARIABLE] = str(config)  # for all settings that this process and its children read
    if verbose:
        from outrider.interfaces.logs import log_to_stderr
        from outrider.settings.load import load
        from outrider.settings.redact import Redactor

        log_to_stderr(Redactor.from_settings(load().settings))


def run(arguments: list[str]) -> int:
    """Run the command and return its exit code. An error that a user can correct is one line, never a traceback."""
    logging.basicConfig(level=logging.ERROR, format="%(levelname)s %(name)s: %(message)s")  # libraries warn about files that are read well
    wants_json = "--json" in arguments[: arguments.index("--") if "--" in arguments else None]
    try:
        code = app(arguments, prog_name="outrider", standalone_mode=False)
    except typer.TyperException as error:
        usage: Any = error  # the public base of typer's errors about the command line; each of them has `show`
        if wants_json:
            report_json_error(BadRequest(usage.format_message()))
        else:
            usage.show()
        return BAD_INPUT
    except SearchError as error:
        (report_json_error if wants_json else report_error)(error)
        return error.exit_code
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except BrokenPipeError:  # the reader of our output, such as `head`, has ended
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    except OSError as error:
        if not (remedy := explain_limit(error)):
            raise
        where = f"{error.filename}: " if error.filename else ""
        report_error(SearchError(f"{where}{error.strerror or error}: {remedy}, and run the command again"))
        return SearchError.exit_code
    if code == INTERRUPTED:  # also typer's code for Ctrl-C
        note("Interrupted.")
    return abs(code) if isinstance(code, int) else 0
