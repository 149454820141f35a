"""Abstracts, pages and the library through the whole graph, over services and a web site on loopback."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from outrider.graph.pipeline import build
from outrider.library.address_and_locks import LOCK
from outrider.library.library import Library
from outrider.nodes.enrich import enrich as enrich_keeping
from outrider.services import Services, save_results
from outrider.settings.model import EnrichSettings, LibrarySettings, RunSettings, Settings
from outrider.settings.sections import SourcesSettings
from outrider.state.hits import Hit
from outrider.state.records import Paper
from outrider.state.response import SearchResponse, SourceReport
from support.fake_services import SERVICES, make_handler, settings
from support.http_server import Answer, Request, as_json, as_text, refusal, serving
from support.word_embedder import WordEmbedder

QUERY = "liver injury by drugs"
ABSTRACT = "Paracetamol wounds hepatocytes."
TEXT = "Flucloxacillin may block the flow of bile for many weeks after it was taken, as this page of a hospital tells its patients."
BODY = "".join(f"<p>{TEXT}</p>" for _ in range(4))
PAGE = f"""<html><head><title>Liver injury: what patients should know</title><meta name="citation_doi" content="10.1000/page">
<meta name="citation_author" content="A. Frost"></head><body><article>{BODY}</article></body></html>"""
REQUEST = {"query": QUERY, "top_k": 50, "sources": ["library", "openalex", "crossref", "serpapi_google"]}


class ServicesAndSite:
    """Services and a site: Crossref has titles, OpenAlex an abstract by DOI, Google links to a page and a publisher."""

    def __init__(self) -> None:
        self.server = serving(
            make_handler(
                openalex=self._openalex, serpapi_google=self._google, crossref=self._crossref, site=self._site, **{"robots.txt": _no_rules}
            )
        )
        self.citations = 3
        self.down: frozenset[str] = frozenset()

    def _crossref(self, request: Request) -> Answer:
        if "/works/" in request.path:
            return refusal(404)
        items = [
            {"DOI": f"10.1000/cr{number}", "title": [_title(number)], "type": "journal-article", "is-referenced-by-count": self.citations}
            for number in (1, 2)
        ]
        return as_json({"status": "ok", "message-type": "work-list", "message": {"total-results": 2, "items": items}})

    def _openalex(self, request: Request) -> Answer:
        if "openalex" in self.down:
            return refusal(503)
        if "/works/" in request.path:
            work = self._work(request.path.rpartition("doi:")[2])
            return as_json(work) if work else refusal(404)
        named = request.query.get("filter", "").removeprefix("doi:").split("|")
        works = [work for doi in named if (work := self._work(doi))]
        return as_json({"meta": {"count": len(works), "page": 1, "per_page": 100}, "results": works})

    def _work(self, doi: str) -> dict[str, Any] | None:
        if doi not in ("10.1000/cr1", "10.1000/page"):
            return None
        title = _title(1) if doi.endswith("cr1") else "Liver injury: what patients should know"
        words = {word: [place] for place, word in enumerate(ABSTRACT.split())}
        return {"id": "https://openalex.org/W7", "title": title, "doi": f"https://doi.org/{doi}", "abstract_inverted_index": words}

    def _google(self, request: Request) -> Answer:
        here = f"http://{request.headers['host']}/site"
        links = {
            f"{here}/doi/10.1000/cr1": f"{_title(1)} | Journal of Livers",
            f"{here}/patients": "Liver injury: what patients should know",
        }
        results = [{"title": title, "link": link, "position": at} for at, (link, title) in enumerate(links.items(), 1)]
        return as_json({"search_metadata": {"status": "Success"}, "organic_results": results})

    def _site(self, request: Request) -> Answer:
        return as_text(PAGE, "text/html")

    def fetched(self) -> list[str]:
        return [request.path for request in self.server.requests if request.path.startswith("/site")]


def _no_rules(request: Request) -> Answer:
    return refusal(404)


def _title(number: int) -> str:
    return ("Injury of the liver by common drugs", "Livers of alpine dairy cattle injured by drugs")[number - 1]


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine makes a library in more than a second, and the tests look into it."""
    monkeypatch.setattr(enrich_keeping, "WAIT_S", 30.0)


@pytest.fixture
def there() -> Iterator[ServicesAndSite]:
    services_and_site = ServicesAndSite()
    with services_and_site.server:
        yield services_and_site


