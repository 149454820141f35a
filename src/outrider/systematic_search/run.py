"""A run: pages of exact hits from the library and from services, each written to the ledger before anyone sees it.

Where a page, a service or the process breaks off, what came stays, and the run goes on behind it: `Run.resumed`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from outrider.boolean.parser import Parsed
from outrider.boolean.printer import printed
from outrider.state.boolean import Node
from outrider.state.errors import LibraryError, SourceError
from outrider.state.ports import Clock
from outrider.state.records import LIBRARY, Record
from outrider.state.response import ResultSet
from outrider.state.systematic import LIBRARY_ORDER, PAGE, Harvest, Matched, PinnedLibrary, Proof, Snapshot, WorldSource
from outrider.systematic_search import duplicates, manifest, sessions
from outrider.systematic_search import fetch_state as harvests
from outrider.systematic_search.audit_log import AuditLog
from outrider.systematic_search.errors import OtherRun
from outrider.systematic_search.ledger import Ledger, file_digest
from outrider.systematic_search.manifest import Manifest, Times
from outrider.systematic_search.request import Asked, found_of, order_of, tool_versions
from outrider.systematic_search.sessions import moment

OpenLibrary = Callable[[Snapshot | None], Awaitable[PinnedLibrary]]
"""The library pinned now, or as an earlier run pinned it. Raises `LibraryError`."""


class Found(NamedTuple):
    """A hit of a run."""

    number: int
    """From 1."""
    record: Record
    source: str
    proof: Proof
    content: str
    """The record's content hash."""


class RunPage(NamedTuple):
    """Hits as they stand in the ledger; with `cursor` the next ones are asked for."""

    hits: tuple[Found, ...]
    cursor: str
    source: str


Sign = Callable[[Manifest], Manifest]
"""Gives the manifest a signature over its seal."""


@dataclass(frozen=True, slots=True)
class Parts:
    """What a run needs from outside."""

    library: OpenLibrary
    world: Mapping[str, WorldSource]
    audit: AuditLog
    version: str
    """Of Outrider."""
    clock: Clock = time.time
    sign: Sign | None = None
    identity_most: int = 50_000
    """Hits of several sources up to which works are recognised by all that they say; beyond, by their identifiers."""


