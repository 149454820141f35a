from __future__ import annotations

import asyncio
import copy
import json
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import SecretStr

from outrider.linkage.identifiers import normal_arxiv, normal_doi, normal_pmid
from outrider.settings.sections import SemanticScholarSettings
from outrider.sources.http.cache import DiskCache
from outrider.sources.http.client import Caller
from outrider.sources.semantic_scholar import MOST, NAME, SemanticScholar, paper_id, parse_page, parse_paper, search_words, year_range
from outrider.state.errors import Malformed, RateLimited, SearchError, SourceError, SourceUnavailable, Unauthorized
from outrider.state.intent import Constraints, NumberRange
from outrider.state.ports import Source, SourceQuery
from outrider.state.records import Paper
from support.http_server import FAULTS, Answer, Request, as_json, refusal, serving
from support.patience import BUSY_S
from support.shared_data import DATA

RECORDED = DATA / "recorded" / "s2_cassettes"
recorded = pytest.mark.skipif(not RECORDED.is_dir(), reason="needs the recorded answers in ../shared/data (OUTRIDER_DATA)")

SHA = "0123456789abcdef0123456789abcdef01234567"
PAPER: dict[str, Any] = {
    "paperId": SHA,
    "externalIds": {
        "DOI": "10.1000/ABC.1",
        "ArXiv": "2101.00001",
        "PubMed": "12345",
        "PubMedCentral": "678",
        "CorpusId": 4321,
        "DBLP": "conf/x/Y",
    },
    "url": f"https://www.semanticscholar.org/paper/{SHA}",
    "title": "Water, H<sub>2</sub>O, &amp; <i>\u00dcber</i> ice",
    "abstract": "<p>When a<b and c>d hold.</p><p>Second.</p>",
    "tldr": {"model": "tldr@v2.0.0", "text": "Ice floats."},
    "year": 2021,
    "publicationDate": "2021-02-03",
    "venue": "Ice J.",
    "publicationVenue": {"id": "v", "name": "Journal of Ice"},
    "journal": {"name": "J. Ice", "volume": "12", "pages": "\n   1-9 "},
    "authors": [{"authorId": "1", "name": "A. Frost"}, {"authorId": None, "name": None}, {"name": "B. Snow"}],
    "citationCount": 7,
    "openAccessPdf": {"url": "https://example.org/ice.pdf", "status": "GREEN"},
    "publicationTypes": ["JournalArticle"],
    "fieldsOfStudy": ["Physics", "Physics"],
}


def source(base_url: str, key: str = "", caller: Caller | None = None, **limits: Any) -> SemanticScholar:
    defaults = {"requests": 1_000.0, "timeout_s": 30.0, **limits}
    return SemanticScholar.of(SemanticScholarSettings(base_url=base_url, api_key=SecretStr(key), **defaults), caller or Caller())


def query(text: str = "floating ice", limit: int = 100, **fields: Any) -> SourceQuery:
    return SourceQuery(text, "relevance", None, limit, **{"within_s": 30.0, **fields})


def papers(start: int, count: int) -> list[dict[str, Any]]:
    return [{"paperId": f"{number:040x}", "title": f"Paper {number}"} for number in range(start, start + count)]


def answer_page(count: int, request: Request) -> Answer:
    """As the service pages through so many papers."""
    offset, limit = int(request.query["offset"]), int(request.query["limit"])
    data = papers(offset, min(limit, count - offset))
    following = {"next": offset + limit} if offset + limit < count else {}
    return as_json({"total": count, "offset": offset, "data": data, **following})


# records


def test_a_paper_becomes_a_record():
    paper = parse_paper(PAPER)
    assert paper == Paper(
        doc_id=f"{NAME}:{SHA}",
        source=NAME,
        title="Water, H2O, & Über ice",
        abstract="When a<b and c>d hold.\nSecond.",
        url=f"https://www.semanticscholar.org/paper/{SHA}",
        identifiers={"doi": "10.1000/abc.1", "arxiv": "2101.00001", "pmid": "12345", "pmcid": "PMC678", "s2": SHA},
        authors=("A. Frost", "B. Snow"),
        year=2021,
        venue="Journal of Ice",
        citations=7,
        tags=("Physics",),
        volume="12",
        pages="1-9",
        metadata={
            "published": "2021-02-03",
            "tldr": "Ice floats.",
            "pdf_url": "https://example.org/ice.pdf",
            "publication_types": ["JournalArticle"],
            "corpus_id": "4321",
        },
    )


