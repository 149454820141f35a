"""A second look at the services for retractions, over services on loopback and a real library."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from outrider.interfaces.cli import run
from outrider.services import Services
from outrider.settings.model import LibrarySettings
from outrider.state.errors import BadRequest
from outrider.state.notices import CHECKS, is_retracted, list_notices
from outrider.state.records import Identifiers, Paper, Record
from outrider.usecases import check_notices as checks
from outrider.usecases.check_notices import NoticeCheck, renew_notices
from support.fake_services import settings
from support.http_server import NEVER, Answer, Request, as_json, as_text, refusal, serving

SPACES = 'xmlns="http://www.w3.org/2005/Atom" xmlns:opensearch="http://a9.com/-/spec/opensearch/1.1/"'


def work(number: int, **fields: Any) -> Paper:
    given: dict[str, Any] = {"title": f"Work {number}", "identifiers": Identifiers(doi=f"10.1000/{number}")}
    return Paper(doc_id=f"r{number:04d}", abstract="Of livers.", **given | fields)


class World:
    """Crossref, PubMed, OpenAlex and arXiv, as far as the check asks them. Every request is kept."""

    def __init__(self) -> None:
        self.updated_by: dict[str, list[dict[str, Any]]] = {}
        self.flags: dict[str, bool] = {}
        self.retracted_pmids: dict[str, str] = {}
        self.comments: dict[str, str] = {}
        self.refuses: dict[str, Callable[[], Answer]] = {}
        self.requests: list[tuple[str, list[str]]] = []

    def __call__(self, request: Request) -> Answer:
        name = request.path.split("/")[1]
        query = {key: values[0] for key, values in parse_qs(urlsplit(request.target).query).items()}
        filters = [part.removeprefix("doi:") for part in query.get("filter", "").replace("|", ",").split(",")]
        asked = {"crossref": filters, "openalex": filters}.get(name) or query.get("id", query.get("id_list", "")).split(",")
        self.requests.append((name, asked))
        if name in self.refuses:
            return self.refuses[name]()
        return {"crossref": self.crossref, "openalex": self.openalex, "pubmed": self.pubmed, "arxiv": self.arxiv}[name](asked)

    def crossref(self, dois: list[str]) -> Answer:
        items = [{"DOI": doi, "title": ["x"], "type": "journal-article", "updated-by": self.updated_by.get(doi, [])} for doi in dois]
        return as_json({"status": "ok", "message-type": "work-list", "message": {"total-results": len(items), "items": items}})

    def openalex(self, dois: list[str]) -> Answer:
        works = [{"id": f"https://openalex.org/W{doi[8:]}", "doi": f"https://doi.org/{doi}", "title": "x"} for doi in dois]
        results = [{**one, "is_retracted": self.flags.get(doi, False)} for one, doi in zip(works, dois, strict=True)]
        return as_json({"meta": {"count": len(results)}, "results": results})

    def pubmed(self, pmids: list[str]) -> Answer:
        if pmids == [""]:
            return as_json({"header": {}, "esearchresult": {"count": "0", "idlist": []}})
        notice = '<CommentsCorrectionsList><CommentsCorrections RefType="{}"><PMID>9</PMID></CommentsCorrections></CommentsCorrectionsList>'
        articles = "".join(
            f"<PubmedArticle><MedlineCitation><PMID>{pmid}</PMID><Article><ArticleTitle>x</ArticleTitle></Article>"
            f"{notice.format(self.retracted_pmids[pmid]) if pmid in self.retracted_pmids else ''}</MedlineCitation></PubmedArticle>"
            for pmid in pmids
        )
        return as_text(f"<PubmedArticleSet>{articles}</PubmedArticleSet>", "text/xml")

    def arxiv(self, numbers: list[str]) -> Answer:
        entries = "".join(
            f"<entry><id>http://arxiv.org/abs/{one}v1</id><title>x</title>"
            f'<comment xmlns="http://arxiv.org/schemas/atom">{self.comments.get(one, "9 pages")}</comment></entry>'
            for one in numbers
        )
        feed = f"<feed {SPACES}><opensearch:totalResults>{len(numbers)}</opensearch:totalResults>{entries}</feed>"
        return as_text(feed, "application/atom+xml")


RETRACTION = {"type": "retraction", "DOI": "10.1000/notice", "updated": {"date-parts": [[2024, 5, 1]]}, "source": "retraction-watch"}


class Place:
    """A library with records, and services over it."""

    def __init__(self, folder: Path, base_url: str, *, offline: bool = False) -> None:
        base = settings(base_url, folder / "answers")
        sources = base.sources.model_copy(update={"offline": offline})
        self.services = Services(base.model_copy(update={"library": LibrarySettings(uri=str(folder / "library")), "sources": sources}))

    async def fill(self, *records: Record) -> None:
        library = await self.services.new_library()
        await library.upsert(records)
        library.close()

    async def read(self) -> dict[str, Record]:
        library = await self.services.new_library()
        records = {record.doc_id: record async for record in library.scan()}
        library.close()
        return records


async def test_records_are_marked_and_keep_what_they_were(tmp_path: Path) -> None:
    """Each service is asked in batches; changes are listed; a second check changes nothing."""
    world = World()
    world.updated_by["10.1000/1"] = [RETRACTION]
    world.flags["10.1000/2"] = True
    world.retracted_pmids |= {"3": "RetractionIn", "4": "RetractionOf"}
    world.comments["2101.00005"] = "This paper has been withdrawn by the author"
    works = [
        work(1), work(2), work(3, identifiers=Identifiers(pmid="3")), work(4, identifiers=Identifiers(pmid="4")),
        work(5, identifiers=Identifiers(arxiv="2101.00005")), work(6), work(7, identifiers=Identifiers()),
    ]  # fmt: skip
    with serving(world) as server:
        place = Place(tmp_path, server.base_url)
        await place.fill(*works)
        report = await checks.check_notices(place.services)
        again = await checks.check_notices(place.services)
        place.services.close()
    assert {one.doc_id: [notice.kind for notice in one.added] for one in report.changes} == {
        "r0001": ["retracted"], "r0002": ["retracted"], "r0003": ["retracted"], "r0004": ["retraction notice"], "r0005": ["withdrawn"],
    }  # fmt: skip
    assert (report.records, report.checked, report.unidentified, report.complete) == (6, 6, 1, True)
    assert not again.changes
    records = await place.read()
    assert {doc_id for doc_id, one in records.items() if is_retracted(list_notices(one))} == {"r0001", "r0002", "r0003", "r0005"}
    (notice,) = list_notices(records["r0001"])
    assert (notice.doi, notice.date, notice.reported_by) == ("10.1000/notice", "2024-05-01", ("retraction-watch",))
    for before in works:
        after = records[before.doc_id]
        metadata = {name: value for name, value in after.metadata.items() if name != CHECKS}
        assert after.model_copy(update={"metadata": metadata}) == before
    assert ("pubmed", ["3", "4"]) in world.requests
    assert [asked for name, asked in world.requests if name == "crossref"] == 2 * [["10.1000/1", "10.1000/2", "10.1000/6"]]


async def test_what_others_write_meanwhile_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    world.updated_by |= {"10.1000/1": [RETRACTION], "10.1000/2": [RETRACTION]}
    with serving(world) as server:
        place = Place(tmp_path, server.base_url)
        await place.fill(work(1), work(2))
        ask = NoticeCheck._ask

        async def write_then_ask(self: NoticeCheck, *arguments: Any) -> Any:
            answers = await ask(self, *arguments)
            library = await place.services.new_library()
            await library.upsert([work(1).model_copy(update={"text": "A text that came meanwhile."})])
            await library.remove(["r0002"])
            library.close()
            return answers

        monkeypatch.setattr(NoticeCheck, "_ask", write_then_ask)
        report = await checks.check_notices(place.services)
        place.services.close()
    records = await place.read()
    assert [one.doc_id for one in report.changes] == ["r0001"]
    assert list(records) == ["r0001"]
    assert (records["r0001"].text, is_retracted(list_notices(records["r0001"]))) == ("A text that came meanwhile.", True)


async def test_what_a_service_takes_back_is_no_longer_marked(tmp_path: Path) -> None:
    """The former state stays in the record, and a report that comes back is seen again."""
    world = World()
    read = {"record": "openalex:W1", "retracted": True}
    with serving(world) as server:
        place = Place(tmp_path, server.base_url)
        await place.fill(work(1, metadata=read))
        (change,) = (await checks.check_notices(place.services)).changes
        assert ([one.kind for one in change.gone], change.added) == (["retracted"], ())
        after = (await place.read())["r0001"]
        assert list_notices(after) == ()
        assert {name: value for name, value in after.metadata.items() if name != CHECKS} == read
        world.flags["10.1000/1"] = True
        (change,) = (await checks.check_notices(place.services)).changes
        assert [one.kind for one in change.added] == ["retracted"]
        place.services.close()
    entries = (await place.read())["r0001"].metadata[CHECKS]
    assert isinstance(entries, list)
    assert len(entries) == 2


def test_a_notice_that_was_read_since_the_check_is_not_hidden() -> None:
    """What was gone then says nothing of other metadata."""
    answer = Paper(doc_id="openalex:W1", source="openalex", metadata={"retracted": False})
    record, change = renew_notices(work(1, metadata={"record": "openalex:W1", "retracted": True}), {"openalex": answer}, "2026-01-01")
    assert change is not None
    assert not list_notices(record)
    fresh = record.model_copy(update={"metadata": {**record.metadata, "notices": [{"kind": "retraction_in", "pmid": "9"}]}})
    assert [notice.kind for notice in list_notices(fresh)] == ["retracted"]


def test_no_service_takes_back_what_another_one_reports() -> None:
    """OpenAlex's flag is false, and Crossref was not asked."""
    updates = [{"type": "retraction", "doi": "10.1000/r", "source": "publisher"}]
    answer = Paper(doc_id="openalex:W1", source="openalex", metadata={"retracted": False})
    before = work(1, metadata={"updated_by": updates, "retracted": True})
    assert renew_notices(before, {"openalex": answer}, "2026-01-01") == (before, None)


