"""Citation chasing for users: targets, candidates, decisions, fetched works, what is stored, exports.

The services are a small world of works on loopback. Jobs run as their handlers do, with steps that keep nothing; one test runs the worker.
"""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import JsonValue

from outrider.citations.chase import make_yield_curve
from outrider.interfaces.http.access import hash_key
from outrider.jobs.job_table import JobTable
from outrider.library.library import Library
from outrider.services import Services
from outrider.services.citation_queue import OWNER, find_job_table
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
    ServeSettings,
    SourcesSettings,
    WebSettings,
)
from outrider.state.citations import CandidateList, CitationLink
from outrider.state.errors import BadRequest, JobError, LibraryMissing, TargetPaused
from outrider.state.jobs import Job
from outrider.state.records import Identifiers, Page, Paper
from outrider.usecases.cite import export_round, get_status, list_candidates, load_map, queue_candidates
from outrider.usecases.ingest import ingest_targets
from outrider.usecases.jobs import list_jobs, pause_target, queue_job, run_jobs
from outrider.usecases.threads import collect_response, open_threads
from support.citation_world import FAST, KEY, CitationWorld, make_small_works
from support.http_server import Answer, Request, as_text, refusal, serving

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
    """A reader of pages that counts its addresses; each leads to a link with the DOI of work 3, which it does not open."""

    urls: list[str] = field(default_factory=list)

    async def fetch(self, url: str, within_s: float) -> Any:
        self.urls.append(url)
        return _ReadPage(Page(doc_id=url, title="Otters", url=url, identifiers=Identifiers(doi="10.5555/w.3"), source="web"), "doi")


@dataclass(frozen=True)
class _ReadPage:
    page: Page
    kind: str


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
        allowed_hosts="127.0.0.1",
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
    title = next(work.title for work in make_small_works() if work.number == number)
    return Paper(doc_id=f"w{number}", title=title, identifiers=Identifiers(doi=f"10.5555/w.{number}"), **fields)


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


