"""`outrider library evaluate`: figures of a library's search on your own judgements."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from outrider.interfaces.cli import library_full_text, library_training  # noqa: F401 - add their commands before this one
from outrider.interfaces.cli.library import library_app
from outrider.interfaces.cli.library_links import links
from outrider.interfaces.cli.library_warm import warm
from outrider.interfaces.cli.options import JsonOption, LibraryOption, open_services, wait_for
from outrider.interfaces.cli.terminal import Progress, console, count, note, plain, print_json, table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from outrider.services import Services
    from outrider.training.judgements import Judgements
    from outrider.training.measures import Interval
    from outrider.usecases.evaluate import Comparison, Evaluation

NAMED = 3
"""Ids that a note names."""
FEW = "With fewer than {} queries the intervals are too narrow to trust, and no setting is suggested."


def evaluate(
    judgements: Annotated[
        Path,
        typer.Argument(metavar="QRELS", help="CSV, TSV or JSONL with query, doc_id and relevance (0 or more); or TREC qrels."),
    ],
    queries: Annotated[
        Path | None,
        typer.Option(
            "--queries",
            metavar="FILE",
            help='Texts of the queries by id: an id, a tab and the text a line; CSV; or JSONL {"id": ..., "text": ...}.',
        ),
    ] = None,
    rerank: Annotated[
        bool, typer.Option("--rerank", help="Also measure the reranker that `outrider search --rerank` uses, if none is on.")
    ] = False,
    seed: Annotated[int, typer.Option("--seed", min=0, max=2**31 - 1, help="Of the resampled queries and the folds.")] = 0,
    library: LibraryOption = None,
    as_json: JsonOption = False,
) -> None:
    """Measure the search of this library on your own judgements, stage by stage, and suggest settings that are clearly better.

    A record is named by its id, or by its id in the ingested file, DOI, PMID, arXiv number, package or repository. The library alone is
    searched, without a chat model. Nothing is written, and no setting is changed.
    """
    from outrider.training.judgements import read_judgements

    judged = read_judgements(judgements, queries)
    result = wait_for(_evaluate(open_services(library), judged, rerank=rerank, seed=seed, quiet=as_json))
    if as_json:
        print_json(dataclasses.asdict(result))
        return
    _show_figures(result)
    _show_left_out(result, judgements)
    _show_comparisons(result)


async def _evaluate(services: Services, judged: Judgements, *, rerank: bool, seed: int, quiet: bool) -> Evaluation:
    from outrider.usecases.evaluate import evaluate as run_evaluation

    with Progress("reading", quiet=quiet) as bar:
        return await run_evaluation(services, judged, rerank=rerank, seed=seed, progress=bar.show)


def _show_figures(result: Evaluation) -> None:
    """Each mean with its interval in the line below."""
    listing = table("stage", "nDCG@10", "R@10", "R@100", "MRR", "vs search", "unjudged")
    for one in result.stages:
        figures, gain = (one.ndcg_10, one.recall_10, one.recall_100, one.mrr), one.to_search
        means = (_format(f"{value.mean:.3f}") for value in figures)
        listing.add_row(plain(one.stage, "bold"), *means, _format(f"{gain.mean:+.3f}") if gain else "", f"{one.unjudged_10:.1f} of 10")
        bounds = (_format(f"{value.low:.2f}-{value.high:.2f}") for value in figures)
        listing.add_row("", *(plain(text, "dim") for text in (*bounds, _format_bounds(gain) if gain else "", "")))
    console().print(listing)
    queries = f"{result.queries:,} {'query' if result.queries == 1 else 'queries'}"
    note(f"{queries}, {count(result.judgements, 'judgement')}, {result.relevant:,} of them relevant.")
    note("Below each mean is its 95 % interval over queries. R@10 and R@100: share of the relevant records within 10 and 100 hits.")
    note("vs search: nDCG@10 less that of the whole search, on the same queries.")
    note("Unjudged: of the first ten hits. They count as not relevant; if many of them may be, judge them before you trust the figures.")
    for remark in result.remarks:
        note(remark)


def _format(text: str) -> str:
    """Figures without the 0 before the point, so that the table fits into 80 columns."""
    return re.sub(r"(?<!\d)0\.", ".", text)


def _format_bounds(value: Interval) -> str:
    return _format(f"{value.low:+.3f} to {value.high:+.3f}")


def _show_left_out(result: Evaluation, file: Path) -> None:
    for names, what in (
        (result.unknown, "{} of {} not in the library, left out"),
        (result.ambiguous, "{} of {} in several ingested files, left out; use the ids of `outrider library list`"),
    ):
        if names:
            note(f"{what.format(count(len(names), 'judged record'), file)}: {_list_some(names)}")
    for names, what in (
        (result.without_records, "without a judged record in the library, left out"),
        (result.without_relevant, "without a relevant record in the library, left out"),
    ):
        if names:
            note(f"{len(names):,} {'query' if len(names) == 1 else 'queries'} {what}: {_list_some(names)}")


def _list_some(names: Sequence[str]) -> str:
    return ", ".join(names[:NAMED]) + (", ..." if len(names) > NAMED else "")


def _show_comparisons(result: Evaluation) -> None:
    from outrider.usecases.evaluate import MIN_QUERIES

    out = console()
    for one in result.comparisons:
        note(_describe(one))
    suggested = [one for one in result.comparisons if one.suggested]
    for one in suggested:
        settings = ", ".join(f"{name}: {value}" for name, value in one.settings.items()) or "search with --rerank"
        gain = one.search
        out.print(
            plain(f"Clearly better: {settings}" + (_format(f" (nDCG@10 {gain.mean:+.3f}, {_format_bounds(gain)})") if gain else ""), "bold")
        )
    if not suggested:
        alone = "No other settings to compare: this library is searched by words alone."
        out.print(plain("No other setting is clearly better than today's." if result.comparisons else alone, "bold"))
    if result.queries < MIN_QUERIES:
        note(FEW.format(MIN_QUERIES))


def _describe(one: Comparison) -> str:
    """One line on what was compared, also where it gained nothing."""
    if one.fusion is None:
        without = one.settings.get("reranker.model_name") == "none"
        what = "Without the reranker that runs today" if without else "With the reranker"
    else:
        what = f"Best of {one.compared} other fusions, cross-validated"
    parts = [("fused list", one.fusion), ("whole search", one.search)]
    gains = ", ".join(_format(f"{name} {value.mean:+.3f} ({_format_bounds(value)})") for name, value in parts if value)
    return f"{what}: nDCG@10 of the {gains}"


library_app.command()(evaluate)
library_app.command()(links)
library_app.command()(warm)
