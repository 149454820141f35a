"""Searches of the library ahead of their users: the first one is then as fast as the second.

A query's search fills what later ones of it, and of its words, read again: the pages of LanceDB's indexes and records in this process,
the query's vector, words and sentences of its hits, and the files in the operating system's cache, which other processes share. Only the
library and models on this machine are asked; nothing is saved, and no metric, trace or history has any of it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field

from outrider.runtime.spans import record_no_spans
from outrider.services.learning import find_learning_store
from outrider.state.errors import BadRequest, SearchError
from outrider.state.model import Model
from outrider.state.pipeline import RunContext
from outrider.state.ports import OnCount
from outrider.state.request import MAX_QUERY_CHARS, RetrieverType, SearchRequest

if TYPE_CHECKING:
    from outrider.services import Services
    from outrider.settings.model import Settings

MOST_QUERIES = 10_000
COMMENT = "#"
NO_HISTORY = "past queries are not remembered; switch that on with the settings learning.enabled and learning.history, or name a file"


class WarmReport(Model):
    """What was searched for ahead."""

    queries: int
    warmed: int = Field(description="Queries whose search ended; a limit or an error kept the others from it.")
    seconds: float
    error: str = Field("", description="The first reason why some were not.")


def read_queries(file: Path) -> list[str]:
    """One query a line, each once; empty lines and those that begin with # are left out. Raises `BadRequest`."""
    try:
        lines = file.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no UTF-8 text"
        raise BadRequest(f"the queries in {file} cannot be read: {reason}") from error
    texts = (" ".join(line.split())[:MAX_QUERY_CHARS] for line in lines)
    queries = list(dict.fromkeys(text for text in texts if text and not text.startswith(COMMENT)))
    if not queries:
        raise BadRequest(f"{file} holds no query; write one a line")
    return queries


async def find_popular_queries(settings: Settings, most: int) -> list[str]:
    """The queries that were asked most, by all owners of keys together. Raises `BadRequest` where none are remembered."""
    if not (settings.learning.enabled and settings.learning.history):
        raise BadRequest(NO_HISTORY)
    return await asyncio.to_thread(lambda: find_learning_store(settings).list_popular(most))


def make_local_request(settings: Settings, query: str) -> SearchRequest:
    """A search that asks no served model."""
    return SearchRequest(
        query=query,
        strategies=(RetrieverType.LANCE_FTS, RetrieverType.GRAPH_NEIGHBOR) if settings.embedding.base_url else None,
        rerank_enabled=False if settings.reranker.base_url else None,
        answer_enabled=False,
    )


async def warm_queries(
    services: Services, queries: Sequence[str], within_s: float | None = None, progress: OnCount | None = None
) -> WarmReport:
    """Search the library for each, one after another, so that searches of users go on beside it; for the first `MOST_QUERIES`.

    Raises `LibraryMissing`.
    """
    from langsmith import tracing_context

    from outrider.graph.pipeline import build

    await services.library()
    own = services.of_library()
    graph = build(own, checkpointer=False)
    chosen, started, warmed = queries[:MOST_QUERIES], time.monotonic(), 0
    problem = f"only the first {MOST_QUERIES:,} are searched for" if len(queries) > MOST_QUERIES else ""
    try:
        with record_no_spans(), tracing_context(enabled=False):
            async with asyncio.timeout(within_s):
                for number, query in enumerate(chosen, start=1):
                    try:
                        await graph.ainvoke(make_local_request(own.settings, query), context=RunContext())
                        warmed += 1
                    except SearchError as error:
                        problem = problem or str(error)
                    if progress is not None:
                        progress(number, len(chosen))
    except TimeoutError:
        problem = problem or f"not all were searched for within {within_s:g} s"
    return WarmReport(queries=len(queries), warmed=warmed, seconds=round(time.monotonic() - started, 3), error=problem)