@dataclass(slots=True)
class Run:
    """Begin one with `begun` or `resumed`, read `pages()` to the end, then `result_set()`. `aclose` gives back what it holds."""

    folder: Path
    asked: Asked
    parts: Parts
    ledger: Ledger
    pinned: PinnedLibrary | None
    seconds: dict[str, float] = field(default_factory=dict)
    made: Manifest | None = None
    """The manifest, once the run has come to its end, or was closed before."""
    _closed: bool = False

    @classmethod
    async def begun(
        cls, folder: Path, query: str | dict[str, str], parsed: Parsed, sources: Sequence[str], parts: Parts, page: int = PAGE
    ) -> Run:
        """A new run in a folder of its own; `sources` are asked in the order given, the library first."""
        pinned = await parts.library(None) if LIBRARY in sources else None
        world = tuple(name for name in dict.fromkeys(sources) if name != LIBRARY)
        asked = Asked(
            query=query,
            syntax=parsed.syntax,
            tree=printed(parsed.tree),
            findings=found_of(parsed),
            order=order_of(pinned is not None, world, LIBRARY_ORDER),
            page=page,
            tool=tool_versions(parts.version),
            snapshot=pinned.snapshot if pinned else None,
            sources=tuple(parts.world[name].translate(parsed.tree, parsed.text) for name in world),
        )
        run = cls(folder, asked, parts, Ledger(folder), pinned)
        try:
            await asyncio.to_thread(run._begin)
        except BaseException:
            run._release()
            raise
        return run

    @classmethod
    async def resumed(cls, folder: Path, parts: Parts) -> Run:
        """The run of a folder, behind its last whole page. `OtherRun` where it cannot be gone on with as it was begun."""
        ledger = Ledger(folder)
        try:
            at = await asyncio.to_thread(ledger.go_on)
            asked = Asked.model_validate(at.asked)
            _can_be_gone_on_with(asked, parts)
            pinned = await _as_before(asked, parts)
        except BaseException:
            ledger.close()
            raise
        run = cls(folder, asked, parts, ledger, pinned)
        await asyncio.to_thread(run._noted, "resumed", {"hits": at.hits, "cursor": run.cursor})
        return run

    @property
    def cursor(self) -> str:
        """Of the last whole page: `source:cursor`; empty before the first."""
        at = self.ledger.at
        return f"{at.at_source}:{at.cursor}" if at.at_source else ""

    @property
    def hits(self) -> int:
        return self.ledger.at.hits

    @property
    def ended(self) -> bool:
        """Whether every source was read to its end before."""
        return self.ledger.at.done

    async def pages(self) -> AsyncGenerator[RunPage]:
        """What is not in the ledger yet, page by page. Raises `LibraryError`; a service that fails costs only the rest of its own hits."""
        tree = self.asked.parsed()
        for name in self.asked.names:
            if name in self.ledger.at.ended:
                continue
            started = time.perf_counter()
            source = self._library_pages(tree) if name == LIBRARY else self._world_pages(name, tree)
            async with aclosing(source) as pages:
                async for page in pages:
                    self.seconds[name] = time.perf_counter() - started
                    yield page
            self.seconds[name] = time.perf_counter() - started
        await self._finish()

    async def _library_pages(self, tree: Node) -> AsyncGenerator[RunPage]:
        at = self.ledger.at
        assert self.pinned is not None  # noqa: S101 - it is among the names
        after = at.cursor if at.at_source == LIBRARY else ""
        async for hits, cursor in self.pinned.pages(tree, after, self.asked.page):
            yield await self._kept(LIBRARY, hits, cursor, None)
        await self._ended(LIBRARY, {"hits": at.of_source if at.at_source == LIBRARY else 0, "complete": True})

    async def _world_pages(self, name: str, tree: Node) -> AsyncGenerator[RunPage]:
        source = self.parts.world[name]
        sent = next(one for one in self.asked.sources if one.source == name)
        at = self.ledger.at
        going_on = at.at_source == name
        into, broke_off = await asyncio.to_thread(self._harvest, name), False
        if not sent.refused:
            try:
                async for hits, cursor in source.harvest(tree, sent, into, at.cursor if going_on else ""):
                    yield await self._kept(name, hits, cursor, harvests.kept(into))
            except SourceError as error:
                broke_off, into.complete = True, False
                into.remarks.append(str(error))
        said: dict[str, Any] = {"hits": at.of_source if at.at_source == name else 0, **harvests.ended(into)}
        await self._ended(name, said | ({"broke_off": True} if broke_off else {}))

    def _harvest(self, name: str) -> Harvest:
        """Of a service, as far as it was read."""
        at = self.ledger.at
        if at.at_source != name or at.harvest is None:
            return Harvest()
        return harvests.gone_on_with(at.harvest, self.ledger.path, name, at.size)

    async def _kept(self, name: str, hits: Sequence[Matched], cursor: str, harvest: Mapping[str, Any] | None) -> RunPage:
        made = await asyncio.to_thread(self.ledger.page, name, hits, cursor, harvest)
        found = (Found(line["hit"], hit.record, name, hit.proof, line["content"]) for line, hit in zip(made, hits, strict=True))
        return RunPage(tuple(found), f"{name}:{cursor}", name)

    async def _ended(self, name: str, said: Mapping[str, Any]) -> None:
        await asyncio.to_thread(self.ledger.end, name, said)

    async def _finish(self) -> None:
        if not self.ledger.at.done:
            await asyncio.to_thread(self._deduplicated)
        self.made = await asyncio.to_thread(self._sealed, "finished")

    def _deduplicated(self) -> None:
        several = len(self.asked.names) > 1
        found, by = duplicates.found(self.ledger.path, self.parts.identity_most) if several else ([], "")
        self.ledger.done([asdict(one) for one in found], self.ledger.at.hits, by)

    def _begin(self) -> None:
        self.ledger.begin(self.asked.model_dump(mode="json"))
        self._noted("begun", {"sources": list(self.asked.names)})

    def _noted(self, event: str, more: Mapping[str, Any]) -> None:
        """In the audit log, and for the manifest's times."""
        now = moment(self.parts.clock())
        sessions.noted(self.folder, event, now, self.seconds)
        snapshot = self.asked.snapshot
        said: dict[str, Any] = {"event": event, "at": now, "run": str(self.folder), "query": self.asked.query, "tree": self.asked.tree}
        self.parts.audit.append({**said, "snapshot": snapshot.model_dump() if snapshot else None, **more})

    def _sealed(self, event: str) -> Manifest:
        """Writes the manifest; the ledger may be whole or not."""
        found = manifest.derived(self.ledger.path)
        began, seconds, count = sessions.read(self.folder)
        for name, taken in self.seconds.items():
            seconds[name] = round(seconds.get(name, 0.0) + taken, 3)
        times = Times(started_at=began, finished_at=moment(self.parts.clock()), seconds=seconds, sessions=count)
        made = manifest.sealed(found, file_digest(self.ledger.path), times)
        made = self.parts.sign(made) if self.parts.sign else made
        path = self.folder / manifest.NAME
        part = path.with_suffix(".part")
        part.write_text(made.text(), encoding="utf-8", newline="\n")
        part.replace(path)
        counts = {"total": made.total, "complete": made.complete, "missing": list(made.missing)}
        self._noted(event, counts | {"provenance_hash": made.provenance_hash, "seal": made.seal})
        return made

    def result_set(self) -> ResultSet:
        """Where the hits lie. Only after the last page, or after `aclose`."""
        assert self.made is not None  # noqa: S101
        return result_set(self.folder, self.made, "" if self.made.complete else self.cursor)

    async def aclose(self) -> None:
        """Gives back what the run holds. One that did not come to its end leaves a manifest that says so."""
        if self._closed:
            return
        self._closed = True
        try:
            if self.made is None:
                self.made = await asyncio.to_thread(self._sealed, "broke off")
        finally:
            self._release()

    def _release(self) -> None:
        self.ledger.close()
        if self.pinned is not None:
            self.pinned.close()
            self.pinned = None


