"""Counterparts of Europe PMC, PubMed Central, Unpaywall, arXiv and of publishers on one server, and texts of works in every form."""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape
from typing import Any

from outrider.full_text.locations import KnownLocations
from outrider.full_text.reader import OpenTextReader
from outrider.settings.sections import ArxivTextSettings, EuropePmcSettings, PmcSettings, UnpaywallSettings
from outrider.sources.europe_pmc import EuropePmc
from outrider.sources.http.client import Caller
from outrider.sources.http.ssrf_guard import Guard
from outrider.sources.pmc import Pmc
from outrider.sources.unpaywall import Unpaywall
from outrider.sources.web.fetch import PageFetcher
from outrider.state.records import Identifiers, Paper
from support.http_server import Answer, Request, as_bytes, as_json, as_text, refusal
from support.minimal_pdf import Run, typeset

TITLE = "Hepatic injury by acetaminophen in a cohort of adults"
AUTHORS = ("Doe, Jane", "Roe, Richard")
DOI = "10.1000/liver.1"
CC_BY = "http://creativecommons.org/licenses/by/4.0/"
SENTENCES = tuple(f"In group {number} the acetaminophen dose of {number} grams raised the enzymes of the liver." for number in range(1, 41))
BODY = "\n".join(SENTENCES)


def work(**fields: Any) -> Paper:
    fields = {"title": TITLE, "authors": AUTHORS, "identifiers": Identifiers(doi=DOI), "source": "openalex", **fields}
    return Paper.model_validate({"doc_id": "openalex:W1", "abstract": "We studied livers.", **fields})


def jats(
    title: str = TITLE, *, authors: tuple[str, ...] = AUTHORS, doi: str = DOI, licence: str = CC_BY, body: str = BODY, extra: str = ""
) -> bytes:
    names = "".join(
        f'<contrib contrib-type="author"><name><surname>{family}</surname><given-names>{given}</given-names></name></contrib>'
        for family, _, given in (author.partition(", ") for author in authors)
    )
    permissions = f'<permissions><license xlink:href="{licence}"><p>See it.</p></license></permissions>' if licence else ""
    paragraphs = "".join(f"<p>{escape(line)}</p>" for line in body.split("\n")) if body else ""
    return (
        '<?xml version="1.0"?><article xmlns:xlink="http://www.w3.org/1999/xlink"><front><journal-meta><journal-title-group>'
        "<journal-title>Livers</journal-title></journal-title-group></journal-meta><article-meta>"
        f'<article-id pub-id-type="doi">{doi}</article-id><title-group><article-title>{escape(title)}</article-title></title-group>'
        f"<contrib-group>{names}</contrib-group>{permissions}{extra}<abstract><p>We studied livers.</p></abstract></article-meta></front>"
        f"<body><sec><title>Results</title>{paragraphs}</sec></body></article>"
    ).encode()


def pdf(title: str = TITLE, *, authors: tuple[str, ...] = AUTHORS, lines: tuple[str, ...] = SENTENCES, doi: str = DOI) -> bytes:
    head = [Run(72, 720, title, 18, bold=True), Run(72, 690, ", ".join(authors)), Run(72, 670, f"doi: {doi}" if doi else "Livers 12")]
    first = [*head, *(Run(72, 640 - 14 * at, line) for at, line in enumerate(lines[:40]))]
    return typeset(first, [Run(72, 700 - 14 * at, line) for at, line in enumerate(lines[40:80])])


def html(
    title: str = TITLE, *, authors: tuple[str, ...] = AUTHORS, doi: str = DOI, body: str = BODY, head: str = "", extra: str = ""
) -> str:
    meta = "".join(f'<meta name="citation_author" content="{author}">' for author in authors)
    paragraphs = "".join(f"<p>{escape(line)}</p>" for line in body.split("\n"))
    own = f'<meta name="citation_doi" content="{doi}">' if doi else ""
    return (
        f'<html lang="en"><head><title>{title}</title><meta name="citation_title" content="{title}">{own}{meta}{head}</head>'
        f"<body><article><h1>{title}</h1>{paragraphs}</article>{extra}</body></html>"
    )


