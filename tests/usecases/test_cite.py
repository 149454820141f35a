"""Citation chasing for users: targets, candidates, decisions, fetched works, what is stored, exports.

The services are a small world of works on loopback. Jobs run as their handlers do, with steps that keep nothing; one test runs the worker.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import JsonValue

from outrider.citations.chase import make_yield_curve
from outrider.library.library import Library
from outrider.services import Services
from outrider.services.citation_queue import find_job_table
from outrider.services.fetch_works import FetchResult
from outrider.services.job_handlers import make_job_handlers
from outrider.settings.model import CacheSettings, JobSettings, LibrarySettings, Settings, ThreadSettings
from outrider.settings.sections import (
    ArxivSettings,
    CrossrefSettings,
    EuropePmcSettings,
    GithubSettings,
    OpenalexSettings,
    OpencitationsSettings,
    PubmedSettings,
    SemanticScholarSettings,
    SourcesSettings,
    WebSettings,
)
from outrider.state.citations import CandidateList
from outrider.state.errors import BadRequest, TargetPaused
from outrider.state.jobs import Job
from outrider.state.records import Identifiers, Page, Paper
from outrider.usecases.cite import get_status, list_candidates, queue_candidates
from outrider.usecases.jobs import list_jobs, pause_target
from support.citation_world import FAST, KEY, CitationWorld, make_small_works
from support.http_server import serving

ABSTRACT = "Otters live in rivers. The weather was fine. Otters eat fish in the river at night."
TARGET = "label:otters"


class Steps:
    """Steps of a job that keep nothing."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.progress: list[str] = []

    async def step(self, name: str, work: Callable[[], Awaitable[JsonValue]]) -> JsonValue:
        self.names.append(name)
        return await work()

    async def report(self, progress: str) -> None:
        self.progress.append(progress)


@dataclass
class CountingPages:
    """A reader of pages, behind which a browser would be, that counts its addresses."""

    urls: list[str] = field(default_factory=list)

    async def fetch(self, url: str, within_s: float) -> Any:
        self.urls.append(url)
        page = Page(doc_id=url, title="A page about otters", text="Otters are kept here.", url=url, source="web")
        return _ReadPage(page)


@dataclass(frozen=True)
class _ReadPage:
    page: Page
    kind: str = "page"


def make_world(**faults: Any) -> CitationWorld:
    return CitationWorld([replace(work, abstract=ABSTRACT) for work in make_small_works()], **faults)


def make_settings(folder: Path, base_url: str, *, offline: bool = False) -> Settings:
    off: dict[str, Any] = {"enabled": False}
    sources = SourcesSettings(
        openalex=OpenalexSettings(base_url=f"{base_url}/openalex", api_key=KEY, **FAST),  # type: ignore[arg-type]
        semantic_scholar=SemanticScholarSettings(**off),
        crossref=CrossrefSettings(**off),
        opencitations=OpencitationsSettings(base_url=f"{base_url}/opencitations", **FAST),
        europe_pmc=EuropePmcSettings(**off),
        pubmed=PubmedSettings(**off),
        arxiv=ArxivSettings(**off),
        github=GithubSettings(**off),
        web=WebSettings(**off),
        offline=offline,
    )
    return Settings(
        library=LibrarySettings(uri=str(folder / "library")),
        jobs=JobSettings(uri=str(folder / "jobs.sqlite")),
        threads=ThreadSettings(uri=str(folder / "threads.sqlite")),
        cache=CacheSettings(folder=str(folder / "answers")),
        sources=sources,
    )


async def make_services(folder: Path, base_url: str = "http://127.0.0.1:9", **options: Any) -> Services:
    """Services over a library with two works of the target, and one that was fetched for something else."""
    settings = make_settings(folder, base_url, **options)
    library = await Library.open(settings.library.uri, create=True)
    await library.upsert([make_paper(1), make_paper(2), make_paper(4, abstract="Fetched for another target.")])
    await library.label(["w1", "w2"], ["otters"])
    library.close()
    return Services(settings, pages=CountingPages())  # type: ignore[arg-type]


