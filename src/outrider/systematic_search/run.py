"""A systematic run: pages of exact hits from the library and from services.

Each page is in the ledger before a caller sees it. If a page, a service or the process fails, everything before it stays, and `Run.resume`
continues after the last whole page.

Duplicates among the hits of several sources are counted and named, and stay in the ledger.
"""

from __future__ import annotations

import asyncio
import json
import time
import unicodedata
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from outrider.boolean.parser import ParsedQuery, parse
from outrider.boolean.printer import format_tree
from outrider.runtime.run_calls import RunTally, count_into
from outrider.runtime.tape import read_monotonic
from outrider.state.boolean import Node
from outrider.state.errors import BadRequest, LibraryError, SourceError
from outrider.state.ports import Clock
from outrider.state.records import LIBRARY, RECORD, Record
from outrider.state.response import ResultSet
from outrider.state.systematic import LIBRARY_ORDER, PAGE, Harvest, Matched, MatchedPage, OpenLibrary, PinnedLibrary, RemoteSource
from outrider.systematic_search import manifest as manifests
from outrider.systematic_search.audit_log import AuditLog, format_time
from outrider.systematic_search.ledger import Ledger, file_digest, read_lines
from outrider.systematic_search.ledger_reader import RunHit, RunPage, dump_fetch_state, load_fetch_state
from outrider.systematic_search.library_remarks import TermCheck, find_missing_values
from outrider.systematic_search.manifest import Manifest, RunRequest, Times

SESSIONS = "sessions.jsonl"
"""When the run was started, resumed and interrupted, and where its library was: a file beside the ledger, which holds neither."""

OnFinished = Callable[[Manifest, float, RunTally], None]
"""Called once a new run has read every source, with its seconds and its calls."""
Sign = Callable[[Manifest], Manifest]
"""Adds a signature over the manifest's seal."""


class OtherRun(BadRequest):
    """A run cannot be resumed, because the version of Outrider differs or the version of its library is not available."""


@dataclass(frozen=True, slots=True)
class RunDependencies:
    """Library, services, audit log and clock of a run."""

    library: OpenLibrary
    remote_sources: Mapping[str, RemoteSource]
    audit: AuditLog
    version: str
    """The version of Outrider."""
    clock: Clock = time.time
    sign: Sign | None = None
    identity_most: int = 50_000
    """Up to this many hits of several sources, works are compared by all their fields; beyond, by their identifiers."""
    on_finished: OnFinished | None = None

    @property
    def tool(self) -> dict[str, str]:
        """Versions that must be equal when a run is resumed."""
        return {"outrider": self.version, "unicode": unicodedata.unidata_version}


