"""The Python door to exact runs: `systematic`, `asystematic`, `iter_hits`, `replay`, `verify`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator, Iterator, Mapping, Sequence
from contextlib import aclosing
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from outrider.nodes.organizer import to_hit
from outrider.runtime.background_loop import run_in_background
from outrider.services import Services
from outrider.services.systematic import OnPage, Syntax, begun, checked, replayed, resumed
from outrider.state.errors import BadRequest
from outrider.state.hits import Candidate, FoundBy, Hit
from outrider.state.response import ResultSet
from outrider.systematic_search import ledger, manifest
from outrider.systematic_search.ledger_reader import RunHit, RunPage, read_pages, require_complete, require_unchanged
from outrider.systematic_search.manifest import Manifest
from outrider.systematic_search.replay import Replayed
from outrider.systematic_search.run import Run
from outrider.systematic_search.verify import Verdict

STRATEGY = "systematic"


class HitPage(NamedTuple):
    """Hits in the run's order; with `cursor` those that follow are asked for."""

    hits: tuple[Hit, ...]
    cursor: str


class AsyncSystematicHits(AsyncGenerator[Hit, None]):
    """Every hit of a run, in its order. `pages()` gives the same page by page; use one of the two.

    Ends only where all that match were given: else `IncompleteRun` is raised behind the last hit, with the numbers.
    """

    def __init__(self, begin: Callable[[], Awaitable[Run]], finish: Callable[[], None], after: str, on_page: OnPage | None) -> None:
        self.cursor = after
        """Of the last page that was given whole; `after=` goes on behind it."""
        self._begin, self._finish, self._after, self._on_page = begin, finish, after, on_page
        self._run: Run | None = None
        self._hits: AsyncGenerator[Hit, None] | None = None

    @property
    def folder(self) -> Path | None:
        """Of the run; None before its first page was asked for."""
        return self._run.folder if self._run else None

    @property
    def manifest(self) -> Manifest:
        """Once the run has come to its end, or was closed before."""
        if self._run is None or self._run.manifest is None:
            raise BadRequest("a run has its manifest once its hits were read to the end, or it was closed")
        return self._run.manifest

    @property
    def result_set(self) -> ResultSet:
        """Where the hits lie; as `manifest`."""
        _ = self.manifest
        assert self._run is not None  # noqa: S101 - it has a manifest
        return self._run.result_set()

    async def pages(self) -> AsyncGenerator[HitPage, None]:
        """A page at a time, each on the disk before it is given."""
        try:
            async with aclosing(self._found()) as pages:
                async for page in pages:
                    yield HitPage(tuple(hit_of(one, self._query) for one in page.hits), page.cursor)
                    self.cursor = page.cursor
        finally:
            await self._close()
        assert self._run is not None  # noqa: S101
        require_complete(self.manifest, self._run.folder)

    async def _found(self) -> AsyncGenerator[RunPage, None]:
        self._run = run = await self._begin()
        self._query = _shown(run.request.query)
        before = read_pages(run.ledger.path, self._after, run.ledger.state.size)
        while (page := await asyncio.to_thread(next, before, None)) is not None:
            yield page
        async with aclosing(run.pages()) as pages:
            async for page in pages:
                if self._on_page:
                    self._on_page(page.source, run.hits)
                yield page

    async def _close(self) -> None:
        try:
            if self._run is not None:
                await self._run.aclose()
        finally:
            self._finish()

    async def _each(self) -> AsyncGenerator[Hit, None]:
        async with aclosing(self.pages()) as pages:
            async for page in pages:
                for hit in page.hits:
                    yield hit

    def _generator(self) -> AsyncGenerator[Hit, None]:
        if self._hits is None:
            self._hits = self._each()
        return self._hits

    async def __anext__(self) -> Hit:
        return await anext(self._generator())

    async def asend(self, value: None) -> Hit:
        return await self._generator().asend(value)

    async def athrow(self, *error: Any) -> Hit:
        return await self._generator().athrow(*error)

    async def aclose(self) -> None:
        """Stops the run; it can be gone on with."""
        await self._generator().aclose()


class SystematicHits(Generator[Hit, None, None]):
    """`AsyncSystematicHits` for callers without an event loop; also a context manager that stops the run at its end."""

    def __init__(self, behind: AsyncSystematicHits) -> None:
        self._behind = behind
        self._each: Generator[Hit, None, None] | None = None

    @property
    def cursor(self) -> str:
        return self._behind.cursor

    @property
    def folder(self) -> Path | None:
        return self._behind.folder

    @property
    def manifest(self) -> Manifest:
        return self._behind.manifest

    @property
    def result_set(self) -> ResultSet:
        return self._behind.result_set

    def pages(self) -> Generator[HitPage, None, None]:
        pages = self._behind.pages()
        try:
            while (page := run_in_background(_next(pages))) is not None:
                yield page
        finally:
            run_in_background(_ended(pages))

    def _hits(self) -> Generator[Hit, None, None]:
        pages = self.pages()
        try:
            for page in pages:
                yield from page.hits
        finally:
            pages.close()

    def _generator(self) -> Generator[Hit, None, None]:
        if self._each is None:
            self._each = self._hits()
        return self._each

    def send(self, value: None) -> Hit:
        return self._generator().send(value)

    def throw(self, *error: Any) -> Hit:
        return self._generator().throw(*error)

    def close(self) -> None:
        """Stops the run; it can be gone on with."""
        self._generator().close()

    def __enter__(self) -> SystematicHits:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


