"""`outrider library train-reranker`."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from outrider.serve.cli.options import JsonOption, LibraryOption, services, wait_for
from outrider.serve.cli.progress import Progress
from outrider.serve.cli.terminal import INTERRUPTED_AND_SAID, console, note, plain, table
from outrider.state.errors import BadRequest, ModelUnavailable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from outrider.retrieval.store import Library
    from outrider.retrieval.training.card import TrainingReport
    from outrider.retrieval.training.loop import Recipe
    from outrider.services import Services

AGAIN = "Interrupted. The same command starts the training again from its beginning."


def train_reranker(
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FOLDER", help="Where the trained reranker goes.")],
    base: Annotated[
        str | None,
        typer.Option("--base", metavar="MODEL", help="Folder or hub name of a small encoder to start from. Default: the embedding model."),
    ] = None,
    judgements: Annotated[
        Path | None,
        typer.Option("--judgements", metavar="FILE", help='Your own, as JSONL: {"query": "...", "doc_id": "...", "relevance": 0 or more}.'),
    ] = None,
    pairs: Annotated[int, typer.Option("--pairs", min=100, max=1_000_000, help="Pairs of query and text to train on.")] = 5_000,
    epochs: Annotated[int, typer.Option("--epochs", min=1, max=100, help="Most passes over the pairs; it stops early by itself.")] = 2,
    seed: Annotated[int, typer.Option("--seed", min=0, max=2**31 - 1, help="The same seed makes the same pairs.")] = 0,
    max_length: Annotated[
        int, typer.Option("--max-length", min=16, max=8_192, help="Tokens of query and text together that are read.")
    ] = 192,
    library: LibraryOption = None,
    as_json: JsonOption = False,
) -> int:
    """Fine-tune a small cross-encoder on pairs from the library: known items, citations, your judgements.

    Then `outrider library probe` measures whether it helps, like any other reranker. Ctrl-C ends the training; the best so far is saved.
    """
    from outrider.retrieval.training.judgements import read_judgements
    from outrider.retrieval.training.loop import Recipe

    judged = read_judgements(judgements) if judgements else {}
    recipe = Recipe(pairs=pairs, epochs=epochs, seed=seed, max_length=max_length)
    try:
        report = wait_for(_trained(services(library), out.expanduser().absolute(), base, judged, recipe, quiet=as_json))
    except KeyboardInterrupt:
        note(AGAIN)
        return INTERRUPTED_AND_SAID
    if as_json:
        sys.stdout.write(json.dumps(dataclasses.asdict(report), ensure_ascii=False) + "\n")
    else:
        _show(report)
    if not report.interrupted:
        return 0
    note(AGAIN)
    return INTERRUPTED_AND_SAID


async def _trained(
    made: Services, out: Path, base: str | None, judged: Mapping[str, Mapping[str, int]], recipe: Recipe, *, quiet: bool
) -> TrainingReport:
    from outrider.retrieval.training.train import train_reranker as train

    library = await made.library()
    start = base or await _embedding_model(made, library)
    device = made.settings.reranker.device
    with Progress(quiet=quiet) as bar:
        return await train(library, out, base=start, judgements=judged, recipe=recipe, device=device, progress=bar.show)


async def _embedding_model(made: Services, library: Library) -> str:
    """The settings', or under `auto` the one that wrote the library's vectors; only where its weights are on this machine."""
    from outrider.retrieval.embed.weights import find

    named = made.settings.embedding.model_name
    if named == "auto":
        space = await library.space()
        named = space.model_name if space else named
    try:
        await asyncio.to_thread(find, named, fetch=False)
    except ModelUnavailable as error:
        raise BadRequest(
            f"no model to start from: the embedding model is {named!r}, which is not on this machine; give --base the folder or hub name "
            "of a small encoder such as MiniLM"
        ) from error
    return named


def _show(report: TrainingReport) -> None:
    if report.unknown_ids:
        note(f"Not in the library, and left out: {len(report.unknown_ids):,} judged ids, such as {', '.join(report.unknown_ids[:3])}")
    if not report.saved:
        note(f"Stopped after {report.steps:,} of {report.planned:,} steps, before the first check: nothing was saved.")
        return
    listing = table("held-out nDCG@10", "")
    for name, value in _figures(report):
        listing.add_row(name, f"{value:.3f}")
    console().print(listing)
    made = ", ".join(f"{count:,} {kind}" for kind, count in report.kinds.items())
    took = f"{report.steps:,} steps in {report.train_s:,.0f} s on {report.device}, best at {report.best_step:,}; {report.ended}"
    console().print(plain(f"{report.pairs:,} pairs ({made}); {report.held_out:,} questions held out; {took}"))
    console().print(plain(f"Saved to {report.out}. Whether it helps: outrider library probe, with reranker.model_name set to it.", "bold"))
    if (report.blended_ndcg or 0.0) <= report.words_ndcg:
        note("It does not order the held-out lists better than word matching does; more records or judgements may help.")


def _figures(report: TrainingReport) -> list[tuple[str, float]]:
    rows = [("words alone (BM25)", report.words_ndcg), ("this reranker", report.reranker_ndcg), ("half and half", report.blended_ndcg)]
    return [(name, value) for name, value in rows if value is not None]