@dataclass(slots=True)
class Run:
    """Start one with `start` or `resume`, read `pages()` to the end, then take `result_set()`. `aclose` releases lock and library."""

    folder: Path
    request: RunRequest
    dependencies: RunDependencies
    ledger: Ledger
    pinned: PinnedLibrary | None
    seconds: dict[str, float] = field(default_factory=dict)
    manifest: Manifest | None = None
    """Set at the end of the run, or when it is closed before."""
    tally: RunTally = field(default_factory=RunTally)
    _closed: bool = False

    @classmethod
    async def start(
        cls,
        folder: Path,
        query: str | dict[str, str],
        parsed: ParsedQuery,
        sources: Sequence[str],
        dependencies: RunDependencies,
        page: int = PAGE,
    ) -> Run:
        """A new run in a folder of its own; `sources` are read in the given order, the library first."""
        pinned = await dependencies.library(None) if LIBRARY in sources else None
        remote = [name for name in dict.fromkeys(sources) if name != LIBRARY]
        order = [f"library {LIBRARY_ORDER}"] if pinned else []
        request = RunRequest(
            query=query,
            syntax=parsed.syntax,
            tree=format_tree(parsed.tree),
            findings=tuple(f"{warning.code}: {warning}" for warning in parsed.warnings),
            order="; then ".join([*order, *(f"{name} slice by slice, as it answers" for name in remote)]),
            page=page,
            tool=dependencies.tool,
            snapshot=pinned.snapshot if pinned else None,
            sources=tuple(dependencies.remote_sources[name].translate(parsed.tree, parsed.text) for name in remote),
        )
        run = cls(folder, request, dependencies, Ledger(folder), pinned)
        try:
            await asyncio.to_thread(run.ledger.begin, request.model_dump(mode="json"))
            await asyncio.to_thread(run._log, "begun", {"sources": list(request.names)})
        except BaseException:
            await run._release()
            raise
        return run

    @classmethod
    async def resume(cls, folder: Path, dependencies: RunDependencies) -> Run:
        """The run of a folder, after its last whole page. `OtherRun` if it cannot continue as it was started."""
        ledger = Ledger(folder)
        try:
            state = await asyncio.to_thread(ledger.resume)
            request = RunRequest.model_validate(state.request)
            _require_same_sources(request, dependencies)
            pinned = await _reopen_library(request, dependencies)
        except BaseException:
            await ledger.aclose()
            raise
        run = cls(folder, request, dependencies, ledger, pinned)
        try:
            await asyncio.to_thread(run._log, "resumed", {"hits": state.hits, "cursor": run.cursor})
        except BaseException:
            await run._release()
            raise
        return run

    @property
    def cursor(self) -> str:
        """The cursor of the last whole page, `source:cursor`; empty before the first."""
        state = self.ledger.state
        return f"{state.source}:{state.cursor}" if state.source else ""

    @property
    def hits(self) -> int:
        return self.ledger.state.hits

    @property
    def is_finished(self) -> bool:
        """Whether every source was read to its end."""
        return self.ledger.state.done

    def parse_query(self) -> ParsedQuery:
        """The query, parsed again; `OtherRun` if this version parses it differently."""
        parsed = parse(self.request.query, self.request.syntax)
        if format_tree(parsed.tree) != self.request.tree:
            raise OtherRun("this version of Outrider parses the query differently from the one that started the run; start a new run")
        return parsed

    async def pages(self) -> AsyncGenerator[RunPage]:
        """The pages that are not in the ledger yet. Raises `LibraryError`; a service that fails costs only the rest of its own hits."""
        begun, idle_s = read_monotonic("run"), 0.0
        is_new = not self.ledger.state.source
        parsed = self.parse_query()
        for name in self.request.names:
            if name in self.ledger.state.finished:
                continue
            started = read_monotonic(name)
            source = self._library_pages(parsed) if name == LIBRARY else self._remote_pages(name, parsed.tree)
            async with aclosing(source) as pages:
                async for page in pages:
                    self.seconds[name] = read_monotonic(name) - started
                    paused = read_monotonic("run")
                    yield page
                    idle_s += read_monotonic("run") - paused  # the reader's own time
            self.seconds[name] = read_monotonic(name) - started
        if not self.ledger.state.done:
            duplicates: list[Duplicate] = []
            method = ""
            if len(self.request.names) > 1:
                most = self.dependencies.identity_most
                duplicates, method = await asyncio.to_thread(find_duplicates, self.ledger.path, most)
            await asyncio.to_thread(self.ledger.append_done, [asdict(duplicate) for duplicate in duplicates], self.hits, method)
        self.manifest = await asyncio.to_thread(self._write_manifest, "finished")
        if is_new and self.manifest.complete and self.dependencies.on_finished is not None:
            self.dependencies.on_finished(self.manifest, read_monotonic("run") - begun - idle_s, self.tally)

    async def _library_pages(self, parsed: ParsedQuery) -> AsyncGenerator[RunPage]:
        state = self.ledger.state
        assert self.pinned is not None  # noqa: S101 - the library is among the names
        after = state.cursor if state.source == LIBRARY else ""
        terms = TermCheck(parsed.tree, parsed.text)
        async for hits, cursor in self.pinned.pages(parsed.tree, after, self.request.page):
            await asyncio.to_thread(terms.see, hits)
            yield await self._append_page(LIBRARY, hits, cursor, None, is_last=len(hits) < self.request.page)
        end: dict[str, Any] = {"hits": state.source_hits if state.source == LIBRARY else 0, "complete": True}
        findings = await find_missing_values(parsed.tree, parsed.text, self.pinned) + await terms.find_empty(self.pinned)
        if findings:
            end["remarks"] = [f"{finding.code}: {finding}" for finding in findings]
        await asyncio.to_thread(self.ledger.append_end, LIBRARY, end)

    async def _remote_pages(self, name: str, tree: Node) -> AsyncGenerator[RunPage]:
        sent_query = next(query for query in self.request.sources if query.source == name)
        state, harvest, after = self.ledger.state, Harvest(), ""
        if state.source == name:  # read in part before
            after = state.cursor
            if state.fetch_state is not None:
                harvest = await asyncio.to_thread(load_fetch_state, state.fetch_state, self.ledger.path, name, state.size)
        broke_off = {}
        if not sent_query.refused:
            try:
                pages = self.dependencies.remote_sources[name].harvest(tree, sent_query, harvest, after)
                while (page := await self._read_next(pages)) is not None:
                    is_last = harvest.total is not None and harvest.fetched >= harvest.total
                    yield await self._append_page(name, *page, dump_fetch_state(harvest), is_last=is_last)
            except SourceError as error:
                broke_off, harvest.complete = {"broke_off": True}, False
                harvest.remarks.append(str(error))
        end = {"hits": state.source_hits if state.source == name else 0, **dump_fetch_state(harvest), **broke_off}
        end.pop("dropped")
        await asyncio.to_thread(self.ledger.append_end, name, end)

    async def _read_next(self, pages: AsyncIterator[MatchedPage]) -> MatchedPage | None:
        """The next page, its calls counted: each page may be read in another context."""
        with count_into(self.tally):
            return await anext(pages, None)

    async def _append_page(
        self, name: str, hits: Sequence[Matched], cursor: str, fetch_state: Mapping[str, Any] | None, *, is_last: bool
    ) -> RunPage:
        """Write a page; `is_last` says whether its source is known to have no more."""
        lines = await asyncio.to_thread(self.ledger.append_page, name, hits, cursor, fetch_state)
        numbered = (RunHit(line["hit"], hit.record, name, hit.proof, line["content"]) for line, hit in zip(lines, hits, strict=True))
        return RunPage(tuple(numbered), f"{name}:{cursor}", name, is_last and name == self.request.names[-1])

    def _log(self, event: str, details: Mapping[str, Any]) -> None:
        """Write an event to the sessions, for the manifest's times, and to the audit log."""
        now = format_time(self.dependencies.clock())
        session: dict[str, Any] = {"event": event, "at": now, "seconds": self.seconds}
        if self.pinned is not None:
            session["library"] = self.pinned.address
        with (self.folder / SESSIONS).open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(session) + "\n")
        snapshot = self.request.snapshot
        entry = {"event": event, "at": now, "run": str(self.folder), "query": self.request.query, "tree": self.request.tree}
        self.dependencies.audit.append({**entry, "snapshot": snapshot.model_dump() if snapshot else None, **details})

    def _write_manifest(self, event: str) -> Manifest:
        """Write the manifest of the ledger as it is, whole or not, and log `event`."""
        # from the first session's start until now; seconds of interrupted sessions are added to those of this one
        sessions = [json.loads(line) for line in (self.folder / SESSIONS).read_text(encoding="utf-8").splitlines()]
        seconds: dict[str, float] = {}
        for session in sessions:
            if session["event"] == "broke off":
                for name, duration in session["seconds"].items():
                    seconds[name] = seconds.get(name, 0.0) + duration
        for name, duration in self.seconds.items():
            seconds[name] = round(seconds.get(name, 0.0) + duration, 3)
        count = sum(session["event"] in ("begun", "resumed") for session in sessions)
        now = format_time(self.dependencies.clock())
        times = Times(started_at=sessions[0]["at"], finished_at=now, seconds=seconds, sessions=count)
        manifest = manifests.make_manifest(manifests.summarize(self.ledger.path), file_digest(self.ledger.path), times)
        manifest = self.dependencies.sign(manifest) if self.dependencies.sign else manifest
        path = self.folder / manifests.NAME
        part = path.with_suffix(".part")
        part.write_text(manifest.text(), encoding="utf-8", newline="\n")
        part.replace(path)
        counts = {"total": manifest.total, "complete": manifest.complete, "missing": list(manifest.missing)}
        self._log(event, counts | {"provenance_hash": manifest.provenance_hash, "seal": manifest.seal})
        return manifest

    def result_set(self) -> ResultSet:
        """Reference to the hits. Only after the last page, or after `aclose`."""
        manifest = self.manifest
        assert manifest is not None  # noqa: S101
        return ResultSet(
            path=str(self.folder / manifest.ledger.name),
            total=manifest.total,
            cursor=None if manifest.complete else self.cursor or None,
            sha256=manifest.ledger.sha256,
            manifest=str(self.folder / manifests.NAME),
            complete=manifest.complete,
            missing=manifest.missing,
            remarks=manifest.remarks,
        )

    async def aclose(self) -> None:
        """Release lock and library. An unfinished run gets a manifest that is marked as incomplete."""
        if self._closed:
            return
        self._closed = True
        try:
            if self.manifest is None:
                self.manifest = await asyncio.to_thread(self._write_manifest, "broke off")
        finally:
            await self._release()

    async def _release(self) -> None:
        try:
            await self.ledger.aclose()
        finally:
            if self.pinned is not None:
                self.pinned.close()
                self.pinned = None


