"""Open full texts: what they add to the kept sentences, and how long a search of 20 hits takes with them.

The counterparts of the services run on loopback, and the texts travel through the whole reader: requests, parsing, judging, keeping. The
questions are those of `answers` on papers; an answer counts as kept if a kept sentence has half of its runs of four words. Each publisher
has a loopback address of its own, because the pauses between two requests hold for a host.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.answers import Work, openalex
from bench.data import data_folder
from bench.report import Cell, Report, progress

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

if TYPE_CHECKING:
    from outrider.services import Services
    from outrider.state.full_text import WorkText
    from outrider.state.records import Record
    from outrider.state.response import SearchResponse
    from support.open_texts import OpenTexts

HITS = 20
NAMES = "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi omicron pi rho sigma tau upsilon".split()
PUBLISHERS = 8
QUERY = "acetaminophen dose and the enzymes of the liver"
LEAST_COVERED, RUN = 0.5, 4
JUDGED = 600
"""Works for which the most similar other one is looked for."""
PDF_OF = {"N18-3011.tei.xml": "N18-3011.pdf"}
"""A paper whose text is open as a PDF alone."""
ANSWER_COLUMNS = (
    "text",
    "questions",
    "answered",
    "answer recall",
    "span recall",
    "precision",
    "nothing kept, unanswered",
    "kept sentences",
)
SEARCH_COLUMNS = (
    "20 hits", "full text", "texts read", "with licence", "forms", "refused", "node s", "search s", "requests", "to what is not open",
)  # fmt: skip
JUDGED_COLUMNS = ("records", "form of the text", "of the work", "taken", "of the most similar other work", "refused")


def run() -> Report:
    progress("full_text: questions on papers")
    answers = Report("full_text, kept sentences", ANSWER_COLUMNS, tuple(_measure_answers()))
    searches: list[tuple[Cell, ...]] = []
    for name, is_mixed, is_on in (("all open", False, False), ("all open", False, True), ("half not open", True, True)):
        progress(f"full_text: search, {name}")
        searches.append(_measure_search(name, is_mixed=is_mixed, is_on=is_on))
    progress("full_text: judging")
    judged = Report("full_text, whose text it is", JUDGED_COLUMNS, tuple(_measure_judging()))
    notes = (
        "Answers: the papers of answers/dev.jsonl, distilled by the engine of the settings, abstract alone and with the fetched text.",
        "Search: counterparts on loopback, one search each with an empty cache; full_text_first is 20, the time limits are the defaults.",
    )
    return Report("full_text", SEARCH_COLUMNS, tuple(searches), notes, (answers, judged))


@dataclass(frozen=True, slots=True)
class Question:
    file: str
    text: str
    answers: tuple[str, ...]
    """Quotes, in normal white space."""


def _load_questions() -> list[Question]:
    folder = data_folder() / "answers"
    spec = importlib.util.spec_from_file_location("answers_check", folder / "check.py")
    assert spec is not None
    assert spec.loader is not None
    check = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(check)
    questions: list[Question] = []
    for row in map(json.loads, (folder / "dev.jsonl").read_text().splitlines()):
        if row["kind"] == "paper":
            text = check.paper_text(row["file"], str(data_folder()))
            quotes = (" ".join(text[one["start"] : one["start"] + one["chars"]].split()) for one in row["answers"])
            questions.append(Question(row["file"], row["question"], tuple(quotes)))
    return questions


def _measure_answers() -> Iterator[tuple[Cell, ...]]:
    questions = _load_questions()
    works = {file: _load_work(data_folder() / file) for file in dict.fromkeys(one.file for one in questions)}
    with tempfile.TemporaryDirectory() as folder, _serve_papers(works, Path(folder)) as services:
        fetched = asyncio.run(_fetch(services, list(works.values())))
        texts = {file: record for file, (record, _) in zip(works, fetched, strict=True)}
        for report in (report for _, report in fetched):
            progress(f"full_text: {report.status}, {report.full_text.describe() if report.full_text else report.reason}")
        for name, records in (("abstract", works), ("full text", texts)):
            kept = asyncio.run(_distil_all(services, questions, records))
            yield (name, *_score(questions, kept))


def _load_work(path: Path) -> Record:
    """The work as a service of literature describes it: no text."""
    from xml.etree import ElementTree as ET

    from outrider.ingest.entry import Entry, ReadOptions
    from outrider.ingest.readers import jats
    from outrider.state.records import Identifiers, Paper

    if path.name not in PDF_OF:
        record = next(entry.record for entry in jats.read(path, ReadOptions()) if isinstance(entry, Entry))
        return record.model_copy(update={"doc_id": f"openalex:{path.stem}", "text": "", "source": "openalex"})
    root = ET.parse(path).getroot()
    space = "{http://www.tei-c.org/ns/1.0}"
    title = next(one for one in root.iter(f"{space}title") if one.get("level") == "a")
    abstract = next(root.iter(f"{space}abstract"))
    names = [f"{one.findtext(f'{space}surname')}, {one.findtext(f'{space}forename')}" for one in root.iter(f"{space}persName")]
    return Paper(
        doc_id=f"openalex:{path.stem}",
        source="openalex",
        title=" ".join("".join(title.itertext()).split()),
        abstract=" ".join(" ".join(abstract.itertext()).split()),
        authors=tuple(names[:5]),
        identifiers=Identifiers(doi="10.18653/v1/n18-3011"),
    )


@contextmanager
def _serve_papers(works: Mapping[str, Record], folder: Path) -> Iterator[Services]:
    """Services whose counterparts have the texts of these works: JATS at Europe PMC, a PDF at its publisher."""
    from support.http_server import serving
    from support.open_texts import OpenTexts, pdf_file, xml

    texts = OpenTexts()
    with serving(texts) as server:
        for number, (file, record) in enumerate(works.items()):
            path, doi = data_folder() / file, record.identifiers.doi or ""
            if name := PDF_OF.get(path.name):
                body = (data_folder() / "fulltext/acl_pdf" / name).read_bytes()
                texts.add_open(f"/{name}", pdf_file(body), server.base_url, doi)
                continue
            pmcid = record.identifiers.pmcid or f"PMC{number + 1}"
            texts.europe_pmc.append({"pmcid": pmcid, "doi": doi or None, "isOpenAccess": "Y", "license": "cc by"})
            texts.full_texts[pmcid] = xml(path.read_bytes())
        services = _make_services(server.base_url, folder, (server.base_url,), first=HITS)
        try:
            yield services
        finally:
            services.close()


def _make_services(base_url: str, folder: Path, hosts: Sequence[str], *, first: int) -> Services:
    from outrider.services import Services
    from outrider.settings.model import EnrichSettings, LibrarySettings, Settings
    from outrider.settings.sections import ArxivSettings as Arxiv
    from outrider.settings.sections import (
        ArxivTextSettings,
        CacheSettings,
        CrossrefSettings,
        EuropePmcSettings,
        GithubSettings,
        OpenalexSettings,
        PmcSettings,
        PubmedSettings,
        SemanticScholarSettings,
        SourcesSettings,
        UnpaywallSettings,
        WebSettings,
    )

    sources = SourcesSettings(
        contact="ann@example.org",
        allowed_hosts=",".join(host.removeprefix("http://") for host in hosts),
        openalex=OpenalexSettings(base_url=f"{base_url}/openalex"),
        europe_pmc=EuropePmcSettings(base_url=base_url),
        pmc=PmcSettings(base_url=f"{base_url}/pmc"),
        unpaywall=UnpaywallSettings(base_url=f"{base_url}/unpaywall"),
        arxiv_texts=ArxivTextSettings(base_url=f"{base_url}/arxiv"),
        github=GithubSettings(enabled=False),
        semantic_scholar=SemanticScholarSettings(enabled=False),
        arxiv=Arxiv(enabled=False),
        pubmed=PubmedSettings(enabled=False),
        crossref=CrossrefSettings(enabled=False),
        web=WebSettings(enabled=False),
    )
    settings = Settings(
        library=LibrarySettings(uri=str(folder / "library")),
        sources=sources,
        cache=CacheSettings(folder=str(folder / "cache")),
        enrich=EnrichSettings(full_text_first=first),
    )
    return Services(settings)


async def _fetch(services: Services, records: Sequence[Record]) -> list[tuple[Record, WorkText]]:
    fetcher, why_not = await services.text_fetcher()
    assert fetcher is not None, why_not
    return await fetcher.fetch(records, 60.0)


async def _distil_all(services: Services, questions: Sequence[Question], records: Mapping[str, Record]) -> list[list[str]]:
    from outrider.services.distiller import distil
    from outrider.state.distilling import Reading

    kept: list[list[str]] = []
    for question in questions:
        record = records[question.file]
        reading = Reading(record.doc_id, record.full_text(), record.title, "[1]", 1, "paper")
        context = await distil(services, question.text, [reading], bypass=False)
        kept.append([" ".join(unit.text.split()) for unit in context.units])
    return kept


def _score(questions: Sequence[Question], kept: Sequence[Sequence[str]]) -> tuple[Cell, ...]:
    answerable = [(one, units) for one, units in zip(questions, kept, strict=True) if one.answers]
    unanswerable = [units for one, units in zip(questions, kept, strict=True) if not one.answers]
    covered = [[_is_covered(answer, units) for answer in one.answers] for one, units in answerable]
    right = sum(any(_is_covered(answer, [unit]) for answer in one.answers) for one, units in answerable for unit in units)
    units_kept = sum(len(units) for _, units in answerable)
    spans = [one for each in covered for one in each]
    return (
        len(answerable),
        sum(map(any, covered)),
        sum(map(any, covered)) / len(covered),
        sum(spans) / len(spans),
        right / units_kept if units_kept else None,
        f"{sum(not units for units in unanswerable)} of {len(unanswerable)}",
        units_kept,
    )


def _is_covered(answer: str, units: Sequence[str]) -> bool:
    """Whether half of the answer's runs of four words stand in one kept sentence. A PDF divides words and marks references otherwise."""
    words = answer.split()
    runs = [" ".join(words[at : at + RUN]) for at in range(max(1, len(words) - RUN + 1))]
    return any(sum(one in unit for one in runs) >= LEAST_COVERED * len(runs) for unit in units)