def make_paper(number: int, **fields: Any) -> Paper:
    return Paper(doc_id=f"w{number}", title=f"Study {number} of otters", identifiers=Identifiers(doi=f"10.5555/w.{number}"), **fields)


async def read_jobs(services: Services, kind: str = "") -> list[Job]:
    """The oldest first."""
    return [job for job in (await list_jobs(services)).jobs[::-1] if kind in ("", job.kind)]


async def run_queued(services: Services, target: str = TARGET) -> list[FetchResult]:
    """Run the queued jobs of a target to their end, by their handlers; the results of those that fetch."""
    table, handlers, results = find_job_table(services.settings), make_job_handlers(services), []
    while jobs := await asyncio.to_thread(table.list_jobs, target, "queued"):
        job = min(jobs, key=lambda job: (job.kind == "citations", job.created_at, job.id))
        await asyncio.to_thread(table.start, job.id, 0)
        result = await handlers[job.kind](job.request, Steps())
        await asyncio.to_thread(table.finish, job.id, "done", result)
        if job.kind == "fetch":
            results.append(FetchResult.model_validate(result))
    return results


def keys(listing: CandidateList) -> set[str]:
    return {one.key for one in listing.candidates}


def name(*numbers: int) -> set[str]:
    return {f"doi:10.5555/w.{number}" for number in numbers}


async def test_a_chase_from_its_target_until_nothing_new_comes(tmp_path: Path) -> None:
    """Forward and backward, round by round, over services that are made anew each time, as after a restart."""
    world = make_world()
    async with serving(world.handle) as server:
        services = await make_services(tmp_path, server.base_url)
        first = await list_candidates(services, TARGET, request="what do otters eat")
        assert (first.works, first.total, first.round, first.stop) == (2, 0, 1, "")
        assert "citations of 2 of 2 works were not read yet" in first.remarks[0]
        await list_candidates(services, TARGET)
        assert [job.kind for job in await read_jobs(services)] == ["citations"]  # once, however often the list is shown
        await run_queued(services)
        listing = await list_candidates(services, TARGET)
        assert keys(listing) == name(3, 7, 8) | {"w4", "openalex:w1000010"}
        assert next(one for one in listing.candidates if one.key == "w4").is_placeholder is False
        assert all(one.fit is not None for one in listing.candidates)  # by the request of the first list
        queued = await queue_candidates(services, TARGET, include=["10.5555/W.3", "w4"])
        assert (queued.round, set(queued.queued), len(queued.jobs)) == (1, name(3) | {"w4"}, 1)
        shown = await list_candidates(services, TARGET)
        assert keys(shown) == keys(listing)  # queued is not fetched
        assert sum(one.why.startswith("queued; ") for one in shown.candidates) == 2
        services.close()

        services = Services(services.settings, pages=CountingPages())  # type: ignore[arg-type]
        results = await run_queued(services)
        works = {work.key: work for work in results[0].works}
        assert (works["doi:10.5555/w.3"].status, works["w4"].status) == ("fetched", "in library")
        assert "Otters eat fish in the river at night." in works["doi:10.5555/w.3"].sentences
        assert [job.request["targets"] for job in await read_jobs(services, "citations")][1:] == [[works["doi:10.5555/w.3"].doc_id, "w4"]]
        second = await list_candidates(services, TARGET)
        assert keys(second) == name(7, 8, 5) | {"openalex:w1000010"}
        assert second.works == 4
        while (await list_candidates(services, TARGET)).total:
            await queue_candidates(services, TARGET, all_of=True)
            await run_queued(services)
        chase = await get_status(services, TARGET)
        assert [(one.number, one.new_works, len(one.included)) for one in chase.rounds] == [(1, 5, 2), (2, 1, 4), (3, 2, 2)]
        assert make_yield_curve(chase)[-1].included == 8
        end = await list_candidates(services, TARGET)
        assert (end.total, end.stop) == (0, "no candidates left")
        assert "8% to 94%" in end.completeness
        assert (await queue_candidates(services, TARGET, all_of=True)).queued == ()
        services.close()


