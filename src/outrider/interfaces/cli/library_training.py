"""`outrider library train-reranker`, `calibrate-distiller` and `probe`.

They train, fit and evaluate models on the library.
"""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from outrider.interfaces.cli.library import decisions, dedup_library, library_app, merge, split
from outrider.interfaces.cli.options import JsonOption, LibraryOption, open_services, wait_for
from outrider.interfaces.cli.terminal import INTERRUPTION_REPORTED, Progress, console, note, plain, print_json, table
from outrider.state.errors import BadRequest, MissingExtra, ModelError, ModelUnavailable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from outrider.distiller.calibration import LabelledText
    from outrider.library.library import Library
    from outrider.services import Services
    from outrider.state.distilling import Calibration
    from outrider.state.hits import Scored
    from outrider.training.model_card import TrainingReport
    from outrider.training.rerank_evaluation import FirstStage, ProbeResult

FORM = '{"query": "...", "text": "...", "answers": ["a sentence", [start, end], ...]}'
AGAIN = "Interrupted. The same command starts the training from its beginning."
QUERIES = 200
DECISIONS = {"better": "helps", "unclear": "no clear difference", "worse": "does harm"}


def calibrate_distiller(
    judgements: Annotated[Path | None, typer.Option("--judgements", metavar="FILE", help=f"Your labelled texts, as JSONL: {FORM}.")] = None,
    engine: Annotated[
        str | None, typer.Option("--engine", "-e", metavar="NAME", help="The engine to calibrate. Default: the settings'.")
    ] = None,
    model: Annotated[str | None, typer.Option("--model", "-m", metavar="NAME", help="Folder or hub name of that engine's model.")] = None,
    keep_rate: Annotated[float, typer.Option("--keep-rate", help="Share of texts in which all sentences that answer must be kept.")] = 0.95,
    library: LibraryOption = None,
    as_json: JsonOption = False,
) -> None:
    """Fit the distiller's threshold to your texts, so that it keeps the promised recall. Without a file, show the thresholds in use.

    The method is split conformal prediction: the promise holds for texts and questions like those of the file. The threshold is stored
    in the library and used from then on.
    """
    services = open_services(library)
    if judgements is None:
        _show_calibrations(services, engine or "", as_json=as_json)
        return
    labelled = _read_labelled(judgements)

    async def fit() -> Calibration:
        from outrider.usecases.distill import calibrate_distiller as calibrate

        with Progress("loading", quiet=as_json) as bar:
            show = partial(bar.show, "scoring")
            return await calibrate(
                services, labelled, judgements.name, engine=engine or "", model=model or "", keep_rate=keep_rate, progress=show
            )

    result = wait_for(fit())
    if as_json:
        print_json(dataclasses.asdict(result))
        return
    summary = f"{result.engine}: threshold {result.threshold:.3f}, fitted on {result.pairs:,} texts of {result.fitted_on}"
    console().print(plain(summary, "bold"))
    rates = f"All sentences that answer are kept in {result.keep_rate:.0%} of such texts; {result.removed:.0%} of the text was left out."
    console().print(plain(rates))
    if not result.threshold:
        note("With so few texts nothing can be left out at that rate: label more, or promise less with --keep-rate.")


def _read_labelled(file: Path) -> list[LabelledText]:
    """Raises `BadRequest` for a file that cannot be read or parsed."""
    from outrider.distiller.calibration import parse_labelled_lines

    try:
        text = file.expanduser().read_text(encoding="utf-8-sig")
    except OSError as error:
        raise BadRequest(f"{file}: {error.strerror or error}; --judgements takes a file of lines like {FORM}") from error
    except UnicodeDecodeError as error:
        raise BadRequest(f"{file} is not a text in UTF-8; --judgements takes a file of lines like {FORM}") from error
    try:
        return parse_labelled_lines(text.splitlines())
    except BadRequest as error:
        raise BadRequest(f"{file}: {error}") from error


def _show_calibrations(services: Services, engine: str, *, as_json: bool) -> None:
    from outrider.usecases.distill import find_engine_calibrations

    in_use = wait_for(find_engine_calibrations(services, engine))
    if as_json:
        print_json(
            [
                {"engine": row.engine, "from": row.where, "calibration": dataclasses.asdict(row.calibration) if row.calibration else None}
                for row in in_use
            ]
        )
        return
    listing = table("engine", "kept whole", "left out", "threshold", "texts", "fitted on", "from")
    for row in in_use:
        figures = ("no promise", "", "0.4", "", "")
        if fit := row.calibration:
            figures = f"{fit.keep_rate:.0%}", f"{fit.removed:.0%}", f"{fit.threshold:.3f}", f"{fit.pairs:,}", fit.fitted_on
        listing.add_row(*(plain(cell) for cell in (row.engine, *figures, row.where)))
    console().print(listing)
    note("Fit it on your own texts with --judgements FILE.")


