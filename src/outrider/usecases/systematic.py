"""Systematic runs: `outrider.systematic`, `iter_hits`, `replay` and `verify`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from outrider.boolean.parser import parse
from outrider.nodes.organizer import to_hit
from outrider.runtime.threads_and_loops import run_in_background
from outrider.services import Services, open_services
from outrider.services.systematic import Say, Syntax, begin_run, find_run_folder, make_parts, new_run_folder, require_library, resume_run
from outrider.state.errors import BadRequest
from outrider.state.hits import Candidate, FoundBy, Hit
from outrider.state.response import ResultSet
from outrider.systematic_search import audit_log, ledger
from outrider.systematic_search import manifest as manifests
from outrider.systematic_search.audit_log import format_time
from outrider.systematic_search.ledger_reader import RunHit, RunPage, read_pages, require_complete, require_unchanged
from outrider.systematic_search.manifest import Manifest, load_public_key
from outrider.systematic_search.replay import Replayed, compare_runs, open_version
from outrider.systematic_search.run import Run
from outrider.systematic_search.verify import Verdict, verify_run
from outrider.usecases.export import RUN_FORMATS, is_whole_csv, make_run_writer

STRATEGY = "systematic"
OnPage = Callable[[str, int], None]
"""Called after each page with the source and the number of hits so far."""

log = logging.getLogger(__name__)


class HitPage(NamedTuple):
    """Hits in the run's order; `cursor` asks for the following ones."""

    hits: tuple[Hit, ...]
    cursor: str
    is_last: bool = False
    """Whether nothing is known to follow."""


class AsyncSystematicHits(AsyncGenerator[Hit, None]):
    """Every hit of a run, in its order. `pages()` gives the same page by page; use one of the two.

    Ends normally only after all matching records: else it raises `IncompleteRun` after the last hit, with the numbers.
    """

    def __init__(self, begin: Callable[[], Awaitable[Run]], finish: Callable[[], None], after: str, on_page: OnPage | None) -> None:
        self.cursor = after
        """Of the last complete page; `after=` continues behind it."""
        self._begin, self._finish, self._after, self._on_page = begin, finish, after, on_page
        self._run: Run | None = None
        self._hits: AsyncGenerator[Hit, None] | None = None

    @property
    def folder(self) -> Path | None:
        """Of the run; None before its first page is read."""
        return self._run.folder if self._run else None

    @property
    def remarks(self) -> tuple[str, ...]:
        """Where the query may not mean what it seems to; after the run also values that records lack. Empty before the first page."""
        if self._run is None:
            return ()
        return self._run.request.remarks if self._run.manifest is None else self._run.manifest.remarks

    @property
    def manifest(self) -> Manifest:
        """Available once the run has ended or was closed; else raises `BadRequest`."""
        if self._run is None or self._run.manifest is None:
            raise BadRequest("a run has its manifest once its hits were read to the end, or it was closed")
        return self._run.manifest

    @property
    def result_set(self) -> ResultSet:
        """A reference to the saved hits; available like `manifest`."""
        _ = self.manifest
        assert self._run is not None  # noqa: S101 - it has a manifest
        return self._run.result_set()

    async def pages(self) -> AsyncGenerator[HitPage, None]:
        """A page at a time; each is on the disk before it is returned."""
        try:
            async with aclosing(self._read_pages()) as pages:
                async for page in pages:
                    yield HitPage(tuple(make_hit(match, self._query) for match in page.hits), page.cursor, page.is_last)
                    self.cursor = page.cursor
        finally:
            try:
                if self._run is not None:
                    await self._run.aclose()
            finally:
                self._finish()
        assert self._run is not None  # noqa: S101
        require_complete(self.manifest, self._run.folder)

    async def _read_pages(self) -> AsyncGenerator[RunPage, None]:
        """Pages of the ledger first, for a resumed run, and then new ones."""
        self._run = run = await self._begin()
        self._query = _format_query(run.request.query)
        before = read_pages(run.ledger.path, self._after, run.ledger.state.size)
        while (page := await asyncio.to_thread(next, before, None)) is not None:
            yield page
        async with aclosing(run.pages()) as pages:
            async for page in pages:
                if self._on_page:
                    self._on_page(page.source, run.hits)
                yield page

    async def _iterate(self) -> AsyncGenerator[Hit, None]:
        async with aclosing(self.pages()) as pages:
            async for page in pages:
                for hit in page.hits:
                    yield hit

    def _generator(self) -> AsyncGenerator[Hit, None]:
        if self._hits is None:
            self._hits = self._iterate()
        return self._hits

    async def __anext__(self) -> Hit:
        return await anext(self._generator())

    async def asend(self, value: None) -> Hit:
        return await self._generator().asend(value)

    async def athrow(self, *error: Any) -> Hit:
        return await self._generator().athrow(*error)

    async def aclose(self) -> None:
        """Stop the run; it can be resumed."""
        await self._generator().aclose()


