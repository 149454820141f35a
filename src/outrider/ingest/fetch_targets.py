"""Targets into records: an identifier is asked of the sources that know it, any other link is fetched as a page.

What a page says is its own record, unless it declares an identifier under which a source knows the same work: then the source's record
leads and the page fills its gaps. A PDF is told, not fetched.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field

from outrider.ingest.targets import PAGE, Target, first_of
from outrider.linkage.merge import fill_missing
from outrider.nodes.enrich.identifier_lookup import look_up
from outrider.nodes.enrich.missing_abstracts import is_same_work
from outrider.state.errors import NothingToRead, SourceError, UnreadableFile
from outrider.state.ports import Detailer, PageReader, Source
from outrider.state.records import LIBRARY, Record, Repository

AT_ONCE = 8
"""Targets asked for at a time; each service keeps its own limit besides."""
SAME = ("doi", "pmid", "pmcid")
"""Schemes that name one publication: asked for by another of them, it is the same record. A preprint has its own."""


@dataclass(frozen=True, slots=True)
class Brought:
    record: Record
    target: Target
    """Whose record it is; another than asked for where a link led to one."""
    notes: tuple[str, ...] = ()

    def other_names(self) -> list[str]:
        """Targets that are the same publication."""
        known = [Target(scheme, value) for scheme, value in self.record.identifiers.pairs() if scheme in SAME]
        return [str(one) for one in known if one != self.target] if self.target.scheme in SAME else []


@dataclass(frozen=True, slots=True)
class World:
    """Who is asked."""

    sources: Sequence[Source]
    pages: PageReader | None = None
    details: Mapping[str, Detailer] = field(default_factory=dict)
    """Who tells more of its repositories, by name."""
    within_s: float = 25.0
    """For each target."""

    async def brought(self, target: Target) -> Brought:
        """Raises `UnreadableFile` for what nobody has or may be fetched, `NothingToRead` for a PDF."""
        if target.scheme == PAGE:
            return await self._page(target)
        record, notes = await self._work(target)
        return Brought(record, target, notes)

    async def _work(self, target: Target) -> tuple[Record, tuple[str, ...]]:
        found = await look_up(self.sources, target.scheme, target.value, self.within_s)
        if found.record is None:
            raise UnreadableFile(_not_found(target, found.asked, found.problems))
        more = self.details.get(found.record.source)
        if more is None or not isinstance(found.record, Repository):
            return found.record, found.problems
        told = await more.details([found.record], self.within_s)
        return told.records[0], found.problems if told.status in ("ok", "cached") else (*found.problems, f"{more.name}: {told.message}")

    async def _page(self, target: Target) -> Brought:
        if self.pages is None:
            raise UnreadableFile("no page can be fetched here: there is nobody who fetches pages")
        try:
            got = await self.pages.fetch(target.value, self.within_s)
        except SourceError as error:
            raise UnreadableFile(str(error)) from error
        page, named = got.page, first_of(got.page.identifiers)
        if got.kind in ("doi", "pdf") and named:
            record, notes = await self._work(named)
            return Brought(record, named, notes)
        if got.kind == "pdf":
            raise NothingToRead(f"{page.url} is a PDF, which is not fetched; save it and ingest the file")
        if not (page.text or page.abstract or page.title):
            raise NothingToRead(f"{page.url} holds no text")
        if named is None:
            return Brought(page, target)
        try:
            record, notes = await self._work(named)
        except UnreadableFile as unknown:
            return Brought(page, target, (str(unknown),))
        if not is_same_work(page, record):
            return Brought(page, target, (f"declares {named}, which at {record.source} is another work: {record.title[:200]!r}",))
        return Brought(fill_missing(record, [page]), target, notes)


async def asked_ahead(world: World, targets: Sequence[Target]) -> AsyncGenerator[tuple[Target, asyncio.Task[Brought]]]:
    """In their order, some under way already. Close it (`aclosing`): what is under way is then given up."""
    todo = deque(targets)
    ahead: deque[tuple[Target, asyncio.Task[Brought]]] = deque()
    try:
        while todo or ahead:
            while todo and len(ahead) < AT_ONCE:
                target = todo.popleft()
                ahead.append((target, asyncio.create_task(world.brought(target))))
            yield ahead[0]
            ahead.popleft()
    finally:
        for _, task in ahead:
            task.cancel()
        await asyncio.gather(*(task for _, task in ahead), return_exceptions=True)


def shelved(record: Record) -> Record:
    """As the library's own, which keeps what the service calls it; its id in the library comes from its target."""
    return record.model_copy(update={"doc_id": "", "source": LIBRARY, "metadata": {**record.metadata, "record": record.doc_id}})


def _not_found(target: Target, asked: Sequence[str], problems: Sequence[str]) -> str:
    if not asked:
        return f"no source that is switched on can be asked for a {target.scheme}"
    failed = {problem.partition(":")[0] for problem in problems}
    known = ", ".join(name for name in asked if name not in failed)
    return "; ".join([*([f"not known to {known}"] if known else []), *problems])
