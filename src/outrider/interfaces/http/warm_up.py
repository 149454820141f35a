"""What a server loads besides its models before `/readyz` is 200

So the first request is not slower than the second. It is loaded by use: a search of the library, and the distillation of short examples.
No service, no chat model and no served model is asked, nothing is saved, and no metric, trace or list of searches has any of it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio.lowlevel

from outrider.graph.pipeline import build
from outrider.interfaces.http.search_events import EventWriter
from outrider.runtime.spans import record_no_spans
from outrider.runtime.threads_and_loops import in_background
from outrider.services.distiller import distil
from outrider.services.sources import open_answer_cache
from outrider.sources.http.cache import PATIENCE_S, read_cached
from outrider.sources.http.transport import load_client
from outrider.state.distilling import Reading
from outrider.state.errors import LibraryMissing, SearchError
from outrider.state.pipeline import RunContext
from outrider.state.records import LIBRARY
from outrider.state.request import MAX_QUERY_CHARS
from outrider.state.response import SearchResponse
from outrider.systematic_search.services.planned_query import read_planned_query
from outrider.text.injection import PATTERNS
from outrider.usecases.threads import MODES
from outrider.usecases.warm_queries import find_popular_queries, make_local_request, read_queries, warm_queries

if TYPE_CHECKING:
    from fastapi import FastAPI

    from outrider.services import Services

WARM_UP_S = 20.0
"""Limit on the whole: a server that is slow to warm up is better than one that is not ready."""
SEARCHES = 2
"""After the second one a search takes no less time."""
QUERY_WORDS = 8
EXAMPLES = (
    "# Install\n\nThe tool needs `pip`:\n\n```sh\npip install tool\n```\n\n- It runs on Linux.\n- See [the guide](https://example.org).\n",
    "Install\n=======\n\nThe tool needs ``pip``::\n\n    pip install tool\n\n.. note:: It runs on Linux.\n",
    "<html><body><h1>Install</h1><p>The tool needs <code>pip</code>.</p><ul><li>It runs on Linux.</li></ul></body></html>",
    "The tool needs pip. It runs on Linux. It was tested in 2020.",
)
"""Each loads the parser of its format."""

log = logging.getLogger(__name__)


async def warm_up(services: Services) -> None:
    """Load by use. A failure is logged, and is no reason not to be ready: searches report their own."""
    from langsmith import tracing_context

    try:
        with record_no_spans(), tracing_context(enabled=False):
            async with asyncio.timeout(WARM_UP_S):
                await anyio.lowlevel.checkpoint()  # its backend is imported at the first call, by an answer's stream or a client
                await asyncio.gather(
                    _search_library(services.of_library()),
                    _distil_examples(services),
                    _load_requests(services),
                    asyncio.to_thread(_load_patterns),
                )
    except TimeoutError:
        log.warning("the first searches may be slow: loading what they need took more than %g s", WARM_UP_S)
    except SearchError as error:
        log.warning("the first searches may be slow: %s", error)
    except Exception:  # whatever it is, it is not a request that failed
        log.warning("the first searches may be slow: loading what they need failed", exc_info=True)


async def warm_popular(services: Services) -> None:
    """Search the library for the queries that the settings name. A failure is logged, and is no reason not to be ready."""
    settings = services.settings.serve
    if not (settings.warm_file or settings.warm_queries) or not services.has_own_library:
        return
    try:
        queries = await asyncio.to_thread(lambda: read_queries(Path(settings.warm_file).expanduser())) if settings.warm_file else []
        if settings.warm_queries:
            queries += await find_popular_queries(services.settings, settings.warm_queries)
        report = await warm_queries(services, list(dict.fromkeys(queries)), settings.warm_s)
        log.info("%d of %d popular queries warmed in %.1f s", report.warmed, report.queries, report.seconds)
        if report.error:
            log.warning("some popular queries were not warmed: %s", report.error)
    except SearchError as error:
        log.warning("popular queries were not warmed: %s", error)
    except Exception:
        log.exception("popular queries were not warmed")


def prepare_routes(app: FastAPI) -> None:
    """FastAPI prepares a route when it first compares a path with it."""
    for route in app.routes:
        route.matches({"type": "http", "method": "GET", "path": "/", "root_path": "", "headers": []})


def _load_patterns() -> None:
    for pattern in PATTERNS:
        _ = pattern.regex


async def _load_requests(services: Services) -> None:
    """What the first request to a service needs: the parser of planned queries, the HTTP client, and the folder of responses."""
    if not set(services.source_names) - {LIBRARY}:
        return
    cache = services.settings.answer_cache
    await asyncio.to_thread(read_planned_query, "pubmed", "warm AND up")
    await asyncio.to_thread(load_client)
    if not cache.url:
        await in_background(read_cached(open_answer_cache(cache), "warm up", time.monotonic() + PATIENCE_S))


async def _distil_examples(services: Services) -> None:
    readings = [Reading(f"example:{number}", text) for number, text in enumerate(EXAMPLES)]
    await distil(services, "how do I install the tool", readings, bypass=False)


async def _search_library(services: Services) -> None:
    """Search for the titles of some works, so that there are hits."""
    if not services.source_names:
        return
    try:
        works = await (await services.library()).sample(SEARCHES)
    except LibraryMissing:
        return
    graph, settings = build(services, checkpointer=False), services.settings
    for work in works:
        query = " ".join(work.title.split()[:QUERY_WORDS])[:MAX_QUERY_CHARS]
        request = make_local_request(settings, query or work.doc_id)
        state: dict[str, Any] = {}
        writer = EventWriter()
        parts: Any = graph.astream(request, context=RunContext(), stream_mode=MODES)
        async for mode, part in parts:
            if mode == "values":
                state = part
            else:
                list(writer.make_events((mode, part)))
        answer = {name: value for name, value in state.items() if name in SearchResponse.model_fields}
        SearchResponse.model_validate(answer).model_dump_json()