def make_settings(there: ServicesAndSite | serving, folder: Path, *, offline: bool = False, **enrich: Any) -> Settings:
    url = (there.server if isinstance(there, ServicesAndSite) else there).base_url
    base = settings(url, folder / "answers")
    sources = base.sources.model_copy(update={"allowed_hosts": url.removeprefix("http://"), "offline": offline})
    own = {"library": LibrarySettings(uri=str(folder / "library")), "run": RunSettings(run_timeout_s=100), "sources": sources}
    return base.model_copy(update={**own, "enrich": EnrichSettings(**{"time_s": 30.0, "idle_s": 30.0, **enrich})})


async def run_search(own_settings: Settings, **request: Any) -> SearchResponse:
    services = Services(own_settings)
    try:
        return SearchResponse.model_validate(await build(services).ainvoke({**REQUEST, **request}))
    finally:
        services.close()


def row(answer: SearchResponse, strategy: str) -> SourceReport:
    (report,) = [one for one in answer.sources if one.strategy == strategy and (one.source == "enrich" or strategy == "keep")]
    return report


def hit(answer: SearchResponse, doc_id: str) -> Hit:
    (match,) = [one for one in answer.hits if one.doc_id == doc_id]
    return match


async def test_abstracts_and_pages_arrive_and_a_doi_is_never_fetched(there: ServicesAndSite, tmp_path: Path) -> None:
    answer = await run_search(make_settings(there, tmp_path))
    paper = hit(answer, "crossref:10.1000/cr1")
    assert (paper.abstract, paper.metadata["filled_from"]["abstract"]) == (ABSTRACT, "openalex")
    page = next(one for one in answer.hits if one.url and one.url.endswith("/site/patients"))
    assert (TEXT in page.original_text, page.identifiers.doi, page.authors, page.abstract) == (
        True,
        "10.1000/page",
        ("A. Frost",),
        ABSTRACT,
    )
    assert there.fetched() == ["/site/patients"]
    assert [(one.asked, one.returned, one.status) for one in (row(answer, "pages"), row(answer, "identifiers"))] == [
        (1, 1, "ok"),
        (3, 2, "ok"),
    ]
    assert (row(answer, "keep").message, answer.snapshot) == ("2 new", None)
    assert answer.failures == ()


async def test_the_next_search_finds_saved_records_also_offline(there: ServicesAndSite, tmp_path: Path) -> None:
    await run_search(make_settings(there, tmp_path))
    requests = len(there.server.requests)
    services = Services(make_settings(there, tmp_path, offline=True))
    before = await (await services.library()).snapshot()
    answer = SearchResponse.model_validate(await build(services).ainvoke({"query": "paracetamol hepatocytes"}))
    services.close()
    paper = hit(answer, "crossref:10.1000/cr1")
    assert (paper.abstract, {place.source for place in paper.found_by}) == (ABSTRACT, {"library"})
    assert paper.metadata["filled_from"]["abstract"] == "openalex"
    assert {one.source for one in answer.sources} == {"library"}
    assert next(one.message for one in answer.sources if one.strategy == "lance_dense").startswith("the library at")  # it has no vectors
    assert (len(there.server.requests), answer.snapshot, answer.failures) == (requests, before, ())


async def test_newer_figures_replace_saved_ones(there: ServicesAndSite, tmp_path: Path) -> None:
    """The abstract is the saved one: its service is down by now."""
    await run_search(make_settings(there, tmp_path))
    there.citations, there.down = 8, frozenset({"openalex"})
    answer = await run_search(make_settings(there, tmp_path))
    paper = hit(answer, "crossref:10.1000/cr1")
    assert (paper.citations, paper.abstract, paper.metadata["filled_from"]["abstract"]) == (8, ABSTRACT, "openalex")
    assert {place.source for place in paper.found_by} == {"crossref", "library", "serpapi_google"}  # its link names the DOI
    assert row(answer, "keep").message == "1 changed; 1 unchanged"
    assert there.fetched() == ["/site/patients"]  # its text was saved, too
    offline = await run_search(make_settings(there, tmp_path, offline=True), sources=None)
    assert hit(offline, "crossref:10.1000/cr1").citations == 8


async def test_the_searched_version_is_reported_not_the_saved_one(there: ServicesAndSite, tmp_path: Path) -> None:
    library = await Library.open(tmp_path / "library", create=True)
    await library.upsert([Paper(doc_id="mine", title="Liver injury, my notes", abstract="Mine.")])
    before = await library.snapshot()
    answer = await run_search(make_settings(there, tmp_path))
    assert (answer.snapshot, await library.snapshot() != before, await library.count()) == (before, True, 3)
    library.close()


