"""SerpApi: works of Google Scholar, pages of Google, requests, failures with status 200."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any
from urllib.parse import unquote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from outrider.settings.sections import SerpapiSettings
from outrider.sources.http.client import Caller
from outrider.sources.http.service import Reply
from outrider.sources.serpapi import (
    ResultsPage,
    SerpapiGoogle,
    SerpapiScholar,
    parse_authors,
    parse_page,
    parse_paper,
    parse_web_page,
    parse_year,
)
from outrider.state.errors import Malformed, RateLimited, SettingsError, SourceError, SourceUnavailable, Unauthorized
from outrider.state.intent import Constraints, NumberRange
from outrider.state.ports import Source, SourceQuery
from outrider.state.records import Identifiers, Page, Paper
from support.http_server import EXPECTED_ERRORS, FAULTS, Answer, Request, as_json, serving
from support.shared_data import DATA

SAVED = DATA / "recorded"
recorded = pytest.mark.skipif(not SAVED.exists(), reason=f"no recorded answers at {SAVED}; set OUTRIDER_DATA")
KEY = "s3cret-key"
NOTHING = {"search_metadata": {"status": "Success"}, "error": "Google hasn't returned any results for this query."}
WORK = {
    "position": 0,
    "title": "Phage lysis",
    "result_id": "aBc_-1AJ",
    "link": "https://doi.org/10.1000/Xyz?utm_source=scholar",
    "snippet": "… the lysis of phages …",
    "publication_info": {"summary": "A Smith, B Ößner… - Journal of …, 2005 - doi.org", "authors": [{"name": "B Ößner", "author_id": "x"}]},
    "resources": [
        {"title": "h", "file_format": "HTML", "link": "https://h/x"},
        {"file_format": "PDF", "link": "https://repo.example/x.pdf"},
    ],
    "inline_links": {"cited_by": {"total": 41}, "versions": {"total": 3, "cluster_id": "123"}},
}
PAGE = {"position": 1, "title": "Phages", "link": "https://example.org/phages", "snippet": "All about them.", "date": "Mar 3, 2021"}
numbers = count(1)


def make_reply(body: Any) -> Reply:
    return Reply("https://serpapi/x", 200, {}, body if isinstance(body, bytes) else json.dumps(body).encode())


def results(*items: Any, total: int | None = 1000) -> dict[str, Any]:
    return {"search_metadata": {"status": "Success"}, "search_information": {"total_results": total}, "organic_results": list(items)}


def works(request: Request) -> Answer:
    start = int(request.query["start"])
    return as_json(results(*({**WORK, "result_id": f"id{start + at}"} for at in range(int(request.query["num"])))))


def at(base_url: str, kind: Any = SerpapiScholar, **fields: Any) -> Any:
    """A limit that no other test shares, for any port."""
    return kind.of(SerpapiSettings(**{"base_url": base_url, "api_key": KEY, "per_s": 0.001 * next(numbers), **fields}), Caller())


def query(text: str = "phage lysis", limit: int = 20, within_s: float = 30.0, **fields: Any) -> SourceQuery:
    return SourceQuery(text, "relevance", None, limit, within_s=within_s, **fields)


async def test_a_search_of_google_scholar() -> None:
    with serving(works) as server:
        source: Source = at(server.base_url)
        answer = await source.search(query(limit=3, constraints=Constraints(years=NumberRange(min=2000, max=2010))))
    (request,) = server.requests
    assert request.path == "/search.json"
    assert request.query == {
        "engine": "google_scholar", "q": "phage lysis", "num": "3", "start": "0", "as_ylo": "2000", "as_yhi": "2010", "api_key": KEY,
    }  # fmt: skip
    assert [(one.record.doc_id, one.score) for one in answer.results] == [
        ("serpapi_scholar:id0", 1.0), ("serpapi_scholar:id1", 1 / 2), ("serpapi_scholar:id2", 1 / 3),
    ]  # fmt: skip
    assert (answer.total, answer.status) == (1000, "")
    assert answer.message == "its total is an estimate that changes from call to call"


async def test_a_search_of_google() -> None:
    """It takes no number of results, and no years."""
    with serving(lambda request: as_json(results({**PAGE, "link": f"https://example.org/{request.query['start']}"}, total=None))) as server:
        answer = await at(server.base_url, SerpapiGoogle).search(query(constraints=Constraints(years=NumberRange(min=2000))))
    queries = sorted((one.query for one in server.requests), key=lambda parameters: parameters["start"])
    assert queries == [{"engine": "google", "q": "phage lysis", "start": start, "api_key": KEY} for start in ("0", "10")]
    assert [one.record.doc_id for one in answer.results] == [
        "serpapi_google:https://example.org/0",
        "serpapi_google:https://example.org/10",
    ]
    assert (answer.total, answer.message) == (None, "")


@pytest.mark.parametrize(("limit", "starts"), [(1, ["0"]), (20, ["0"]), (21, ["0", "20"]), (100, ["0", "20"])])
async def test_no_more_pages_than_requested_or_allowed(limit: int, starts: list[str]) -> None:
    with serving(works) as server:
        answer = await at(server.base_url).search(query(limit=limit))
    assert sorted(request.query["start"] for request in server.requests) == starts
    assert [one.record.doc_id for one in answer.results] == [f"serpapi_scholar:id{place}" for place in range(min(limit, 40))]


async def test_a_result_on_two_pages_counts_once() -> None:
    def answer(request: Request) -> Answer:
        return as_json(results(*({**WORK, "result_id": name} for name in ("ab" if request.query["start"] == "0" else "bc"))))

    with serving(answer) as server:
        result = await at(server.base_url).search(query(limit=40))
    assert [one.record.doc_id for one in result.results] == [f"serpapi_scholar:{name}" for name in "abc"]


@pytest.mark.parametrize("start", ["0", "20"])
async def test_a_page_that_fails_costs_its_own_results(start: str) -> None:
    # Late, since an early refusal would stop the other page.
    limited = as_json({"error": "Your account has run out of searches."}, 429, {"Retry-After": "3600"}, after_s=1.0)
    with serving(lambda request: limited if request.query["start"] == start else works(request)) as server:
        answer = await at(server.base_url, requests=20).search(query(limit=40, within_s=30.0))
    assert (answer.status, len(answer.results)) == ("partial", 20)
    assert answer.message.startswith("1 of 2 pages failed: serpapi answered 429")
    assert answer.retry_at is not None
    assert KEY not in answer.message


@pytest.mark.parametrize("fault", sorted(FAULTS))
@pytest.mark.parametrize("kind", [SerpapiScholar, SerpapiGoogle])
async def test_every_fault_is_an_expected_error(kind: Any, fault: str) -> None:
    with serving(lambda _: FAULTS[fault]) as server, pytest.raises(SourceError) as failed:
        await at(server.base_url, kind).search(query(within_s=1.5, limit=10))
    tried_again = {"timeout"} if fault in ("429", "500", "connection reset", "truncated") else set()  # when time was almost up
    assert failed.value.status in {EXPECTED_ERRORS[fault].status, *tried_again}
    assert KEY not in str(failed.value)


async def test_the_key_is_never_shown() -> None:
    """Also where the service quotes it."""
    with serving(lambda request: as_json({"error": f"Invalid API key {request.query['api_key']}."}, 401)) as server:
        source = at(server.base_url)
        with pytest.raises(Unauthorized) as refused:
            await source.search(query())
    assert KEY not in f"{refused.value} {source!r}"


@pytest.mark.parametrize("kind", [SerpapiScholar, SerpapiGoogle])
def test_without_a_key_there_is_no_such_source(kind: Any) -> None:
    with pytest.raises(SettingsError, match="needs a key"):
        kind.of(SerpapiSettings(), Caller())


def test_both_share_the_limit_of_their_account() -> None:
    assert at("http://x", per_s=9.0).service == at("http://x", SerpapiGoogle, per_s=9.0).service


async def test_an_empty_query_sends_no_request() -> None:
    with serving(works) as server:
        assert (await at(server.base_url).search(query(" \n "))).results == ()
        assert await at(server.base_url).get("doi", "10.1000/xyz", 1.0) is None
    assert server.requests == []


async def test_no_results_are_empty() -> None:
    with serving(lambda _: as_json(NOTHING)) as server:
        answer = await at(server.base_url).search(query())
    assert (answer.results, answer.total, answer.status, answer.message) == ((), None, "", "")


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ({"error": "Invalid API key. Your API key should be here: https://serpapi.com/manage-api-key"}, Unauthorized),
        ({"error": "Your account has run out of searches."}, RateLimited),
        ({"error": "We couldn't get valid results for this search.", "search_metadata": {"status": "Error"}}, SourceUnavailable),
        ({"search_metadata": {"status": "Processing"}}, SourceUnavailable),
        ({"search_metadata": {"status": "Success"}}, Malformed),
        ({"organic_results": {}}, Malformed),
        ({}, Malformed),
        (["x"], Malformed),
        (b"<html>", Malformed),
    ],
)
def test_failures_that_come_with_status_200(body: Any, error: type[SourceError]) -> None:
    with pytest.raises(error):
        parse_page(make_reply(body), parse_paper)
    assert not at("http://x").service.keeps(make_reply(body))
    assert at("http://x").service.keeps(make_reply(NOTHING))


@pytest.mark.parametrize("body", [{"search_information": {"organic_results_state": "Fully empty"}}, results(total=0), NOTHING])
def test_answers_without_results(body: Any) -> None:
    assert parse_page(make_reply(body), parse_web_page)[:2] == ((), 0)


async def test_results_without_a_title_are_counted() -> None:
    response = results(WORK, {**WORK, "title": None}, None, "x", {**WORK, "result_id": 3, "link": "javascript:alert(1)"})
    with serving(lambda _: as_json(response)) as server:
        answer = await at(server.base_url).search(query())
    assert len(answer.results) == 1
    assert "4 without a title" in answer.message


def test_a_work() -> None:
    """Its snippet is no abstract, and a venue that Google has cut is no venue."""
    paper = parse_paper(WORK)
    assert paper == Paper(
        doc_id="serpapi_scholar:aBc_-1AJ",
        source="serpapi_scholar",
        title="Phage lysis",
        description="… the lysis of phages …",
        url="https://doi.org/10.1000/Xyz?utm_source=scholar",
        identifiers=Identifiers(doi="10.1000/xyz"),
        authors=("A Smith", "B Ößner"),
        year=2005,
        citations=41,
        metadata={
            "published_in": "A Smith, B Ößner… - Journal of …, 2005 - doi.org",
            "pdf_url": "https://repo.example/x.pdf",
            "cluster_id": "123",
        },
    )


def test_a_work_that_is_only_cited_has_no_address() -> None:
    paper = parse_paper({"title": "Old book", "result_id": "zAJ", "type": "Citation"})
    assert paper is not None
    assert (paper.url, paper.year, paper.authors, paper.citations, paper.metadata) == (None, None, (), None, {"type": "Citation"})


@pytest.mark.parametrize(
    ("summary", "year"),
    [
        ("GJ Rodrigo, JA Castro-Rodriguez - Thorax, 2005 - thorax.bmj.com", 2005),
        ("JC Robinson, VG Saúco - 2010 - books.google.com", 2010),
        ("NW Simmonds - The Evolution of the Bananas., 1962 - cabdirect.org", 1962),
        ("A Author - Proceedings of 1998 - acm.org", None),
        ("G Orwell, 1984 - books.example", None),
        ("A - B, 2001 - C, 2002", None),
        ("2010", None),
        ("", None),
    ],
)
def test_a_year_counts_where_it_stands_in_its_own_place(summary: str, year: int | None) -> None:
    assert parse_year(summary) == year


@pytest.mark.parametrize(
    ("profiled", "summary", "authors"),
    [
        (["E Baraldi"], "MW Pijnenburg, E Baraldi, PLP Brand… - European …, 2015 - x", ("MW Pijnenburg", "E Baraldi", "PLP Brand")),
        (["E Baraldi"], "The Lancet, 2015 - Elsevier", ("E Baraldi",)),
        ([], "GL Larsen - New England Journal of Medicine, 1992 - x", ()),
        ([None, 3, {"name": 3}], "x - y", ()),
    ],
)
def test_authors_are_returned_where_profiles_confirm_them(profiled: list[Any], summary: str, authors: tuple[str, ...]) -> None:
    publication = {"authors": [{"name": one} if isinstance(one, str) else one for one in profiled]}
    assert parse_authors(publication, summary) == authors


def test_a_page_of_the_web() -> None:
    assert parse_web_page(PAGE) == Page(
        doc_id="serpapi_google:https://example.org/phages",
        source="serpapi_google",
        title="Phages",
        description="All about them.",
        url="https://example.org/phages",
        metadata={"date": "Mar 3, 2021"},
    )


def read(name: str, record_of: Callable[..., Any]) -> ResultsPage:
    return parse_page(make_reply((SAVED / name).read_bytes()), record_of)


@recorded
def test_recorded_works() -> None:
    asthma = read("serpapi_scholar/asthma_children_num5.transcribed.json", parse_paper)
    assert (asthma.entries, len(asthma.records), asthma.total) == (5, 5, 1820000)
    by_id = {record.doc_id.partition(":")[2]: record for record in asthma.records}
    assert [record.identifiers.doi for record in asthma.records] == [
        None, None, "10.1056/nejm199206043262306", "10.1111/j.1398-9995.2010.02406.x", None,
    ]  # fmt: skip
    assert by_id["e4LgUSjn-cAJ"].authors == ("GJ Rodrigo", "JA Castro-Rodriguez")
    assert [record.year for record in asthma.records] == [2005, 2018, 1992, 2010, 2015]
    assert [record.citations for record in asthma.records] == [418, 47, 160, 114, 171]
    assert by_id["MPCuZ4FR_iAJ"].metadata["pdf_url"] == "https://erj.ersjournals.com/content/erj/45/4/906.full.pdf"
    bananas = read("serpapi_scholar/mock_1.json", parse_paper)
    assert [(record.title, record.year, record.authors) for record in bananas.records] == [
        ("Bananas and plantains", 2010, ()), ("The evolution of the bananas.", 1962, ()),
    ]  # fmt: skip


@recorded
def test_recorded_pages() -> None:
    """Four forms of seven years; what is no search is refused by name."""
    folder = SAVED / "serpapi_google"
    counts = {
        "basic_search_result.json": (10, 23620000000),
        "search_coffee_sample.json": (9, 0),
        "javascript_google_search_v2/data.json": (9, 130000000),
        "keywordRanking/results.json": (10, None),
    }
    for name, (records_on_page, total) in counts.items():
        page = read(f"serpapi_google/{name}", parse_web_page)
        assert (page.entries, len(page.records), page.total) == (records_on_page, records_on_page, total)
        assert all(record.url and record.title for record in page.records)
    first = read("serpapi_google/javascript_google_search_v2/data.json", parse_web_page).records[0]
    assert (first.title, first.url, first.metadata["source"]) == ("Matcha", "https://en.wikipedia.org/wiki/Matcha", "Wikipedia")
    assert first.description.startswith("Matcha /ˈmætʃə, ˈmɑːtʃə/ (抹茶) is a finely ground powder")
    with pytest.raises(RateLimited, match="credit is too low"):
        read("serpapi_google/error_sample.json", parse_web_page)
    others = {path for path in folder.rglob("*") if path.is_file()} - {folder / name for name in (*counts, "error_sample.json")}
    assert others
    for path in sorted(others):
        with pytest.raises(Malformed):
            parse_page(make_reply(path.read_bytes()), parse_web_page)


@recorded
def test_request_parameters_are_documented() -> None:
    """By the recorded schema of each engine's parameters."""
    for engine, parameters in (("google_scholar", {"q", "num", "start", "as_ylo", "as_yhi"}), ("google", {"q", "start"})):
        schema = json.loads((SAVED / f"serpapi_schemas/{engine}.json").read_text())
        assert parameters <= schema["params"].keys()
        assert {"engine", "api_key"} <= schema["common_params"].keys()