@dataclass
class OpenTexts:
    """What the counterparts know. Paths that nobody set are 404."""

    files: dict[str, Answer] = field(default_factory=dict)
    """Of publishers and repositories, by path."""
    robots: str = ""
    europe_pmc: list[dict[str, Any]] = field(default_factory=list)
    """Works, as its search returns them."""
    full_texts: dict[str, Answer] = field(default_factory=dict)
    """Of Europe PMC, by PMCID."""
    pmc: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Metadata of article versions, by `PMC1.1`."""
    pmc_files: dict[str, Answer] = field(default_factory=dict)
    unpaywall: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By DOI."""

    def __call__(self, request: Request) -> Answer:
        first, _, rest = request.path.removeprefix("/").partition("/")
        if request.path == "/robots.txt":
            return as_text(self.robots) if self.robots else refusal(404)
        if first == "europepmc":
            return self._answer_europe_pmc(request, rest)
        if first == "pmc":
            return self._answer_pmc(request, rest)
        if first == "unpaywall":
            known = self.unpaywall.get(rest.removeprefix("v2/"))
            return as_json(known) if known else refusal(404)
        return self.files.get(request.path, refusal(404))

    def _answer_europe_pmc(self, request: Request, rest: str) -> Answer:
        if rest.endswith("/search"):
            query = request.query["query"]
            found = [one for one in self.europe_pmc if query in (f'DOI:"{one.get("doi")}"', f"PMCID:{one.get('pmcid')}")]
            return as_json({"hitCount": len(found), "resultList": {"result": found}})
        return self.full_texts.get(rest.split("/")[-2], refusal(404))

    def _answer_pmc(self, request: Request, rest: str) -> Answer:
        if not rest:
            prefixes = "".join(f"<Prefix>{name}/</Prefix>" for name in self.pmc if name.startswith(request.query["prefix"]))
            return as_text(f"<ListBucketResult><CommonPrefixes>{prefixes}</CommonPrefixes></ListBucketResult>", "application/xml")
        if rest.startswith("metadata/"):
            known = self.pmc.get(rest.removeprefix("metadata/").removesuffix(".json"))
            return as_json(known) if known else refusal(404)
        return self.pmc_files.get(rest.rpartition("/")[2], refusal(404))

    def add_open(self, path: str, answer: Answer, base_url: str, doi: str = DOI, **about: Any) -> None:
        """A file of a publisher that Unpaywall calls open."""
        self.files[path] = answer
        name = "url_for_landing_page" if about.pop("page", False) else "url_for_pdf"
        location = {name: base_url + path, "license": "cc-by", "version": "publishedVersion", "host_type": "publisher", **about}
        known = self.unpaywall.setdefault(doi, {"doi": doi, "is_oa": True, "oa_locations": []})
        known["oa_locations"].append(location)


def xml(body: bytes) -> Answer:
    return as_bytes(body, "application/xml")


def pdf_file(body: bytes, **headers: str) -> Answer:
    return as_bytes(body, "application/pdf", headers=headers)


def page(text: str, **headers: str) -> Answer:
    return as_text(text, "text/html", headers=headers)


def make_text_reader(base_url: str, *, links: bool = True, per_s: float = 0.001, **fields: Any) -> OpenTextReader:
    """A reader over the counterparts at an address, without pauses."""
    limits: dict[str, Any] = {"requests": 10_000.0, "timeout_s": 20.0}
    caller = Caller()
    sources = (
        EuropePmc.of(EuropePmcSettings(base_url=base_url, **limits), caller),
        Pmc.of(PmcSettings(base_url=f"{base_url}/pmc", **limits), caller),
        KnownLocations(ArxivTextSettings(base_url=f"{base_url}/arxiv"), links),
        Unpaywall.of(UnpaywallSettings(base_url=f"{base_url}/unpaywall", **limits), caller, "ann@example.org"),
    )
    pages = PageFetcher(Guard(frozenset({base_url.removeprefix("http://")})), per_s=per_s)
    return OpenTextReader(sources, pages, **fields)


async def close_text_reader(reader: OpenTextReader) -> None:
    if isinstance(reader.files, PageFetcher):
        await reader.files.close()