def _measure_judging() -> Iterator[tuple[Cell, ...]]:
    """Texts made of records: those of one work as two databases have it, and those of the work with the most similar title.

    A page has title and authors apart from its text; a PDF, whose title was not read, has them in its text alone. No text has an
    identifier.
    """
    from rapidfuzz import fuzz, process

    from bench.identity.sets import labelled
    from outrider.full_text.same_work import explain_other_work
    from outrider.state.records import Identifiers, Paper

    for name in ("asysd", "dblp_acm"):
        source = labelled(name)
        assert source.works is not None
        records, works = source.records, source.works
        same = [pair for pair in source.true_pairs() if records[pair[0]].title and records[pair[1]].title]
        titles = [record.title.lower() for record in records]
        first = {work: at for at, work in reversed(list(enumerate(works)))}
        others: list[tuple[int, int]] = []
        for work, at in sorted(first.items())[:JUDGED]:
            found = process.extract(titles[at], titles, scorer=fuzz.ratio, limit=12)
            other = next((place for _, _, place in found if works[place] != work), None)
            others += [(at, other)] if other is not None else []

        def make_text(record: Paper, form: str) -> Paper:
            body = f"{record.title}\n{'; '.join(record.authors)}\n{record.abstract}"
            own = {"title": record.title, "authors": record.authors} if form == "page" else {"title": "article"}
            return Paper(doc_id="", identifiers=Identifiers(), text=body, **own)

        for form in ("page", "PDF"):
            taken = sum(not explain_other_work(records[one], make_text(records[other], form)) for one, other in same)
            refused = sum(bool(explain_other_work(records[one], make_text(records[other], form))) for one, other in others)
            yield (name, form, len(same), taken / len(same), len(others), refused / len(others))


