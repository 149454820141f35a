"""`outrider.search` and `outrider.asearch`: one search by the whole graph."""

from __future__ import annotations

from os import PathLike
from typing import Any

from outrider.graph.pipeline import build
from outrider.runtime.background_loop import run_in_background
from outrider.runtime.tracing import run_named
from outrider.services import Services, open_services
from outrider.state.pipeline import RunContext
from outrider.state.request import check_request
from outrider.state.response import SearchResponse
from outrider.usecases.threads import collect_response, open_threads


async def asearch(
    query: str | dict[str, str],
    *,
    library: str | PathLike[str] | None = None,
    services: Services | None = None,
    context: RunContext | None = None,
    thread: str | None = None,
    **request: Any,
) -> SearchResponse:
    """Answer a request, whose other fields (`top_k`, `filters`, ...) are those of `SearchRequest`.

    On a `thread`, each step is saved (`threads.uri`): the next search of that name knows this one, and a killed search can be resumed
    (`outrider threads resume`).

    Raises `BadRequest` for a request that cannot be understood. A run that could search nothing returns an answer without hits and the
    reason in `failures`.
    """
    search_request = check_request({"query": query, **request})
    with open_services(services, library) as opened, run_named():
        await opened.warm()
        if thread is not None:
            async with open_threads(opened) as threads:
                return await collect_response(threads.search(thread, search_request, context))
        state = await build(opened).ainvoke(search_request, context=context or RunContext())
    return SearchResponse.model_validate(state)


def search(query: str | dict[str, str], **options: Any) -> SearchResponse:
    """`asearch` for callers without an event loop, or inside one that they do not want to wait on."""
    return run_in_background(asearch(query, **options))
