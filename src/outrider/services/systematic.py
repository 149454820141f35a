"""Services that a systematic run may ask, from the settings: those that can be read to the last hit, and those that refuse by name.

Exact runs over the settings: which library is pinned, which services are asked, where a run is written, and by what it is signed.
"""

from __future__ import annotations

import asyncio
import logging
import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import platformdirs

from outrider.boolean.parser import parse
from outrider.ingest.export import make_writer
from outrider.models.chat.journal import JOURNAL
from outrider.nodes.systematic import Systematic
from outrider.settings.model import Settings
from outrider.sources.crossref import Crossref
from outrider.sources.github.search import Github
from outrider.sources.http.client import Caller
from outrider.sources.http.service import Service
from outrider.sources.openalex import Openalex
from outrider.sources.pubmed.search import Pubmed
from outrider.sources.semantic_scholar import SemanticScholar
from outrider.state.errors import BadRequest, LibraryError, LibraryReadOnly, did_you_mean, shorten
from outrider.state.records import LIBRARY
from outrider.state.systematic import PinnedLibrary, Snapshot, WorldSource
from outrider.systematic_search import audit_log as audit
from outrider.systematic_search import ledger, manifest
from outrider.systematic_search.audit_log import AuditLog, FileAudit, format_time
from outrider.systematic_search.ledger import NoSuchRun
from outrider.systematic_search.replay import Replayed, compare_runs, open_version
from outrider.systematic_search.run import OpenLibrary, Run, RunDependencies
from outrider.systematic_search.services.client import ServiceClient
from outrider.systematic_search.services.crossref import CrossrefSource
from outrider.systematic_search.services.github import GithubSource
from outrider.systematic_search.services.openalex import OpenalexSource
from outrider.systematic_search.services.pubmed import PubmedSource
from outrider.systematic_search.services.semantic_scholar import SemanticScholarSource
from outrider.systematic_search.services.translate import REFUSED, UNSUPPORTED, RefusedSource
from outrider.systematic_search.signing import load_public_key, signer
from outrider.systematic_search.verify import Verdict, verify_run
from outrider.version import __version__

if TYPE_CHECKING:
    from outrider.library.library import Library
    from outrider.services import Services
    from outrider.state.request import SearchRequest


LEAST_TIMEOUT_S = 60.0
"""Of one request: hundreds of records take longer than the first few."""

log = logging.getLogger(__name__)


def world_sources(settings: Settings, say: Callable[[str], None] = log.warning) -> Mapping[str, WorldSource]:
    """By name, in the order in which they are asked; none where only the library is asked. `say` is told of long waits.

    They share the limits of the searches of this process, but no cache: a run's answers are of now.
    """
    asked = settings.sources
    if asked.offline:
        return {}
    caller = Caller(contact=asked.contact, fresh_s=0.0)

    def client(service: Service) -> ServiceClient:
        return ServiceClient(caller, replace(service, timeout_s=max(LEAST_TIMEOUT_S, service.timeout_s)), say)

    made: tuple[tuple[bool, Callable[[], WorldSource]], ...] = (
        (asked.pubmed.enabled, lambda: PubmedSource(client(Pubmed.of(asked.pubmed, caller).service))),
        (asked.openalex.enabled, lambda: OpenalexSource(client(Openalex.of(asked.openalex, caller).service))),
        (asked.semantic_scholar.enabled, lambda: SemanticScholarSource(client(SemanticScholar.of(asked.semantic_scholar, caller).service))),
        (asked.crossref.enabled, lambda: CrossrefSource(client(Crossref.of(asked.crossref, caller).service))),
        (asked.github.enabled, lambda: GithubSource(client(Github.of(asked.github, caller).service))),
    )
    sources: list[WorldSource] = [make() for enabled, make in made if enabled]
    refusing = [RefusedSource(name) for name in (*REFUSED, *UNSUPPORTED) if getattr(asked, name).enabled]
    return {source.name: source for source in (*sources, *refusing)}


TAG = "systematic-{version}"
"""Of the version that runs read; runs over one version share it."""
TRIES = 5
"""Another process may write between reading the version and naming it."""
RUN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")

