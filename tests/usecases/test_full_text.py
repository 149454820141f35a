"""Full texts of a library's records, over the counterparts of the services: by command, job, REST, MCP and Python."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import outrider
from outrider.interfaces.cli import jobs, run
from outrider.library.library import Library
from outrider.runtime.threads_and_loops import run_in_background
from outrider.services import Services
from outrider.services.full_text import run_full_text_job
from outrider.state.errors import BadRequest, JobError
from outrider.state.full_text import read_origin
from outrider.state.records import Identifiers, Record
from outrider.usecases.full_text import afetch_full_text, queue_full_text
from outrider.usecases.health import health
from outrider.usecases.jobs import show_job
from support.fakes import paper
from support.http_app import open_client
from support.http_server import serving
from support.open_texts import AUTHORS, DOI, SENTENCES, TITLE, OpenTexts, jats, pdf, pdf_file, xml

OTHER_DOI = "10.1000/liver.2"


@dataclass
class World:
    texts: OpenTexts
    server: serving
    folder: Path

    async def services(self, **flags: object) -> Services:
        return await asyncio.to_thread(Services.from_file, {"library.uri": str(self.folder / "library"), **flags})

    def stored(self) -> dict[str, Record]:
        async def read() -> dict[str, Record]:
            library = await Library.open(self.folder / "library")
            try:
                return {record.doc_id: record for record in await library.page(limit=10)}
            finally:
                library.close()

        return run_in_background(read())


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """A library of three papers: one open as JATS, one as PDF, one that is not open; and a page."""
    texts = OpenTexts()
    with serving(texts) as server:
        host = server.base_url.removeprefix("http://")
        texts.europe_pmc.append({"pmcid": "PMC7", "doi": DOI, "isOpenAccess": "Y", "license": "cc by"})
        texts.full_texts["PMC7"] = xml(jats())
        texts.add_open("/site/x.pdf", pdf_file(pdf(doi=OTHER_DOI)), server.base_url, OTHER_DOI)
        variables = {
            "SOURCES__EUROPE_PMC__BASE_URL": server.base_url,
            "SOURCES__PMC__BASE_URL": f"{server.base_url}/pmc",
            "SOURCES__UNPAYWALL__BASE_URL": f"{server.base_url}/unpaywall",
            "SOURCES__ARXIV_TEXTS__BASE_URL": f"{server.base_url}/arxiv",
            "SOURCES__CONTACT": "ann@example.org",
            "SOURCES__ALLOWED_HOSTS": host,
            "SOURCES__OFFLINE": "false",
            "CACHE__FOLDER": str(tmp_path / "cache"),
            "JOBS__URI": str(tmp_path / "jobs.sqlite"),
            "LIBRARY__URI": str(tmp_path / "library"),
        }
        for name, value in variables.items():
            monkeypatch.setenv(f"OUTRIDER_{name}", value)
        monkeypatch.chdir(tmp_path)

        async def fill() -> None:
            library = await Library.open(tmp_path / "library", create=True)
            await library.upsert(
                [
                    paper("a", TITLE, authors=AUTHORS, identifiers=Identifiers(doi=DOI), abstract="We studied livers.", origin="/x.ris"),
                    paper("b", TITLE, authors=AUTHORS, identifiers=Identifiers(doi=OTHER_DOI)),
                    paper("c", "A closed paper of livers", identifiers=Identifiers(doi="10.1000/closed")),
                ]
            )
            await library.label(["a", "c"], ["review"])
            library.close()

        run_in_background(fill())
        yield World(texts, server, tmp_path)


def test_the_command_fetches_keeps_and_reports(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    """By id, DOI and label; a second run finds everything kept and asks only for what it does not have."""
    assert run(["library", "fulltext", f"doi:{OTHER_DOI}", "missing", "--label", "review", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert {one["doc_id"]: one["status"] for one in report["works"]} == {
        "missing": "unknown",
        "b": "fetched",
        "a": "fetched",
        "c": "not open",
    }
    stored = world.stored()
    origins = {name: read_origin(record) for name, record in stored.items()}
    assert origins["a"] is not None
    assert origins["b"] is not None
    assert (origins["a"].form, origins["a"].licence, origins["b"].form) == ("jats", "cc-by", "pdf")
    assert SENTENCES[3] in stored["a"].text
    assert (stored["a"].origin, stored["a"].abstract, stored["c"].text) == ("/x.ris", "We studied livers.", "")
    world.server.requests.clear()
    assert run(["library", "fulltext", "--all"]) == 0
    out = capsys.readouterr().out
    assert "2 kept, 1 not open" in out
    assert "JATS, published version, cc-by, from" in out
    assert not any("liver" in one.target for one in world.server.requests)


def test_a_dry_run_contacts_nothing(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["library", "fulltext", "--all", "--dry-run", "--json"]) == 0
    assert {one["status"] for one in json.loads(capsys.readouterr().out)["works"]} == {"planned"}
    assert world.server.requests == []


def test_offline_the_report_has_what_is_kept(world: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    run(["library", "fulltext", "a"])
    world.server.requests.clear()
    capsys.readouterr()
    monkeypatch.setenv("OUTRIDER_SOURCES__OFFLINE", "true")
    assert run(["library", "fulltext", "a", "b", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert [one["status"] for one in report["works"]] == ["kept", "failed"]
    assert "offline" in report["works"][1]["reason"]
    assert world.server.requests == []


def test_nothing_named_and_nothing_known_is_bad_input(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["library", "fulltext"]) == 2
    assert run(["library", "fulltext", "nobody"]) == 2
    assert run(["library", "fulltext", "a", "--queue", "--dry-run"]) == 2


async def test_a_better_form_replaces_a_fetched_text_and_nothing_else_does(world: World) -> None:
    """One record with the best text; the user's own is never touched."""
    services = await world.services()
    world.texts.europe_pmc.clear()
    world.texts.add_open("/site/a.pdf", pdf_file(pdf()), world.server.base_url)
    await afetch_full_text("a", services=services)
    world.texts.europe_pmc.append({"pmcid": "PMC7", "doi": DOI, "isOpenAccess": "Y", "license": "cc by"})
    again = await afetch_full_text("a", services=services)
    assert [work.status for work in again.works] == ["kept"]
    services.close()
    fresh = await world.services(**{"cache.fresh_s": 0.0})
    better = await afetch_full_text("a", again=True, services=fresh)
    origin = better.works[0].full_text
    assert origin is not None
    assert (better.works[0].status, origin.form) == ("fetched", "jats")
    world.texts.europe_pmc.clear()
    worse = await afetch_full_text("a", again=True, services=fresh)
    kept = worse.works[0].full_text
    assert kept is not None
    assert (worse.works[0].status, kept.form) == ("kept", "jats")
    fresh.close()