def train_reranker(
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FOLDER", help="The folder for the trained reranker.")],
    base: Annotated[
        str | None,
        typer.Option("--base", metavar="MODEL", help="Folder or hub name of a small encoder to start from. Default: the embedding model."),
    ] = None,
    judgements: Annotated[
        Path | None,
        typer.Option("--judgements", metavar="FILE", help="Your own: a file as for `outrider library evaluate`."),
    ] = None,
    judged_queries: Annotated[
        Path | None, typer.Option("--queries", metavar="FILE", help="Texts of the judged queries, if the judgements name them by id.")
    ] = None,
    pairs: Annotated[int, typer.Option("--pairs", min=100, max=1_000_000, help="Pairs of query and text to train on.")] = 5_000,
    epochs: Annotated[int, typer.Option("--epochs", min=1, max=100, help="Most passes over the pairs; training may stop earlier.")] = 2,
    seed: Annotated[int, typer.Option("--seed", min=0, max=2**31 - 1, help="The same seed makes the same pairs.")] = 0,
    max_length: Annotated[int, typer.Option("--max-length", min=16, max=8_192, help="Most tokens of query and text together.")] = 192,
    library: LibraryOption = None,
    as_json: JsonOption = False,
) -> int:
    """Fine-tune a small cross-encoder on pairs from the library: known items, citations, your judgements.

    Then `outrider library probe` measures whether it helps, as for any other reranker. Ctrl-C ends the training and saves the best so far.
    """
    from outrider.training.judgements import read_judgements
    from outrider.training.train_reranker import train_reranker as train
    from outrider.training.training_loop import Recipe

    judged = read_judgements(judgements, judged_queries).by_text() if judgements else {}
    recipe = Recipe(pairs=pairs, epochs=epochs, seed=seed, max_length=max_length)
    services, folder = open_services(library), out.expanduser().absolute()

    async def run() -> TrainingReport:
        opened = await services.library()
        start = base or await _find_base(services, opened)
        device = services.settings.reranker.device
        with Progress("loading the model", quiet=as_json) as bar:
            return await train(opened, folder, base=start, judgements=judged, recipe=recipe, device=device, progress=bar.show)

    try:
        report = wait_for(run())
    except KeyboardInterrupt:
        note(AGAIN)
        return INTERRUPTION_REPORTED
    if as_json:
        print_json(dataclasses.asdict(report))
    else:
        _show_training(report)
    if not report.interrupted:
        return 0
    note(AGAIN)
    return INTERRUPTION_REPORTED


async def _find_base(services: Services, library: Library) -> str:
    """The settings' embedding model, or under `auto` that of the library's vectors, if its weights are on this machine."""
    import asyncio

    from outrider.models.weights import find_weights

    name = services.settings.embedding.model_name
    if name == "auto":
        space = await library.space()
        name = space.model_name if space else name
    try:
        await asyncio.to_thread(find_weights, name, fetch=False)
    except ModelUnavailable as error:
        raise BadRequest(
            f"no model to start from: the embedding model is {name!r}, which is not on this machine; give --base the folder or hub name "
            "of a small encoder such as MiniLM"
        ) from error
    return name


def _show_training(report: TrainingReport) -> None:
    if report.unknown_ids:
        note(f"Not in the library, and left out: {len(report.unknown_ids):,} judged ids, such as {', '.join(report.unknown_ids[:3])}")
    if not report.saved:
        note(f"Stopped after {report.steps:,} of {report.planned:,} steps, before the first check: nothing was saved.")
        return
    listing = table("held-out nDCG@10", "")
    for name, value in (
        ("words alone (BM25)", report.words_ndcg),
        ("this reranker", report.reranker_ndcg),
        ("half and half", report.blended_ndcg),
    ):
        if value is not None:
            listing.add_row(name, f"{value:.3f}")
    console().print(listing)
    kinds = ", ".join(f"{number:,} {kind}" for kind, number in report.kinds.items())
    steps = f"{report.steps:,} steps in {report.train_s:,.0f} s on {report.device}, best at {report.best_step:,}; {report.ended}"
    console().print(plain(f"{report.pairs:,} pairs ({kinds}); {report.held_out:,} questions held out; {steps}"))
    console().print(plain(f"Saved to {report.out}. To measure it: outrider library probe, with reranker.model_name set to it.", "bold"))
    if (report.blended_ndcg or 0.0) <= report.words_ndcg:
        note("It does not order the held-out lists better than word matching does; more records or judgements may help.")