@pytest.fixture(scope="module")
def read_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library after the citations of the target were read; tests change copies of it."""
    folder = tmp_path_factory.mktemp("read")

    async def read() -> None:
        async with serving(make_world().handle) as server:
            services = await make_services(folder, server.base_url)
            await list_candidates(services, TARGET)
            await run_queued(services)
            services.close()

    asyncio.run(read())
    return folder / "library"


@pytest.fixture
def library_copy(read_library: Path, tmp_path: Path) -> Path:
    """The folder of a copy."""
    shutil.copytree(read_library, tmp_path / "library")
    return tmp_path


def open_copy(folder: Path, base_url: str = "http://127.0.0.1:9", **options: Any) -> Services:
    return Services(make_settings(folder, base_url, **options), pages=CountingPages())  # type: ignore[arg-type]


async def test_decisions_are_checked_before_anything_is_queued(library_copy: Path) -> None:
    async with serving(make_world().handle) as server:
        services = open_copy(library_copy, server.base_url)
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
        await queue_job(services, "citations", TARGET, {"targets": ["w1"]})
        await pause_target(services, TARGET)
        with pytest.raises(TargetPaused):
            await queue_candidates(services, TARGET, include=["w4"])
        assert (await get_status(services, TARGET)).rounds == ()
        services.close()


async def test_excluded_works_are_no_candidates_and_an_exclusion_undoes_an_inclusion(library_copy: Path) -> None:
    async with serving(make_world().handle) as server:
        services = open_copy(library_copy, server.base_url)
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


async def test_concurrent_decisions_all_count_and_queue_each_work_once(library_copy: Path) -> None:
    async with serving(make_world().handle) as server:
        services = open_copy(library_copy, server.base_url)
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


@pytest.mark.parametrize("kind", ["url", "doi"])
async def test_an_address_with_a_doi_goes_to_the_services_and_is_never_opened(tmp_path: Path, kind: str) -> None:
    """Over a real site that counts its requests, robots.txt included, and the page reader of the settings."""
    site_requests: list[str] = []

    def answer_site(request: Request) -> Answer:
        site_requests.append(request.path)
        return refusal(404) if request.path == "/robots.txt" else as_text(f"<title>Otters</title><p>{ABSTRACT}</p>", "text/html")

    async with serving(make_world().handle) as server, serving(answer_site) as site:
        services = Services((await make_services(tmp_path, server.base_url)).settings)
        encoded = "10.5555%2Fw.5"
        addresses = {
            "doi": ["10.5555/w.3", "https://doi.org/10.5555/w.7", "10.5555/unknown.1"],
            "url": [
                f"{site.base_url}/article/10.5555/w.3",
                f"{site.base_url}/view?doi=10.5555/w.7",
                f"{site.base_url}/go?to=https%3A%2F%2Fdoi.org%2F{encoded}",
                f"{site.base_url}/go?to={encoded.replace('%', '%25')}",
                f"{site.base_url}/full/10.5555/w.8.full.pdf",
                f"{site.base_url}/#/10.5555/w.9",
                f"{site.base_url}/article/10.5555/unknown.1",
            ],
        }[kind]
        works = [{"key": address, "kind": kind, "value": address} for address in addresses]
        result = await run_fetch(services, works)
        assert [work.status for work in result.works] == ["fetched"] * (len(works) - 1) + ["failed"]
        assert "not known to openalex" in result.works[-1].reason
        assert site_requests == []
        if kind == "url":
            page = await run_fetch(services, [{"key": "page", "kind": "url", "value": f"{site.base_url}/otters"}])
            assert site_requests == ["/robots.txt", "/otters"]
            assert (page.works[0].title, page.works[0].sentences) == ("Otters", ("Otters eat fish in the river at night.",))
            labels = await (await services.library()).labels()
            assert labels[page.works[0].doc_id] == ("otters",)
        services.close()


async def test_a_page_that_leads_to_a_doi_is_the_work_of_the_services(library_copy: Path) -> None:
    async with serving(make_world().handle) as server:
        services = open_copy(library_copy, server.base_url)
        result = await run_fetch(services, [{"key": "short", "kind": "url", "value": "https://short.example/1"}])
        (work,) = result.works
        assert (work.status, work.source, work.title) == ("fetched", "openalex", "The fourth study of otters in river 3")
        (record,) = await (await services.library()).fetch([work.doc_id])
        assert (record.identifiers.doi, record.origin) == ("10.5555/w.3", "doi:10.5555/w.3")
        assert services.pages.urls == ["https://short.example/1"]  # type: ignore[union-attr]
        services.close()


async def test_a_work_with_an_id_of_one_service_alone_is_one_record_with_its_doi(library_copy: Path) -> None:
    async with serving(make_world().handle) as server:
        services = open_copy(library_copy, server.base_url)
        works = [{"key": "a", "kind": "openalex", "value": "w1000003"}, {"key": "b", "kind": "doi", "value": "10.5555/w.3"}]
        result = await run_fetch(services, works)
        assert [work.status for work in result.works] == ["fetched", "fetched"]
        assert len({work.doc_id for work in result.works}) == 1
        again = await run_fetch(services, works)
        assert [(work.status, work.doc_id) for work in again.works] == [("in library", work.doc_id) for work in result.works]
        services.close()


async def run_fetch(services: Services, works: list[dict[str, str]], request: str = "what do otters eat") -> FetchResult:
    job: Any = {"target": TARGET, "label": "otters", "request": request, "works": works}
    return FetchResult.model_validate(await make_job_handlers(services)["fetch"](job, Steps()))


async def test_a_work_that_cannot_be_fetched_stays_a_candidate_and_its_job_names_the_reason(library_copy: Path) -> None:
    def fail(service: str, request: Request) -> Answer | None:
        return refusal(503) if request.path == "/openalex/works/doi:10.5555/w.3" and "abstract" in request.query.get("select", "") else None

    async with serving(make_world(fault=fail).handle) as server:
        services = open_copy(library_copy, server.base_url)
        await queue_candidates(services, TARGET, include=["10.5555/w.3", "10.5555/w.7"])
        (result,) = await run_queued(services)
        failed = next(work for work in result.works if work.status == "failed")
        assert failed.key == "doi:10.5555/w.3"
        assert "openalex" in failed.reason
        listing = await list_candidates(services, TARGET)
        assert "doi:10.5555/w.3" in keys(listing)
        assert any("1 included work is not fetched yet" in remark for remark in listing.remarks)
        with pytest.raises(JobError, match=r"none of 1 works could be fetched; .*openalex"):
            await run_fetch(services, [{"key": "doi:10.5555/w.3", "kind": "doi", "value": "10.5555/w.3"}])
        again = await queue_candidates(services, TARGET, include=["10.5555/w.3"])
        assert (again.round, len(again.jobs)) == (1, 1)  # tried again, and decided on once
        services.close()


async def test_without_a_network_what_the_library_has_is_taken_from_it(tmp_path: Path) -> None:
    services = await make_services(tmp_path, offline=True)
    works = [{"key": "w4", "kind": "doi", "value": "10.5555/w.4"}, {"key": "doi:10.5555/w.3", "kind": "doi", "value": "10.5555/w.3"}]
    result = await run_fetch(services, works, request="")
    assert [(work.status, work.doc_id, work.sentences) for work in result.works] == [("in library", "w4", ()), ("failed", "", ())]
    assert "must be fetched" in result.works[1].reason
    listing = await list_candidates(services, TARGET)
    assert "were not read yet, and none are read here" in listing.remarks[0]
    assert await read_jobs(services) == []  # a citations job could only fail
    assert (result.citations_job, "citations of these works were not read" in result.remarks[0]) == ("", True)
    services.close()
    online = Services(make_settings(tmp_path, "http://127.0.0.1:9"), pages=CountingPages())  # type: ignore[arg-type]
    await list_candidates(online, TARGET)  # queues what was not read
    (job,) = await read_jobs(online)
    assert (job.kind, job.request) == ("citations", {"targets": ["w1", "w2", "w4"]})
    online.close()


async def test_candidates_of_a_reference_list_have_its_titles_before_any_service_is_asked(tmp_path: Path) -> None:
    services = await make_services(tmp_path, offline=True)
    reference = '<ref><element-citation><article-title>Otters at sea</article-title><pub-id pub-id-type="doi">10.5555/sea</pub-id>'
    meta = "<article-meta><title-group><article-title>Otters</article-title></title-group></article-meta>"
    article = tmp_path / "otters.nxml"
    article.write_text(f"<article><front>{meta}</front><back><ref-list>{reference}</element-citation></ref></ref-list></back></article>")
    (file,) = (await ingest_targets(services, [article])).files
    library = await Library.open(services.settings.library.uri)
    await library.label(await library.doc_ids(file.path), ["otters"])
    library.close()
    titles = {one.key: one.title for one in (await list_candidates(services, TARGET)).candidates}
    assert titles["doi:10.5555/sea"] == "Otters at sea"
    services.close()


async def test_a_killed_process_loses_no_decision_and_no_work(library_copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It dies after the decision was stored and before its jobs were queued, and in a step after the record was written."""
    async with serving(make_world().handle) as server:
        services = open_copy(library_copy, server.base_url)
        with monkeypatch.context() as patch:
            patch.setattr(JobTable, "queue", _die)
            with pytest.raises(_Killed):
                await queue_candidates(services, TARGET, include=["10.5555/w.3"])
        assert (await get_status(services, TARGET)).included == ("doi:10.5555/w.3",)
        assert "doi:10.5555/w.3" in keys(await list_candidates(services, TARGET))
        await queue_candidates(services, TARGET, include=["10.5555/w.3"])
        with monkeypatch.context() as patch:
            patch.setattr(Library, "label", _die)
            with pytest.raises(_Killed):
                await run_queued(services)
        assert "10.5555/w.3" in {one.identifiers.doi for one in (await list_candidates(services, TARGET)).candidates}
        (job,) = await read_jobs(services, "fetch")
        await make_job_handlers(services)["fetch"](job.request, Steps())
        listing = await list_candidates(services, TARGET)
        assert "10.5555/w.3" not in {one.identifiers.doi for one in listing.candidates}
        chase = await get_status(services, TARGET)
        assert (len(chase.included), len(chase.rounds), listing.works) == (1, 1, 3)
        services.close()