async def test_many_records_are_asked_about_in_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Progress is told after each chunk, and equal DOIs are asked for once."""
    monkeypatch.setattr(checks, "CHUNK", 50)
    world, steps = World(), list[tuple[int, int]]()
    with serving(world) as server:
        place = Place(tmp_path, server.base_url)
        await place.fill(*(work(number, identifiers=Identifiers(doi=f"10.1000/{number % 60}")) for number in range(120)))
        report = await checks.check_notices(place.services, lambda done, total: steps.append((done, total)))
        place.services.close()
    assert report.checked == 120
    assert steps == [(0, 120), (50, 120), (100, 120), (120, 120)]
    assert [len(asked) for name, asked in world.requests if name == "crossref"] == [40, 10, 40, 10, 20]


async def test_a_service_that_fails_costs_only_its_own_answers(tmp_path: Path) -> None:
    """It is left out after two failures, and the report says so. Nothing that it reported before is taken back."""
    world = World()
    world.refuses["openalex"] = lambda: refusal(404)
    world.updated_by["10.1000/1"] = [RETRACTION]
    with serving(world) as server:
        place = Place(tmp_path, server.base_url)
        await place.fill(work(1), *(work(number, metadata={"record": "openalex:W", "retracted": True}) for number in range(2, 130)))
        report = await checks.check_notices(place.services)
        place.services.close()
    assert [change.doc_id for change in report.changes] == ["r0001"]
    rows = {row.name: row for row in report.services}
    assert (rows["openalex"].failed, rows["openalex"].asked) == (129, 0)
    assert "404" in rows["openalex"].problem
    assert rows["crossref"].known == 129
    assert not report.complete


async def test_a_cancelled_check_keeps_what_is_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The chunks before the one that was under way are in the library, and the report has them."""
    monkeypatch.setattr(checks, "CHUNK", 1)
    world = World()
    world.updated_by |= {"10.1000/1": [RETRACTION], "10.1000/2": [RETRACTION]}
    answer = world.crossref
    world.crossref = lambda dois: NEVER if dois == ["10.1000/2"] else answer(dois)  # type: ignore[method-assign]
    with serving(world) as server:
        place = Place(tmp_path, server.base_url)
        await place.fill(work(1), work(2))
        begun = asyncio.Event()
        check = NoticeCheck(place.services, lambda done, _: begun.set() if done else None)
        task = asyncio.create_task(check.run())
        await begun.wait()
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        place.services.close()
    assert [change.doc_id for change in check.report.changes] == ["r0001"]
    assert not check.report.complete
    assert [doc_id for doc_id, one in (await place.read()).items() if list_notices(one)] == ["r0001"]