class SystematicHits(Generator[Hit, None, None]):
    """`AsyncSystematicHits` for callers without an event loop; also a context manager that stops the run at its end."""

    def __init__(self, hits: AsyncSystematicHits) -> None:
        self._async_hits = hits
        self._hits: Generator[Hit, None, None] | None = None

    @property
    def cursor(self) -> str:
        return self._async_hits.cursor

    @property
    def folder(self) -> Path | None:
        return self._async_hits.folder

    @property
    def remarks(self) -> tuple[str, ...]:
        return self._async_hits.remarks

    @property
    def manifest(self) -> Manifest:
        return self._async_hits.manifest

    @property
    def result_set(self) -> ResultSet:
        return self._async_hits.result_set

    def pages(self) -> Generator[HitPage, None, None]:
        pages = self._async_hits.pages()

        async def next_page() -> HitPage | None:
            return await anext(pages, None)

        async def close() -> None:
            await pages.aclose()

        try:
            while (page := run_in_background(next_page())) is not None:
                yield page
        finally:
            run_in_background(close())

    def _iterate(self) -> Generator[Hit, None, None]:
        pages = self.pages()
        try:
            for page in pages:
                yield from page.hits
        finally:
            pages.close()

    def _generator(self) -> Generator[Hit, None, None]:
        if self._hits is None:
            self._hits = self._iterate()
        return self._hits

    def send(self, value: None) -> Hit:
        return self._generator().send(value)

    def throw(self, *error: Any) -> Hit:
        return self._generator().throw(*error)

    def close(self) -> None:
        """Stop the run; it can be resumed."""
        self._generator().close()

    def __enter__(self) -> SystematicHits:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def asystematic(  # noqa: PLR0913 - one argument a part
    query: str | Mapping[str, str] | None = None,
    *,
    library: str | PathLike[str] | None = None,
    sources: Sequence[str] | None = None,
    syntax: Syntax = "auto",
    folder: str | PathLike[str] | None = None,
    resume: str | PathLike[str] | ResultSet | None = None,
    after: str = "",
    on_page: OnPage | None = None,
    services: Services | None = None,
) -> AsyncSystematicHits:
    """Every record that a Boolean query matches and no other, as an asynchronous generator of hits in a stated total order.

    `query` is the syntax of PubMed, Ovid or another platform, or a mapping of fields to texts. The run reads the library alone, at one
    version, unless `sources` names services, too. It writes each page to its ledger in `folder` (by default a new one in the folder of the
    settings) before it returns the page's hits, and a manifest at the end. `resume` names an interrupted run (its folder, name, ledger,
    manifest or `ResultSet`): its hits are returned again, from the cursor `after` on, and then the rest.

    Raises `BooleanSyntaxError`, `BadRequest` before anything is written; `LibraryError` where the run breaks off; `IncompleteRun` at the
    end where a source was not read to its last hit.
    """
    if (query is None) == (resume is None):
        raise BadRequest("a systematic run takes either a query, or resume with the run to continue; not both")
    if after and resume is None:
        raise BadRequest("after takes a cursor of the run that resume names")
    opened: list[Services] = []

    async def begin() -> Run:
        if services is None:
            opened.append(await asyncio.to_thread(Services.for_library, library))
        used = services or opened[0]
        if resume is not None:
            return await resume_run(used, _find_path(resume))
        assert query is not None  # noqa: S101 - checked above
        return await begin_run(used, query, sources, syntax=syntax, folder=None if folder is None else str(folder))

    def close() -> None:
        for used in opened:
            used.close()

    return AsyncSystematicHits(begin, close, after, on_page)


def systematic(query: str | Mapping[str, str] | None = None, **options: Any) -> SystematicHits:
    """`asystematic` for callers without an event loop: a generator."""
    return SystematicHits(asystematic(query, **options))