def answers() -> Iterator[Any]:
    yield results(WORK, {**WORK, "link": "https://arxiv.org/abs/2101.00001v3"}, PAGE)
    for name in ("serpapi_scholar/asthma_children_num5.transcribed.json", "serpapi_google/keywordRanking/results.json"):
        if (SAVED / name).exists():
            yield json.loads((SAVED / name).read_text())


ANSWERS = list(answers())
ODD = st.sampled_from([None, True, -1, 2**70, 0.5, "", "10.1/x", "\ud800\x00", [], ["x"], {}, {"name": "x"}, float("nan")])


def places(node: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Of everything within lists and objects."""
    inner = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for name, value in inner:
        yield (*path, name)
        yield from places(value, (*path, name))


def texts(node: Any) -> Iterator[str]:
    if isinstance(node, str):
        yield node
    for value in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from texts(value)


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(ANSWERS), st.sampled_from([parse_paper, parse_web_page]), st.data())
def test_links_and_identifiers_occur_in_the_answer(whole: Any, record_of: Any, data: st.DataObject) -> None:
    """Also where fields are missing or of another type; the records can be stored."""
    response = copy.deepcopy(whole)
    for _ in range(data.draw(st.integers(0, 8))):
        path = data.draw(st.sampled_from([(), *places(response)]))
        if not path:
            continue
        parent = response
        for name in path[:-1]:
            parent = parent[name]
        if data.draw(st.booleans()):
            del parent[path[-1]]
        else:
            parent[path[-1]] = copy.deepcopy(data.draw(ODD))
    try:
        page = parse_page(make_reply(response), record_of)
    except SourceError:
        return
    links = {*texts(response)}
    for record in page.records:
        record.model_dump_json().encode()
        assert record.title
        assert record.url is None or record.url in links
        assert record.metadata.get("pdf_url") in {None, *links}
        for _, value in record.identifiers.pairs():
            assert value.lower() in unquote(record.url or "").lower()