def _measure_search(name: str, *, is_mixed: bool, is_on: bool) -> tuple[Cell, ...]:
    from outrider.sources.web.fetch import PageFetcher
    from support.open_texts import OpenTexts

    texts = OpenTexts()
    with tempfile.TemporaryDirectory() as folder, _serve_hosts(texts) as (server, hosts):
        closed = _fill(texts, hosts, is_mixed=is_mixed)
        services = _make_services(hosts[0], Path(folder), hosts, first=HITS)
        try:
            began = time.perf_counter()
            answer = asyncio.run(_search(services, is_on=is_on))
            took_s = time.perf_counter() - began
        finally:
            services.close()
            if isinstance(services.pages, PageFetcher):
                asyncio.run(services.pages.close())
        read = [hit for hit in answer.hits if hit.full_text]
        row = next((row for row in answer.sources if row.source == "full text"), None)
        forms = Counter(hit.full_text.form for hit in read if hit.full_text)
        asked_closed = sum(request.path in closed for request in server.requests)
        return (
            name,
            "on" if is_on else "off",
            f"{len(read)} of {len(answer.hits)}",
            sum(bool(hit.full_text and hit.full_text.licence) for hit in read),
            ", ".join(f"{number} {form}" for form, number in sorted(forms.items())) or "-",
            row.asked - row.returned if row else None,
            answer.timings_ms.get("full_text", 0.0) / 1000 if is_on else None,
            took_s,
            len(server.requests),
            asked_closed,
        )