Syntax = Literal["auto", "pubmed", "ovid"]
OnPage = Callable[[str, int], None]
"""Called behind each page with the source and the number of hits so far."""
Say = Callable[[str], None]
"""Told what makes a run wait."""


def runs_folder(services: Services) -> Path:
    given = services.settings.systematic.folder
    return Path(given).expanduser() if given else platformdirs.user_data_path("outrider", appauthor=False) / "runs"


def folder_of(services: Services, run: str | Path) -> Path:
    """The folder of a run that is named by its folder, its ledger, its manifest, or its name among the runs of the settings."""
    path = Path(run).expanduser()
    if path.name in (ledger.NAME, manifest.NAME):
        path = path.parent
    if (path / ledger.NAME).is_file():
        return path
    named = runs_folder(services) / str(run)
    if RUN_NAME.fullmatch(str(run)) and (named / ledger.NAME).is_file():
        return named
    raise NoSuchRun(f"there is no run {shorten(str(run))}, neither as a folder nor in {runs_folder(services)}")


async def begun(
    services: Services,
    query: str | Mapping[str, str],
    sources: Sequence[str] | None = None,
    *,
    syntax: Syntax = "auto",
    folder: str | Path | None = None,
    say: Say = log.warning,
) -> Run:
    """A new run. Raises `BooleanSyntaxError` and `BadRequest` before anything is opened or written, `LibraryError` where there is none."""
    asked = dict(query) if isinstance(query, Mapping) else query
    parsed = parse(asked, syntax)
    parts = parts_of(services, say)
    names = sources_asked(sources, parts.remote_sources)
    return await Run.start(_place(services, folder), asked, parsed, names, parts, services.settings.systematic.page)


def systematic_of(services: Services) -> Systematic:
    """The node over the services; a search of a thread that is gone on with goes on with its run."""

    async def begin(state: SearchRequest) -> Run:
        journal = JOURNAL.get()
        folder = runs_folder(services) / f"thread-{journal.run}" if journal else None
        if folder and (folder / ledger.NAME).is_file():
            return await resumed(services, folder)
        return await begun(services, state.query, state.sources, folder=folder)

    return Systematic(begin, services.shelf, lambda: services.sources)


def refuse_unreadable(services: Services, request: SearchRequest) -> None:
    """Raise `BooleanSyntaxError` or `BadRequest` for a query that cannot be read and for a source that no exact run can ask."""
    parse(request.query)
    sources_asked(request.sources, world_of(services))


async def resumed(services: Services, run: str | Path, say: Say = log.warning) -> Run:
    """A run that broke off, behind its last whole page."""
    return await Run.resume(folder_of(services, run), parts_of(services, say))


async def replayed(
    services: Services, run: str | Path, *, pinned: bool = False, on_page: OnPage | None = None, say: Say = log.warning
) -> Replayed:
    """A run made again: over the library as it is now, or `pinned` at the version that it read; services are asked anew.

    The second run is a run of its own, beside the others. `NoSuchRun`, `LibraryError`, `Tampered` where the first one was changed.
    """
    folder = folder_of(services, run)
    told = manifest.read(folder / manifest.NAME)
    parts = parts_of(services, say)
    opened = partial(parts.library, told.asked.snapshot) if pinned and told.asked.snapshot else partial(parts.library, None)
    parsed = parse(told.asked.query, told.asked.syntax)
    again = replace(parts, library=lambda _: opened())
    made = await Run.start(_place(services, None), told.asked.query, parsed, told.asked.names, again, told.asked.page)
    async with aclosing(made), aclosing(made.pages()) as pages:
        async for page in pages:
            if on_page:
                on_page(page.source, made.hits)
    assert made.manifest is not None  # noqa: S101 - it came to its end
    then, now = [await open_version(parts.library, one.asked.snapshot) for one in (told, made.manifest)]
    try:
        found = await compare_runs((told, folder / ledger.NAME), (made.manifest, made.ledger.path), then, now)
    finally:
        for library in (then, now):
            if library is not None:
                library.close()
    said = {"event": "replayed", "at": format_time(services.clock()), "run": str(folder), "again": str(made.folder)}
    await asyncio.to_thread(parts.audit.append, {**said, "differences": len(found.differences), "provenance_hash": found.provenance_hash})
    return found