def test_a_missing_field_stays_empty():
    paper = parse_paper({"paperId": SHA})
    assert paper == Paper(doc_id=f"{NAME}:{SHA}", source=NAME, identifiers={"s2": SHA})


def test_a_paper_with_a_number_only_is_named_by_it_and_one_without_any_is_none():
    numbered = parse_paper({"paperId": None, "title": "T", "externalIds": {"CorpusId": 12}})
    assert numbered is not None
    assert (numbered.doc_id, numbered.identifiers.s2) == (f"{NAME}:CorpusId:12", "CorpusId:12")
    assert parse_paper({"paperId": None, "title": "T", "externalIds": {"DOI": "10.1000/x"}}) is None
    assert parse_paper(None) is None
    assert parse_paper([PAPER]) is None


def test_a_number_on_arxiv_is_no_volume():
    paper = parse_paper({**PAPER, "journal": {"name": "ArXiv", "volume": "abs/2101.00001"}})
    assert paper is not None
    assert paper.volume is None


@pytest.mark.parametrize("answer", [None, [], "x", 3, {}, {"message": "Internal error"}, {"data": {}}, {"data": "x", "total": 1}])
def test_another_shape_is_malformed(answer: Any):
    with pytest.raises(Malformed):
        parse_page(answer)


@pytest.mark.parametrize("answer", [{"total": 0, "offset": 0}, {"offset": 0, "data": None}, {"total": 0, "token": None, "data": []}])
def test_an_empty_list_is_no_failure(answer: Any):
    assert parse_page(answer).papers == ()