class _Killed(BaseException):
    """The end of a process."""


def _die(*_: Any, **__: Any) -> Any:
    raise _Killed


async def test_targets_are_threads_labels_and_files(library_copy: Path) -> None:
    async with serving(make_world().handle) as server:
        services = open_copy(library_copy, server.base_url)
        files = {
            "lines.txt": "# my works\n10.5555/W.1\n\nhttps://doi.org/10.5555/w.2\nw1\n",
            "works.ris": "TY  - JOUR\nTI  - One\nDO  - 10.5555/w.1\nER  - \nTY  - JOUR\nTI  - Two\nDO  - 10.5555/w.2\nER  - \n",
            "works.bib": "@misc{a, title={A}, doi={10.5555/w.1}}\n@misc{b, title={B}, doi={10.5555/w.2}}\n@misc{c, title={No id}}\n",
            "works.csv": "title,doi\nOne,10.5555/w.1\nTwo,10.5555/w.2\n",
        }
        for file, text in files.items():
            path = library_copy / file
            await asyncio.to_thread(path.write_text, text)
            listing = await list_candidates(services, str(path))
            assert (listing.target, listing.works, keys(listing)) == (str(path), 2, name(3, 7, 8) | {"w4", "openalex:w1000010"}), file
        assert "1 entries of the file have no identifier" in (await list_candidates(services, str(library_copy / "works.bib"))).remarks
        await queue_candidates(services, str(library_copy / "works.csv"), include=["w4"])
        await run_queued(services, str(library_copy / "works.csv"))
        assert "w4" not in keys(await list_candidates(services, str(library_copy / "works.csv")))
        assert "w4" in keys(await list_candidates(services, TARGET))  # it was fetched for another target
        services.close()


