"""Fetching of targets as records: identifiers from the sources, other links as pages.

A page gives its own record, unless it declares an identifier under which a source knows the same work: then the source's record
leads and the page fills its gaps. A PDF behind a link is reported, not fetched.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field

from outrider.ingest.parse_targets import PAGE, Target, choose_target
from outrider.linkage.merge import fill_missing
from outrider.nodes.enrich.identifier_lookup import look_up
from outrider.nodes.enrich.missing_abstracts import is_same_work
from outrider.state.errors import NothingToRead, SourceError, UnreadableFile
from outrider.state.ports import Detailer, PageReader, Source
from outrider.state.records import LIBRARY, Record, Repository

AT_ONCE = 8
"""Targets fetched at a time. Each service has its own limit besides."""
PUBLICATION_SCHEMES = ("doi", "pmid", "pmcid")
"""Schemes that name one publication: fetched under another of them, it is the same record. A preprint has its own record."""


@dataclass(frozen=True, slots=True)
class FetchedTarget:
    """A record from a service or a page."""

    record: Record
    target: Target
    """The target whose record it is; different from the request if a link led to a work."""
    notes: tuple[str, ...] = ()

    def list_aliases(self) -> list[str]:
        """Other targets that are the same publication."""
        if self.target.scheme not in PUBLICATION_SCHEMES:
            return []
        targets = [Target(scheme, value) for scheme, value in self.record.identifiers.pairs() if scheme in PUBLICATION_SCHEMES]
        return [str(target) for target in targets if target != self.target]


@dataclass(frozen=True, slots=True)
class RemoteSources:
    """The services and the page reader that targets are fetched from."""

    sources: Sequence[Source]
    pages: PageReader | None = None
    details: Mapping[str, Detailer] = field(default_factory=dict)
    """Adapters that add details to a source's repositories, by the source's name."""
    within_s: float = 25.0
    """For each target."""

    async def fetch(self, target: Target) -> FetchedTarget:
        """Raises `UnreadableFile` for a target that no source has or that may not be fetched, `NothingToRead` for a PDF."""
        if target.scheme != PAGE:
            record, notes = await self._fetch_work(target)
            return FetchedTarget(record, target, notes)
        if self.pages is None:
            raise UnreadableFile("no page can be fetched here: no page reader is configured")
        try:
            response = await self.pages.fetch(target.value, self.within_s)
        except SourceError as error:
            raise UnreadableFile(str(error)) from error
        page, work = response.page, choose_target(response.page.identifiers)
        if response.kind in ("doi", "pdf") and work:
            record, notes = await self._fetch_work(work)
            return FetchedTarget(record, work, notes)
        if response.kind == "pdf":
            raise NothingToRead(f"{page.url} is a PDF, which is not fetched; save it and ingest the file")
        if not (page.text or page.abstract or page.title):
            raise NothingToRead(f"{page.url} holds no text")
        if work is None:
            return FetchedTarget(page, target)
        try:
            record, notes = await self._fetch_work(work)
        except UnreadableFile as error:
            return FetchedTarget(page, target, (str(error),))
        if not is_same_work(page, record):
            return FetchedTarget(page, target, (f"declares {work}, which at {record.source} is another work: {record.title[:200]!r}",))
        return FetchedTarget(fill_missing(record, [page]), target, notes)

    async def _fetch_work(self, target: Target) -> tuple[Record, tuple[str, ...]]:
        found = await look_up(self.sources, target.scheme, target.value, self.within_s)
        if found.record is None:
            if not found.asked:
                raise UnreadableFile(f"no active source can look up a {target.scheme}")
            failed = {problem.partition(":")[0] for problem in found.problems}
            without = ", ".join(name for name in found.asked if name not in failed)
            raise UnreadableFile("; ".join([*([f"not known to {without}"] if without else []), *found.problems]))
        detailer = self.details.get(found.record.source)
        if detailer is None or not isinstance(found.record, Repository):
            return found.record, found.problems
        detailed = await detailer.details([found.record], self.within_s)
        problem = () if detailed.status in ("ok", "cached") else (f"{detailer.name}: {detailed.message}",)
        return detailed.records[0], (*found.problems, *problem)


async def fetch_ahead(remote: RemoteSources, targets: Sequence[Target]) -> AsyncGenerator[tuple[Target, asyncio.Task[FetchedTarget]]]:
    """The targets in their order, each with its fetch; later ones are under way already. Closing it (`aclosing`) cancels these."""
    todo = deque(targets)
    running: deque[tuple[Target, asyncio.Task[FetchedTarget]]] = deque()
    try:
        while todo or running:
            while todo and len(running) < AT_ONCE:
                target = todo.popleft()
                running.append((target, asyncio.create_task(remote.fetch(target))))
            yield running[0]
            running.popleft()
    finally:
        for _, task in running:
            task.cancel()
        await asyncio.gather(*(task for _, task in running), return_exceptions=True)


def make_library_record(record: Record) -> Record:
    """The record as the library's own. The service's id for it moves to the metadata; its `doc_id` comes from its target."""
    return record.model_copy(update={"doc_id": "", "source": LIBRARY, "metadata": {**record.metadata, "record": record.doc_id}})