async def test_offline_says_so(tmp_path: Path) -> None:
    """Nothing is asked."""
    place = Place(tmp_path, "http://127.0.0.1:1", offline=True)
    await place.fill(work(1))
    with pytest.raises(BadRequest, match="offline"):
        await checks.check_notices(place.services)
    place.services.close()


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Changes for people, a report as JSON, and exit code 2 offline."""
    world = World()
    world.updated_by["10.1000/1"] = [RETRACTION]
    with serving(world) as server:
        place = Place(tmp_path, server.base_url)
        asyncio.run(place.fill(work(1, title="Livers \x1b[31m<b>"), work(2)))
        place.services.close()
        for name in ("crossref", "openalex", "pubmed", "arxiv", "semantic_scholar", "github"):
            monkeypatch.setenv(f"OUTRIDER_SOURCES__{name.upper()}__BASE_URL", f"{server.base_url}/{name}")
        monkeypatch.setenv("OUTRIDER_SOURCES__OFFLINE", "false")
        monkeypatch.setenv("OUTRIDER_CACHE__FOLDER", str(tmp_path / "cache"))
        command = ["library", "check", "--retractions", "--library", str(tmp_path / "library")]
        assert run([*command, "--offline"]) == 2
        assert "offline" in capsys.readouterr().err
        monkeypatch.setenv("OUTRIDER_SOURCES__OFFLINE", "false")
        assert run(command) == 0
        shown = capsys.readouterr().out
        assert "new: Retracted (2024-05-01, doi:10.1000/notice, reported by Retraction Watch)" in shown
        assert "2 of 2 records checked, 1 changed." in shown
        assert "\x1b[31m<b>" not in shown
        assert run([*command, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["changes"] == []


def test_ctrl_c_shows_what_was_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """And ends with 130; the changes so far are listed and stay."""
    world = World()
    world.updated_by["10.1000/1"] = [RETRACTION]
    show = NoticeCheck._show

    def interrupt(check: NoticeCheck, done: int) -> None:
        show(check, done)
        if done:
            raise KeyboardInterrupt

    monkeypatch.setattr(checks, "CHUNK", 1)
    monkeypatch.setattr(NoticeCheck, "_show", interrupt)
    with serving(world) as server:
        place = Place(tmp_path, server.base_url)
        asyncio.run(place.fill(work(1), work(2)))
        place.services.close()
        for name in ("crossref", "openalex", "pubmed", "arxiv"):
            monkeypatch.setenv(f"OUTRIDER_SOURCES__{name.upper()}__BASE_URL", f"{server.base_url}/{name}")
        monkeypatch.setenv("OUTRIDER_SOURCES__OFFLINE", "false")
        monkeypatch.setenv("OUTRIDER_CACHE__FOLDER", str(tmp_path / "cache"))
        assert run(["library", "check", "--retractions", "--library", str(tmp_path / "library")]) == 130
    shown = capsys.readouterr()
    assert "new: Retracted" in shown.out
    assert "1 of 2 records checked, 1 changed." in shown.out
    assert "Interrupted after 1 of 2 records" in shown.err
    assert [doc_id for doc_id, one in asyncio.run(place.read()).items() if list_notices(one)] == ["r0001"]
