"""Citations from the services: forms as documented and as recorded, paging, unknown works, damaged answers."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import yaml

from outrider.settings.sections import CrossrefSettings, EuropePmcSettings, OpenalexSettings, OpencitationsSettings, PubmedSettings
from outrider.sources.crossref import Crossref, parse_reference
from outrider.sources.europe_pmc import EuropePmc
from outrider.sources.http.client import Caller, count_requests
from outrider.sources.openalex import Openalex
from outrider.sources.opencitations import Opencitations
from outrider.sources.pubmed import Pubmed
from outrider.state.citations import LinkSource
from outrider.state.errors import Malformed, RateLimited, SourceUnavailable
from outrider.state.ports import SourceAnswer
from outrider.state.records import Paper
from support.http_server import EXPECTED_ERRORS, FAULTS, Answer, Request, as_json, as_text, refusal, serving
from support.shared_data import DATA

FAST: Any = {"requests": 10_000, "per_s": 1, "timeout_s": 2}
WITHIN_S = 20.0


def opencitations(base_url: str, **own: Any) -> Opencitations:
    return Opencitations.of(OpencitationsSettings(base_url=base_url, **{**FAST, **own}), Caller())


def europe_pmc(base_url: str) -> EuropePmc:
    return EuropePmc.of(EuropePmcSettings(base_url=base_url, **FAST), Caller())


def pubmed(base_url: str) -> Pubmed:
    return Pubmed.of(PubmedSettings(base_url=base_url, **FAST), Caller())


def crossref(base_url: str) -> Crossref:
    return Crossref.of(CrossrefSettings(base_url=base_url, **FAST), Caller())


def openalex(base_url: str, key: str = "a-long-enough-key") -> Openalex:
    return Openalex.of(OpenalexSettings(base_url=base_url, api_key=key, **FAST), Caller())  # type: ignore[arg-type]


async def ask(
    make: Callable[[str], LinkSource], handler: Callable[[Request], Answer], direction: str, scheme: str, value: str, limit: int = 1_000
) -> tuple[SourceAnswer, list[Request]]:
    async with serving(handler) as server:
        source = make(server.base_url)
        request: Callable[..., Awaitable[SourceAnswer]] = getattr(source, direction)
        return await request(scheme, value, WITHIN_S, limit), server.requests


def names(answer: SourceAnswer) -> list[tuple[tuple[str, str], ...]]:
    return [result.record.identifiers.pairs() for result in answer.results]


# OpenCitations. The entry is the example of its documentation: https://api.opencitations.net/index/v2

ENTRY = {
    "oci": "06101801781-06180334099",
    "citing": "omid:br/06101801781 doi:10.7717/peerj-cs.421 pmid:33817056",
    "cited": "omid:br/06180334099 doi:10.1108/jd-12-2013-0166",
    "creation": "2021-03-10",
    "timespan": "P6Y0M1D",
    "journal_sc": "no",
    "author_sc": "no",
}


async def test_opencitations_names_both_ends_with_all_identifiers() -> None:
    answer, (request,) = await ask(opencitations, lambda _: as_json([ENTRY]), "citations", "doi", "https://doi.org/10.1108/JD-12-2013-0166")
    assert request.path == "/index/v2/citations/doi:10.1108/jd-12-2013-0166"
    assert names(answer) == [(("doi", "10.7717/peerj-cs.421"), ("pmid", "33817056"))]
    assert isinstance(answer.subject, Paper)
    assert answer.subject.identifiers.doi == "10.1108/jd-12-2013-0166"


async def test_opencitations_answers_an_unknown_work_with_an_empty_list() -> None:
    answer, _ = await ask(opencitations, lambda _: as_json([]), "references", "pmid", "1")
    assert (answer.results, answer.total, answer.subject) == ((), 0, None)


async def test_opencitations_reports_works_that_nobody_else_knows_and_keeps_to_the_limit() -> None:
    entries = [{**ENTRY, "cited": f"omid:br/06{number} doi:10.1000/{number}"} for number in range(5)] + [{**ENTRY, "cited": "omid:br/0699"}]
    answer, _ = await ask(opencitations, lambda _: as_json(entries), "references", "doi", "10.7717/peerj-cs.421", limit=3)
    assert (len(answer.results), answer.total) == (3, 5)
    assert "1 works have no identifier" in answer.message


async def test_opencitations_sends_its_token_and_does_not_show_it() -> None:
    token = "a-secret-token-0123"
    async with serving(lambda _: refusal(500, f"broken for {token}")) as server:
        with pytest.raises(SourceUnavailable) as error:
            await opencitations(server.base_url, api_key=token).references("doi", "10.1000/x", WITHIN_S, 10)
    assert server.requests[0].headers["authorization"] == token
    assert token not in str(error.value)


@pytest.mark.parametrize("fault", sorted(set(FAULTS) - {"timeout", "slow drip"}))
@pytest.mark.parametrize("make", [opencitations, europe_pmc])
async def test_a_fault_is_a_source_error(make: Callable[[str], LinkSource], fault: str) -> None:
    async with serving(lambda _: FAULTS[fault]) as server:
        if fault == "JSON of another shape" and make is opencitations:  # a list: its entries name nothing
            assert (await make(server.base_url).references("pmid", "1", 3.0, 10)).results == ()
            return
        with pytest.raises(EXPECTED_ERRORS[fault]):
            await make(server.base_url).references("pmid", "1", 3.0, 10)


# Europe PMC

EPMC_REFERENCE = {
    "id": "16845428", "source": "MED", "title": "Microbial cell individuality", "authorString": "Avery SV, Doe J.",
    "journalAbbreviation": "Nat Rev Microbiol", "pubYear": 2006, "volume": "4", "pageInfo": "577-587", "doi": "10.1038/NRMICRO1460",
    "citedOrder": 1, "match": "Y",
}  # fmt: skip


async def test_europe_pmc_gives_references_with_and_without_a_match() -> None:
    without = {"title": "Veterinary Virology", "authorString": "Murphy FA", "pubYear": "1999", "match": "N", "citedOrder": 2}
    payload = {"hitCount": 3, "referenceList": {"reference": [EPMC_REFERENCE, without, {"citedOrder": 3, "match": "N"}]}}
    answer, (request,) = await ask(europe_pmc, lambda _: as_json(payload), "references", "pmid", "21871080")
    assert (request.path, request.query["page"]) == ("/europepmc/webservices/rest/MED/21871080/references", "1")
    first, second = (result.record for result in answer.results)
    assert isinstance(first, Paper)
    assert first.identifiers.pairs() == (("doi", "10.1038/nrmicro1460"), ("pmid", "16845428"))
    assert (first.authors, first.year, first.volume, first.pages) == (("Avery SV", "Doe J"), 2006, "4", "577-587")
    assert (second.title, second.year, second.identifiers.pairs()) == ("Veterinary Virology", 1999, ())
    assert "1 without a title" in answer.message


async def test_europe_pmc_reads_page_after_page_and_reports_a_missing_one() -> None:
    def handler(request: Request) -> Answer:
        page = int(request.query["page"])
        if page == 3:
            return refusal(404)
        ids = range((page - 1) * 1_000, page * 1_000)
        return as_json({"hitCount": 2_500, "citationList": {"citation": [{"id": str(10_000 + one), "source": "MED"} for one in ids]}})

    answer, _ = await ask(europe_pmc, handler, "citations", "pmcid", "PMC1", limit=10_000)
    assert (len(answer.results), answer.total, answer.status) == (2_000, 2_500, "partial")
    assert "only the first 2,000" in answer.message


async def test_europe_pmc_answers_an_unknown_work_with_no_hits() -> None:
    answer, _ = await ask(europe_pmc, lambda _: as_json({"version": "6.9", "hitCount": 0}), "citations", "pmid", "999999999")
    assert (answer.results, answer.total) == ((), 0)


# PubMed


def elink(*ids: str, name: str = "pubmed_pubmed_refs") -> str:
    links = "".join(f"<Link><Id>{one}</Id></Link>" for one in ids)
    listed = f"<LinkSetDb><DbTo>pubmed</DbTo><LinkName>{name}</LinkName>{links}</LinkSetDb>"
    other = "<LinkSetDb><DbTo>pubmed</DbTo><LinkName>pubmed_pubmed</LinkName><Link><Id>7</Id></Link></LinkSetDb>"
    return f"<?xml version='1.0'?><eLinkResult><LinkSet><IdList><Id>1</Id></IdList>{other}{listed}</LinkSet></eLinkResult>"


async def test_pubmed_reads_the_links_of_the_kind_that_it_asks_for() -> None:
    answer, (request,) = await ask(pubmed, lambda _: as_text(elink("11", "12", "1"), "text/xml"), "references", "pmid", "1")
    assert (request.path, request.query["linkname"], request.query["id"]) == ("/entrez/eutils/elink.fcgi", "pubmed_pubmed_refs", "1")
    assert names(answer) == [(("pmid", "11"),), (("pmid", "12"),)]


async def test_pubmed_reports_an_answer_that_was_cut_short() -> None:
    answer, _ = await ask(pubmed, lambda _: as_text(elink("11", "12")[:-20], "text/xml"), "references", "pmid", "1")
    assert (len(answer.results), answer.status) == (2, "partial")


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ("<html/>", Malformed),
        ('{"error":"API rate limit exceeded"}', RateLimited),
        ("<eLinkResult><ERROR>no server</ERROR></eLinkResult>", SourceUnavailable),
    ],
)
async def test_pubmed_refuses_with_status_200(body: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        await ask(pubmed, lambda _: as_text(body, "text/xml"), "citations", "pmid", "1")


RECORDED_LINKS = DATA / "recorded" / "pubmed_biopython" / "Entrez"


@pytest.mark.skipif(not RECORDED_LINKS.exists(), reason=f"{RECORDED_LINKS} is not here; set OUTRIDER_DATA")
@pytest.mark.parametrize("number", range(2, 9))
async def test_pubmed_reads_recorded_answers_of_elink(number: int) -> None:
    """None of them has references; those with similar articles must not be taken for references."""
    body = (RECORDED_LINKS / f"elink{number}.xml").read_text()
    answer, _ = await ask(pubmed, lambda _: as_text(body, "text/xml"), "references", "pmid", "9298984")
    assert answer.results == ()


@pytest.mark.skipif(not RECORDED_LINKS.exists(), reason=f"{RECORDED_LINKS} is not here; set OUTRIDER_DATA")
@pytest.mark.parametrize(("direction", "link"), [("references", "pubmed_pubmed_refs"), ("citations", "pubmed_pubmed_citedin")])
async def test_pubmed_reads_a_recorded_answer_with_all_kinds_of_links(direction: str, link: str) -> None:
    body = (RECORDED_LINKS / "elink1.xml").read_text()
    answer, _ = await ask(pubmed, lambda _: as_text(body, "text/xml"), direction, "pmid", "9298984")
    listed = body.partition(f"<LinkName>{link}</LinkName>")[2].partition("</LinkSetDb>")[0]
    assert len(answer.results) == listed.count("<Link>") > 10


# Crossref: reference lists of recorded answers, which lie base64-encoded in the cassettes

CASSETTES = DATA / "recorded" / "crossref_habanero"


def read_works(node: Any) -> list[dict[str, Any]]:
    if isinstance(node, dict):
        own = [node] if isinstance(node.get("reference"), list) and "DOI" in node else []
        return own + [work for value in node.values() for work in read_works(value)]
    return [work for value in node for work in read_works(value)] if isinstance(node, list) else []


def recorded_works() -> list[dict[str, Any]]:
    works = {}
    for file in sorted(CASSETTES.rglob("*.yaml")):
        for exchange in yaml.load(file.read_text(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)).get("interactions", []):
            body = exchange["response"].get("body", {}).get("string") or exchange["response"].get("content") or b""
            raw = body.encode() if isinstance(body, str) else body
            try:
                raw = raw if raw[:1] in (b"{", b"\x1f") else base64.b64decode(raw)
                payload = json.loads(gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw)
            except (ValueError, OSError):
                continue
            works.update({work["DOI"]: work for work in read_works(payload)})
    return list(works.values())


@pytest.mark.skipif(not CASSETTES.exists(), reason=f"{CASSETTES} is not here; set OUTRIDER_DATA")
async def test_crossref_reads_every_recorded_reference() -> None:
    works = recorded_works()
    references = [one for work in works for one in work["reference"]]
    assert len(references) > 300
    read = [parse_reference(one) for one in references]
    with_doi = sum("DOI" in one for one in references)
    assert sum(paper is not None and paper.identifiers.doi is not None for paper in read) == with_doi
    assert sum(paper is None for paper in read) <= 0.02 * len(references)
    longest = max(works, key=lambda work: len(work["reference"]))
    payload = {"status": "ok", "message-type": "work", "message": longest}
    answer, _ = await ask(crossref, lambda _: as_json(payload), "references", "doi", longest["DOI"])
    own = {paper.doc_id for one in longest["reference"] if (paper := parse_reference(one))}
    assert {result.record.doc_id for result in answer.results} == own
    assert isinstance(answer.subject, Paper)


async def test_crossref_keeps_what_a_reference_without_a_doi_says() -> None:
    part = {"key": "1", "author": "Losick", "year": "2008a", "journal-title": "Science", "volume": "320", "first-page": "65"}
    paper = parse_reference(part)
    assert paper is not None
    assert (paper.authors, paper.year, paper.venue, paper.volume, paper.pages, paper.title) == (
        ("Losick",),
        2008,
        "Science",
        "320",
        "65",
        "",
    )
    assert parse_reference({"key": "2"}) is None
    line = parse_reference({"key": "3", "unstructured": "Losick R. <i>Stochasticity</i>. Science 2008."})
    assert line is not None
    assert line.metadata["unstructured"] == "Losick R. Stochasticity. Science 2008."


# OpenAlex


async def test_openalex_reads_citing_works_by_cursor_and_stops_at_the_limit() -> None:
    def handler(request: Request) -> Answer:
        if request.path != "/works":
            return as_json({"id": "https://openalex.org/W1", "doi": "https://doi.org/10.1000/x", "title": "One"})
        start = 0 if request.query["cursor"] == "*" else int(request.query["cursor"])
        works = [{"id": f"https://openalex.org/W{10 + one}", "title": f"Work {one}"} for one in range(start, min(start + 100, 250))]
        following = str(start + 100) if start + 100 < 250 else None
        return as_json({"meta": {"count": 250, "next_cursor": following}, "results": works})

    answer, requests = await ask(openalex, handler, "citations", "doi", "10.1000/x")
    assert (len(answer.results), answer.total, len(requests)) == (250, 250, 4)
    assert isinstance(answer.subject, Paper)
    assert answer.subject.identifiers.openalex == "W1"
    short, requests = await ask(openalex, handler, "citations", "openalex", "W1", limit=150)
    assert (len(short.results), len(requests)) == (150, 2)


async def test_openalex_gives_references_as_ids_of_the_free_single_work() -> None:
    work = {
        "id": "https://openalex.org/W1",
        "title": "One",
        "referenced_works": ["https://openalex.org/W2", "https://openalex.org/W2", "x"],
    }
    answer, (request,) = await ask(openalex, lambda _: as_json(work), "references", "openalex", "W1")
    assert request.path == "/works/W1"
    assert names(answer) == [(("openalex", "W2"),)]


def test_openalex_lists_what_cites_a_work_with_a_key_only() -> None:
    assert openalex("http://localhost").directions == {"references", "citations"}
    assert openalex("http://localhost", key="").directions == {"references"}


async def test_no_more_requests_are_sent_than_allowed() -> None:
    async with serving(lambda _: refusal(503)) as server:
        with count_requests(2) as count, pytest.raises(SourceUnavailable):
            await opencitations(server.base_url).references("doi", "10.1000/x", WITHIN_S, 10)
    assert (len(server.requests), count.sent, count.refused) == (2, 2, True)