def result_set(folder: Path, made: Manifest, cursor: str) -> ResultSet:
    return ResultSet(
        path=str(folder / made.ledger.name),
        total=made.total,
        cursor=cursor or None,
        sha256=made.ledger.sha256,
        manifest=str(folder / manifest.NAME),
        complete=made.complete,
        missing=made.missing,
    )


def _can_be_gone_on_with(asked: Asked, parts: Parts) -> None:
    if asked.tool != (now := tool_versions(parts.version)):
        raise OtherRun(f"the run was begun by {_shown(asked.tool)}, and this is {_shown(now)}; run the query anew")
    missing = [sent.source for sent in asked.sources if sent.source not in parts.world]
    if missing:
        raise OtherRun(f"the run asks {', '.join(missing)}, which cannot be asked here now; switch it on and go on")


async def _as_before(asked: Asked, parts: Parts) -> PinnedLibrary | None:
    """The library as the run pinned it."""
    if asked.snapshot is None:
        return None
    try:
        pinned = await parts.library(asked.snapshot)
    except LibraryError as error:
        raise OtherRun(
            f"the run read {asked.snapshot.library} at version {asked.snapshot.version}, which cannot be had: {error}"
        ) from error
    if pinned.snapshot.tokenizer != asked.snapshot.tokenizer:
        pinned.close()
        raise OtherRun(f"the run cut words by {asked.snapshot.tokenizer}, and this is {pinned.snapshot.tokenizer}; run the query anew")
    return pinned


def _shown(versions: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in sorted(versions.items()))
