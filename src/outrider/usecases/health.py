"""What of the engine is on here, and why the rest is off: for `outrider doctor` and `GET /health`."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pydantic import Field

from outrider.runtime.threads import run_in_thread
from outrider.state.errors import LibraryError, LibraryMissing, SearchError
from outrider.state.model import Model

if TYPE_CHECKING:
    from outrider.library.library import Library
    from outrider.services import Services


HEALTH_S = 60.0
"""Seconds that a model may take to load, or its server to answer, before it counts as missing."""


class Part(Model):
    """One part of the engine."""

    what: str
    on: bool
    says: str
    broken: bool = Field(False, description="It is there and cannot be used.")


async def health(services: Services) -> tuple[Part, ...]:
    """Library, dense search, reranker, model. Loads the embedding model, which can take seconds the first time."""
    try:
        library = await services.library()
        records = await library.count()
    except LibraryError as error:
        off = "needs a library"
        broken = not isinstance(error, LibraryMissing)
        lost = Part(what="library", on=False, says=str(error), broken=broken)
        return lost, _off("dense search", off), _off("reranker", off), _model(services)
    held = Part(what="library", on=True, says=f"{records:,} records at {library.shown}")
    return held, await _dense(services, library), await _reranker(services), _model(services)


async def _dense(services: Services, library: Library) -> Part:
    try:
        held = await library.space()
        embedder = services.embedder(held)
        async with asyncio.timeout(HEALTH_S):
            space = await run_in_thread(lambda: embedder.space)
        await library.accept(space)
    except SearchError as error:
        return _off("dense search", str(error))
    except TimeoutError:
        return _off("dense search", f"its model was not there within {HEALTH_S:.0f} s")
    if held is None:
        how = "new records are embedded as they are ingested, the others by: outrider library reindex"
        return _off("dense search", f"{space.model_name} is at hand, and the library has no vectors yet; {how}")
    about = (await library.info()).vectors
    assert about is not None  # noqa: S101 - there is a space
    said = f"{about.vectors:,} records by {space.model_name} ({space.dimension} dimensions, {about.index})"
    without = f"; {about.without:,} without vector, embed them with: outrider library reindex" if about.without else ""
    return Part(what="dense search", on=True, says=said + without)


async def _reranker(services: Services) -> Part:
    try:
        reranker, why = await services.reranker()
    except SearchError as error:
        return _off("reranker", str(error))
    return Part(what="reranker", on=reranker is not None, says=why)


def _model(services: Services) -> Part:
    """It is not asked: a call costs money."""
    return Part(what="model", on=services.chat is not None, says=services.chat_says)


def _off(what: str, why: str) -> Part:
    return Part(what=what, on=False, says=why)
