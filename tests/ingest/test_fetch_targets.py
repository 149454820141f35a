"""Targets over sources in memory: batches, order, concurrency, cancellation."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import dataclass, field

import pytest

from outrider.ingest.pipeline import TARGETS_A_BATCH, IngestProgress, ingest
from outrider.ingest.targets import AT_ONCE, RemoteSources, Target, fetch_ahead
from outrider.state.errors import BadRequest, UnreadableFile
from outrider.state.ports import Capabilities, SourceAnswer, SourceQuery
from outrider.state.records import Record
from support.fakes import doi, paper
from support.memory_library import MemoryShelves

PATIENCE_S = 30


@dataclass
class Everything:
    """Has every work but those whose DOI ends in `gone`; the first takes longest."""

    name: str = "crossref"
    strategies: tuple[str, ...] = ()
    capabilities: Capabilities = field(default_factory=lambda: Capabilities(frozenset({"paper"}), frozenset({"doi"})))
    timeout_s: float = PATIENCE_S
    now: int = 0
    most: int = 0
    lookups: int = 0
    hold: asyncio.Event | None = None

    async def search(self, query: SourceQuery) -> SourceAnswer:
        raise AssertionError("nobody searches")

    async def get(self, scheme: str, value: str, within_s: float) -> Record | None:
        self.now, self.most, self.lookups = self.now + 1, max(self.most, self.now + 1), self.lookups + 1
        try:
            await (self.hold.wait() if self.hold else asyncio.sleep(0.1 if value.endswith("/0") else 0))
        finally:
            self.now -= 1
        return None if value.endswith("gone") else paper(f"crossref:{value}", f"Title {value}", source=self.name, identifiers=doi(value))


def targets(count: int) -> list[Target]:
    return [Target("doi", f"10.1000/{number}") for number in range(count)]


async def test_what_came_is_kept_in_small_batches() -> None:
    shelves, reports = MemoryShelves(), list[IngestProgress]()
    count = TARGETS_A_BATCH + 5
    report = await ingest(shelves, [], targets=targets(count), remote=RemoteSources((Everything(),)), progress=reports.append)
    assert (shelves.batches, report.added) == ([TARGETS_A_BATCH, 5], count)
    assert shelves.files == {}
    assert (reports[-1].files_done, reports[-1].files_total, reports[-1].records, reports[-1].current) == (count, count, count, None)
    assert "doi:10.1000/3" in {now.current for now in reports}


async def test_order_is_that_of_asking_and_few_are_under_way() -> None:
    source = Everything()
    report = await ingest(MemoryShelves(), [], targets=targets(3 * AT_ONCE), remote=RemoteSources((source,)))
    assert [file.path for file in report.files] == [str(target) for target in targets(3 * AT_ONCE)]
    assert source.most == AT_ONCE


async def test_one_that_is_not_there_stops_nothing() -> None:
    requested = [Target("doi", "10.1000/gone"), *targets(2), Target("pmid", "1")]
    report = await ingest(MemoryShelves(), [], targets=requested, remote=RemoteSources((Everything(),)))
    assert [file.status for file in report.files] == ["failed", "added", "added", "failed"]
    assert report.files[0].reasons == ("not known to crossref",)
    assert report.files[3].reasons == ("no active source can look up a pmid",)


async def test_what_is_under_way_is_given_up_when_nobody_takes_it() -> None:
    source = Everything(hold=asyncio.Event())
    async with aclosing(fetch_ahead(RemoteSources((source,)), targets(2 * AT_ONCE))) as coming:
        async for _ in coming:
            async with asyncio.timeout(PATIENCE_S):
                while source.now < AT_ONCE:  # noqa: ASYNC110 - several must have begun
                    await asyncio.sleep(0)
            break
    assert (source.now, source.lookups) == (0, AT_ONCE)


async def test_without_anybody_to_ask_nothing_begins() -> None:
    with pytest.raises(BadRequest, match="offline"):
        await ingest(MemoryShelves(), [], targets=targets(1))
    with pytest.raises(UnreadableFile, match="no page reader is configured"):
        await RemoteSources(()).fetch(Target("page", "https://example.org/"))