async def test_vector_search_works_where_saved_works_have_no_vector(there: ServicesAndSite, tmp_path: Path) -> None:
    library = await Library.open(tmp_path / "library", create=True)
    mine = Paper(doc_id="mine", title="Liver injury by drugs, my notes")
    await library.embed([mine], WordEmbedder())
    await library.upsert([mine])
    library.close()
    await run_search(make_settings(there, tmp_path))
    services = Services(make_settings(there, tmp_path, offline=True), embedder=WordEmbedder())
    answer = SearchResponse.model_validate(await build(services).ainvoke({"query": QUERY}))
    services.close()
    report = next(one for one in answer.sources if one.strategy == "lance_dense")
    assert (report.status, report.returned, report.message) == (
        "partial",
        1,
        f"2 records have no vector; embed them with: outrider library reindex --library {tmp_path / 'library'}",
    )
    assert len(answer.hits) == 3


async def test_a_library_that_somebody_writes_is_not_waited_for(
    there: ServicesAndSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(save_results, "WAIT_S", 1.0)
    (await Library.open(tmp_path / "library", create=True)).close()
    with FileLock(tmp_path / "library" / LOCK):
        answer = await run_search(make_settings(there, tmp_path))
    report = row(answer, "keep")
    assert (report.status, report.returned) == ("timeout", 0)
    assert "has been written by another process for 1 s" in report.message
    assert 1_000 <= report.took_ms < 10_000
    assert hit(answer, "crossref:10.1000/cr1").abstract == ABSTRACT


async def test_a_slow_library_is_written_beside_the_answer(there: ServicesAndSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(enrich_keeping, "WAIT_S", 0.1)
    (await Library.open(tmp_path / "library", create=True)).close()
    with FileLock(tmp_path / "library" / LOCK):
        answer = await run_search(make_settings(there, tmp_path))
    report = row(answer, "keep")
    assert (report.status, report.returned, report.message.partition(":")[0]) == ("partial", 0, "being kept")
    for thread in threading.enumerate():
        if thread.name == "outrider-saving":
            await asyncio.to_thread(thread.join, 30)
    library = await Library.open(tmp_path / "library")
    assert len(await library.fetch(["crossref:10.1000/cr1"])) == 1
    library.close()


async def test_a_folder_that_is_no_library_is_not_changed(there: ServicesAndSite, tmp_path: Path) -> None:
    (tmp_path / "library").mkdir()
    (tmp_path / "library" / "thesis.tex").write_text("mine")
    answer = await run_search(make_settings(there, tmp_path))
    assert (row(answer, "keep").status, "is no Outrider library" in row(answer, "keep").message) == ("unavailable", True)
    assert [path.name for path in (tmp_path / "library").iterdir()] == ["thesis.tex"]
    assert hit(answer, "crossref:10.1000/cr1").abstract == ABSTRACT


async def test_nothing_is_saved_or_fetched_where_the_settings_forbid_it(there: ServicesAndSite, tmp_path: Path) -> None:
    answer = await run_search(make_settings(there, tmp_path, keep=False, pages=0))
    assert [one.strategy for one in answer.sources if one.source == "enrich"] == ["identifiers"]
    assert (there.fetched(), (tmp_path / "library").exists()) == ([], False)


async def test_every_link_and_identifier_occurs_in_an_answer(there: ServicesAndSite, tmp_path: Path) -> None:
    bodies: list[str] = []
    inner = there.server.handler

    def record_body(request: Request) -> Answer:
        answer = inner(request)
        assert isinstance(answer, Answer)
        bodies.append(answer.body.decode())
        return replace(answer)

    there.server.handler = record_body
    answer = await run_search(make_settings(there, tmp_path))
    text = "\n".join(bodies).lower().replace("\\/", "/")
    assert answer.hits
    for one in answer.hits:
        assert one.url is None or json.dumps(one.url.lower())[1:-1].removeprefix("https://doi.org/") in text
        assert all(value.lower() in text for _, value in one.identifiers.pairs())


async def test_services_that_know_nothing_more_cost_nothing_but_their_rows(tmp_path: Path) -> None:
    """All of them answer an identifier, and GitHub a repository, with what they answer to a search."""
    async with serving(make_handler(**{"robots.txt": _no_rules})) as server:
        answer = await run_search(make_settings(server, tmp_path, pages=0, time_s=5.0), sources=None)
    assert answer.failures == ()
    assert {place.source for hit in answer.hits for place in hit.found_by} == set(SERVICES)
    strategies = [(one.source, one.strategy) for one in answer.sources]
    assert strategies[-3:] == [("enrich", "identifiers"), ("github", "details"), ("library", "keep")]


def test_offline_has_no_page_fetcher_and_online_shares_one() -> None:
    assert Services(Settings(sources=SourcesSettings(offline=True))).pages is None
    assert Services(Settings(), sources=()).pages is None
    assert Services(Settings()).pages is Services(Settings()).pages is not None