def iter_hits(run: ResultSet | Mapping[str, Any] | str | PathLike[str], after: str = "") -> Iterator[Hit]:
    """The hits of a finished run from its ledger, each line checked against the hash chain; one page at a time in memory.

    `run` is the `result_set` of an answer, or the path of a ledger, manifest or run. Raises `Tampered` with the place, and `IncompleteRun`
    after the last hit of a run that is not complete.
    """
    path = _find_path(run)
    folder = path.parent if path.name in (ledger.NAME, manifests.NAME) else path
    manifest = manifests.read(folder / manifests.NAME)
    for page in read_pages(folder / ledger.NAME, after, manifest.ledger.bytes):
        for match in page.hits:
            yield make_hit(match, _format_query(manifest.asked.query))
    require_unchanged(folder / ledger.NAME, manifest)
    require_complete(manifest, folder)


def make_hit(match: RunHit, query: str) -> Hit:
    """A hit as in other answers: its rank is its number in the run, its reason the proof; it has no score of its own."""
    by = FoundBy(match.source, STRATEGY, query, match.number)
    return to_hit(Candidate(match.record, (by,), reason=match.proof), match.number)


def replay(
    run: ResultSet | Mapping[str, Any] | str | PathLike[str],
    *,
    pinned: bool = False,
    library: str | PathLike[str] | None = None,
    services: Services | None = None,
) -> Replayed:
    """Repeat a run and compare the hits: `.differences`, each with its cause; empty where both are the same.

    Reads the library as it is now, or, if `pinned`, at the version that the first run read. Services are queried again.
    """

    async def run_again() -> Replayed:
        async with open_services(services, library) as opened:
            return await replay_run(opened, _find_path(run), pinned=pinned)

    return run_in_background(run_again())


async def replay_run(
    services: Services, run: str | Path, *, pinned: bool = False, on_page: OnPage | None = None, say: Say = log.warning
) -> Replayed:
    """Repeat a run over the library as it is now, or `pinned` at the version that it read; services are queried again.

    The second run has a folder of its own. Raises `NoSuchRun`, `OtherRun` where the first run read another library, `LibraryError`, and
    `Tampered` where the first run was changed.
    """
    folder = await asyncio.to_thread(find_run_folder, services, run)
    first = manifests.read(folder / manifests.NAME)
    if first.asked.snapshot is not None:
        await require_library(services, first.asked.snapshot, folder)
    parts = make_parts(services, say, folder)
    snapshot = first.asked.snapshot if pinned else None
    parsed = parse(first.asked.query, first.asked.syntax)
    now_pinned = replace(parts, library=lambda _: parts.library(snapshot))
    again = await Run.start(new_run_folder(services), first.asked.query, parsed, first.asked.names, now_pinned, first.asked.page)
    async with aclosing(again), aclosing(again.pages()) as pages:
        async for page in pages:
            if on_page:
                on_page(page.source, again.hits)
    second = again.manifest
    assert second is not None  # noqa: S101 - it came to its end
    libraries = [await open_version(parts.library, manifest.asked.snapshot) for manifest in (first, second)]
    try:
        result = await compare_runs((first, folder / ledger.NAME), (second, again.ledger.path), *libraries)
    finally:
        for library in libraries:
            if library is not None:
                library.close()
    entry: dict[str, Any] = {"event": "replayed", "at": format_time(services.clock()), "run": str(folder), "again": str(again.folder)}
    entry |= {"differences": len(result.differences), "provenance_hash": result.provenance_hash}
    await asyncio.to_thread(parts.audit.append, entry)
    return result


def verify(manifest: str | PathLike[str], result: str | PathLike[str] | None = None, *, key: str | PathLike[str] | None = None) -> Verdict:
    """Whether a manifest and a delivered file (`result`: the ledger, an exported file, an audit log) are unchanged since the run.

    Needs no network and no library. `.sound`, and `.faults` with file and place. `key` is a PEM file with the key that must have signed
    the manifest. `manifest` may also be a run's folder.
    """
    path, file = Path(manifest), None if result is None else Path(result)
    path = path / manifests.NAME if path.is_dir() else path
    form = None if file is None or file.name in (ledger.NAME, audit_log.NAME) else RUN_FORMATS.get(file.suffix.lower())
    export = partial(make_run_writer, form, whole=form == "csv" and is_whole_csv(file)) if form and file else None
    return verify_run(path, file, load_public_key(Path(key)) if key else "", export)


def _find_path(run: ResultSet | Mapping[str, Any] | str | PathLike[str]) -> Path:
    if isinstance(run, Mapping):
        run = ResultSet.model_validate(run)
    return Path(run.path if isinstance(run, ResultSet) else run)


def _format_query(query: str | Mapping[str, str]) -> str:
    return query if isinstance(query, str) else " ".join(f"{name}: {text}" for name, text in query.items())
