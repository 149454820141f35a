"""`outrider.add_to_library` and `outrider.reindex`: a library's records and their vectors."""

from __future__ import annotations

import asyncio
import re
import unicodedata
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any

from outrider.cluster.embedder import ClusterEmbedder, Model, open_embedder
from outrider.cluster.files import open_files
from outrider.cluster.session import open_cluster
from outrider.cluster.task_map import check_on
from outrider.ingest.column_mapping import check_fields
from outrider.ingest.entry import ReadOptions
from outrider.ingest.file_access import FileAccess
from outrider.ingest.file_changes import UPLOAD, check_paths, is_gone
from outrider.ingest.file_walk import require_paths
from outrider.ingest.pipeline import BATCH_BYTES, SAME_CONTENT, OnProgress, Prune, check_targets, ingest
from outrider.ingest.reader_thread import Bounds
from outrider.ingest.report import FileReport, IngestReport
from outrider.ingest.targets import FORMS, RemoteSources, Target, parse_target, split_targets
from outrider.runtime.threads_and_loops import run_in_background
from outrider.services import Services, open_services
from outrider.services.sources import find_detailers
from outrider.state.errors import BadRequest, LibraryMissing, shorten
from outrider.state.records import LIBRARY

if TYPE_CHECKING:
    from outrider.library.reindex import OnReindex, ReindexReport
    from outrider.library.vectors.token_index import TokenIndexReport
    from outrider.state.ports import OnCount, TextEmbedder


async def aadd_to_library(
    *targets: str | PathLike[str],
    columns: Mapping[str, str] | None = None,
    installed: bool = False,
    prune: bool = False,
    on: str = "",
    address: str | None = None,
    library: str | PathLike[str] | None = None,
    services: Services | None = None,
) -> IngestReport:
    """Do the same as `outrider ingest`: files, folders, `doi:...`, `arxiv:...`, `pmid:...`, `pmcid:...`, `github:owner/name` and links.

    An existing path is always taken as a path. The report's `files` name everything that could not be read, fetched or found, and
    `stale` the records that are no longer in their files; `prune` removes these from the library. With `on="ray"` the workers of the
    Ray cluster at `address` (`cluster.address`) read and embed.

    Raises `BadRequest` for a target of no known kind, for a missing path, and for a target that would need a service while offline, and
    `ClusterError` for a cluster that cannot be used.
    """
    check_on(on, address)
    async with open_services(services, library, {"cluster.address": address}) as opened:
        return await ingest_targets(opened, targets, columns=columns, installed=installed, prune="remove" if prune else "", on=on)


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
    prune: Prune = "",
    on: str = "",
) -> IngestReport:
    """Files, folders, identifiers and links into the library of the services, which is created where it is missing.

    `on` is empty for this machine, or `ray`. Raises the errors of `ingest.pipeline.ingest`, `BadRequest` for a target of no known kind,
    and for work on Ray those of `open_cluster`.
    """
    if wrong := next((name for name in names if not isinstance(name, str | PathLike)), None):
        raise BadRequest(f"a target is a path, an identifier such as doi:10.1000/182, or a link, not {shorten(wrong)}; give each by itself")
    paths, targets = split_targets([name if isinstance(name, str) else Path(fspath(name)) for name in names])
    return await _ingest(services, paths, targets, columns=columns, installed=installed, progress=progress, prune=prune, on=on)


async def add_identifiers(services: Services, names: Sequence[str], progress: OnProgress | None = None) -> IngestReport:
    """As `ingest_targets` for identifiers and links alone: no name is ever taken for a path of this machine, whatever lies there.

    Raises `BadRequest` that names the first that is neither.
    """
    targets: dict[Target, None] = {}
    for name in filter(None, map(str.strip, names)):
        target = parse_target(name)
        if target is None:
            raise BadRequest(f"{shorten(name)} is no identifier; write for example {', '.join(form.example for form in FORMS.values())}")
        targets[target] = None
    return await _ingest(services, [], list(targets), progress=progress)


async def add_upload(services: Services, upload: Upload, progress: OnProgress | None = None) -> IngestReport:
    """As `ingest_targets` for a file that another machine sent. Its records belong to the upload, not to the temporary file.

    An upload of the same content changes nothing; one that holds half of an earlier upload's records is its new version.
    """
    report = await _ingest(services, [upload.path], [], progress=progress, upload=upload.origin)
    path, name = str(upload.path), upload.path.name

    def rename(file: FileReport) -> FileReport:
        texts = {kind: tuple(_hide_paths(text, path, name) for text in getattr(file, kind)) for kind in ("reasons", "remarks")}
        return file.model_copy(update={"path": name, **texts})

    stale = tuple(one.model_copy(update={"path": name}) for one in report.stale)
    return report.model_copy(update={"files": tuple(map(rename, report.files)), "stale": stale})


def _hide_paths(text: str, path: str, name: str) -> str:
    """A message without the folders of this machine."""
    other = text.removeprefix(SAME_CONTENT)
    return f"{SAME_CONTENT}{Path(other).name}, which is in the library" if other != text else text.replace(path, name)


@dataclass(frozen=True, slots=True)
class Upload:
    """A file that another machine sent, in a temporary folder."""

    path: Path
    """Its name is a safe form of the one that was sent (`make_file_name`)."""
    digest: str
    """Sha-256 of its content."""

    @property
    def origin(self) -> str:
        return f"{UPLOAD}{self.digest[:UPLOAD_DIGITS]}/{self.path.name}"


UPLOAD_DIGITS = 12
MAX_NAME_BYTES, MAX_SUFFIX_CHARS = 200, 20
"""Of a file's name: file systems take 255 bytes."""