async def test_a_thread_is_its_last_papers_and_its_query(library_copy: Path) -> None:
    services = open_copy(library_copy, offline=True)
    async with open_threads(services) as threads:
        for thread in ("rivers", "ann/rivers"):
            answer = await collect_response(threads.search(thread, {"query": "study 1 of otters"}))
    listing = await list_candidates(services, "rivers")
    assert {"w1", "w2", "w4"} == {hit.doc_id for hit in answer.hits}
    assert (listing.target, listing.works) == ("rivers", 3)
    assert keys(listing) == name(3, 7, 8) | {"openalex:w1000010"}
    assert (await get_status(services, "rivers")).request == "study 1 of otters"
    services.settings = services.settings.model_copy(update={"serve": ServeSettings(api_keys={"ann": hash_key("a"), "bob": hash_key("b")})})
    owner = OWNER.set("bob")
    with pytest.raises(BadRequest, match="there is no target"):
        await list_candidates(services, "ann/rivers")
    OWNER.set("ann")
    assert (await list_candidates(services, "ann/rivers")).works == 3
    OWNER.reset(owner)
    services.close()


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (" ", "a target is required: name a thread, label:NAME, or a file of identifiers"),
        ("nothing", "there is no target 'nothing': name a thread"),
        ("otters", "did you mean label:otters?"),
        ("label:oters", "no record of the library has the label 'oters'; did you mean 'otters'"),
        ("empty.txt", "empty.txt: is empty"),
        ("words.txt", "holds no identifier; 'nothing of it' is none"),
        (".", "is no file"),
        ("\0", "there is no target"),
    ],
)
async def test_an_unknown_target_is_a_clear_error(tmp_path: Path, target: str, message: str) -> None:
    await asyncio.to_thread((tmp_path / "empty.txt").write_text, "")
    await asyncio.to_thread((tmp_path / "words.txt").write_text, "nothing of it\nnames a work\n")
    services = await make_services(tmp_path)
    for call in (list_candidates, get_status, load_map):
        with pytest.raises(BadRequest) as raised:
            await call(services, target)
        assert message in str(raised.value)
    services.close()


