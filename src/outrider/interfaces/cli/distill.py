"""`outrider distill`: the sentences of files that answer a question."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from outrider.interfaces.cli.options import JsonOption, LibraryOption, open_services, wait_for
from outrider.interfaces.cli.terminal import Progress, console, count, note, print_json
from outrider.state.errors import BadRequest
from outrider.text.sanitize import without_control

if TYPE_CHECKING:
    from outrider.state.response import DistilledContext


def distill(
    query: Annotated[str, typer.Argument(metavar="QUERY", help="The question that the texts are to answer.")],
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Text, Markdown, HTML, PDF, JATS, or tables and bibliographies.")],
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

    The context goes to standard output, ready to be pasted; figures about it go to standard error.
    """
    if not query.strip():
        raise BadRequest("the query is empty; write the question that the texts are to answer")
    services = open_services(library)

    async def run() -> DistilledContext:
        import asyncio

        from outrider.services.distiller import distil
        from outrider.usecases.distill import read_files

        limits = services.settings.ingest
        with Progress("reading", quiet=as_json) as bar:
            readings = await asyncio.to_thread(read_files, files, limits.max_bytes, limits.max_pages)
            bar.show("choosing sentences", 0, 0)
            options: dict[str, Any] = {
                "engine": engine or "",
                "model": model or "",
                "max_tokens": max_tokens,
                "max_units": max_units,
                "bypass": bypass,
            }
            return await distil(services, query, readings, **options)

    context = wait_for(run())
    if as_json:
        print_json(context)
        return
    for line in context.text.splitlines():  # code keeps its indentation
        console().print(Text(without_control(line.expandtabs(4)).rstrip()), soft_wrap=True)
    if context.bypassed:
        note(f"Passed unchanged, {context.tokens:,} tokens: {context.bypassed}")
    else:
        size = f"{count(len(context.units), 'piece')}, {count(context.tokens, 'token')}"
        size += f"; {context.engine} left out {context.removed:.0%} of the text"
        note(size if context.units else f"No sentence seems to answer, according to {context.engine}")
        if context.keep_rate is None and not (services.settings.distiller.max_units if max_units is None else max_units):
            note(f"No promise: {context.no_promise}")
        elif context.keep_rate is not None:
            note(f"In {context.keep_rate:.0%} of texts all sentences that answer are kept (fitted on {context.fitted_on})")
        if not context.verbatim:
            note("Words were left out of sentences: do not quote it")
    for remark in context.notes:
        note(remark)
