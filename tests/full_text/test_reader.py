"""Open full texts: which text of a work is read, and what is never asked for or taken."""

from __future__ import annotations

import asyncio
import signal
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from outrider.full_text import reader as module
from outrider.full_text.reader import OpenTextReader
from outrider.sources.http.cache import AnswerTextCache, DiskCache
from outrider.state.full_text import WorkText, read_origin
from outrider.state.records import Identifiers, Page, Paper
from support.http_server import MEBIBYTE, Answer, as_bytes, cut, refusal, serving
from support.minimal_pdf import pdf as plain_pdf
from support.open_texts import (
    BODY,
    CC_BY,
    DOI,
    SENTENCES,
    TITLE,
    OpenTexts,
    close_text_reader,
    html,
    jats,
    make_text_reader,
    page,
    pdf,
    pdf_file,
    work,
    xml,
)


@dataclass
class World:
    texts: OpenTexts
    server: serving
    reader: OpenTextReader

    def put(self, path: str, answer: Answer, **about: Any) -> None:
        self.texts.add_open(path, answer, self.server.base_url, **about)

    async def use(self, **fields: Any) -> None:
        await close_text_reader(self.reader)
        self.reader = make_text_reader(self.server.base_url, **fields)

    async def fetch(self, record: Paper | Page | None = None, within_s: float = 20.0) -> tuple[Paper, WorkText]:
        ((found, about),) = await self.reader.fetch([record or work()], within_s)
        return found, about  # type: ignore[return-value]

    def asked(self) -> list[str]:
        """Paths that were requested at hosts of texts."""
        services = ("/europepmc", "/pmc", "/unpaywall", "/robots.txt")
        return [one.path for one in self.server.requests if not one.path.startswith(services)]


@pytest.fixture
async def world() -> AsyncIterator[World]:
    texts = OpenTexts()
    with serving(texts) as server:
        made = World(texts, server, make_text_reader(server.base_url))
        yield made
        await close_text_reader(made.reader)


async def test_jats_comes_before_pdf_before_html_and_the_licence_is_recorded(world: World) -> None:
    """With its place, version and finder. Nothing is asked for after a text was read."""
    world.texts.europe_pmc.append({"pmcid": "PMC7", "doi": DOI, "isOpenAccess": "Y", "license": "cc by"})
    world.texts.full_texts["PMC7"] = xml(jats())
    world.put("/site/text.pdf", pdf_file(pdf()))
    found, about = await world.fetch()
    origin = read_origin(found)
    assert origin is not None
    assert (about.status, origin.form, origin.licence) == ("fetched", "jats", "cc-by")
    assert (origin.version, origin.host) == ("published", "repository")
    assert origin.url.endswith("/PMC7/fullTextXML")
    assert SENTENCES[7] in found.text
    assert origin.characters == len(found.text)
    assert found.doc_id == "openalex:W1"
    assert world.asked() == []
    assert not any(one.path.startswith("/unpaywall") for one in world.server.requests)


async def test_the_next_location_is_read_if_one_fails(world: World) -> None:
    """The report names each in its order, with the reason."""
    world.texts.europe_pmc.append({"pmcid": "PMC7", "doi": DOI, "isOpenAccess": "Y", "license": "cc by"})
    world.texts.full_texts["PMC7"] = refusal(500)
    world.put("/site/text.pdf", refusal(404))
    world.put("/site/text", page(html()), page=True)
    found, about = await world.fetch()
    assert [(one.form, one.status) for one in about.attempts] == [("jats", "failed"), ("pdf", "failed"), ("html", "read")]
    assert "404" in about.attempts[1].reason
    origin = read_origin(found)
    assert origin is not None
    assert (origin.form, origin.licence) == ("html", "cc-by")


async def test_pmc_gives_author_manuscripts_with_their_licence(world: World) -> None:
    """Of several versions the newest."""
    for number, licence in ((1, "CC BY"), (2, "TDM")):
        name = f"PMC9.{number}"
        files = {"xml_url": f"s3://x/{name}/{name}.xml?md5=0", "pdf_url": None}
        world.texts.pmc[name] = {"pmcid": "PMC9", "license_code": licence, "is_manuscript": number == 2, **files}
    world.texts.pmc_files["PMC9.2.xml"] = xml(jats(licence=""))
    found, _ = await world.fetch(work(identifiers=Identifiers(doi=DOI, pmcid="PMC9")))
    origin = read_origin(found)
    assert origin is not None
    assert (origin.found_by, origin.licence, origin.version) == ("pmc", "tdm", "accepted")