def paths(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield at
    for name in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield from paths(value[name], (*at, name))


JUNK = st.sampled_from(
    [
        None,
        0,
        -1,
        True,
        1.5,
        float("nan"),
        10**30,
        "",
        "x",
        "\ud800",
        "\x00\u202e",
        "10.1/x",
        [],
        {},
        [None],
        [[]],
        {"name": 1},
        {"a": None},
    ]
)


@st.composite
def damaged(draw: st.DrawFn) -> Any:
    """An answer of which parts are gone, null, or of another type."""
    answer = copy.deepcopy({"total": 2, "offset": 0, "next": 2, "data": [PAPER, {**PAPER, "paperId": "f" * 40}]})
    for _ in range(draw(st.integers(1, 8))):
        path = draw(st.sampled_from([path for path in paths(answer) if path]))
        holder: Any = answer
        for step in path[:-1]:
            holder = holder[step]
        if draw(st.booleans()):
            del holder[path[-1]]
        else:
            holder[path[-1]] = copy.deepcopy(draw(JUNK))
        if not any(paths(answer)):
            break
    return answer


def scalars(value: Any) -> Iterator[str]:
    if isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from scalars(one)
    else:
        yield str(value)


def named_in(answer: Any) -> set[str]:
    """Everything that the answer could name, in normal form."""
    every = set(scalars(answer))
    normal = {form(one) for form in (normal_doi, normal_arxiv, normal_pmid) for one in every}
    return every | {one for one in normal if one} | {f"PMC{one}" for one in every} | {f"CorpusId:{one}" for one in every}


def links_and_identifiers(paper: Paper) -> set[str]:
    named = {value for _, value in paper.identifiers.pairs()} | {paper.doc_id.removeprefix(f"{NAME}:")}
    return named | {link for link in (paper.url, paper.metadata.get("pdf_url")) if isinstance(link, str)}


@settings(max_examples=300, deadline=None)
@given(damaged())
def test_every_link_and_identifier_stands_in_the_answer_it_came_from(answer: Any):
    try:
        parsed_papers = parse_page(answer).papers
    except Malformed:
        return
    for paper in parsed_papers:
        assert links_and_identifiers(paper) <= named_in(answer)
        paper.content_hash()  # can be written down


# the recorded answers


@cache
def cassettes() -> dict[str, list[tuple[str, str, int, Any]]]:
    """Method, address, status and JSON of every recorded exchange, by file."""
    read: dict[str, list[tuple[str, str, int, Any]]] = {}
    for path in sorted(RECORDED.glob("*.yaml")):
        for one in yaml.load(path.read_text(encoding="utf-8"), getattr(yaml, "CSafeLoader", yaml.SafeLoader))["interactions"]:
            request, response = one["request"], one["response"]
            status = response["status"]["code"] if "status" in response else response["status_code"]
            body = json.loads(response["body"]["string"] if "body" in response else response["content"])
            read.setdefault(path.stem, []).append((request["method"], request["uri"], status, body))
    for path in sorted(RECORDED.glob("*.json")):
        read[path.stem] = [("", "", 200, json.loads(path.read_text(encoding="utf-8")))]
    return read


def objects(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
    for one in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from objects(one)


@recorded
def test_every_recorded_answer_can_be_read():
    exchanges = [exchange for one in cassettes().values() for exchange in one]
    assert len(exchanges) >= 90
    count = 0
    for method, address, status, answer in exchanges:
        path = urlsplit(address).path
        if status == 200 and method == "GET" and path.endswith(("/search", "/bulk", "/references", "/citations")) and "/paper/" in path:
            within = {"references": "citedPaper", "citations": "citingPaper"}.get(path.rsplit("/")[-1], "")
            page = parse_page(answer, within)
            assert page.entries == len(answer.get("data", [])), path
            assert len(page.papers) == sum(bool((one[within] if within else one)["paperId"]) for one in answer.get("data", [])), path
        for one in objects(answer):  # also authors, errors and snippets: no shape is too odd
            paper = parse_paper(one)
            if paper:
                count += 1
                assert links_and_identifiers(paper) <= named_in(one)
    assert count > 20_000


@recorded
def test_a_recorded_paper_has_its_real_values():
    turing = parse_paper(cassettes()["Paper"][0][3])
    assert turing is not None
    assert turing.title == "Computing Machinery and Intelligence"
    assert turing.identifiers.pairs() == (("doi", "10.1093/mind/lix.236.433"), ("s2", "2d5673caa9e6af3a7b82a43f19ee920992db07ad"))
    assert (turing.year, turing.citations, turing.volume, turing.pages) == (1950, 10_059, "LIX", "433-460")
    assert (turing.venue, turing.authors, turing.tags) == (
        "The Philosophy of Artificial Intelligence",
        ("A. Turing",),
        ("Computer Science", "Sociology"),
    )
    assert turing.metadata["published"] == "1950-10-01"
    assert str(turing.metadata["tldr"]).startswith("If the meaning of the words \u201cmachine\u201d")
    assert turing.url == "https://www.semanticscholar.org/paper/2d5673caa9e6af3a7b82a43f19ee920992db07ad"


@recorded
def test_a_recorded_paper_of_nulls_keeps_its_id_and_a_snippet_has_none():
    nulls = parse_paper(cassettes()["PaperWithNullValues"][0][3])
    assert nulls is not None
    assert nulls.authors == ()
    assert parse_page({"data": cassettes()["test_search_snippet"][0][3]["data"]}).papers == ()


def replay(name: str) -> serving:
    """Answers as recorded: by path, offset or token, and status."""
    exchanges = [(urlsplit(address), status, answer) for _, address, status, answer in cassettes()[name]]

    def handler(request: Request) -> Answer:
        for address, status, answer in exchanges:
            recorded_query = dict(parse_qsl(address.query))
            here = recorded_query.get("token", "") == request.query.get("token", "") and (
                "token" in recorded_query
                or request.query.get("offset", "0") == recorded_query.get("offset", "0")
                or address.path.endswith("/bulk")
            )
            if address.path == request.path.replace("DOI:", "") and here:  # recorded without, which is allowed too
                return as_json(answer, status)
        return as_json({"error": f"not recorded: {request.target}"}, 500)

    return serving(handler)


@recorded
async def test_a_recorded_search_is_read_page_by_page():
    async with replay("test_search_paper_next_page") as server:
        answer = await source(server.base_url).search(query("turing", 200))
    assert (len(answer.results), answer.total, answer.status) == (200, 70_498, "")
    assert [request.query["offset"] for request in server.requests] == ["0", "100"]
    assert [one.score for one in answer.results] == [1 / rank for rank in range(1, 201)]
    assert {one.record.source for one in answer.results} == {NAME}


@recorded
async def test_a_recorded_search_without_a_result_is_empty():
    async with replay("test_empty_paginated_results") as server:
        answer = await source(server.base_url).search(query("n0 r3sult s3arch t3rm"))
    assert (answer.results, answer.total, answer.status, answer.message) == ((), 0, "", "")


@recorded
async def test_recorded_citations_and_references_are_read_to_their_end():
    async with replay("test_get_paper_citations") as server:
        # recorded with 100 a page; `next` leads on for any requested page size
        cited = await source(server.base_url).citations("s2", "CorpusID:14514057", 30.0)
    assert (len(cited.results), len(server.requests), cited.message) == (1_873, 19, "8 without a title")
    async with replay("test_get_paper_references") as server:
        refers = await source(server.base_url).references("doi", "https://doi.org/10.2139/ssrn.2250500", 30.0)
    assert len(server.requests) == 2
    assert server.requests[0].target.startswith("/graph/v1/paper/DOI%3A10.2139%2Fssrn.2250500/references?")
    assert len(refers.results) + int(refers.message.split()[0]) == 67
    assert refers.message.endswith("without a title")


@recorded
async def test_a_recorded_bulk_search_is_led_on_by_its_tokens():
    ids: list[str] = []
    async with replay("test_search_paper_bulk_retrieval_traversing_results") as server:
        page = await source(server.base_url).bulk("kubernetes", 30.0)
        ids += [one.doc_id for one in page.papers]
        while page.token:
            page = await source(server.base_url).bulk("kubernetes", 5.0, page.token)
            ids += [one.doc_id for one in page.papers]
    assert page.total == 2_674 == len(ids)
    assert server.requests[0].query["sort"] == "paperId:asc"


@recorded
async def test_recorded_papers_by_id_come_in_the_order_of_the_request():
    async with replay("test_get_papers_not_found_warning") as server:
        ids = [
            ("s2", "CorpusId:211530585"),
            ("s2", "CorpusId:470667"),
            ("doi", "10.2139/SSRN.2250500"),
            ("s2", "0f40b1f08821e22e859c6050916cec3667778613"),
        ]
        batch = await source(server.base_url).batch([("isbn", "1"), *ids], 30.0)
    assert server.requests[0].json == {
        "ids": ["CorpusId:211530585", "CorpusId:470667", "DOI:10.2139/ssrn.2250500", "0f40b1f08821e22e859c6050916cec3667778613"]
    }
    assert [one and one.title for one in batch[:3]] == [None, None, "How Much Should We Trust Differences-in-Differences Estimates?"]
    trust = batch[2]
    assert trust is not None
    assert trust.metadata["pdf_url"] == "http://papers.nber.org/papers/w8841.pdf"


@recorded
async def test_a_recorded_404_is_nothing_and_a_recorded_403_a_wrong_key():
    not_found = cassettes()["test_not_found"][0]
    async with serving(lambda _: as_json(not_found[3], not_found[2])) as server:
        assert await source(server.base_url).get("pmid", "1", 30.0) is None
        assert (await source(server.base_url).citations("pmid", "1", 30.0)).results == ()
    forbidden = cassettes()["test_debug"][0]
    async with serving(lambda _: as_json(forbidden[3], forbidden[2])) as server:
        with pytest.raises(Unauthorized, match="check the key"):
            await source(server.base_url, key="F@k3K3y").batch([("pmid", "1")], 30.0)


# requests


async def test_a_search_requests_the_fields_it_reads_and_the_years():
    async with serving(lambda request: answer_page(3, request)) as server:
        search_query = query(
            "the state-of-the-art in \u201cgraph neural\u2011networks\u201d?", 20, constraints=Constraints(years=NumberRange(min=2022))
        )
        answer = await source(server.base_url).search(search_query)
    (request,) = server.requests
    assert (request.method, request.path) == ("GET", "/graph/v1/paper/search")
    assert request.query["query"] == "state art graph neural networks"
    assert (request.query["year"], request.query["limit"], request.query["offset"]) == ("2022-", "20", "0")
    assert {"title", "abstract", "externalIds", "tldr"} <= set(request.query["fields"].split(","))
    assert "x-api-key" not in request.headers
    assert (len(answer.results), answer.total, answer.status, answer.message) == (3, 3, "", "")


@pytest.mark.parametrize("key", ["", "secret-key"])
async def test_the_key_goes_into_its_header_and_nowhere_else(key: str):
    async with serving(lambda _: refusal(500)) as server:
        scholar = source(server.base_url, key)
        with pytest.raises(SourceUnavailable) as error:
            await scholar.search(query(within_s=0.2))
    assert scholar.capabilities.queries == 1  # two requests: its Boolean form and its words
    assert all(one.headers.get("x-api-key", "") == key and not (key and key in one.target) for one in server.requests)
    assert "secret" not in f"{error.value}{scholar!r}"


async def test_no_request_without_words():
    async with serving(lambda request: answer_page(3, request)) as server:
        for text in ("", "   ", "?!", "--"):
            assert (await source(server.base_url).search(query(text))).results == ()
    assert server.requests == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a library for C++ that is fast", "library C++ fast"),
        ("to be or not to be", "to be or not"),
        ("COVID-19 (long-term)", "COVID 19 long term"),
        ("\u6df1\u5ea6\u5b66\u4e60 \u56fe\u50cf", "\u6df1\u5ea6\u5b66\u4e60 \u56fe\u50cf"),
        ("one two three four five six seven eight nine ten eleven", "two three four five six seven eight nine"),
    ],
)
def test_few_content_words_are_searched_without_hyphens(text: str, words: str):
    assert search_words(query(text)) == words


