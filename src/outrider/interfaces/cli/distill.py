"""`outrider distill`."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from outrider.interfaces.cli.options import JsonOption, LibraryOption, services, wait_for
from outrider.interfaces.cli.terminal import Progress, console, note, plain
from outrider.state.errors import BadRequest

if TYPE_CHECKING:
    from outrider.services import Services
    from outrider.state.response import DistilledContext


def distill(
    query: Annotated[str, typer.Argument(metavar="QUERY", help="What the texts are to answer.")],
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
        typer.Option("--max-tokens", "-n", min=0, max=1_000_000, help="Tokens that the context may have. Default: the settings'."),
    ] = None,
    bypass: Annotated[bool, typer.Option("--bypass/--no-bypass", help="Pass texts as they are where distilling is not worth it.")] = True,
    library: LibraryOption = None,
    as_json: JsonOption = False,
) -> None:
    """Keep only the sentences of some files that answer a question, and say what is promised about them.

    The context goes to standard output, ready to be pasted; what it is worth goes to standard error.
    """
    if not query.strip():
        raise BadRequest("the query is empty; write what the texts are to answer")
    made = services(library)
    context = wait_for(_distilled(made, query, files, engine or "", model or "", max_tokens, bypass=bypass, quiet=as_json))
    if as_json:
        sys.stdout.write(context.model_dump_json() + "\n")
        return
    if context.text:
        for line in context.text.splitlines():
            console().print(plain(line), soft_wrap=True)
    for said in about(context):
        note(said)


async def _distilled(
    made: Services, query: str, files: list[Path], engine: str, model: str, max_tokens: int | None, *, bypass: bool, quiet: bool
) -> DistilledContext:
    from outrider.services.distiller import distil
    from outrider.usecases.distill import read_files

    bounds = made.settings.ingest
    with Progress("reading", quiet=quiet) as bar:
        readings = await asyncio.to_thread(read_files, files, bounds.max_bytes, bounds.max_pages)
        bar.show("choosing sentences", 0, 0)
        return await distil(made, query, readings, engine=engine, model=model, max_tokens=max_tokens, bypass=bypass)


def about(context: DistilledContext) -> list[str]:
    """What was kept, by whom, and what is promised."""
    if context.bypassed:
        return [f"Passed as it is, {context.tokens:,} tokens: {context.bypassed}", *context.notes]
    what = f"{len(context.units):,} pieces, {context.tokens:,} tokens; {context.removed:.0%} of the text was left out, by {context.engine}"
    said = [what if context.units else f"Nothing there seems to answer, by {context.engine}"]
    if context.keep_rate is not None:
        said.append(f"In {context.keep_rate:.0%} of texts all that answers is kept (fitted on {context.fitted_on})")
    else:
        said.append(f"No promise: {context.no_promise}")
    if not context.verbatim:
        said.append("Words were left out of sentences: it is not to be quoted")
    return [*said, *context.notes]
