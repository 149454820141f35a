"""Systematic runs from the settings: their folders, pinned library and services."""

from __future__ import annotations

import asyncio
import logging
import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from outrider.boolean.parser import SyntaxChoice, parse
from outrider.models.chat.journal import JOURNAL
from outrider.nodes.systematic import Systematic
from outrider.runtime.tape import without_port
from outrider.services.deployment import find_folders
from outrider.services.run_features import note_systematic
from outrider.services.sources import open_shared_redis
from outrider.settings.model import Settings
from outrider.sources.crossref import Crossref
from outrider.sources.github.search import Github
from outrider.sources.http.client import Caller
from outrider.sources.http.service import Service
from outrider.sources.openalex import Openalex
from outrider.sources.pubmed import Pubmed
from outrider.sources.semantic_scholar import SemanticScholar
from outrider.state.errors import BadRequest, LibraryError, LibraryMissing, LibraryReadOnly, did_you_mean, shorten
from outrider.state.records import LIBRARY
from outrider.state.systematic import OpenLibrary, PinnedLibrary, RemoteSource, Snapshot
from outrider.systematic_search import audit_log, ledger, manifest
from outrider.systematic_search.audit_log import FileAudit
from outrider.systematic_search.ledger import NoSuchRun
from outrider.systematic_search.manifest import signer
from outrider.systematic_search.run import OtherRun, Run, RunDependencies, read_library_address
from outrider.systematic_search.services.crossref import CrossrefSource
from outrider.systematic_search.services.github import GithubSource
from outrider.systematic_search.services.openalex import OpenalexSource
from outrider.systematic_search.services.pubmed import PubmedSource
from outrider.systematic_search.services.semantic_scholar import SemanticScholarSource
from outrider.systematic_search.services.slice_reader import ServiceClient
from outrider.systematic_search.services.translate import REFUSED, UNSUPPORTED, RefusedSource
from outrider.version import __version__

if TYPE_CHECKING:
    from outrider.library.library import Library
    from outrider.services import Services
    from outrider.state.request import SearchRequest


MIN_TIMEOUT_S = 60.0
"""Of one request: hundreds of records take longer than the first few."""
TAG = "systematic-{version}"
"""Tag of the version that runs read; runs over one version share it."""
PIN_ATTEMPTS = 5
"""Another process may write between reading the version and tagging it."""
RUN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")

Syntax = SyntaxChoice
Say = Callable[[str], None]
"""Receives messages about long waits."""

log = logging.getLogger(__name__)


def make_remote_sources(settings: Settings, say: Say = log.warning) -> Mapping[str, RemoteSource]:
    """Services by name, in the order in which a run reads them; empty if offline. `say` receives messages about long waits.

    They share the rate limits of this process's searches, but no cache: a run's answers must be current.
    """
    sources = settings.sources
    if sources.offline:
        return {}
    caller = Caller(contact=sources.contact, fresh_s=0.0, shared=open_shared_redis(settings))

    def client(service: Service) -> ServiceClient:
        return ServiceClient(caller, replace(service, timeout_s=max(MIN_TIMEOUT_S, service.timeout_s)), say)

    adapters: tuple[tuple[bool, Callable[[], RemoteSource]], ...] = (
        (sources.pubmed.enabled, lambda: PubmedSource(client(Pubmed.of(sources.pubmed, caller).service))),
        (sources.openalex.enabled, lambda: OpenalexSource(client(Openalex.of(sources.openalex, caller).service))),
        (
            sources.semantic_scholar.enabled,
            lambda: SemanticScholarSource(client(SemanticScholar.of(sources.semantic_scholar, caller).service)),
        ),
        (sources.crossref.enabled, lambda: CrossrefSource(client(Crossref.of(sources.crossref, caller).service))),
        (sources.github.enabled, lambda: GithubSource(client(Github.of(sources.github, caller).service))),
    )
    remote: list[RemoteSource] = [make() for enabled, make in adapters if enabled]
    remote += [RefusedSource(name) for name in (*REFUSED, *UNSUPPORTED) if getattr(sources, name).enabled]
    return {source.name: source for source in remote}