def _require_same_sources(request: RunRequest, dependencies: RunDependencies) -> None:
    if request.tool != dependencies.tool:
        before, now = (
            ", ".join(f"{name} {version}" for name, version in sorted(tool.items())) for tool in (request.tool, dependencies.tool)
        )
        raise OtherRun(f"the run was started by {before}, and this is {now}; start a new run")
    missing = [query.source for query in request.sources if query.source not in dependencies.remote_sources]
    if missing:
        raise OtherRun(f"the run reads {', '.join(missing)}, which is disabled here; enable it and resume the run")


async def _reopen_library(request: RunRequest, dependencies: RunDependencies) -> PinnedLibrary | None:
    """The version of the library that the run pinned."""
    snapshot = request.snapshot
    if snapshot is None:
        return None
    try:
        pinned = await dependencies.library(snapshot)
    except LibraryError as error:
        raise OtherRun(f"the run read {snapshot.library} at version {snapshot.version}, which is not available: {error}") from error
    if pinned.snapshot.tokenizer != snapshot.tokenizer:
        pinned.close()
        raise OtherRun(f"the run split words by {snapshot.tokenizer}, and this is {pinned.snapshot.tokenizer}; start a new run")
    return pinned


def read_library_address(folder: Path) -> str:
    """Where the library of a run was when it was last started or resumed; empty if the folder does not tell."""
    try:
        sessions = [json.loads(line) for line in (folder / SESSIONS).read_text(encoding="utf-8").splitlines()]
    except (OSError, ValueError):  # only needed to help with an error message
        return ""
    return next((str(session["library"]) for session in reversed(sessions) if isinstance(session, dict) and "library" in session), "")