def probe(
    queries: Annotated[int, typer.Option("--queries", "-n", min=20, max=10_000, help="Number of known items to search for.")] = QUERIES,
    reranker: Annotated[
        list[str] | None,
        typer.Option("--reranker", "-r", metavar="NAME", help="Test this one: a hub name, a folder or late-interaction; may be repeated."),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="Another seed draws other known items.")] = 0,
    library: LibraryOption = None,
    as_json: JsonOption = False,
) -> None:
    """Measure whether a reranker improves the ranking of this library, and switch it on or off.

    Sampled records are searched for by their title, which is hidden from the index, or by a few of their words. The test covers the
    settings' reranker, late interaction of the embedding model, and known models on this machine; only a named model is downloaded.
    """
    result = wait_for(_probe(open_services(library), reranker or [], queries, seed, quiet=as_json))
    if as_json:
        verdicts = [verdict.model_dump(mode="json") | {"difference": verdict.difference} for verdict in result.verdicts]
        print_json({"verdicts": verdicts, "failed": result.failed})
        return
    listing = table("reranker", "first stage", "reranked", "difference", "p", "decision")
    for verdict in result.verdicts:
        figures = f"{verdict.before:.3f}", f"{verdict.after:.3f}", f"{verdict.difference:+.3f}", f"{verdict.p:.3g}"
        listing.add_row(plain(verdict.reranker), *figures, DECISIONS[verdict.effect] + (", chosen" if verdict.chosen else ""))
    console().print(listing)
    for name, why in result.failed.items():
        note(f"Not tested: {name}: {why}")
    first = result.verdicts[0]
    note(f"nDCG@10 on {first.queries} known items, the first {first.depth} reordered with weight {first.weight:g}, seed {first.seed}.")
    note(f"Searches now use {first.reranker}." if first.chosen else "Searches now use no reranker, unless the settings name one.")


async def _probe(services: Services, names: Sequence[str], queries: int, seed: int, *, quiet: bool) -> ProbeResult:
    import asyncio

    from outrider.models.rerank.select import list_rerankers, make_reranker
    from outrider.training.rerank_evaluation import probe as run_probe

    library = await services.library()
    space = await library.space()
    settings, embedder = services.settings.reranker, services.embedder(space)
    with Progress("loading models", quiet=quiet) as bar:
        if names:
            rerankers = [await asyncio.to_thread(make_reranker, name, settings, embedder) for name in dict.fromkeys(names)]
        else:
            rerankers = await asyncio.to_thread(list_rerankers, settings, embedder)
        # titles that are queries are hidden, so some texts are not those of the library
        rerankers = [await services.read_stored_tokens(one, most_missing=settings.depth) for one in rerankers]

        async def first_stage(copy: Library) -> FirstStage:
            if space is not None:
                try:
                    await copy.reindex(embedder, lambda progress: bar.show("embedding a sample", progress.done, progress.total))
                except (ModelError, MissingExtra) as error:
                    note(f"Tested without dense search: {error}")
            return await make_first_stage(services, copy)

        return await run_probe(
            library,
            first_stage,
            rerankers,
            depth=settings.depth,
            weight=settings.weight,
            clock=services.clock,
            queries=queries,
            seed=seed,
            progress=partial(bar.show, f"searching for known items: {', '.join(reranker.name for reranker in rerankers)}"),
        )


async def make_first_stage(services: Services, copy: Library) -> FirstStage:
    """The input of a search's reranker, without query expansion: all strategies, fused, in the order of the rules."""
    import asyncio

    from outrider.nodes.rule_ranker import rank_by_rules, weigh_wishes
    from outrider.nodes.translator.rule_plan import list_concept_phrases
    from outrider.state.hits import Scored
    from outrider.state.request import RetrieverType, SearchRequest
    from outrider.usecases.search_library import HYBRID, search_strategies

    engine = await services.engine(copy)
    has_vectors = await copy.space()
    strategies = tuple(strategy for strategy in HYBRID if has_vectors or strategy is not RetrieverType.LANCE_DENSE)
    this_year = datetime.fromtimestamp(services.clock(), UTC).year

    async def search(text: str, limit: int) -> list[Scored]:
        request = SearchRequest(query=text, strategies=strategies)
        phrases = list_concept_phrases(text)
        works = (await search_strategies(services, engine, request, max(limit, services.settings.run.candidates), phrases)).works
        best = await asyncio.to_thread(rank_by_rules, works, text, weigh_wishes(services.settings.ranking, text), this_year)
        return [Scored(candidate.record, candidate.score) for candidate in best[:limit]]

    return search


library_app.command()(probe)
library_app.command()(train_reranker)
library_app.command("dedup")(dedup_library)
library_app.command()(split)
library_app.command()(merge)
library_app.command()(decisions)
library_app.command()(calibrate_distiller)
