"""`outrider distill`: the sentences of files that answer a question."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from outrider.interfaces.cli.options import JsonOption, LibraryOption, open_services, wait_for
from outrider.interfaces.cli.terminal import MAX_REASONS, MIN_WIDTH, Progress, console, count, note, print_json
from outrider.state.errors import BadRequest
from outrider.text.sanitize import without_control

if TYPE_CHECKING:
    from outrider.state.response import DistilledContext

STANDARD_INPUT = Path("-")


def distill(
    query: Annotated[str, typer.Argument(metavar="QUERY", help="The question that the texts are to answer.")],
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[FILE...]",
            help="Text, Markdown, HTML, PDF, Word, EPUB, JATS, or tables and bibliographies; - or a pipe reads standard input.",
        ),
    ] = None,
    engine: Annotated[
        str | None,
        typer.Option(
            "--engine",
            "-e",
            metavar="NAME",
            help="words, lexical, embedding, ensemble, classifier, classifier+ or llmlingua2. Default: the settings'.",
        ),
    ] = None,
    model: Annotated[str | None, typer.Option("--model", "-m", metavar="NAME", help="Folder or hub name of that engine's model.")] = None,
    max_tokens: Annotated[
        int | None,
        typer.Option("--max-tokens", "-n", min=0, max=1_000_000, help="Most tokens of the context. Default: the settings'."),
    ] = None,
    max_units: Annotated[
        int | None,
        typer.Option(
            "--max-sentences",
            min=0,
            max=1_000,
            help="Most sentences of a file; 0 keeps all that answer with the promised recall. Default: the settings', as of a hit.",
        ),
    ] = None,
    bypass: Annotated[bool, typer.Option("--bypass/--no-bypass", help="Pass texts unchanged if distilling is not worth it.")] = True,
    library: LibraryOption = None,
    as_json: JsonOption = False,
) -> None:
    """Keep only the sentences of some files that answer a question, and show the promised recall.

    The context goes to standard output, ready to be pasted; its sources, what may not answer and figures go to standard error.
    """
    if not query.strip():
        raise BadRequest("the query is empty; write the question that the texts are to answer")
    paths = [path for path in files or () if path != STANDARD_INPUT]
    if not files and sys.stdin.isatty():
        raise BadRequest("name the files to read, or pipe a text in: cat notes.md | outrider distill QUESTION -")
    piped = sys.stdin.buffer.read() if len(paths) < len(files or (STANDARD_INPUT,)) else None
    services = open_services(library)

    async def run() -> DistilledContext:
        import asyncio

        from outrider.services.distiller import distil
        from outrider.usecases.distill import read_files

        limits = services.settings.ingest
        with Progress("reading", quiet=as_json) as bar:
            readings, unread = await asyncio.to_thread(read_files, paths, limits.max_bytes, limits.max_pages, piped)
            bar.show("choosing sentences", 0, 0)
            options: dict[str, Any] = {
                "engine": engine or "",
                "model": model or "",
                "max_tokens": max_tokens,
                "max_units": max_units,
                "bypass": bypass,
            }
            context = await distil(services, query, readings, **options)
            more = [f"and {len(unread) - MAX_REASONS:,} more that could not be read"] if len(unread) > MAX_REASONS else []
            notes = [*context.notes, *(f"not read: {why}" for why in unread[:MAX_REASONS]), *more]
            return context.model_copy(update={"notes": tuple(notes)})

    context = wait_for(run())
    if as_json:
        print_json(context)
        return
    _show_context(context)
    _show_report(context)
    if context.no_promise and not (services.settings.distiller.max_units if max_units is None else max_units):
        note(f"No promise: {context.no_promise}")


def _show_context(context: DistilledContext) -> None:
    """The context as it is; on a terminal its lines break between words, and what follows hangs."""
    from outrider.interfaces.cli.screen import HANG, View, print_line  # what it imports takes a tenth of the time of --help

    out = console()
    view = View(out, max(out.width, MIN_WIDTH) if out.is_terminal else None, ())
    for line in context.text.splitlines():  # code keeps its indentation
        text = Text(without_control(line.expandtabs(4)).rstrip())
        for part in view.wrap(text, Text(), hang=HANG) or [text]:
            print_line(out, part)


def _show_report(context: DistilledContext) -> None:
    """Which text each number is, which of them may not answer, and how much was left out."""
    sources = {unit.key: unit.doc_id for unit in context.units}
    certain = {unit.key for unit in context.units if unit.why != "best"}
    for key, name in sources.items():
        note(f"{key} {name}" + ("" if key in certain else ": may not answer"))
    for name in context.unanswered:
        note(f"No sentence answers in {name}")
    if context.bypassed:
        note(f"Passed unchanged: {context.bypassed}")
    elif context.units:
        note(f"{count(len(context.units), 'piece')}, {count(context.tokens, 'token')}; {context.removed:.0%} of the text was left out")
    if context.keep_rate is not None:
        note(f"In {context.keep_rate:.0%} of texts all sentences that answer are kept (fitted on {context.fitted_on})")
    if not context.verbatim:
        note("Words were left out of sentences: do not quote it")
    for remark in context.notes:
        note(remark[:1].upper() + remark[1:])
