"""A pinned library and a service in memory, for tests of exact runs."""

from __future__ import annotations

import asyncio
import hashlib
import threading
import unicodedata
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from outrider.boolean.document import lacks
from outrider.boolean.evaluator import Evaluator
from outrider.boolean.printer import format_tree
from outrider.services import Services
from outrider.settings.model import Settings, SystematicSettings
from outrider.state.boolean import Node, RecordPart
from outrider.state.errors import LibraryError, SourceUnavailable
from outrider.state.records import Identifiers, Paper, Record
from outrider.state.systematic import PAGE, Harvest, Matched, MatchedPage, SentQuery, Slice, Snapshot
from support.fakes import NOON, no_reranker

TOKENIZER = f"test words 1, Unicode {unicodedata.unidata_version}"


def make_papers(count: int, word: str = "aspirin", first: int = 0) -> list[Paper]:
    """Every third paper lacks the word."""
    return [
        Paper(
            doc_id=f"p{number:05}",
            title=f"{word if number % 3 else 'Statins'} and the liver, part {number}",
            abstract=f"Study {number} in ärzte's hands. " * 2,
            year=1990 + number % 30,
            authors=(f"Author{number}, A",),
            identifiers=Identifiers(doi=f"10.1000/{number}"),
        )
        for number in range(first, first + count)
    ]


HoldPages = Callable[[Node], threading.Event | None]
"""Of a query: no page but the first comes before the event is set."""


def without_hold(_: Node) -> None:
    return None


@dataclass
class PinnedList:
    """`PinnedLibrary` over a list; fails after `breaks_after` pages."""

    records: list[Record]
    snapshot: Snapshot
    address = "in memory"
    breaks_after: int | None = None
    opened: list[str] = field(default_factory=list)
    blind: frozenset[str] = frozenset()
    """Ids that no query finds, as if a tokenizer split their words differently."""
    hold: HoldPages = without_hold

    async def pages(self, tree: Node, after: str = "", size: int = PAGE) -> AsyncIterator[MatchedPage]:
        self.opened.append(after)
        evaluator = Evaluator(tree)
        rest = sorted((one for one in self.records if one.doc_id > after and one.doc_id not in self.blind), key=lambda one: one.doc_id)
        matches = [one for one in rest if evaluator.matches(one)]
        for number, start in enumerate(range(0, len(matches), size)):
            if number == self.breaks_after:
                raise LibraryError("the library cannot be read any more")
            while number and (event := self.hold(tree)) and not event.is_set():  # noqa: ASYNC110 - set in another thread
                await asyncio.sleep(0.01)
            page = matches[start : start + size]
            yield MatchedPage(tuple(map(Matched, page)), page[-1].doc_id)

    async def count(self, tree: Node) -> int:
        evaluator = Evaluator(tree)
        return sum(map(evaluator.matches, self.records))

    async def count_without(self, part: RecordPart) -> int:
        return sum(lacks(one, part) for one in self.records)

    async def count_if(self, tree: Node, part: RecordPart, test: Callable[[Record], bool]) -> int:
        evaluator = Evaluator(tree)
        return sum(test(one) for one in self.records if evaluator.matches(one) and lacks(one, part))

    async def has_hits(self, tree: Node) -> bool:
        return await self.count(tree) > 0

    async def content_hashes(self, doc_ids: Sequence[str]) -> dict[str, str]:
        return {one.doc_id: one.content_hash() for one in self.records if one.doc_id in doc_ids}

    def close(self) -> None: ...


@dataclass
class LibraryVersions:
    """Opens a library; each version that was ever pinned stays available."""

    records: list[Record]
    tokenizer: str = TOKENIZER
    breaks_after: int | None = None
    versions: dict[int, list[Record]] = field(default_factory=dict)
    last: PinnedList | None = None
    blind: frozenset[str] = frozenset()
    hold: HoldPages = without_hold

    @property
    def version(self) -> int:
        """The same for the same records, in every process."""
        text = "".join(one.doc_id + one.content_hash() for one in self.records)
        return int(hashlib.sha256(text.encode()).hexdigest()[:6], 16)

    async def __call__(self, snapshot: Snapshot | None) -> PinnedList:
        version = self.version if snapshot is None else snapshot.version
        if snapshot is None:
            self.versions[version] = list(self.records)
        elif version == self.version:
            self.versions.setdefault(version, list(self.records))
        if version not in self.versions:
            raise LibraryError(f"version {version} was not kept")
        pinned = Snapshot(
            library="memory", version=version, tag=f"systematic-{version}", tokenizer=self.tokenizer, indexes={"title": "all"}
        )
        self.last = PinnedList(self.versions[version], pinned, self.breaks_after, blind=self.blind, hold=self.hold)
        return self.last


@dataclass
class MemorySource:
    """`RemoteSource` over a list, in slices of years; `lost` records never come, after `fails_after` pages it fails."""

    name: str
    records: list[Record]
    lost: int = 0
    fails_after: int | None = None
    refuses: str = ""
    size: int = 4
    seen_before: set[str] = field(default_factory=set)
    """Ids that the last harvest got as already seen."""

    def translate(self, tree: Node, text: str) -> SentQuery:
        query = SentQuery(self.name, format_tree(tree), (("db", self.name),), widened=("a widened part",), native=True)
        return replace(query, query="", refused=self.refuses) if self.refuses else query

    async def harvest(self, tree: Node, sent_query: SentQuery, into: Harvest, after: str = "") -> AsyncIterator[MatchedPage]:
        evaluator = Evaluator(tree)
        reachable = self.records[: len(self.records) - self.lost]
        into.total = len(self.records)
        self.seen_before = set(into.seen)
        start = int(after or 0)
        for number, at in enumerate(range(start, len(reachable), self.size)):
            if number == self.fails_after:
                raise SourceUnavailable(f"{self.name} answered 503")
            page = reachable[at : at + self.size]
            matched = tuple(Matched(one, "verified") for one in page if evaluator.matches(one))
            into.seen.update(one.doc_id for one in page)
            into.dropped = [one.doc_id for one in page if not evaluator.matches(one)]
            into.fetched += len(page)
            into.matched += len(matched)
            into.slices.append(Slice(f"{at}-{at + len(page)}", len(page), len(page)))
            yield MatchedPage(matched, str(at + len(page)))
        into.complete = into.fetched == into.total
        if not into.complete:
            into.remarks.append(f"{into.fetched} of {into.total} came")


def make_exact_services(
    tmp_path: Path, pin: LibraryVersions, remote_sources: Mapping[str, MemorySource] | None = None, page: int = 5, **systematic: object
) -> Services:
    section = SystematicSettings.model_validate({"folder": str(tmp_path / "runs"), "page": page, **systematic})
    settings = Settings(systematic=section)
    return Services(settings, clock=lambda: NOON, sources=(), reranker=no_reranker, pin=pin, world=dict(remote_sources or {}))