@pytest.mark.parametrize(
    ("low", "high", "years"),
    [(None, None, None), (2019, 2019, "2019"), (2016, 2020, "2016-2020"), (2010, None, "2010-"), (None, 2015, "-2015")],
)
def test_years_are_requested_as_documented(low: int | None, high: int | None, years: str | None):
    assert year_range(NumberRange(min=low, max=high)).get("year") == years


@pytest.mark.parametrize(
    ("scheme", "value", "text"),
    [
        ("doi", "https://doi.org/10.1000/ABC", "DOI:10.1000/abc"),
        ("arxiv", "arXiv:2101.00001v3", "ARXIV:2101.00001"),
        ("pmid", "123", "PMID:123"),
        ("pmcid", "PMC123", "PMCID:123"),
        ("s2", SHA, SHA),
        ("s2", "CorpusId:12", "CorpusId:12"),
        ("s2", "../author/1", None),
        ("doi", "no doi", None),
        ("isbn", "9780306406157", None),
    ],
)
def test_identifiers_are_written_as_the_service_does(scheme: str, value: str, text: str | None):
    assert paper_id(scheme, value) == text


async def test_a_paper_is_got_by_an_identifier_that_cannot_leave_its_place_in_the_path():
    async with serving(lambda _: as_json(PAPER)) as server:
        scholar = source(server.base_url)
        paper = await scholar.get("doi", "10.1000/a/../../b?c=d#e", 30.0)
        assert await scholar.get("isbn", "9780306406157", 30.0) is None
    assert paper == parse_paper(PAPER)
    assert [one.target.split("?")[0] for one in server.requests] == ["/graph/v1/paper/DOI%3A10.1000%2Fa%2F..%2F..%2Fb%3Fc%3Dd%23e"]