def find_remote_sources(services: Services, say: Say = log.warning) -> Mapping[str, RemoteSource]:
    """The services that can be read to the last hit, by name; empty if offline."""
    remote = services.wrap_all("remote", lambda: [*_find_remote(services, say).values()], RemoteSource)
    return {source.name: source for source in remote}


def _find_remote(services: Services, say: Say) -> Mapping[str, RemoteSource]:
    return make_remote_sources(services.settings, say) if services.world is None else services.world


ALL_SOURCES = (LIBRARY, "pubmed", "openalex", "semantic_scholar", "crossref", "github", *UNSUPPORTED, *REFUSED)


async def list_sources(services: Services) -> dict[str, str]:
    """Every source by name, with the reason why a systematic run cannot ask it now; empty where it can."""
    remote = find_remote_sources(services)
    reasons = {LIBRARY: ""}
    try:
        if services.pin is None:
            await services.library()
    except LibraryMissing:
        reasons[LIBRARY] = "there is no library yet"
    except LibraryError as error:
        reasons[LIBRARY] = str(error)
    off = "this server is offline" if services.settings.sources.offline else "it is switched off on this server"
    for name in dict.fromkeys((*ALL_SOURCES[1:], *remote)):
        source = remote.get(name)
        refused = without_port(source)
        reasons[name] = off if source is None else refused.why if isinstance(refused, RefusedSource) else ""
    return reasons


def select_sources(names: Sequence[str] | None, remote: Mapping[str, RemoteSource]) -> tuple[str, ...]:
    """The named sources in their order, or the library alone. Raises `BadRequest` for one that no systematic run can read."""
    known = (LIBRARY, *remote)
    off = "" if remote else "; services are switched off (sources.offline)"
    for name in names or ():
        if name not in known:
            raise BadRequest(f"no exact run can ask {name!r}{did_you_mean(name, known)}; it can ask: {', '.join(known)}{off}")
    return tuple(dict.fromkeys(names or (LIBRARY,)))


def refuse_unreadable(services: Services, request: SearchRequest) -> None:
    """Raise `BooleanSyntaxError` or `BadRequest` for an invalid query, and for a source that no systematic run can read."""
    parse(request.query)
    select_sources(request.sources, find_remote_sources(services))


def runs_folder(services: Services) -> Path:
    return find_folders(services.settings)["runs"]


def new_run_folder(services: Services, folder: str | Path | None = None) -> Path:
    """The named folder, or one whose name sorts by time and cannot be guessed, because a run can be read over HTTP by its name."""
    if folder:
        return Path(folder).expanduser()
    return runs_folder(services) / f"{datetime.fromtimestamp(services.clock(), UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(16)}"


def find_run_folder(services: Services, run: str | Path) -> Path:
    """The folder of a run that is named by its folder, ledger or manifest, or by its name among the runs of the settings."""
    path = Path(run).expanduser()
    if path.name in (ledger.NAME, manifest.NAME):
        path = path.parent
    if (path / ledger.NAME).is_file():
        return path
    folder = runs_folder(services) / str(run)
    if RUN_NAME.fullmatch(str(run)) and (folder / ledger.NAME).is_file():
        return folder
    name = shorten(str(run))
    wanted = f"give the folder of a run, its {manifest.NAME}, or its name in {runs_folder(services)}"
    if path.is_file():
        raise NoSuchRun(f"there is no run {name}: this file is no manifest beside the ledger of a run; {wanted}")
    if path.is_dir():
        raise NoSuchRun(f"there is no run {name}: this folder has no {ledger.NAME}; {wanted}")
    raise NoSuchRun(f"there is no run {name}: no such file or folder; {wanted}")


async def begin_run(
    services: Services,
    query: str | Mapping[str, str],
    sources: Sequence[str] | None = None,
    *,
    syntax: Syntax = "auto",
    folder: str | Path | None = None,
    say: Say = log.warning,
) -> Run:
    """A new run. Raises `BooleanSyntaxError` and `BadRequest` before anything is opened or written, `LibraryError` without a library."""
    fields = dict(query) if isinstance(query, Mapping) else query
    parsed = parse(fields, syntax)
    parts = make_parts(services, say)
    names = select_sources(sources, parts.remote_sources)
    if services.planner is not None and services.pin is None and services.world is None:
        parts = replace(parts, on_finished=note_systematic(services, services.planner, fields, names))
    return await Run.start(new_run_folder(services, folder), fields, parsed, names, parts, services.settings.systematic.page)


