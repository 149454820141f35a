"""`outrider library calibrate-distiller`.

`outrider library train-reranker`.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from outrider.interfaces.cli.options import JsonOption, LibraryOption, services, wait_for
from outrider.interfaces.cli.terminal import INTERRUPTED_AND_SAID, Progress, console, note, plain, table
from outrider.state.errors import BadRequest, ModelUnavailable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from outrider.distiller.labelled_cases import LabelledText
    from outrider.library.library import Library
    from outrider.services import Services
    from outrider.state.distilling import Calibration
    from outrider.training.model_card import TrainingReport
    from outrider.training.training_loop import Recipe


FORM = '{"query": "...", "text": "...", "answers": ["a sentence", [start, end], ...]}'


def calibrate_distiller(
    judgements: Annotated[Path | None, typer.Option("--judgements", metavar="FILE", help=f"Your labelled texts, as JSONL: {FORM}.")] = None,
    engine: Annotated[str | None, typer.Option("--engine", "-e", metavar="NAME", help="Whose threshold. Default: the settings'.")] = None,
    model: Annotated[str | None, typer.Option("--model", "-m", metavar="NAME", help="Folder or hub name of that engine's model.")] = None,
    keep_rate: Annotated[float, typer.Option("--keep-rate", help="Share of texts in which all that answers is to be kept.")] = 0.95,
    library: LibraryOption = None,
    as_json: JsonOption = False,
) -> None:
    """Fit the distiller's threshold, so that what answers is kept as often as promised; without a file, show what is in use.

    By split conformal prediction: it holds for texts and questions like those that it was fitted on. It is kept in the library and used
    from then on.
    """
    made = services(library)
    if judgements is None:
        _show_used(wait_for(_used(made, engine or "")), as_json=as_json)
        return
    labelled = read_labelled(judgements)
    found = wait_for(_fitted(made, labelled, judgements.name, engine or "", model or "", keep_rate, quiet=as_json))
    if as_json:
        sys.stdout.write(json.dumps(dataclasses.asdict(found), ensure_ascii=False) + "\n")
    else:
        _show_calibration(found)


def read_labelled(file: Path) -> list[LabelledText]:
    """`BadRequest` where the file cannot be read or understood."""
    from outrider.distiller.labelled_cases import parse_labelled_lines

    try:
        text = file.expanduser().read_text(encoding="utf-8-sig")
    except OSError as error:
        raise BadRequest(f"{file}: {error.strerror or error}; --judgements takes a file of lines like {FORM}") from error
    except UnicodeDecodeError as error:
        raise BadRequest(f"{file} is no text in UTF-8; --judgements takes a file of lines like {FORM}") from error
    try:
        return parse_labelled_lines(text.splitlines())
    except BadRequest as error:
        raise BadRequest(f"{file}: {error}") from error


async def _fitted(
    made: Services, labelled: list[LabelledText], name: str, engine: str, model: str, keep_rate: float, *, quiet: bool
) -> Calibration:
    from outrider.usecases.distill import calibrate_distiller as calibrate

    with Progress("loading", quiet=quiet) as bar:

        def draw(done: int, of: int) -> None:
            bar.show("scoring", done, of)

        return await calibrate(made, labelled, name, engine=engine, model=model, keep_rate=keep_rate, progress=draw)


async def _used(made: Services, engine: str) -> list[dict[str, Any]]:
    from outrider.usecases.distill import find_engine_calibrations

    found = await find_engine_calibrations(made, engine)
    return [
        {"engine": one.engine, "from": one.where, "calibration": dataclasses.asdict(one.calibration) if one.calibration else None}
        for one in found
    ]


def _show_used(rows: list[dict[str, Any]], *, as_json: bool) -> None:
    if as_json:
        sys.stdout.write(json.dumps(rows, ensure_ascii=False) + "\n")
        return
    listing = table("engine", "kept whole", "left out", "threshold", "texts", "fitted on", "from")
    for row in rows:
        said = row["calibration"]
        figures = ("no promise", "", "0.4", "", "") if said is None else _promise_figures(said)
        listing.add_row(*(plain(cell) for cell in (row["engine"], *figures, row["from"])))
    console().print(listing)
    note("Fit it on your own texts with --judgements FILE.")


def _promise_figures(said: dict[str, Any]) -> tuple[str, ...]:
    return f"{said['keep_rate']:.0%}", f"{said['removed']:.0%}", f"{said['threshold']:.3f}", f"{said['pairs']:,}", said["fitted_on"]


def _show_calibration(found: Calibration) -> None:
    what = f"{found.engine}: threshold {found.threshold:.3f}, fitted on {found.pairs:,} texts of {found.fitted_on}"
    console().print(plain(what, "bold"))
    console().print(plain(f"All that answers is kept in {found.keep_rate:.0%} of such texts; {found.removed:.0%} of them was left out."))
    if not found.threshold:
        note("With so few texts nothing can be left out at that rate: label more, or promise less with --keep-rate.")


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
    from outrider.training.collect_questions import read_judgements
    from outrider.training.training_loop import Recipe

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
    from outrider.training.train_reranker import train_reranker as train

    library = await made.library()
    start = base or await _embedding_model(made, library)
    device = made.settings.reranker.device
    with Progress(quiet=quiet) as bar:
        return await train(library, out, base=start, judgements=judged, recipe=recipe, device=device, progress=bar.show)


async def _embedding_model(made: Services, library: Library) -> str:
    """The settings', or under `auto` the one that wrote the library's vectors; only where its weights are on this machine."""
    from outrider.models.weights import find_weights

    named = made.settings.embedding.model_name
    if named == "auto":
        space = await library.space()
        named = space.model_name if space else named
    try:
        await asyncio.to_thread(find_weights, named, fetch=False)
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
