"""The `outrider` command, one module for each command or group.

Exit codes: 0 answered, 2 bad input, 3 nothing could be searched, 4 rejected model key, 130 interrupted. Results go to standard
output, progress and warnings to standard error; errors as well, or with `--json` as JSON to standard output. Modules here import
nothing heavy at the top: the help must appear at once.
"""

from __future__ import annotations

import inspect
import logging
import os
import signal
import sys
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from outrider.interfaces.cli.terminal import BAD_INPUT, BEGAN, INTERRUPTED, note, report_error, report_json_error
from outrider.state.errors import BadRequest, SearchError, explain_limit
from outrider.version import __version__

COMMANDS = {
    "search": "search:search",
    "systematic": "systematic:systematic",
    "plan": "plan:plan",
    "replay": "systematic:replay",
    "verify": "systematic:verify",
    "analyze": "analyze:analyze",
    "compare": "compare:compare",
    "ingest": "ingest:ingest",
    "dedup": "dedup:dedup",
    "distill": "distill:distill",
    "export": "export:export",
    "doctor": "config:doctor",
    "mcp": "serve:mcp",
    "library": "library_evaluation:library_app",
    "threads": "threads:threads_app",
    "saved": "saved:saved_app",
    "learning": "learning:learning_app",
    "cite": "cite:cite_app",
    "review": "review:review_app",
    "jobs": "jobs:jobs_app",
    "config": "config:config_app",
    "serve": "serve:serve_app",
}
"""Module and name of each command and group, in the order of the help. A module is imported when its command is needed."""
HELP_ALONE: tuple[list[str], ...] = ([], ["-h"], ["--help"])
COMPLETION = "_OUTRIDER_COMPLETE"
"""The variable with which a shell asks for completions."""


def make_app(only: str = "", *, overview: bool = False) -> typer.Typer:
    """The command line with all commands, or `only` one. An `overview` has their names and helps without their options, whose inspection
    takes most of the time of a help that does not show them.
    """
    app = typer.Typer(
        name="outrider",
        help="Search papers, code and your own library at once, and get the sentences that answer, with their sources.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
    )
    app.callback()(main)
    for name in [only] if only else COMMANDS:
        module, _, attribute = COMMANDS[name].partition(":")
        command: Any = getattr(import_module(f"{__name__}.{module}"), attribute)
        if isinstance(command, typer.Typer):
            app.add_typer(typer.Typer(help=command.info.help) if overview else command, name=name)
        else:
            app.command(name, help=inspect.getdoc(command))(_do_nothing if overview else command)
    return app


def _do_nothing() -> None:
    """Stands for a command in the overview."""


def _choose_app(arguments: list[str]) -> typer.Typer:
    """The part of the command line that these arguments need. All of it for options before a command and for misspelt commands."""
    if COMPLETION in os.environ:
        return make_app()
    return make_app(arguments[0] if arguments and arguments[0] in COMMANDS else "", overview=arguments in HELP_ALONE)


def show_version(value: bool) -> None:
    if value:
        sys.stdout.write(f"outrider {__version__}\n")
        raise typer.Exit


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


def run(arguments: list[str], *, began: float | None = None) -> int:
    """Run the command and return its exit code. An error that a user can correct is one line, never a traceback.

    `began` is the time of `time.monotonic` from which the user has waited.
    """
    BEGAN.set(began)
    logging.basicConfig(level=logging.ERROR, format="%(levelname)s %(name)s: %(message)s")  # libraries warn about files that are read well
    logging.getLogger("outrider.library.lease").setLevel(logging.WARNING)  # why a command waits
    wants_json = "--json" in arguments[: arguments.index("--") if "--" in arguments else None]
    try:
        code = _choose_app(arguments)(arguments, prog_name="outrider", standalone_mode=False)
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