async def test_a_batch_is_split_by_the_limit_of_the_service():
    async with serving(lambda request: as_json([{"paperId": f"{int(one[5:]):040x}"} for one in request.json["ids"]])) as server:
        batch = await source(server.base_url).batch([("pmid", str(number)) for number in range(1, 1_002)], 30.0)
    assert [len(one.json["ids"]) for one in server.requests] == [500, 500, 1]
    assert {one.headers["content-type"] for one in server.requests} == {"application/json"}
    assert [one.identifiers.s2 for one in batch if one] == [f"{number:040x}" for number in range(1, 1_002)]


async def test_many_by_identifier():
    async with serving(
        lambda request: as_json([None if one == "PMID:2" else {"paperId": f"{7:040x}"} for one in request.json["ids"]])
    ) as server:
        batch = await source(server.base_url).get_many("pmid", ["1", "2", "no number"], 30.0)
    assert {value: paper.identifiers.s2 for value, paper in batch.items()} == {"1": f"{7:040x}"}


async def test_a_batch_that_does_not_answer_each_id_is_malformed():
    async with serving(lambda _: as_json([None])) as server:
        with pytest.raises(Malformed, match="one paper for each of 2 ids"):
            await source(server.base_url).batch([("pmid", "1"), ("pmid", "2")], 30.0)


async def test_no_more_is_requested_than_the_limit_or_the_service_allows():
    async with serving(lambda request: answer_page(100_000, request)) as server:
        answer = await source(server.base_url).search(query(limit=150))
        assert [(one.query["offset"], one.query["limit"]) for one in server.requests] == [("0", "100"), ("100", "50")]
        assert len(answer.results) == 150
        everything = await source(server.base_url).search(query(limit=10_000))
    assert max(int(one.query["offset"]) + int(one.query["limit"]) for one in server.requests) == MOST == len(everything.results)


# what can go wrong


