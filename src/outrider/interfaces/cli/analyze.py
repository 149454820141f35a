"""`outrider analyze`: one repository or paper in depth."""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from outrider.interfaces.cli.options import JsonOption, LibraryOption, OfflineOption, RecordOption, note_recording, open_services, wait_for
from outrider.interfaces.cli.search import make_run_context
from outrider.interfaces.cli.terminal import console, follow_run, note, plain, print_json, table
from outrider.state.errors import BadRequest
from outrider.text.sanitize import code_lines

if TYPE_CHECKING:
    from outrider.state.analysis import Analysis
    from outrider.state.response import ContextUnit

MAX_LINES = 5
MAX_FACT_CHARS = 120
NOT_FOUND, REJECTED = 3, 4


def analyze(
    target: Annotated[str, typer.Argument(help="owner/name of a repository, a DOI, arxiv:2101.00001, pmid:123, or a link to one of them.")],
    question: Annotated[str, typer.Option("--question", "-q", metavar="TEXT", help="Judge its relevance to this question.")] = "",
    fresh: Annotated[bool, typer.Option("--fresh", help="Analyse again, even if a recent analysis is stored.")] = False,
    timeout_s: Annotated[float | None, typer.Option("--timeout", metavar="SECONDS", help="Time limit.")] = None,
    max_calls: Annotated[int | None, typer.Option("--max-calls", metavar="N", help="Most calls of the model.")] = None,
    plot: Annotated[
        Path | None, typer.Option("--plot", metavar="FILE", help="Also draw the six dimensions of a repository, as an .svg file.")
    ] = None,
    offline: OfflineOption = False,
    record: RecordOption = None,
    library: LibraryOption = None,
    as_json: JsonOption = False,
) -> int:
    """Analyse one repository or paper in depth: facts, ratings, alternatives and citations, the sentences that answer a question."""
    context = make_run_context(run_timeout_s=timeout_s, max_calls=max_calls)
    if plot is not None:
        _check_plot(plot, target)
    services = open_services(library, offline=offline, record=record)

    async def run() -> Analysis:
        from outrider.graph.analyze import make_analysis
        from outrider.runtime.spans import RUN
        from outrider.usecases.analyze import stream_analysis

        RUN.set(uuid.uuid4().hex[:12])  # of this command's only task
        request = {"target": target, "question": question, "fresh": fresh}
        try:
            async with aclosing(stream_analysis(services, request, context)) as parts:
                return make_analysis(await follow_run(parts, "Reading", "Analysing", quiet=as_json))
        finally:
            services.close()

    analysis = wait_for(run())
    note_recording(services)
    if as_json:
        print_json(analysis)
    else:
        _show(analysis)
    if plot is not None:
        _draw(plot, analysis)
    if any(failure.error == "KeyRejected" for failure in analysis.failures):
        return REJECTED
    return 0 if analysis.kind else NOT_FOUND


def _check_plot(plot: Path, target: str) -> None:
    """Raises `BadRequest` before the analysis if nothing could be drawn or written."""
    from outrider.interfaces.cli.export import check_picture
    from outrider.services.make_nodes import parse_analysis_target

    check_picture(plot)
    if parse_analysis_target(target).scheme != "github":
        raise BadRequest(f"--plot draws the dimensions of a repository, and {target} is none; leave it out")


def _draw(plot: Path, analysis: Analysis) -> None:
    from outrider.interfaces.cli.export import write_picture
    from outrider.pictures.radar import draw_radar, make_analysis_shape

    if shape := make_analysis_shape(analysis):
        write_picture(plot, draw_radar([shape]))
    else:
        note(f"{plot} is not written: there are no dimensions to draw")


def _show(analysis: Analysis) -> None:
    out = console()
    for failure in analysis.failures:
        note(f"Failed: {failure.node}: {failure.message}")
    if analysis.kind is None:
        return
    out.print(plain(analysis.title or analysis.doc_id, "bold"))
    out.print(plain(" · ".join(filter(None, (analysis.kind, analysis.doc_id, analysis.url))), "dim"))
    for notice in analysis.notices:
        out.print(plain(notice.describe(), "bold yellow" if notice.kind.endswith(" notice") else "bold red"))
    facts = table("", "")
    for name, value in analysis.facts.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        facts.add_row(plain(name), plain(text if len(text) <= MAX_FACT_CHARS else text[:MAX_FACT_CHARS] + "…"))
    out.print(facts)
    if analysis.ratings:
        ratings = table("dimension", "0 to 10", "because")
        for rating in analysis.ratings:
            score = "not known" if rating.score is None else f"{rating.score:.1f}"
            ratings.add_row(rating.dimension, score, plain("; ".join(rating.because) or f"without {', '.join(rating.missing)}"))
        out.print(ratings)
    if analysis.relevance is not None:
        out.print(plain(f"relevance {analysis.relevance:.2f}: {analysis.question}"))
    _show_lines("made with", analysis.dependencies)
    for name in ("alternatives", "related_code", "references", "citations"):
        lines = []
        for work in getattr(analysis, name):
            stars = f"★ {work.stars:,}" if work.stars is not None else ""
            lines.append(" · ".join(filter(None, (work.title, str(work.year or ""), stars, work.url or work.doc_id, work.why))))
        _show_lines(name.replace("_", " "), lines)
    out.print(plain(f"text: {analysis.full_text}", "dim"))
    _show_units(analysis.context.units)
    for remark in analysis.notes:
        note(remark)
    if analysis.age_s is not None:
        note(f"Analysed {analysis.age_s:,.0f} s ago; --fresh analyses it again")


def _show_units(units: Sequence[ContextUnit]) -> None:
    """The kept sentences, code as code; above them, if none of them is certain to answer."""
    if units and all(unit.why == "best" for unit in units):
        console().print("May not answer:", style="yellow")
    for unit in units:
        if unit.kind == "code":
            for line in code_lines(unit.text, 0, len(unit.text)):
                console().print(Text(f"┊ {line}"), soft_wrap=True)
        else:
            console().print(plain(f"│ {unit.text}"))


def _show_lines(heading: str, lines: Sequence[str]) -> None:
    if not lines:
        return
    more = f" (the first {MAX_LINES} of {len(lines):,})" if len(lines) > MAX_LINES else ""
    console().print(plain(f"{heading}{more}", "bold"))
    for line in lines[:MAX_LINES]:
        console().print(plain(line, indent=2))
