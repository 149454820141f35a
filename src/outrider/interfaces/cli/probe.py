"""`outrider library probe`."""

from __future__ import annotations

import asyncio
import json
import sys
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from outrider.interfaces.cli.options import JsonOption, LibraryOption, services, wait_for
from outrider.interfaces.cli.terminal import Progress, console, note, plain, table
from outrider.state.errors import MissingExtra, ModelError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from outrider.library.library import Library
    from outrider.library.reindex import OnReindex
    from outrider.models.embed.embedder import Embedder
    from outrider.services import Services
    from outrider.settings.model import RerankerSettings
    from outrider.state.hits import Scored
    from outrider.state.ports import Reranker
    from outrider.training.rerank_evaluation import FirstStage, ProbeResult

QUERIES = 200
DECISIONS = {"better": "helps", "unclear": "no clear difference", "worse": "does harm"}


def probe(
    queries: Annotated[int, typer.Option("--queries", "-n", min=20, max=10_000, help="Known items to ask for.")] = QUERIES,
    reranker: Annotated[
        list[str] | None,
        typer.Option("--reranker", "-r", metavar="NAME", help="Judge this one: a hub name, a folder or late-interaction; may be repeated."),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="Other seeds draw other known items.")] = 0,
    library: LibraryOption = None,
    as_json: JsonOption = False,
) -> None:
    """Find out whether a reranker makes this library's ranking better, and switch it on or off.

    Records of a sample are asked for by a title that is hidden from them, or by a few of their words. Judged are the settings'
    reranker, late interaction of the embedding model, and known models on this machine; nothing is downloaded unless it is named.
    """
    probed = wait_for(_probe(services(library), reranker or [], queries, seed, quiet=as_json))
    if as_json:
        said = [one.model_dump(mode="json") | {"difference": one.difference} for one in probed.verdicts]
        sys.stdout.write(json.dumps({"verdicts": said, "failed": probed.failed}, ensure_ascii=False) + "\n")
    else:
        _show(probed)


async def _probe(made: Services, names: Sequence[str], queries: int, seed: int, *, quiet: bool) -> ProbeResult:
    from outrider.training.rerank_evaluation import probe as run_probe

    library = await made.library()
    space = await library.space()
    settings, embedder = made.settings.reranker, made.embedder(space)
    with Progress("loading models", quiet=quiet) as bar:
        rerankers = await asyncio.to_thread(_rerankers, settings, embedder, names)

        async def first_stage(copy: Library) -> FirstStage:
            if space is not None:
                await _embedded(copy, embedder, lambda now: bar.show("embedding a sample", now.done, now.total))
            return await _as_the_graph_ranks(made, copy)

        return await run_probe(
            library,
            first_stage,
            rerankers,
            depth=settings.depth,
            weight=settings.weight,
            clock=made.clock,
            queries=queries,
            seed=seed,
            progress=partial(bar.show, f"asking for known items: {', '.join(one.name for one in rerankers)}"),
        )


def _rerankers(settings: RerankerSettings, embedder: Embedder, names: Sequence[str]) -> list[Reranker]:
    from outrider.models.rerank.select import list_rerankers, make_reranker

    if names:
        return [make_reranker(name, settings, embedder) for name in dict.fromkeys(names)]
    return list_rerankers(settings, embedder)


async def _embedded(copy: Library, embedder: Embedder, progress: OnReindex) -> None:
    """Without the model the probe goes on like a search: without dense search."""
    try:
        await copy.reindex(embedder, progress)
    except (ModelError, MissingExtra) as error:
        note(f"Probed without dense search: {error}")


async def _as_the_graph_ranks(made: Services, copy: Library) -> FirstStage:
    """What a search's reranker is given, but for the query's expansion: all strategies, fused, in the order of the rules."""
    from outrider.nodes.rule_ranker import rank_by_rules
    from outrider.state.hits import Scored
    from outrider.state.request import RetrieverType, SearchRequest
    from outrider.usecases.execute import HYBRID, search_strategies

    engine = await made.engine(copy)
    held = await copy.space()
    strategies = tuple(one for one in HYBRID if held or one is not RetrieverType.LANCE_DENSE)
    this_year = datetime.fromtimestamp(made.clock(), UTC).year

    async def search(text: str, limit: int) -> list[Scored]:
        asked = SearchRequest(query=text, strategies=strategies)
        works = await search_strategies(made, engine, asked, max(limit, made.settings.run.candidates))
        best = await asyncio.to_thread(rank_by_rules, works, text, made.settings.ranking, this_year)
        return [Scored(one.record, one.score) for one in best[:limit]]

    return search


def _show(probed: ProbeResult) -> None:
    listing = table("reranker", "first stage", "reranked", "difference", "p", "decision")
    for one in probed.verdicts:
        decision = DECISIONS[one.effect] + (", chosen" if one.chosen else "")
        listing.add_row(plain(one.reranker), f"{one.before:.3f}", f"{one.after:.3f}", f"{one.difference:+.3f}", f"{one.p:.3g}", decision)
    console().print(listing)
    for name, why in probed.failed.items():
        note(f"Not judged: {name}: {why}")
    first = probed.verdicts[0]
    note(f"nDCG@10 on {first.queries} known items, the first {first.depth} reordered with weight {first.weight:g}, seed {first.seed}.")
    note(f"Searches now run {first.reranker}." if first.chosen else "Searches now run no reranker, unless the settings name one.")