async def prepare(folder: Path, base_url: str, **options: Any) -> Services:
    """Services after the citations of the target were read."""
    services = await make_services(folder, base_url, **options)
    await list_candidates(services, TARGET)
    await run_queued(services)
    return services


async def test_decisions_are_checked_before_anything_is_queued(tmp_path: Path) -> None:
    async with serving(make_world().handle) as server:
        services = await prepare(tmp_path, server.base_url)
        one = ["w4"]
        wrong: list[dict[str, Any]] = [
            {}, {"include": one, "exclude": ["doi:10.5555/w.3"]}, {"include": one, "all_of": True}, {"exclude": one, "all_of": True},
        ]  # fmt: skip
        for choice in wrong:
            with pytest.raises(BadRequest, match="exactly one of"):
                await queue_candidates(services, TARGET, **choice)
        with pytest.raises(BadRequest, match=r"no candidates of label:otters: 'nothing', '10.5555/w.11', 'w1'; nothing was queued"):
            await queue_candidates(services, TARGET, include=["w4", "nothing", "10.5555/w.11", "w1"])
        planned = await queue_candidates(services, TARGET, exclude=["10.5555/w.3"], dry_run=True)
        assert (planned.round, planned.jobs, planned.excluded) == (1, (), tuple(name(3)))
        assert set(planned.queued) == name(7, 8) | {"w4", "openalex:w1000010"}
        assert await read_jobs(services, "fetch") == []
        assert (await get_status(services, TARGET)).rounds == ()
        await pause_target(services, TARGET)
        with pytest.raises(TargetPaused):
            await queue_candidates(services, TARGET, include=["w4"])
        assert (await get_status(services, TARGET)).rounds == ()
        services.close()


async def test_excluded_works_are_no_candidates_and_an_exclusion_undoes_an_inclusion(tmp_path: Path) -> None:
    async with serving(make_world().handle) as server:
        services = await prepare(tmp_path, server.base_url)
        await queue_candidates(services, TARGET, exclude=["10.5555/w.3", "w4"])
        assert keys(await list_candidates(services, TARGET)) == name(7, 8) | {"openalex:w1000010"}
        await queue_candidates(services, TARGET, exclude=["10.5555/w.7"])
        chase = await get_status(services, TARGET)
        assert [(set(one.included), set(one.excluded)) for one in chase.rounds] == [
            (name(8) | {"openalex:w1000010"}, name(3) | {"w4"}),
            (set(), name(7)),
        ]
        (result,) = await run_queued(services)
        assert {work.key: work.status for work in result.works} == {
            "doi:10.5555/w.7": "excluded", "doi:10.5555/w.8": "fetched", "openalex:w1000010": "fetched",
        }  # fmt: skip
        with pytest.raises(BadRequest, match="no candidates"):
            await queue_candidates(services, TARGET, include=["w4"])
        services.close()


async def test_concurrent_decisions_all_count_and_queue_each_work_once(tmp_path: Path) -> None:
    async with serving(make_world().handle) as server:
        services = await prepare(tmp_path, server.base_url)
        others = [Services(services.settings) for _ in range(4)]
        works = ["10.5555/w.3", "10.5555/w.7", "10.5555/w.8", "w4"]
        await asyncio.gather(*(queue_candidates(one, TARGET, include=[work]) for one, work in zip(others, works, strict=True)))
        chase = await get_status(services, TARGET)
        assert set(chase.included) == name(3, 7, 8) | {"w4"}
        assert [one.number for one in chase.rounds] == [1, 2, 3, 4]
        again = await queue_candidates(services, TARGET, all_of=True)
        assert len(again.jobs) == 5
        listed = [work["key"] for job in await read_jobs(services, "fetch") for work in job.request["works"]]  # type: ignore[union-attr,index,call-overload]
        assert sorted(listed) == sorted(name(3, 7, 8) | {"w4", "openalex:w1000010"})
        for one in (*others, services):
            one.close()