async def test_what_others_write_meanwhile_is_kept(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """While texts are embedded, the user adds a text of their own to one record and corrects another."""
    services = await world.services()

    async def write_meanwhile(_: Services, library: Library, records: Any) -> None:
        first, second = await library.fetch(["a", "b"])
        own = {"text": "My own notes on livers.", "metadata": {}}
        await library.upsert([first.model_copy(update=own), second.model_copy(update={"year": 1999})])

    monkeypatch.setattr(Services, "embed_known", write_meanwhile)
    report = await afetch_full_text("a", "b", services=services)
    stored = await asyncio.to_thread(world.stored)
    assert stored["a"].text == "My own notes on livers."
    assert (stored["b"].year, bool(read_origin(stored["b"]))) == (1999, True)
    assert [work.status for work in report.works] == ["own text", "fetched"]
    services.close()


async def test_reading_the_file_again_keeps_the_text(world: World, tmp_path: Path) -> None:
    """A bibliography has no full texts: they are carried, and the record counts as unchanged if nothing else changed."""
    file = tmp_path / "refs.bib"
    entry = "@article{k, title = {%s}, author = {Doe, Jane and Roe, Richard}, doi = {%s}, year = {%d}}"
    await asyncio.to_thread(file.write_text, entry % (TITLE, DOI, 2020))
    services = await world.services()
    await outrider.aadd_to_library(file, services=services)
    library = await services.library()
    doc_id = next(record.doc_id for record in await library.page(limit=10) if record.origin == str(file))
    await afetch_full_text(doc_id, services=services)
    await asyncio.to_thread(file.write_text, entry % (TITLE, DOI, 2021))
    report = await outrider.aadd_to_library(file, services=services)
    (record,) = await library.fetch([doc_id])
    assert (report.updated, record.year) == (1, 2021)
    assert read_origin(record)
    await asyncio.to_thread(file.write_text, "% a comment\n" + entry % (TITLE, DOI, 2021))
    report = await outrider.aadd_to_library(file, services=services)
    assert (report.updated, report.unchanged) == (0, 1)
    services.close()


class Steps:
    """`JobSteps` that remember their answers, as the table does."""

    def __init__(self, answers: dict[str, Any] | None = None) -> None:
        self.answers: dict[str, Any] = answers or {}
        self.reports: list[str] = []

    async def step(self, name: str, work: Any) -> Any:
        if name not in self.answers:
            self.answers[name] = await work()
        return self.answers[name]

    async def report(self, progress: str) -> None:
        self.reports.append(progress)


async def test_a_job_fetches_in_durable_steps(world: World) -> None:
    """A job that continues asks for nothing again."""
    services, steps = await world.services(), Steps()
    queued = await queue_full_text(services, ["a", "b"], target="livers")
    job = await show_job(services, queued.jobs[0])
    assert (job.kind, job.target, queued.works) == ("full_text", "livers", 2)
    result = await run_full_text_job(services, job.request, steps)
    assert [one["status"] for one in result["works"]] == ["fetched", "fetched"]  # type: ignore[index,union-attr,call-overload]
    assert steps.reports == ["2 of 2 works, 2 fetched"]
    world.server.requests.clear()
    assert await run_full_text_job(services, job.request, Steps(steps.answers)) == result
    assert world.server.requests == []
    services.close()
    offline = await world.services(**{"sources.offline": True})
    with pytest.raises(JobError, match="only texts that the library holds"):
        await run_full_text_job(offline, job.request, Steps())
    offline.close()


@pytest.mark.blocking  # DBOS starts on the loop
def test_a_queued_job_runs_with_the_others(world: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "take_lowest_priority", lambda: None)  # it would slow the tests after this one
    assert run(["library", "fulltext", "--label", "review", "--queue"]) == 0
    assert run(["jobs", "run"]) == 0
    capsys.readouterr()
    assert run(["jobs", "list", "--json"]) == 0
    (job,) = json.loads(capsys.readouterr().out)["jobs"]
    assert (job["kind"], job["status"], job["target"]) == ("full_text", "done", "label:review")
    assert run(["jobs", "show", job["id"]]) == 0
    assert "result: 1 fetched, 1 not open" in capsys.readouterr().out
    assert read_origin(world.stored()["a"])


async def test_doctor_says_what_full_texts_need(world: World) -> None:
    async def say(**flags: object) -> str:
        services = await world.services(**flags)
        part = next(part for part in await health(services) if part.what == "full text")
        services.close()
        return f"{'on' if part.on else 'off'}: {part.says}"

    assert await say() == "on: on demand, from Europe PMC, PubMed Central, arXiv, open links, Unpaywall"
    assert "it requires your e-mail address in sources.contact" in await say(**{"sources.contact": ""})
    assert "it needs a network" in await say(**{"sources.offline": True})
    assert "switched off" in await say(**{"enrich.full_text": "off"})


async def test_nothing_is_asked_of_a_service_that_is_switched_off(world: World) -> None:
    names = ("europe_pmc", "pmc", "unpaywall", "arxiv_texts", "open_links")
    services = await world.services(**{f"sources.{name}.enabled": False for name in names})
    report = await afetch_full_text("a", "b", services=services)
    assert {work.status for work in report.works} == {"not open"}
    assert world.server.requests == []
    services.close()


async def test_python_refuses_what_names_nothing(world: World) -> None:
    with pytest.raises(BadRequest, match="name records"):
        await outrider.afetch_full_text(services=await world.services())


def test_a_hit_and_its_exports_show_the_text(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    """On the terminal below the hit; in RIS as a link of its own, in Markdown as a line, in JSON with the licence."""
    run(["library", "fulltext", "a", "b"])
    capsys.readouterr()
    query = "which acetaminophen dose raised the enzymes of the liver?"
    assert run(["search", query, "--offline", "-o", "hits.ris"]) == 0
    out = capsys.readouterr().out
    assert "Full text: JATS, published version, cc-by, from http" in out
    exported = (world.folder / "hits.ris").read_text()
    assert f"L2  - {world.server.base_url}/europepmc/webservices/rest/PMC7/fullTextXML" in exported
    assert f"L1  - {world.server.base_url}/site/x.pdf" in exported
    run(["search", query, "--offline", "-o", "hits.md", "--json"])
    answer = json.loads(capsys.readouterr().out)
    assert {(hit["full_text"] or {}).get("licence") for hit in answer["hits"]} >= {"cc-by"}
    assert "Full text: PDF, published version, cc-by" in (world.folder / "hits.md").read_text()


def test_an_interrupted_command_keeps_what_is_done(
    world: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after Ctrl-C: the works so far are listed and stored."""
    from outrider.usecases import full_text as module

    real, calls = module.fetch_part, list[str]()

    async def fetch_part(*arguments: Any, **options: Any) -> Any:
        calls.append("part")
        if len(calls) > 1:
            raise KeyboardInterrupt
        return await real(*arguments, **options)

    monkeypatch.setattr(module, "WORKS_A_PART", 1)
    monkeypatch.setattr(module, "fetch_part", fetch_part)
    assert run(["library", "fulltext", "a", "b", "--json"]) == 130
    report = json.loads(capsys.readouterr().out)
    assert [(one["doc_id"], one["status"]) for one in report["works"]] == [("a", "fetched")]
    stored = world.stored()
    assert (bool(stored["a"].text), bool(stored["b"].text)) == (True, False)


async def test_texts_over_http(world: World) -> None:
    """At most 20 works wait; more are a job. A server that may not change its library refuses."""
    path = "/api/library/full-texts"
    async with open_client(await world.services()) as http:
        planned = (await http.post(path, json={"label": "review", "dry_run": True})).json()
        assert [one["status"] for one in planned["works"]] == ["planned", "planned"]
        done = (await http.post(path, json={"ids": ["a", "nobody"]})).json()
        assert {one["doc_id"]: one["status"] for one in done["works"]} == {"nobody": "unknown", "a": "fetched"}
        queued = (await http.post(path, json={"ids": ["b"], "queue": True})).json()
        assert (queued["works"], len(queued["jobs"])) == (1, 1)
        assert (await http.post(path, json={})).status_code == 422
    async with open_client(await world.services(**{"serve.read_only": True})) as http:
        assert (await http.post(path, json={"ids": ["b"]})).status_code == 403


async def test_texts_over_mcp(world: World) -> None:
    mcp = pytest.importorskip("mcp")
    from outrider.interfaces.mcp import make_server

    services = await world.services()
    server = await asyncio.to_thread(make_server, services)
    async with mcp.Client(server) as client:
        result = (await client.call_tool("library_full_text", {"ids": ["a", "c"]})).structured_content
    assert [(one["doc_id"], one["status"]) for one in result["works"]] == [("a", "fetched"), ("c", "not open")]
    assert result["works"][0]["text"].startswith("JATS, published version, cc-by")
    services.close()
