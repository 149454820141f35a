"""`outrider.add_to_library`: files, folders, identifiers and links into a library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any

from outrider.ingest.entry import ReadOptions
from outrider.ingest.fetch_targets import RemoteSources
from outrider.ingest.parse_targets import split_targets
from outrider.ingest.pipeline import OnProgress, check_targets, ingest
from outrider.ingest.report import IngestReport
from outrider.runtime.background_loop import run_in_background
from outrider.services import open_services
from outrider.services.sources import find_detailers
from outrider.state.records import LIBRARY

if TYPE_CHECKING:
    from outrider.services import Services


async def aadd_to_library(
    *targets: str | PathLike[str],
    columns: Mapping[str, str] | None = None,
    installed: bool = False,
    library: str | PathLike[str] | None = None,
    services: Services | None = None,
) -> IngestReport:
    """Do the same as `outrider ingest`: files, folders, `doi:...`, `arxiv:...`, `pmid:...`, `pmcid:...`, `github:owner/name` and links.

    An existing path is always taken as a path. The report's `files` name everything that could not be read, fetched or found. Raises
    `BadRequest` for a target of no known kind, for a missing path, and for a target that would need a service while offline.
    """
    with open_services(services, library) as opened:
        return await ingest_targets(opened, targets, columns=columns, installed=installed)


def add_to_library(*targets: str | PathLike[str], **options: Any) -> IngestReport:
    """`aadd_to_library` for callers without an event loop. Ctrl-C keeps the records written so far."""
    return run_in_background(aadd_to_library(*targets, **options))


async def ingest_targets(
    services: Services,
    names: Sequence[str | PathLike[str]],
    *,
    columns: Mapping[str, str] | None = None,
    installed: bool = False,
    progress: OnProgress | None = None,
) -> IngestReport:
    """Files, folders, identifiers and links into the library of the services, which is created where it is missing.

    Raises the errors of `ingest.pipeline.ingest`, and `BadRequest` for a target of no known kind.
    """
    limits = services.settings.ingest
    paths, targets = split_targets([name if isinstance(name, str) else Path(fspath(name)) for name in names])
    remote: RemoteSources | None = None
    if targets and not services.settings.sources.offline:
        # the library itself is left out: it is to learn something new
        others = tuple(source for source in services.sources if source.name != LIBRARY)
        remote = RemoteSources(others, services.pages, find_detailers(others), services.settings.run.run_timeout_s)
    check_targets(targets, remote)
    library = await services.new_library()
    try:
        embedder, why_not_embedded = await services.embedder_at_hand(library)
        return await ingest(
            library,
            paths,
            ReadOptions(columns=columns or {}, max_bytes=limits.max_bytes, max_pages=limits.max_pages),
            targets=targets,
            remote=remote,
            installed=installed,
            progress=progress,
            batch_records=limits.batch_records,
            embedder=embedder,
            off=why_not_embedded,
        )
    finally:
        library.close()