def make_file_name(name: str) -> str:
    """A name for a file in a folder of its own, from one that anybody may have sent: its last part, printable, of limited length.

    The suffix stays, since the readers go by it.
    """
    last = re.split(r"[/\\]", unicodedata.normalize("NFC", name))[-1]
    safe = "".join(char for char in last if char.isprintable() and char not in ':*?"<>|').strip(" .")
    stem, dot, suffix = safe.rpartition(".")
    end = f"{dot}{suffix}"[:MAX_SUFFIX_CHARS] if stem else ""
    room = MAX_NAME_BYTES - len(end.encode())
    return (stem or safe).encode()[:room].decode(errors="ignore").strip() + end or "file"


async def _check_missing_paths(services: Services, paths: Sequence[Path], *, prune: bool) -> None:
    """Refuse a path that does not exist before a model is loaded and a library created. A library may know files that are gone."""
    if any([await asyncio.to_thread(is_gone, path) for path in paths]):
        with suppress(LibraryMissing):
            paths = await check_paths(await services.library(), paths, prune=prune)
        await asyncio.to_thread(require_paths, paths)


async def _ingest(  # noqa: PLR0913 - what to read, and keywords with defaults
    services: Services,
    paths: Sequence[Path],
    targets: Sequence[Target],
    *,
    columns: Mapping[str, str] | None = None,
    installed: bool = False,
    progress: OnProgress | None = None,
    prune: Prune = "",
    upload: str = "",
    on: str = "",
) -> IngestReport:
    on_ray = check_on(on)
    await _check_missing_paths(services, paths, prune=bool(prune))
    settings, limits = services.settings, services.settings.ingest
    remote: RemoteSources | None = None
    if targets and not settings.sources.offline:
        await services.prepare()
        # the library itself is left out: it is to learn something new
        others = tuple(source for source in services.sources if source.name != LIBRARY)
        remote = RemoteSources(others, services.pages, find_detailers(others), settings.run.run_timeout_s)
    check_targets(targets, remote)
    options = ReadOptions(columns=columns or {}, max_bytes=limits.max_bytes, max_pages=limits.max_pages)
    check_fields(options.columns)  # before a cluster is started and a library created
    async with AsyncExitStack() as stack:
        cluster = await stack.enter_async_context(open_cluster(settings.cluster)) if on_ray else None
        library = await services.new_library()
        stack.callback(library.close)
        access: FileAccess | None = None
        embedder: TextEmbedder | None
        if cluster is None:
            batch_records = limits.batch_records
            embedder, why_not_embedded = await services.embedder_at_hand(library)
        else:
            batch_records = settings.cluster.batch_records
            access = stack.enter_context(open_files(cluster, options, Bounds(batch_records, BATCH_BYTES)))
            model = Model(settings.embedding, await library.space(), settings.sources.offline)
            embedder, why_not_embedded = await stack.enter_async_context(open_embedder(cluster, model))
        return await ingest(
            library,
            paths,
            options,
            targets=targets,
            remote=remote,
            installed=installed,
            progress=progress,
            batch_records=batch_records,
            embedder=embedder,
            off=why_not_embedded,
            prune=prune,
            upload=upload,
            access=access,
        )


async def areindex(
    library: str | PathLike[str] | None = None,
    model: str | None = None,
    progress: OnReindex | None = None,
    *,
    on: str = "",
    address: str | None = None,
    services: Services | None = None,
) -> ReindexReport:
    """Complete the library's vectors, or replace them by those of another model; write missing edges of the graph.

    `library` is a folder or an `s3://` address, `model` a hub name, a local folder or a model that `embedding.base_url` serves. Both
    default to the settings, where `auto` is the library's own model. An interrupted run is resumed by the next call. Searches use the
    old vectors until the new ones are complete. `progress` is called from time to time. With `on="ray"` the workers of the Ray cluster at
    `address` (`cluster.address`) embed; the vectors are written here.

    Raises `LibraryMissing`, `LibraryBusy` while another run is under way, `ModelError` where the model cannot be loaded or fails, and
    `ClusterError` for a cluster that cannot be used.
    """
    on_ray = check_on(on, address)
    async with AsyncExitStack() as stack:
        opened = await stack.enter_async_context(
            open_services(services, library, {"embedding.model_name": model, "cluster.address": address})
        )
        settings, store = opened.settings, await opened.library()
        await store.mend_edges()  # first: it needs no model
        space = await store.space()
        if not on_ray:
            return await store.reindex(opened.embedder(space), progress)
        cluster = await stack.enter_async_context(open_cluster(settings.cluster))
        embedder = ClusterEmbedder(cluster, Model(settings.embedding, space, settings.sources.offline))
        stack.callback(embedder.close)
        from outrider.library.reindex import Parts

        # while one part is embedded the next is read, and one before it written
        return await store.reindex(embedder, progress, Parts(settings.cluster.batch_records, at_once=2))


def reindex(
    library: str | PathLike[str] | None = None,
    model: str | None = None,
    progress: OnReindex | None = None,
    *,
    on: str = "",
    address: str | None = None,
) -> ReindexReport:
    """`areindex` for callers without an event loop. Ctrl-C keeps the vectors written so far."""
    return run_in_background(areindex(library, model, progress, on=on, address=address))


async def index_tokens(services: Services, progress: OnCount | None = None) -> TokenIndexReport:
    """Compute the compressed token vectors that late interaction reads, for the records that lack them.

    Raises `NoVectors` for a library without record vectors, `EmbeddingSpaceMismatch` if the settings name another model than theirs,
    `ModelError` if the model fails or gives no token vectors. An interrupted run is resumed by the next call.
    """
    store = await services.library()
    return await store.index_tokens(services.embedder(await store.space()), progress)