async def test_earlier_pages_are_returned_when_a_later_one_fails():
    def handler(request: Request) -> Answer:
        return answer_page(500, request) if request.query["offset"] == "0" else refusal(429, headers={"Retry-After": "3600"})

    async with serving(handler) as server:
        answer = await source(server.base_url).search(query(limit=300, within_s=20.0))
    assert (len(answer.results), answer.total, answer.status) == (100, 500, "partial")
    assert answer.message.startswith("only the first 100 were received: semantic_scholar answered 429")
    assert answer.retry_at is not None
    assert 3_000 < answer.retry_at - time.time() < 3_700


async def test_pages_that_came_are_handed_over_before_the_time_is_up():
    async def handler(request: Request) -> Answer:
        if request.query["offset"] != "0":
            await asyncio.sleep(3_600)
        return answer_page(500, request)

    async with serving(handler) as server:
        async with asyncio.timeout(1.5 + BUSY_S):
            answer = await source(server.base_url).search(query(limit=300, within_s=1.5))
    assert (len(answer.results), answer.status) == (100, "partial")


async def test_a_total_that_disagrees_with_the_pages_is_reported():
    async with serving(lambda _: as_json({"total": 50, "offset": 0, "data": papers(0, 3)})) as server:
        fewer = await source(server.base_url).search(query())
    assert (len(fewer.results), fewer.total, fewer.status) == (3, 50, "partial")
    assert fewer.message == "it reports 50 and returned 3"
    async with serving(lambda _: as_json({"total": 1, "offset": 0, "data": papers(0, 3)})) as server:
        more = await source(server.base_url).search(query(limit=2))
    assert (len(more.results), more.status) == (2, "")


async def test_pages_that_lead_nowhere_or_repeat_themselves_end():
    async with serving(
        lambda request: as_json({"total": 999, "offset": 0, "next": int(request.query["offset"]), "data": papers(0, 3)})
    ) as server:
        await source(server.base_url).search(query())
    assert len(server.requests) == 1
    async with serving(lambda request: as_json({"total": 6, "next": int(request.query["offset"]) + 3, "data": papers(0, 3)})) as server:
        again = await source(server.base_url).search(query(limit=6))
    assert (len(again.results), len(server.requests)) == (3, 2)


async def test_records_without_a_title_are_counted():
    async with serving(lambda _: as_json({"total": 3, "offset": 0, "data": [PAPER, None, {"title": "no id"}]})) as server:
        answer = await source(server.base_url).search(query())
    assert (len(answer.results), answer.message) == (1, "2 without a title")


@pytest.mark.parametrize("fault", sorted(FAULTS))
async def test_every_fault_is_one_error_of_ours_in_time(fault: str):
    started = time.monotonic()
    async with serving(lambda _: FAULTS[fault]) as server:
        scholar = source(server.base_url)
        with pytest.raises(SourceError) as error:
            await scholar.search(query(within_s=1.5))
        with pytest.raises(SearchError):
            await scholar.get("doi", "10.1000/x", 0.3)
    assert time.monotonic() - started < 0.7 + BUSY_S
    assert str(error.value)


async def test_the_pool_of_all_anonymous_users_being_used_up_is_a_rate_limit():
    async with serving(lambda _: refusal(429, "Too Many Requests. Please wait and try again or apply for a key")) as server:
        with pytest.raises(RateLimited, match="apply for a key"):
            await source(server.base_url).search(query(within_s=1.5))


async def test_an_older_response_is_used_and_its_age_is_reported(tmp_path: Path):
    now = [1_000_000.0]
    caller = Caller(DiskCache(tmp_path, clock=lambda: now[0]))
    up = [True]
    async with serving(lambda request: answer_page(2, request) if up[0] else refusal(429)) as server:
        scholar = source(server.base_url, caller=caller)
        assert (await scholar.search(query())).status == ""
        now[0] += 600
        cached = await scholar.search(query())
        up[0], now[0] = False, now[0] + 7_200
        stale = await scholar.search(query(within_s=1.5))
    assert (cached.status, len(cached.results)) == ("cached", 2)
    assert "10 min" in cached.message
    assert (stale.status, len(stale.results)) == ("stale", 2)
    assert "2 h" in stale.message


def test_it_is_a_source():
    scholar: Source = source("http://127.0.0.1:1")
    assert (scholar.name, scholar.strategies) == (NAME, ("relevance",))
    assert scholar.capabilities.identifiers == {"doi", "arxiv", "pmid", "pmcid", "s2"}
    assert scholar.capabilities.most == MOST