FORMATS = {".ris": "ris", ".bib": "bibtex", ".csv": "csv", ".jsonl": "jsonl"}
"""Of exported files, by suffix."""


def format_of(path: Path) -> str:
    if path.suffix.lower() not in FORMATS:
        raise BadRequest(f"{path} does not say its format; a run is exported to {', '.join(FORMATS)}")
    return FORMATS[path.suffix.lower()]


def checked(path: Path, result: Path | None, key: Path | None) -> Verdict:
    """As `verify.verify_run`, by the writers of this version; `path` may also be a run's folder."""
    path = path / manifest.NAME if path.is_dir() else path
    form = FORMATS.get(result.suffix.lower()) if result is not None else None
    export = partial(make_writer, form) if form and result is not None and result.name not in (ledger.NAME, audit.NAME) else None
    return verify_run(path, result, load_public_key(key) if key else "", export)


def sources_asked(sources: Sequence[str] | None, world: Mapping[str, WorldSource]) -> tuple[str, ...]:
    """The library alone, unless others are named; in the order named."""
    known = (LIBRARY, *world)
    off = "" if world else "; services are switched off (sources.offline)"
    for name in sources or ():
        if name not in known:
            raise BadRequest(f"no exact run can ask {name!r}{did_you_mean(name, known)}; it can ask: {', '.join(known)}{off}")
    return tuple(dict.fromkeys(sources or (LIBRARY,)))


def parts_of(services: Services, say: Say = log.warning) -> RunDependencies:
    said = services.settings.systematic
    sign = signer(Path(said.signing_key).expanduser()) if said.signing_key else None
    pin = services.pin or _pinning(services)
    return RunDependencies(pin, world_of(services, say), audit_of(services), __version__, services.clock, sign, said.identity_most)


def audit_of(services: Services) -> AuditLog:
    given = services.settings.systematic.audit_log
    return FileAudit(Path(given).expanduser() if given else runs_folder(services) / audit.NAME)


def world_of(services: Services, say: Say = log.warning) -> Mapping[str, WorldSource]:
    """The services that can be read to the last hit, by name; none while searches stay offline."""
    return world_sources(services.settings, say) if services.world is None else services.world


def _pinning(services: Services) -> OpenLibrary:
    """The library of the settings, as one version."""

    async def pinned(snapshot: Snapshot | None) -> PinnedLibrary:
        library = await services.library()
        return await (_pinned_now(library) if snapshot is None else _pinned_before(library, snapshot))

    return pinned


async def _pinned_before(library: Library, snapshot: Snapshot) -> PinnedLibrary:
    if snapshot.library != library.library_id:
        raise LibraryError(f"the library at {library.shown} is another one; name the one of the run with --library")
    pinned = await library.pinned(snapshot.tag or None)
    if pinned.snapshot.version != snapshot.version:
        pinned.close()
        raise LibraryError(f"it is at version {pinned.snapshot.version} now, and version {snapshot.version} was not kept by a tag")
    return pinned


async def _pinned_now(library: Library) -> PinnedLibrary:
    """The current version under the tag of its number; without a tag where the library cannot be written."""
    for _ in range(TRIES):
        now = await library.pinned()
        version = now.snapshot.version
        now.close()
        tag = TAG.format(version=version)
        try:
            if tag not in await library.tags():
                with suppress(BadRequest):  # another run has just named it
                    await library.tag(tag)
            pinned = await library.pinned(tag)
        except LibraryReadOnly:
            return await library.pinned()
        if pinned.snapshot.version == version:
            return pinned
        pinned.close()
        await library.untag(tag)
    raise LibraryError(f"the library at {library.shown} is being written too often to name a version of it; try again")


def _place(services: Services, folder: str | Path | None) -> Path:
    """A name sorts by time; its rest cannot be guessed: whoever knows the name of a run may read it over HTTP."""
    if folder:
        return Path(folder).expanduser()
    return runs_folder(services) / f"{datetime.fromtimestamp(services.clock(), UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(16)}"