async def test_arxiv_is_read_by_number(world: World) -> None:
    world.texts.files["/arxiv/pdf/2101.00001"] = pdf_file(pdf(doi=""))
    found, about = await world.fetch(work(identifiers=Identifiers(arxiv="2101.00001")))
    origin = read_origin(found)
    assert origin is not None
    assert (about.status, origin.form, origin.version, origin.licence, origin.found_by) == ("fetched", "pdf", "submitted", "", "arxiv")
    assert all(sentence in found.text for sentence in SENTENCES)


LOGIN = '<form><input type="password" name="p"></form>'
CAPTCHA = '<script src="https://challenges.cloudflare.com/x.js"></script>'
FREE_NOT = '<script type="application/ld+json">{"@type": "Article", "isAccessibleForFree": false}</script>'
RESERVED = '<meta name="tdm-reservation" content="1">'
OTHER_PDF = pdf("Renal injury by gentamicin in a cohort of children", authors=("Poe, Ed",), doi="10.1000/kidney.2")
CASES: dict[str, tuple[Answer, dict[str, Any], str]] = {
    "paywall": (page(html(body="Abstract. We studied livers.", extra="<p>Purchase this article</p>")), {"page": True}, "a paywall"),
    "marked as not free": (page(html(head=FREE_NOT)), {"page": True}, "a paywall"),
    "captcha": (page(f"<html><head><title>Just a moment...</title>{CAPTCHA}</head></html>"), {"page": True}, "a captcha"),
    "captcha for a PDF": (page(f"<html><title>Attention Required!</title>{CAPTCHA}</html>"), {}, "a captcha"),
    "login page": (page(html(body="Sign in.", extra=LOGIN)), {"page": True}, "a login page"),
    "reserved by a meta element": (page(html(head=RESERVED)), {"page": True}, "reserves text and data mining"),
    "reserved by a header": (pdf_file(pdf(), **{"TDM-Reservation": "1"}), {}, "reserves text and data mining"),
    "landing page": (page(html(body="We studied livers.")), {"page": True}, "no full text"),
    "page in place of a PDF": (page(html()), {}, "a web page, not PDF"),
    "licence in the text": (xml(jats(licence="All rights reserved; no text and data mining")), {"license": None}, "its licence forbids it"),
    "encrypted": (pdf_file(plain_pdf([BODY], password="s3cret")), {}, "encrypted"),
    "truncated": (pdf_file(pdf()[:-600]), {}, "truncated"),
    "damaged": (pdf_file(b"%PDF-1.4\n" + b"x" * 3_000 + b"%%EOF"), {}, "not a readable PDF"),
    "wrong type": (as_bytes(b"PK\x03\x04" + b"\0" * 4_000, "application/zip"), {}, "no text that can be read: application/zip"),
    "empty": (pdf_file(b""), {}, "empty"),
    "broken JATS": (xml(jats()[:2_500]), {}, "XML"),
    "front matter alone": (xml(jats(body="")), {}, "no full text"),
    "another work": (pdf_file(OTHER_PDF), {}, "another work"),
    "correction": (xml(jats(f"Correction to: {TITLE}", doi="10.1000/other")), {}, "a text about the work"),
    "another author": (xml(jats(authors=("Poe, Ed",), doi="10.1000/other")), {}, "other authors"),
    "second part": (xml(jats(f"{TITLE}: part 2", doi="10.1000/other")), {}, "another work"),
}


@pytest.mark.parametrize("name", CASES)
async def test_what_is_not_open_or_not_the_work_s_is_refused(world: World, name: str) -> None:
    """With the reason, and the record stays as it was."""
    answer, about, reason = CASES[name]
    world.put("/site/x", answer, **about)
    record = work(title=f"{TITLE}: part 1") if name == "second part" else work()
    found, report = await world.fetch(record)
    assert found == record
    assert report.status == "refused"
    assert reason in report.reason
    assert [one.status for one in report.attempts] == ["refused"]


async def test_an_address_that_is_none_costs_no_other_work_its_text(world: World) -> None:
    """Of a record, and of a redirect."""
    world.put("/site/x", Answer(status=302, headers={"Location": "http://[broken/x"}))
    world.put("/site/y", pdf_file(pdf(doi="10.1000/liver.2")), doi="10.1000/liver.2")
    broken = work(doc_id="w3", identifiers=Identifiers(), metadata={"open_access_url": "http://[broken"})
    fetched = await world.reader.fetch([work(), broken, work(doc_id="w2", identifiers=Identifiers(doi="10.1000/liver.2"))], 20.0)
    assert [report.status for _, report in fetched] == ["failed", "refused", "fetched"]


async def test_a_connection_that_breaks_off_is_a_failure(world: World) -> None:
    world.put("/site/x", cut(pdf_file(pdf())))
    found, report = await world.fetch()
    assert (found, report.status) == (work(), "failed")


