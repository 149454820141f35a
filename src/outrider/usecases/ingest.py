"""Ingestion over the services: what the command and the Python functions share."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING

from outrider.ingest.entry import ReadOptions
from outrider.ingest.fetch_targets import RemoteSources
from outrider.ingest.parse_targets import split_targets
from outrider.ingest.pipeline import OnProgress, check_targets
from outrider.ingest.pipeline import ingest as run_ingest
from outrider.state.records import LIBRARY

if TYPE_CHECKING:
    from collections.abc import Mapping

    from outrider.ingest.report import IngestReport
    from outrider.services import Services


async def ingested(
    services: Services,
    named: Sequence[str | PathLike[str]],
    *,
    columns: Mapping[str, str] | None = None,
    installed: bool = False,
    progress: OnProgress | None = None,
) -> IngestReport:
    """Files, folders, identifiers and links into the library of the services, which is made where there is none.

    Raises what `ingest.pipeline.ingest` raises, and `BadRequest` for a target that cannot be one.
    """
    bounds = services.settings.ingest
    paths, targets = split_targets([one if isinstance(one, str) else Path(fspath(one)) for one in named])
    remote = remote_sources(services) if targets else None
    check_targets(targets, remote)
    library = await services.new_library()
    try:
        embedder, off = await services.embedder_at_hand(library)
        return await run_ingest(
            library,
            paths,
            ReadOptions(columns=columns or {}, max_bytes=bounds.max_bytes, max_pages=bounds.max_pages),
            targets=targets,
            remote=remote,
            installed=installed,
            progress=progress,
            batch_records=bounds.batch_records,
            embedder=embedder,
            off=off,
        )
    finally:
        library.close()


def remote_sources(services: Services) -> RemoteSources | None:
    """Everyone but the library, which is to learn something new; None where nobody else may be asked."""
    from outrider.services.sources import detailers_of

    if services.settings.sources.offline:
        return None
    others = tuple(source for source in services.sources if source.name != LIBRARY)
    return RemoteSources(others, services.pages, detailers_of(others), services.settings.run.run_timeout_s)
