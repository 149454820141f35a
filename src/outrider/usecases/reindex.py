"""`outrider.reindex`: every record of a library embedded by one model."""

from __future__ import annotations

from os import PathLike
from typing import TYPE_CHECKING

from outrider.runtime.background_loop import run_in_background
from outrider.services import Services

if TYPE_CHECKING:
    from outrider.library.reindex import OnReindex, Reindexed


async def areindex(
    library: str | PathLike[str] | None = None,
    model: str | None = None,
    progress: OnReindex | None = None,
    *,
    services: Services | None = None,
) -> Reindexed:
    """Complete the library's vectors, or replace them by those of another model; write the graph's edges that are missing.

    `library` is a folder or an `s3://` address, `model` a hub name, a local folder or what `embedding.base_url` serves; by default
    those of the settings, where `auto` is the library's own model. A run that was interrupted goes on when it is called again.
    Searches are answered from the old vectors until the new ones are complete. `progress` is called now and then.

    Raises `LibraryMissing`, `LibraryBusy` while another one runs, `ModelError` where the model cannot be loaded or fails.
    """
    if services is not None:
        return await run(services, progress)
    made = services_with(library, model)
    try:
        return await run(made, progress)
    finally:
        made.close()


def reindex(library: str | PathLike[str] | None = None, model: str | None = None, progress: OnReindex | None = None) -> Reindexed:
    """`areindex` for callers without an event loop; Ctrl-C keeps what is done."""
    return run_in_background(areindex(library, model, progress))


def services_with(library: str | PathLike[str] | None, model: str | None) -> Services:
    """Services from the settings, with another library or model where one is named."""
    return Services.from_file({"library.uri": None if library is None else str(library), "embedding.model_name": model})


async def run(services: Services, progress: OnReindex | None = None) -> Reindexed:
    library = await services.library()
    await library.mend_edges()  # first: it needs no model
    return await library.reindex(services.embedder(await library.space()), progress)