async def _next(pages: AsyncIterator[HitPage]) -> HitPage | None:
    return await anext(pages, None)


async def _ended(pages: AsyncGenerator[HitPage, None]) -> None:
    await pages.aclose()


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

    `query` is PubMed's syntax, Ovid's lines, or a mapping of fields to texts. The library alone is asked, at one version, unless
    `sources` names services, too. Each page is written to the run's ledger in `folder` (by default one among those of the settings)
    before its hits are given, and a manifest at the end. `resume` names a run that broke off (its folder, name, ledger, manifest or
    `ResultSet`): its hits are given again, from the cursor `after` on, and then the rest.

    Raises `BooleanSyntaxError`, `BadRequest` before anything is written; `LibraryError` where the run breaks off; `IncompleteRun` at the
    end where a source was not read to its last hit.
    """
    if (query is None) == (resume is None):
        raise BadRequest("a systematic run takes a query, or resume with the run to go on with; not both")
    if after and resume is None:
        raise BadRequest("after takes a cursor of the run that resume names")
    made = services or _services_for(library)

    async def begin() -> Run:
        if resume is not None:
            return await resumed(made, _run_of(resume))
        assert query is not None  # noqa: S101 - checked above
        return await begun(made, query, sources, syntax=syntax, folder=None if folder is None else str(folder))

    return AsyncSystematicHits(begin, made.close if services is None else _nothing, after, on_page)


def systematic(query: str | Mapping[str, str] | None = None, **given: Any) -> SystematicHits:
    """`asystematic` for callers without an event loop: a generator."""
    return SystematicHits(asystematic(query, **given))


def iter_hits(run: ResultSet | Mapping[str, Any] | str | PathLike[str], after: str = "") -> Iterator[Hit]:
    """The hits of a finished run, out of its ledger, each line checked against the chain; a page at a time in memory.

    `run` is the `result_set` of an answer, or the path of a ledger, manifest or run. Raises `Tampered` with the place, and `IncompleteRun`
    behind the last hit of a run that is not complete.
    """
    place = _run_of(run)
    folder = place.parent if place.name in (ledger.NAME, manifest.NAME) else place
    made = manifest.read(folder / manifest.NAME)
    for page in read_pages(folder / ledger.NAME, after, made.ledger.bytes):
        for one in page.hits:
            yield hit_of(one, _shown(made.asked.query))
    require_unchanged(folder / ledger.NAME, made)
    require_complete(made, folder)


def hit_of(one: RunHit, query: str) -> Hit:
    """As the other doors give it: its rank is its number in the run, its reason the proof; nothing has scored it."""
    by = FoundBy(one.source, STRATEGY, query, one.number)
    return to_hit(Candidate(one.record, (by,), reason=one.proof), one.number)


async def _replayed(made: Services, run: Path, *, pinned: bool, close: bool) -> Replayed:
    try:
        return await replayed(made, run, pinned=pinned)
    finally:
        if close:
            made.close()


def replay(
    run: ResultSet | Mapping[str, Any] | str | PathLike[str],
    *,
    pinned: bool = False,
    library: str | PathLike[str] | None = None,
    services: Services | None = None,
) -> Replayed:
    """The run made again, and how its hits differ: `.differences`, each with its cause; empty where they are the same.

    Over the library as it is now, or, `pinned`, at the version that the first run read. Services are asked anew.
    """
    made = services or _services_for(library)
    return run_in_background(_replayed(made, _run_of(run), pinned=pinned, close=services is None))


def verify(manifest: str | PathLike[str], result: str | PathLike[str] | None = None, *, key: str | PathLike[str] | None = None) -> Verdict:
    """Whether a manifest and what was delivered with it (`result`: the ledger, an exported file, an audit log) are what the run wrote.

    Asks nobody. `.sound`, and `.faults` with file and place. `key` is a PEM file with the key that must have signed the manifest.
    """
    return checked(Path(manifest), None if result is None else Path(result), None if key is None else Path(key))


def _run_of(run: ResultSet | Mapping[str, Any] | str | PathLike[str]) -> Path:
    if isinstance(run, Mapping):
        run = ResultSet.model_validate(run)
    return Path(run.path if isinstance(run, ResultSet) else run)


def _shown(query: str | Mapping[str, str]) -> str:
    return query if isinstance(query, str) else " ".join(f"{name}: {said}" for name, said in query.items())


def _services_for(library: str | PathLike[str] | None) -> Services:
    return Services.from_file({"library.uri": None if library is None else str(library)})


def _nothing() -> None:
    """Services that were given stay open."""