async def resume_run(services: Services, run: str | Path, say: Say = log.warning) -> Run:
    """An interrupted run, after its last complete page."""
    folder = await asyncio.to_thread(find_run_folder, services, run)
    return await Run.resume(folder, make_parts(services, say, folder))


def make_systematic_node(services: Services) -> Systematic:
    """The node over the services; a resumed search of a thread resumes its run."""

    async def begin(state: SearchRequest) -> Run:
        journal = JOURNAL.get()
        folder = runs_folder(services) / f"thread-{journal.run}" if journal else None
        is_begun = await asyncio.to_thread((folder / ledger.NAME).is_file) if folder else False
        if folder and is_begun:
            return await resume_run(services, folder)
        return await begin_run(services, state.query, state.sources, folder=folder)

    return Systematic(begin, services.shelf, lambda: services.sources)


def make_parts(services: Services, say: Say = log.warning, folder: Path | None = None) -> RunDependencies:
    """Everything that a run needs from outside; `say` receives messages about long waits. `folder` is that of an earlier run."""
    settings = services.settings.systematic
    sign = signer(Path(settings.signing_key).expanduser()) if settings.signing_key else None
    audit = FileAudit(Path(settings.audit_log).expanduser() if settings.audit_log else runs_folder(services) / audit_log.NAME)
    pin = services.wrap("pin", lambda: services.pin or partial(_pin_library, services, folder), OpenLibrary)
    return RunDependencies(pin, find_remote_sources(services, say), audit, __version__, services.clock, sign, settings.identity_most)


async def require_library(services: Services, snapshot: Snapshot, folder: Path) -> None:
    """Raise `OtherRun` unless the library of the settings is the one that the run in the folder read; `LibraryMissing` without one."""
    if services.pin is not None:
        return
    try:
        library = await services.library()
    except LibraryMissing as error:
        raise LibraryMissing(f"{_name_library(snapshot, folder)}: {error}") from error
    _require_library(library, snapshot, folder)


def _require_library(library: Library, snapshot: Snapshot, folder: Path | None) -> None:
    if snapshot.library != library.library_id:
        raise OtherRun(f"{_name_library(snapshot, folder)}: the one at {library.shown} is {library.library_id}")


def _name_library(snapshot: Snapshot, folder: Path | None) -> str:
    """What a message about another library says of the one that the run in the folder read."""
    address = read_library_address(folder) if folder else ""
    then = f", then at {address}" if address else ""
    return f"the run read the library {snapshot.library}{then}; name it with --library {address or 'PATH'}"


async def _pin_library(services: Services, folder: Path | None, snapshot: Snapshot | None) -> PinnedLibrary:
    """The library of the settings at the version of the snapshot, which the run in the folder read, or at the current one."""
    library = await services.library()
    if snapshot is None:
        return await _pin_current_version(library)
    _require_library(library, snapshot, folder)
    pinned = await library.pinned(snapshot.tag or None)
    if pinned.snapshot.version != snapshot.version:
        pinned.close()
        raise LibraryError(f"it is at version {pinned.snapshot.version} now, and version {snapshot.version} was not kept by a tag")
    return pinned


async def _pin_current_version(library: Library) -> PinnedLibrary:
    """The current version under the tag of its number; without a tag if the library is read-only."""
    for _ in range(PIN_ATTEMPTS):
        current = await library.pinned()
        version = current.snapshot.version
        current.close()
        tag = TAG.format(version=version)
        try:
            if tag not in await library.tags():
                with suppress(BadRequest):  # another run has just created it
                    await library.tag(tag)
            pinned = await library.pinned(tag)
        except LibraryReadOnly:
            return await library.pinned()
        if pinned.snapshot.version == version:
            return pinned
        pinned.close()
        await library.untag(tag)
    raise LibraryError(f"the library at {library.shown} is being written too often to name a version of it; try again")
