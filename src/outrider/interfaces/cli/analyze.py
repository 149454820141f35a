"""`outrider analyze`."""

from __future__ import annotations

import json
import sys
import uuid
from collections.abc import Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Annotated, Any

import typer

from outrider.interfaces.cli.options import JsonOption, LibraryOption, services, wait_for
from outrider.interfaces.cli.terminal import console, errors, note, plain, table

if TYPE_CHECKING:
    from outrider.services import Services
    from outrider.state.analysis import Analysis, Neighbour, Rating
    from outrider.state.pipeline import RunContext

MOST_SHOWN = 5
MOST_FACT_CHARS = 120
NOT_FOUND, REJECTED = 3, 4


def analyze(
    target: Annotated[str, typer.Argument(help="owner/name of a repository, a DOI, arxiv:2101.00001, pmid:123, or a link to one of them.")],
    question: Annotated[str, typer.Option("--question", "-q", metavar="TEXT", help="What it is judged against.")] = "",
    fresh: Annotated[bool, typer.Option("--fresh", help="Look again, whatever was found of late.")] = False,
    timeout_s: Annotated[float | None, typer.Option("--timeout", metavar="SECONDS", help="How long it may take.")] = None,
    max_calls: Annotated[int | None, typer.Option("--max-calls", metavar="N", help="Calls of the model that it may make.")] = None,
    library: LibraryOption = None,
    as_json: JsonOption = False,
) -> int:
    """Look at one repository or paper in depth: facts, dimensions, what stands beside it, the sentences that count."""
    from outrider.interfaces.cli.search import context_of

    asked = {"target": target, "question": question, "fresh": fresh}
    context = context_of(run_timeout_s=timeout_s, max_calls=max_calls)
    found = wait_for(_analysis(asked, services(library), context, quiet=as_json))
    if as_json:
        sys.stdout.write(found.model_dump_json() + "\n")
    else:
        _show(found)
    if any(failure.error == "KeyRejected" for failure in found.failures):
        return REJECTED
    return 0 if found.kind else NOT_FOUND


async def _analysis(asked: dict[str, Any], made: Services, context: RunContext, *, quiet: bool) -> Analysis:
    from outrider.graph.analyze import make_analysis
    from outrider.runtime.tracing import RUN
    from outrider.usecases.analyze import stream_analysis

    RUN.set(uuid.uuid4().hex[:12])  # of this command's only task
    status = errors().status("Looking")
    if not quiet:
        status.start()
    state: Any = {}
    try:
        async with aclosing(stream_analysis(made, asked, context)) as parts:
            async for kind, part in parts:
                if kind == "custom" and part["event"] == "started":
                    status.update(f"Analysing: {part['node']}")
                state = part if kind == "values" else state
    finally:
        status.stop()
        made.close()
    return make_analysis(state)


def _show(found: Analysis) -> None:
    out = console()
    for failure in found.failures:
        note(f"Failed: {failure.node}: {failure.message}")
    if found.kind is None:
        return
    out.print(plain(found.title or found.doc_id, "bold"))
    out.print(plain(" · ".join(filter(None, (found.kind, found.doc_id, found.url))), "dim"))
    if found.retraction:
        out.print(plain(f"RETRACTED: {found.retraction}", "bold red"))
    _facts(found)
    _ratings(found.ratings)
    if found.relevance is not None:
        out.print(plain(f"relevance {found.relevance:.2f}: {found.question}"))
    _listed("made with", found.dependencies)
    for name in ("alternatives", "related_code", "references", "citations"):
        _listed(name.replace("_", " "), [_line(one) for one in getattr(found, name)])
    out.print(plain(f"text: {found.full_text}", "dim"))
    for unit in found.context.units:
        out.print(plain(f"│ {unit.text}"))
    for said in found.notes:
        note(said)
    if found.age_s is not None:
        note(f"Analysed {found.age_s:,.0f} s ago; --fresh looks again")


def _facts(found: Analysis) -> None:
    listing = table("", "")
    for name, value in found.facts.items():
        said = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        listing.add_row(plain(name), plain(said if len(said) <= MOST_FACT_CHARS else said[:MOST_FACT_CHARS] + "…"))
    console().print(listing)


def _ratings(ratings: Sequence[Rating]) -> None:
    if not ratings:
        return
    listing = table("dimension", "0 to 10", "because")
    for rating in ratings:
        score = "not known" if rating.score is None else f"{rating.score:.1f}"
        listing.add_row(rating.dimension, score, plain("; ".join(rating.because) or f"without {', '.join(rating.missing)}"))
    console().print(listing)


def _line(one: Neighbour) -> str:
    facts = (str(one.year or ""), f"★ {one.stars:,}" if one.stars is not None else "", one.url or one.doc_id, one.why)
    return " · ".join(filter(None, (one.title, *facts)))


def _listed(what: str, lines: Sequence[str]) -> None:
    if not lines:
        return
    more = f" (the first {MOST_SHOWN} of {len(lines):,})" if len(lines) > MOST_SHOWN else ""
    console().print(plain(f"{what}{more}", "bold"))
    for line in lines[:MOST_SHOWN]:
        console().print(plain(f"  {line}"))