async def test_an_enormous_file_is_not_read(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its size stands in the header, so the body is not awaited."""
    monkeypatch.setattr(module, "MOST_FILE_BYTES", 20_000)
    world.put("/site/x", pdf_file(pdf() + b"%" * 30 * MEBIBYTE))
    _, report = await world.fetch()
    assert "more than 20,000 bytes" in report.reason
    assert world.server.sent < 20 * MEBIBYTE


REFUSED_BEFORE: dict[str, tuple[dict[str, Any], str]] = {
    "a licence that forbids": ({"license": "all rights reserved"}, "its licence forbids it"),
    "an address of a login": ({"path": "/login?next=/site/x"}, "a login"),
    "a captcha's address": ({"path": "/cdn-cgi/challenge-platform/x"}, "a captcha"),
}


@pytest.mark.parametrize("name", REFUSED_BEFORE)
async def test_nothing_is_asked_for_where_the_answer_is_known(world: World, name: str) -> None:
    about, reason = REFUSED_BEFORE[name]
    world.put(about.pop("path", "/site/x") if "path" in about else "/site/x", pdf_file(pdf()), **about)
    _, report = await world.fetch()
    assert (report.status, world.asked()) == ("refused", [])
    assert reason in report.reason


async def test_a_redirect_to_a_login_is_not_followed(world: World) -> None:
    world.put("/site/x", Answer(status=302, headers={"Location": "/account/login"}))
    world.texts.files["/account/login"] = pdf_file(pdf())
    _, report = await world.fetch()
    assert "leads to a login" in report.reason
    assert world.asked() == ["/site/x"]


async def test_robots_txt_and_private_addresses_hold(world: World) -> None:
    """A link of Unpaywall may lead anywhere, an address of the own network included."""
    world.texts.robots = "User-agent: *\nDisallow: /site/"
    world.put("/site/x", pdf_file(pdf()))
    _, report = await world.fetch()
    assert "robots.txt" in report.reason
    world.texts.unpaywall[DOI]["oa_locations"] = [{"url_for_pdf": "http://169.254.169.254/latest/x.pdf"}]
    _, report = await world.fetch()
    assert report.status == "refused"
    assert world.asked() == []


async def test_what_no_service_calls_open_is_not_asked_for(world: World) -> None:
    """Neither the record's own link, nor its DOI, nor a text that Europe PMC has and does not call open; nor a page of PMC."""
    world.texts.europe_pmc.append({"pmcid": "PMC7", "doi": DOI, "isOpenAccess": "N"})
    world.texts.full_texts["PMC7"] = xml(jats())
    world.texts.unpaywall[DOI] = {"doi": DOI, "is_oa": False, "oa_locations": [{"url_for_pdf": world.server.base_url + "/site/x"}]}
    metadata = {"open_access_url": "https://pmc.ncbi.nlm.nih.gov/articles/PMC7/"}
    _, report = await world.fetch(work(url=f"{world.server.base_url}/site/x", metadata=metadata))
    assert (report.status, world.asked()) == ("not open", [])
    assert not any(one.path.endswith("fullTextXML") for one in world.server.requests)


PMC_PAGES = (
    "https://pmc.ncbi.nlm.nih.gov/articles/PMC7/",
    "https://www.ncbi.nlm.nih.gov/labs/pmc/articles/PMC7/",
    "http://www.pubmedcentral.nih.gov/articlerender.fcgi?artid=7",
    "https://europepmc.org/backend/ptpmcrender.fcgi?accid=PMC7&blobtype=pdf",
)


@pytest.mark.parametrize("url", PMC_PAGES)
async def test_pages_of_pmc_are_not_asked_for(world: World, url: str) -> None:
    """Neither where a service names one, nor behind a redirect of an address that is open."""
    world.put("/site/x", Answer(status=302, headers={"Location": url}))
    _, report = await world.fetch()
    assert "leads to a page of PubMed Central" in report.reason
    world.texts.unpaywall[DOI]["oa_locations"] = [{"url_for_landing_page": url}]
    _, report = await world.fetch()
    assert "is a page of PubMed Central" in report.reason
    _, report = await world.fetch(work(identifiers=Identifiers(), metadata={"open_access_url": url}))
    assert report.status == "not open"


OTHER = "Renal injury by gentamicin in a cohort of children"


async def test_an_address_does_not_prove_whose_text_it_is(world: World) -> None:
    """Another text by an author of the work, under an address with the DOI of the work."""
    world.put(f"/doi/{DOI}", page(html(OTHER, doi="")), page=True)
    _, report = await world.fetch()
    assert "another work" in report.reason


async def test_an_identifier_of_a_location_does_not_prove_whose_text_it_is(world: World) -> None:
    """A service that takes an author's other preprint for the work's names its number."""
    world.texts.files["/arxiv/pdf/2101.00001"] = pdf_file(pdf(OTHER, doi="arXiv:2101.00001v1"))
    wrong = {"url": "https://arxiv.org/abs/2101.00001", "form": "html", "found_by": "openalex"}
    found, report = await world.fetch(work(metadata={"open_locations": [wrong]}))
    assert "another work" in report.attempts[0].reason
    assert report.status == "failed"
    assert found.identifiers == work().identifiers


async def test_what_a_text_is_refused_for_holds_for_the_time_of_the_cache(world: World, tmp_path: Path) -> None:
    """A paywall is not asked again by each search."""
    world.put("/site/x", page(html(head=FREE_NOT)), page=True)
    await world.use(cache=AnswerTextCache(DiskCache(tmp_path)), fresh_s=100.0)
    reports = [(await world.fetch())[1] for _ in range(2)]
    assert [one.reason for one in reports] == ["a paywall: it says that it is not free to read"] * 2
    assert world.asked() == ["/site/x"]


async def test_only_reusable_texts_are_read_if_the_settings_say_so(world: World) -> None:
    """A licence that the service names is looked at before the request, one that the text states after it."""
    world.put("/site/x", pdf_file(pdf()), license="publisher-specific-oa")
    world.put("/site/y", pdf_file(pdf()), license=None)
    world.put("/site/z", xml(jats(licence=CC_BY)), license=None)
    await world.use(policy="reusable")
    found, report = await world.fetch()
    assert [one.status for one in report.attempts] == ["refused", "refused", "read"]
    assert world.asked() == ["/site/y", "/site/z"]
    origin = read_origin(found)
    assert origin is not None
    assert origin.licence == "cc-by-4.0"


async def test_a_text_is_read_once(world: World, tmp_path: Path) -> None:
    """Within the time of the cache, in any later search."""
    world.put("/site/x", pdf_file(pdf()))
    cache = AnswerTextCache(DiskCache(tmp_path))
    await world.use(cache=cache, fresh_s=100.0)
    first, _ = await world.fetch()
    again, _ = await world.fetch()
    assert first == again
    assert world.asked() == ["/site/x"]


async def test_a_text_that_is_held_stays(world: World) -> None:
    """The user's own, and one that was fetched before; a page has none."""
    own = work(text="My notes. " * 10)
    assert (await world.fetch(own))[0] == own
    assert (await world.fetch(own))[1].status == "own text"
    _, report = await world.fetch(Page(doc_id="web:1", title="x"))
    assert report.status == "not a paper"
    assert world.server.requests == []


async def test_a_host_that_fails_is_left_alone(world: World) -> None:
    """After three files in a row; a missing one is no failure of the host."""
    for number in range(8):
        world.put(f"/site/{number}", refusal(404 if number < 4 else 500))
    _, report = await world.fetch()
    assert len(world.asked()) == 7
    assert "is skipped" in report.attempts[-1].reason


async def test_the_time_holds_for_all_works(world: World) -> None:
    """A host that does not answer costs no more; other works have their texts."""
    world.put("/site/slow", replace(pdf_file(pdf()), after_s=30.0))
    world.put("/site/quick", pdf_file(pdf(doi="10.1000/liver.2")), doi="10.1000/liver.2")
    records = [work(), work(doc_id="openalex:W2", identifiers=Identifiers(doi="10.1000/liver.2"))]
    started = time.monotonic()
    (slow, first), (quick, second) = await world.reader.fetch(records, 4.0)
    assert time.monotonic() - started < 8.0
    assert (first.status, second.status) == ("failed", "fetched")
    assert not slow.text
    assert quick.text


async def test_a_cancelled_reader_leaves_no_process(world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Of a PDF that takes long: it is ended, and its file removed."""
    from outrider.ingest import isolated_reader

    processes: list[Any] = []
    started = asyncio.Event()
    loop = asyncio.get_running_loop()
    run: Callable[..., Any] = asyncio.create_subprocess_exec

    async def start(*arguments: Any, **options: Any) -> Any:
        processes.append(await run(*arguments, **options))
        loop.call_soon_threadsafe(started.set)
        return processes[-1]

    monkeypatch.setattr(isolated_reader.asyncio, "create_subprocess_exec", start)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    world.put("/site/x", pdf_file(pdf()))
    task = asyncio.create_task(world.fetch())
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert processes[0].returncode == -signal.SIGKILL
    assert not await asyncio.to_thread(lambda: list(tmp_path.glob("outrider-pdf-*")))