async def test_a_request_to_a_server_names_no_file(tmp_path: Path) -> None:
    await asyncio.to_thread((tmp_path / "lines.txt").write_text, "10.5555/w.1\n")
    services = await make_services(tmp_path)
    owner = OWNER.set("")
    with pytest.raises(BadRequest, match="there is no target"):
        await list_candidates(services, str(tmp_path / "lines.txt"))
    OWNER.reset(owner)
    assert (await list_candidates(services, str(tmp_path / "lines.txt"))).works == 1
    services.close()


async def test_only_a_file_of_identifiers_creates_a_library(tmp_path: Path) -> None:
    services = Services(make_settings(tmp_path, "http://127.0.0.1:9"))
    await asyncio.to_thread((tmp_path / "lines.txt").write_text, "10.5555/w.1\n")
    for target in (TARGET, "nothing"):
        with pytest.raises(LibraryMissing):
            await list_candidates(services, target)
    assert (await list_candidates(services, str(tmp_path / "lines.txt"))).works == 1
    services.close()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"direction": "reference"}, "direction takes references or citations, not 'reference'; did you mean 'references'"),
        ({"hops": 0}, "hops takes 1 to 3"),
        ({"limit": 0}, "limit takes 1 to"),
    ],
)
async def test_wrong_options_are_clear_errors(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    services = await make_services(tmp_path)
    with pytest.raises(BadRequest, match=message):
        await list_candidates(services, TARGET, **options)
    services.close()


async def test_directions_and_hops_hold_for_the_decisions_that_follow(library_copy: Path) -> None:
    async with serving(make_world().handle) as server:
        services = open_copy(library_copy, server.base_url)
        assert keys(await list_candidates(services, TARGET, direction="references")) == name(3) | {"w4"}
        assert set((await queue_candidates(services, TARGET, all_of=True, dry_run=True)).queued) == name(3) | {"w4"}
        assert keys(await list_candidates(services, TARGET, direction="citations")) == name(3, 7, 8) | {"openalex:w1000010"}
        assert (await get_status(services, TARGET)).directions == ("citations",)
        services.close()


async def test_a_round_is_exported_and_fills_the_boxes_of_prisma(library_copy: Path) -> None:
    async with serving(make_world().handle) as server:
        services = open_copy(library_copy, server.base_url)
        before = await export_round(services, TARGET, "ris")
        assert before.count("TY  - ") == 5  # the candidates of the round to come
        await queue_candidates(services, TARGET, include=["10.5555/w.3", "w4"])
        await run_queued(services)
        await queue_candidates(services, TARGET, exclude=["10.5555/w.5"])
        first = await export_round(services, TARGET, "ris", 1)
        assert (first.count("TY  - "), f"AB  - {ABSTRACT}" in first, "AB  - Fetched for another target." in first) == (2, True, True)
        last = await export_round(services, TARGET, "ris")
        assert (last.count("TY  - "), "DO  - 10.5555/w.7" in last) == (3, True)
        counts = json.loads(await export_round(services, TARGET, "prisma-json"))
        assert (counts["identified"], counts["screened"], counts["excluded"], counts["sought"], counts["not_screened"]) == (6, 6, 1, 5, 0)
        assert counts["assessed"] is None
        assert "| Records identified from citation searching | 6 |" in await export_round(services, TARGET, "prisma-markdown")
        picture = await export_round(services, TARGET, "prisma-svg")
        assert ("citation searching (n = 6)" in picture, "Records excluded (n = 1)" in picture) == (True, True)
        with pytest.raises(BadRequest, match="has no round 4: 2 past, and 3 is the one to come"):
            await export_round(services, TARGET, "ris", 4)
        with pytest.raises(BadRequest, match="cannot export to 'riss'; did you mean 'ris'"):
            await export_round(services, TARGET, "riss")
        services.close()


async def test_a_round_is_exported_whole_where_the_hops_are_fewer_now(library_copy: Path) -> None:
    services = open_copy(library_copy, offline=True)
    links = [CitationLink(f"doi:10.5555/w.{one}", f"doi:10.5555/w.{one + 1}", "openalex", "2026-11-26") for one in (4, 5)]
    await (await services.library()).citations.add([make_paper(number) for number in (4, 5, 6)], links)
    assert "doi:10.5555/w.6" not in keys(await list_candidates(services, TARGET, hops=2))
    assert "doi:10.5555/w.6" in keys(await list_candidates(services, TARGET, hops=3))
    await queue_candidates(services, TARGET, include=["10.5555/w.6"])
    assert "doi:10.5555/w.6" not in keys(await list_candidates(services, TARGET, hops=1))
    assert "DO  - 10.5555/w.6" in await export_round(services, TARGET, "ris")
    services.close()


async def test_the_map_shows_roles_rounds_and_ranks_within_its_room(library_copy: Path) -> None:
    async with serving(make_world().handle) as server:
        services = open_copy(library_copy, server.base_url)
        await queue_candidates(services, TARGET, include=["10.5555/w.3"])
        await run_queued(services)
        await queue_candidates(services, TARGET, exclude=["w4", "10.5555/w.7"])
        whole = await load_map(services, TARGET)
        roles = {role: sum(work.role == role for work in whole.works) for role in ("target", "included", "candidate", "excluded")}
        assert roles == {"target": 2, "included": 3, "candidate": 0, "excluded": 2}
        assert {work.round for work in whole.works} == {0, 1, 2}
        assert ("w1", "w2") in whole.links
        shown = {work.key for work in whole.works}
        assert all(end in shown for link in whole.links for end in link)
        small = await load_map(services, TARGET, limit=4)
        assert (len(small.works), small.left_out) == (4, 3)
        with pytest.raises(BadRequest, match="a map shows 1 to"):
            await load_map(services, TARGET, limit=0)
        services.close()


async def test_retracted_works_stay_candidates_and_are_marked(library_copy: Path) -> None:
    async with serving(make_world().handle) as server:
        services = open_copy(library_copy, server.base_url)
        library = await services.library()
        await library.upsert([make_paper(4, abstract="Gone.", metadata={"is_retracted": True})])
        await library.citations.add(
            [Paper(doc_id="x", title="Retracted: rivers", identifiers=Identifiers(doi="10.5555/w.3"), source="x")], []
        )
        marked = {one.key: one.why for one in (await list_candidates(services, TARGET)).candidates if one.retracted}
        assert marked["w4"].startswith("retracted; ")
        await queue_candidates(services, TARGET, include=["w4"])
        (result,) = await run_queued(services)
        assert [(work.doc_id, work.retracted) for work in result.works] == [("w4", True)]
        assert "N1  - Retracted" in await export_round(services, TARGET, "ris", 1)
        services.close()


@pytest.mark.blocking  # DBOS blocks the loop on which it is launched
async def test_the_worker_runs_fetches_and_then_reads_their_citations(library_copy: Path) -> None:
    async with serving(make_world().handle) as server:
        services = open_copy(library_copy, server.base_url)
        await queue_candidates(services, TARGET, include=["10.5555/w.3"])
        assert await run_jobs(services) == 2
        assert [(job.kind, job.status) for job in await read_jobs(services)] == [("fetch", "done"), ("citations", "done")]
        assert (await read_jobs(services, "fetch"))[0].progress == "1 of 1 works"
        assert (await list_candidates(services, TARGET)).works == 3
        services.close()
