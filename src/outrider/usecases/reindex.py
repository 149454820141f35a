"""`outrider.reindex`: every record of a library embedded by one model."""

from __future__ import annotations

from os import PathLike
from typing import TYPE_CHECKING

from outrider.runtime.background_loop import run_in_background
from outrider.services import Services, open_services

if TYPE_CHECKING:
    from outrider.library.reindex import OnReindex, ReindexReport


async def areindex(
    library: str | PathLike[str] | None = None,
    model: str | None = None,
    progress: OnReindex | None = None,
    *,
    services: Services | None = None,
) -> ReindexReport:
    """Complete the library's vectors, or replace them by those of another model; write missing edges of the graph.

    `library` is a folder or an `s3://` address, `model` a hub name, a local folder or a model that `embedding.base_url` serves. Both
    default to the settings, where `auto` is the library's own model. An interrupted run is resumed by the next call. Searches use the
    old vectors until the new ones are complete. `progress` is called from time to time.

    Raises `LibraryMissing`, `LibraryBusy` while another run is under way, `ModelError` where the model cannot be loaded or fails.
    """
    with open_services(services, library, {"embedding.model_name": model}) as opened:
        store = await opened.library()
        await store.mend_edges()  # first: it needs no model
        return await store.reindex(opened.embedder(await store.space()), progress)


def reindex(library: str | PathLike[str] | None = None, model: str | None = None, progress: OnReindex | None = None) -> ReindexReport:
    """`areindex` for callers without an event loop. Ctrl-C keeps the vectors written so far."""
    return run_in_background(areindex(library, model, progress))
