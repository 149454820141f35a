"""`outrider.search` by the whole graph; `translate`, `score` and `organize` as single steps.

`from outrider import search` imports this module, so it imports nothing heavy: the first call does, in a thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any

import outrider  # whose names are loaded at first use, also where a framework resolves the annotations of a function


async def asearch(
    query: str | dict[str, str],
    *,
    library: str | PathLike[str] | None = None,
    offline: bool = False,
    services: outrider.Services | None = None,
    context: outrider.RunContext | None = None,
    thread: str | None = None,
    answer: bool | None = None,
    **request: Any,
) -> outrider.SearchResponse:
    """Answer a request, whose other fields (`top_k`, `filters`, ...) are those of `SearchRequest`.

    `offline` searches the library alone, as the setting `sources.offline` does. On a `thread`, each step is saved (`threads.uri`): the
    next search of that name continues from it, and a killed search can be resumed (`outrider threads resume`). `answer` is short for
    `answer_enabled`: the response then has a short `answer` by the chat model, or the reason why there is none.

    With `checkpoints=("plan", "results")` the search waits for a person after these: the response then has `waiting`, which names the
    thread, and `outrider.resume(thread, answer)` goes on.

    Raises `BadRequest` for a request that cannot be understood. Where the call asks for the library alone (`sources=["library"]` or
    `offline`), it raises `LibraryMissing` if there is none, or another `LibraryError` if it cannot be opened. Another run that could
    search nothing returns an answer without hits and the reason in `failures`.
    """
    from outrider.runtime.threads_and_loops import load_module
    from outrider.state.errors import BadRequest
    from outrider.state.request import check_request

    search_request = check_request({"query": query, **({} if answer is None else {"answer_enabled": answer}), **request})
    await load_module("outrider.graph.pipeline")
    from outrider.graph.pipeline import get_search_graph
    from outrider.runtime.spans import run_named
    from outrider.services import open_services
    from outrider.services.tracing import keep_traces_local
    from outrider.state.pipeline import RunContext
    from outrider.state.records import LIBRARY
    from outrider.state.response import SearchResponse

    if offline and services is not None and not services.settings.sources.offline:
        raise BadRequest('these services may use the network; make them with Services.from_file({"sources.offline": True})')
    async with open_services(services, library, {"sources.offline": True} if offline else None, keep=True) as opened:
        await opened.prepare()
        with run_named(), keep_traces_local(opened.settings):
            if thread is not None or opened.settings.checkpoints.list_points(search_request):
                from outrider.usecases.threads import collect_response, make_thread_name, open_threads

                thread = make_thread_name() if thread is None else thread  # what waits for a person is saved
                async with open_threads(opened) as threads:
                    response = await collect_response(threads.search(thread, search_request, context))
            else:
                state = await get_search_graph(opened).ainvoke(search_request, context=context or RunContext())
                response = SearchResponse.model_validate(state)
            if (offline or search_request.sources == (LIBRARY,)) and _found_nothing_to_search(response):
                await opened.library()  # raises `LibraryError`
    return response


def _found_nothing_to_search(answer: outrider.SearchResponse) -> bool:
    from outrider.state.errors import LibraryMissing, NothingSearchable

    return any(failure.error in (NothingSearchable.__name__, LibraryMissing.__name__) for failure in answer.failures)


async def aresume(
    thread: str,
    answer: dict[str, Any] | None = None,
    *,
    library: str | PathLike[str] | None = None,
    services: outrider.Services | None = None,
) -> outrider.SearchResponse:
    """Continue the last search of a thread: after an interruption, or where it waits for a person with an `answer` to `waiting`.

    A plan is answered with `queries`, `sources`, `filters`, `years`, `stars`, of which each that is left out stays as planned; results
    with ids under `keep`, `drop` and `more_like`, and `feedback`. An empty answer changes nothing. Raises `BadRequest` for a wrong answer,
    and the search still waits. A search that was begun `offline` stays so. One over another library than that of the settings raises
    `OtherLibrary`, which names it, until `library` does.
    """
    from outrider.runtime.threads_and_loops import load_module

    await load_module("outrider.usecases.threads")
    from outrider.runtime.spans import run_named
    from outrider.services import open_services
    from outrider.services.tracing import keep_traces_local
    from outrider.usecases.threads import collect_response, open_threads

    async with open_services(services, library, keep=True) as opened:
        with run_named(), keep_traces_local(opened.settings):
            async with open_threads(opened) as threads:
                return await collect_response(threads.resume(thread, answer))


def resume(thread: str, answer: dict[str, Any] | None = None, **options: Any) -> outrider.SearchResponse:
    """`aresume` for callers without an event loop."""
    from outrider.runtime.threads_and_loops import run_in_background

    return run_in_background(aresume(thread, answer, **options))


def search(query: str | dict[str, str], **options: Any) -> outrider.SearchResponse:
    """`asearch` for callers without an event loop, or inside one that they do not want to wait on."""
    from outrider.runtime.threads_and_loops import run_in_background

    return run_in_background(asearch(query, **options))


@dataclass(frozen=True, slots=True)
class Organized:
    """The first hits in order, and counts of all works that passed the threshold."""

    hits: tuple[outrider.Hit, ...]
    facets: outrider.Facets
    total_found: int


async def translate(query: str, *, services: outrider.Services | None = None, **request: Any) -> outrider.Translation:
    """What a request means and the searches to run for it, without running them: `.intent`, `.strategy`, `.failures`, `.bypassed`,
    `.usage`.

    By the model where one is configured, else by rules. `request` are fields of `SearchRequest`, such as `search_mode`,
    `previous_strategies`, `user_feedback`. Raises `BadRequest`, `NothingSearchable`, `KeyRejected`.
    """
    from outrider.runtime.threads_and_loops import load_module
    from outrider.state.request import check_request

    search_request = check_request({"query": query, **request})
    await load_module("outrider.services.make_nodes")
    from outrider.nodes.run_settings import run_budget
    from outrider.services import ONLY_CHAT, open_services
    from outrider.services.make_nodes import make_translator
    from outrider.state.response import Usage

    async with open_services(services) as opened:
        await opened.prepare()
        await opened.warm(ONLY_CHAT, searches=False)
        settings = opened.settings
        return await make_translator(opened).translate(search_request, run_budget(None, settings.llm, Usage()), settings.run.run_timeout_s)


async def score(
    query: str, records: Sequence[outrider.Record], *, top_k: int = 10, services: outrider.Services | None = None
) -> outrider.ScoringResult:
    """Records by how well they answer, best first: `.candidates`, each with `score` and `scored_by`, `.scoring`, `.failures`, `.usage`.

    A configured model reads them until the first `top_k` are settled (`llm.max_risk`). Without one, rules score them, and `.bypassed`
    gives the reason. Raises `BadRequest`, `KeyRejected`.
    """
    import asyncio
    from datetime import UTC, datetime

    from outrider.runtime.threads_and_loops import load_module
    from outrider.state.request import check_request

    search_request = check_request({"query": query, "top_k": top_k})
    await load_module("outrider.services.make_nodes")
    from outrider.nodes.fine_scorer.fine_scorer import NODE, ScoringResult
    from outrider.nodes.fine_scorer.judgement import Question
    from outrider.nodes.rule_ranker import rank_by_rules, weigh_wishes
    from outrider.nodes.run_settings import run_budget
    from outrider.services import ONLY_CHAT, open_services
    from outrider.services.make_nodes import make_scorer
    from outrider.state.hits import Candidate
    from outrider.state.response import Bypass, Usage

    text = str(search_request.query)
    async with open_services(services) as opened:
        await opened.warm(ONLY_CHAT, searches=False)
        settings = opened.settings
        this_year = datetime.fromtimestamp(opened.clock(), UTC).year
        works = [Candidate(record=record) for record in records]
        weights = weigh_wishes(settings.ranking, text)
        ordered = await asyncio.to_thread(rank_by_rules, works, text, weights, this_year, max(len(works), 1))
        if not ordered:
            return ScoringResult(())
        if opened.chat is None:
            return ScoringResult(ordered, bypassed=(Bypass(step=NODE, why=opened.chat_says),))
        budget = run_budget(None, settings.llm, Usage())
        scored = await make_scorer(opened).score(ordered, Question(text), top_k, budget, settings.run.run_timeout_s)
        return scored if scored.candidates else replace(scored, candidates=ordered)


async def organize(
    candidates: Iterable[outrider.Candidate], *, top_k: int = 10, threshold: float | None = None, services: outrider.Services | None = None
) -> Organized:
    """Scored works as hits: threshold (by default that of the settings), one total order, facets. `.hits`, `.facets`, `.total_found`."""
    from outrider.runtime.threads_and_loops import load_module

    await load_module("outrider.services")
    from outrider.nodes.organizer import count_facets, select_and_sort, to_hit
    from outrider.services import open_services

    async with open_services(services) as opened:
        settings = opened.settings.organizer
        works = select_and_sort(candidates, settings.relevance_threshold if threshold is None else threshold)
        hits = tuple(to_hit(work, rank) for rank, work in enumerate(works[:top_k], start=1))
        return Organized(hits, count_facets(works, settings), len(works))