async def _search(services: Services, *, is_on: bool) -> SearchResponse:
    from outrider.usecases.search import asearch

    return await asearch(QUERY, top_k=HITS, services=services, full_text_enabled=is_on)


@contextmanager
def _serve_hosts(texts: OpenTexts) -> Iterator[tuple[Any, list[str]]]:
    """One server under several loopback addresses: one for the services, the others for publishers."""
    from support.http_server import Request, serving

    works = [Work(at, f"{_name(at)} acetaminophen dose and the liver", _abstract(at), 2020, _doi(at)) for at in range(HITS)]

    def answer(request: Request) -> Any:
        if request.path.startswith("/openalex"):
            response = openalex(works, len(works))
            from support.http_server import as_bytes

            return as_bytes(response.body, "application/json")
        return texts(request)

    class ManyHosts(serving):
        async def _started(self) -> tuple[asyncio.Server, int]:
            server, port = await super()._started()
            self.others = [await asyncio.start_server(self._met, f"127.0.0.{at + 2}", port) for at in range(PUBLISHERS)]
            return server, port

        async def _stopped(self) -> None:
            for other in self.others:
                other.close()
            await super()._stopped()

    with ManyHosts(answer) as server:
        port = server.base_url.rpartition(":")[2]
        yield server, [server.base_url, *(f"http://127.0.0.{at + 2}:{port}" for at in range(PUBLISHERS))]


def _name(number: int) -> str:
    return f"Study {NAMES[number]}:"


def _doi(number: int) -> str:
    return f"10.1000/study.{number}"


def _abstract(number: int) -> str:
    return f"We gave acetaminophen to {100 + number} adults and looked at the liver. The dose was chosen at random."


def _fill(texts: OpenTexts, hosts: Sequence[str], *, is_mixed: bool) -> set[str]:
    """Give every work a text, in turn at Europe PMC, PubMed Central, a publisher (PDF, page) and arXiv. In a mixed world every second one
    is behind a barrier. Paths that must not be requested.
    """
    from support.http_server import Answer, as_text
    from support.open_texts import html, jats, page, pdf, pdf_file, xml

    texts.robots = "User-agent: *\nDisallow: /private/"
    closed = {"/login", "/private/text.pdf", "/forbidden.pdf"}
    barriers = (
        ("/paywall", page(html(body="Abstract.", extra="<p>Purchase this article</p>")), {"page": True}),
        ("/captcha.pdf", page("<html><title>Just a moment...</title></html>"), {}),
        ("/private/text.pdf", pdf_file(pdf()), {}),
        ("/forbidden.pdf", pdf_file(pdf()), {"license": "all rights reserved"}),
        ("/gate", Answer(status=302, headers={"Location": "/login"}), {}),
    )
    for number in range(HITS):
        title, doi = f"{_name(number)} acetaminophen dose and the liver", _doi(number)
        host = hosts[1 + number % PUBLISHERS]
        if is_mixed and number % 2:
            path, answer, about = barriers[number // 2 % len(barriers)]
            texts.add_open(path, answer, host, doi, **about)
            continue
        common: dict[str, Any] = {"doi": doi, "authors": ()}
        kind = number // (2 if is_mixed else 1) % 5
        if kind in (0, 1):
            pmcid = f"PMC{number + 1}"
            texts.europe_pmc.append({"pmcid": pmcid, "doi": doi, "isOpenAccess": "Y" if kind == 0 else "N", "license": "cc by"})
            texts.full_texts[pmcid] = xml(jats(title, **common))
            texts.pmc[f"{pmcid}.1"] = {"pmcid": pmcid, "license_code": "CC BY", "xml_url": "s3://x"}
            texts.pmc_files[f"{pmcid}.1.xml"] = xml(jats(title, **common))
        elif kind == 4:
            texts.add_open(f"/page/{number}", page(html(title, **common)), host, doi, page=True)
        else:
            texts.add_open(f"/text/{number}.pdf", pdf_file(pdf(title, **common)), host, doi)
    texts.files["/login"] = as_text("a login")
    return closed