BY_IDENTITY = "all that the records say (identifiers, titles, authors, years, pages)"
BY_IDENTIFIERS = "identifiers alone, for there are too many hits to compare all that they say: PMID, or DOI and the same title"


@dataclass(frozen=True, slots=True)
class Duplicate:
    """A hit whose work an earlier hit describes, and the reason."""

    hit: int
    of: int
    """The earlier hit; both count from 1."""
    why: str


def find_duplicates(path: Path, identity_most: int) -> tuple[list[Duplicate], str]:
    """The duplicates of a ledger in the order of the hits, and the method: all fields of up to `identity_most` hits, else identifiers.

    Memory: a few KB a hit.
    """
    if sum(1 for line in read_lines(path) if line.kind == "hit") > identity_most:
        return _compare_identifiers(path), BY_IDENTIFIERS
    from outrider.linkage.normalized_record import make_keys
    from outrider.linkage.resolve import resolve_keys

    numbers, keys = [], []
    for number, record in _read_records(path):
        numbers.append(number)
        keys.append(make_keys(record))
    resolution = resolve_keys(keys)
    duplicates = []
    for members, reasons in zip(resolution.groups, resolution.reasons, strict=True):
        why = reasons[0] if reasons else ""
        duplicates += [Duplicate(numbers[member], numbers[members[0]], why) for member in members[1:]]
    return sorted(duplicates, key=lambda duplicate: duplicate.hit), BY_IDENTITY


def _read_records(path: Path) -> Iterator[tuple[int, Record]]:
    for line in read_lines(path):
        if line.kind == "hit":
            yield line.fields["hit"], RECORD.validate_python(line.fields["record"])


def _compare_identifiers(path: Path) -> list[Duplicate]:
    from outrider.linkage.identifiers import normal_doi, normal_pmid
    from outrider.linkage.names_and_titles import normal_title

    first: dict[tuple[str, ...], int] = {}
    duplicates = []
    for number, record in _read_records(path):
        ids, title = record.identifiers, normal_title(record.title)
        keys: list[tuple[str, ...]] = [("PMID", pmid)] if ids.pmid and (pmid := normal_pmid(ids.pmid)) else []
        # a DOI counts together with the title: supplements share the DOI of their issue
        keys += [("DOI", doi, title)] if title and ids.doi and (doi := normal_doi(ids.doi)) else []
        matches = sorted((first[key], key[0]) for key in keys if key in first)
        if matches:
            duplicates.append(Duplicate(number, matches[0][0], f"same {matches[0][1]}"))
        for key in keys:
            first.setdefault(key, matches[0][0] if matches else number)
    return duplicates
