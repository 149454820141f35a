"""`outrider compare`: two to four works of one kind side by side."""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from outrider.interfaces.cli.options import JsonOption, LibraryOption, OfflineOption, call_services
from outrider.interfaces.cli.search import make_run_context
from outrider.interfaces.cli.terminal import console, errors, note, plain, print_json

if TYPE_CHECKING:
    from pydantic import JsonValue

    from outrider.services import Services
    from outrider.state.analysis import Rating
    from outrider.state.comparison import Comparison

MIN_COLUMN, NAME_COLUMN = 24, 16
"""Columns of the terminal for one work, and for the names of rows; with less room works stand one below the other."""
MAX_VALUE_CHARS = 160
NOT_KNOWN = "not known"


def compare(
    targets: Annotated[
        list[str], typer.Argument(help="Two to four works of one kind: owner/name of repositories, or DOIs, arxiv:..., pmid:... of papers.")
    ],
    question: Annotated[str, typer.Option("--question", "-q", metavar="TEXT", help="Judge all against this question.")] = "",
    fresh: Annotated[bool, typer.Option("--fresh", help="Analyse again, even if recent analyses are stored.")] = False,
    timeout_s: Annotated[float | None, typer.Option("--timeout", metavar="SECONDS", help="Time limit of each analysis.")] = None,
    max_calls: Annotated[int | None, typer.Option("--max-calls", metavar="N", help="Most calls of the model, for all together.")] = None,
    offline: OfflineOption = False,
    library: LibraryOption = None,
    as_json: JsonOption = False,
) -> int:
    """Compare two to four repositories or papers: facts, dimensions, and what each text says that the others do not mention."""
    from outrider.state.comparison import check_compare_request

    request = check_compare_request({"targets": targets, "question": question, "fresh": fresh})
    context = make_run_context(run_timeout_s=timeout_s, max_calls=max_calls)

    async def run(services: Services) -> Comparison:
        from outrider.runtime.spans import RUN
        from outrider.usecases.compare import compare_works

        RUN.set(uuid.uuid4().hex[:12])  # of this command's only task
        return await compare_works(services, request, context)

    if as_json:
        print_json(call_services(run, library, offline=offline))
        return 0
    with errors().status(f"Analysing {len(request.targets)} works"):
        comparison = call_services(run, library, offline=offline)
    show_comparison(comparison)
    return 0


def show_comparison(comparison: Comparison) -> None:
    out = console()
    for failure in comparison.failures:
        note(f"Failed: {failure.node}: {failure.message}")
    for work in comparison.works:
        out.print(plain(f"{work.key} {work.title or work.doc_id}", "bold"))
        out.print(plain(" · ".join(filter(None, (work.doc_id, work.url))), "dim", indent=4))
        for notice in work.notices:
            out.print(plain(notice.describe(), "bold red", indent=4))
    keys = [work.key for work in comparison.works]
    _show_rows("fact", keys, [(row.name, [_format_value(value) for value in row.values]) for row in comparison.facts])
    _show_rows("0 to 10", keys, [(row.dimension, [_format_rating(one) for one in row.ratings]) for row in comparison.dimensions])
    if any(work.relevance is not None for work in comparison.works):
        relevance = [NOT_KNOWN if work.relevance is None else f"{work.relevance:.2f}" for work in comparison.works]
        _show_rows("", keys, [("relevance", relevance)])
    _show_differences(comparison)
    for remark in comparison.notes:
        note(remark)
    if ages := [work.age_s for work in comparison.works if work.age_s is not None]:
        note(f"Analysed up to {max(ages):,.0f} s ago; --fresh analyses again")


def _format_value(value: JsonValue) -> str:
    if value is None:
        return NOT_KNOWN
    text = ", ".join(map(str, value)) if isinstance(value, list) and all(isinstance(one, str) for one in value) else value
    line = text if isinstance(text, str) else json.dumps(text, ensure_ascii=False)
    return line if len(line) <= MAX_VALUE_CHARS else line[:MAX_VALUE_CHARS] + "…"


def _format_rating(rating: Rating | None) -> str:
    if rating is None or rating.score is None:
        missing = f": without {', '.join(rating.missing)}" if rating and rating.missing else ""
        return f"{NOT_KNOWN}{missing}"
    return f"{rating.score:.1f}" + (f" ({'; '.join(rating.because)})" if rating.because else "")


def _show_rows(heading: str, keys: Sequence[str], rows: Sequence[tuple[str, Sequence[str]]]) -> None:
    """Columns side by side, or in a narrow terminal the values of a row below its name."""
    if not rows:
        return
    out = console()
    if out.width >= NAME_COLUMN + MIN_COLUMN * len(keys):
        side_by_side = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
        side_by_side.add_column(heading, max_width=NAME_COLUMN, overflow="fold")
        for key in keys:
            side_by_side.add_column(Text(key), ratio=1, overflow="fold")
        for name, values in rows:
            side_by_side.add_row(plain(name), *map(plain, values))
        out.print(side_by_side)
        return
    for name, values in rows:
        out.print(plain(name, "bold"))
        for key, value in zip(keys, values, strict=True):
            out.print(plain(f"{key} {value}", indent=2))


def _show_differences(comparison: Comparison) -> None:
    out = console()
    if not comparison.differences:
        out.print(plain("No sentence of one text has words that the others lack.", "dim"))
        return
    out.print(plain("What one text says and the others do not mention", "bold"))
    for work in comparison.works:
        own = [one for one in comparison.differences if one.doc_id == work.doc_id]
        if not own:
            continue
        out.print(plain(f"{work.key} {work.title or work.doc_id}"))
        for one in own:
            if one.statement:
                out.print(plain(one.statement, indent=2))
            for quote in one.quotes:
                out.print(plain(f"│ {quote.text}", indent=2))
                out.print(plain(f"characters {quote.start:,} to {quote.end:,}", "dim", indent=4))
            out.print(plain(f"only here: {', '.join(one.unmentioned)}", "dim", indent=4))
