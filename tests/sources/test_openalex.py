from __future__ import annotations

import functools
import json
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import SecretStr

from outrider.linkage.identifiers import normal_arxiv, normal_doi, normal_pmid
from outrider.settings.sections import OpenalexSettings
from outrider.sources import openalex as openalex_records
from outrider.sources.http.cache import DiskCache
from outrider.sources.http.client import Caller
from outrider.sources.openalex import FIELDS, Openalex, list_works, parse_abstract, parse_paper, search_words
from outrider.state.errors import Malformed, SourceUnavailable
from outrider.state.intent import Constraints, NumberRange
from outrider.state.ports import Source, SourceQuery
from outrider.state.records import RECORD, Paper
from support.damaged_answers import damaged
from support.http_server import EXPECTED_ERRORS, FAULTS, Answer, Request, as_json, as_text, refusal, serving
from support.patience import BUSY_S
from support.shared_data import DATA

RECORDED = DATA / "recorded"
recorded_only = pytest.mark.skipif(not RECORDED.exists(), reason=f"{RECORDED} is not here; set OUTRIDER_DATA")

WORK: dict[str, Any] = {
    "id": "https://openalex.org/W7",
    "doi": "https://doi.org/10.1000/ABC",
    "title": "On <i>Otters</i> &amp; H<sub>2</sub>O",
    "publication_year": 2021,
    "publication_date": "2021-03-04",
    "ids": {
        "openalex": "https://openalex.org/W7",
        "doi": "https://doi.org/10.1000/abc",
        "mag": "77",
        "pmid": "https://pubmed.ncbi.nlm.nih.gov/29456894",
        "pmcid": "https://www.ncbi.nlm.nih.gov/pmc/articles/5815332",
    },
    "language": "en",
    "primary_location": {
        "landing_page_url": "https://doi.org/10.1000/abc",
        "license": "cc-by",
        "source": {"display_name": "Journal of Otters"},
    },
    "locations": [{"landing_page_url": "https://doi.org/10.1000/abc"}, {"landing_page_url": "http://arxiv.org/abs/1512.03385v2"}],
    "type": "article",
    "open_access": {"is_oa": True, "oa_status": "gold", "oa_url": "https://example.org/otters.pdf"},
    "authorships": [{"author": {"display_name": "Ada Otter"}}, {"author": {}, "raw_author_name": "Ben Otter"}],
    "cited_by_count": 12,
    "biblio": {"volume": "6", "issue": None, "first_page": "1", "last_page": "9"},
    "is_retracted": True,
    "keywords": [{"display_name": "Otters"}, {"display_name": "otters"}],
    "topics": [{"display_name": "River ecology"}],
    "mesh": [{"descriptor_name": "Otters", "qualifier_name": ""}, {"descriptor_name": "Otters", "qualifier_name": "physiology"}],
    "abstract_inverted_index": {"Otters": [0, 3], "swim": [1], "&lt;3": [2], "often.": [4]},
    "relevance_score": 41.5,
}


def work(number: int, **changes: Any) -> dict[str, Any]:
    return {**WORK, "id": f"https://openalex.org/W{number}", "relevance_score": 1000.0 - number, **changes}


def listed(*works: Any, count: int | None = None) -> dict[str, Any]:
    return {"meta": {"count": len(works) if count is None else count}, "results": list(works)}


def openalex(base_url: str, key: str = "", caller: Caller | None = None, **fields: Any) -> Openalex:
    config = OpenalexSettings(base_url=base_url, api_key=SecretStr(key), requests=1000, timeout_s=fields.pop("timeout_s", 30.0), **fields)
    return Openalex.of(config, caller or Caller())


def query(text: str = "otter ecology", **fields: Any) -> SourceQuery:
    return SourceQuery(text, "relevance", None, **{"limit": 10, "within_s": 30.0, **fields})


# Records


def test_a_work_becomes_a_paper() -> None:
    paper = parse_paper(WORK)
    assert paper is not None
    assert (paper.doc_id, paper.source, paper.title) == ("openalex:W7", "openalex", "On Otters & H2O")
    assert paper.abstract == "Otters swim <3 Otters often."
    assert paper.identifiers.pairs() == (
        ("doi", "10.1000/abc"), ("pmid", "29456894"), ("pmcid", "PMC5815332"), ("arxiv", "1512.03385"), ("openalex", "W7"),
    )  # fmt: skip
    assert (paper.authors, paper.year, paper.venue, paper.citations) == (("Ada Otter", "Ben Otter"), 2021, "Journal of Otters", 12)
    assert (paper.language, paper.tags, paper.mesh) == ("en", ("Otters", "River ecology"), ("Otters",))
    assert (paper.volume, paper.issue, paper.pages, paper.url) == ("6", None, "1-9", "https://doi.org/10.1000/abc")
    assert paper.metadata == {
        "type": "article", "published": "2021-03-04", "retracted": True, "open_access": "gold",
        "open_access_url": "https://example.org/otters.pdf", "licence": "cc-by",
    }  # fmt: skip


def test_what_is_missing_is_missing() -> None:
    paper = parse_paper({"id": "https://openalex.org/W1"})
    assert paper == Paper(doc_id="openalex:W1", source="openalex", url="https://openalex.org/W1", identifiers={"openalex": "W1"})


@pytest.mark.parametrize("response", [None, [], "W1", {}, {"id": None}, {"id": "https://openalex.org/A5"}, {"id": 7}])
def test_what_is_no_work_is_no_paper(response: Any) -> None:
    assert parse_paper(response) is None


@pytest.mark.parametrize(
    ("index", "text"),
    [
        ({"b": [1], "a": [0, 2]}, "a b a"),
        ({"b": [9], "a": [4]}, "a b"),
        ({"a": [True, None, "1", -1, 0]}, "a"),
        ({"a": 3, "b": {"c": [1]}}, ""),
        ({"<jats:p>Early": [0], "text</jats:p>": [1]}, "Early text"),
        ({"p": [0], "<": [1], "0.05": [2]}, "p < 0.05"),
        (None, ""),
        ([], ""),
    ],
)
def test_the_text_of_an_inverted_index(index: Any, text: str) -> None:
    assert parse_abstract(index) == text


def test_an_arxiv_doi_is_an_arxiv_number() -> None:
    paper = parse_paper({**WORK, "doi": "https://doi.org/10.48550/arxiv.2108.04680", "locations": None})
    assert paper is not None
    assert paper.identifiers.arxiv == "2108.04680"


@pytest.mark.parametrize("response", [[], None, "x", {"results": {}}, {"meta": {"count": 0}}, {"error": "Invalid", "message": "no"}])
def test_another_shape_is_malformed(response: Any) -> None:
    with pytest.raises(Malformed):
        list_works(response)


# The recorded answers


@functools.cache
def recordings() -> tuple[tuple[str, Any], ...]:
    folders = [RECORDED / "openalex_recorded", RECORDED / "openalex_fixtures"]
    return tuple((str(path), json.loads(path.read_text())) for folder in folders for path in sorted(folder.rglob("*.json")))


def works_in(response: Any) -> Iterator[Any]:
    if isinstance(response, dict):
        works = response["results"] if isinstance(response.get("results"), list) else [response]
        yield from (one for one in works if isinstance(one, dict) and "/W" in str(one.get("id")) and "authorships" in one)


@recorded_only
def test_every_recorded_answer_is_read() -> None:
    works = [one for _, response in recordings() for one in works_in(response)]
    papers = [parse_paper(one) for one in works]
    assert len(works) > 100
    assert all(papers)
    for one, paper in zip(works, papers, strict=True):
        assert paper is not None
        assert paper.year == one["publication_year"]
        assert paper.citations == one["cited_by_count"]
        assert len(paper.authors) == len(one["authorships"])
        assert bool(paper.abstract) == bool(one.get("abstract_inverted_index"))
        assert (paper.identifiers.doi is None) == (one.get("doi") is None)
        assert RECORD.validate_json(RECORD.dump_json(paper)) == paper


@recorded_only
def test_every_other_recorded_answer_gives_no_paper_and_no_crash() -> None:
    others = [(path, response) for path, response in recordings() if not list(works_in(response))]
    assert len(others) > 20
    for path, response in others:
        works = response.get("results") if isinstance(response.get("results"), list) else [response]
        papers = [parse_paper(one) for one in works or []]
        assert all(paper is None or "autocomplete" in path for paper in papers), path


@recorded_only
def test_recorded_values() -> None:
    papers = {
        paper.identifiers.openalex: paper for _, response in recordings() for one in works_in(response) if (paper := parse_paper(one))
    }
    lowry, vgg, peerj = papers["W1775749144"], papers["W1686810756"], papers["W2741809807"]
    assert (lowry.title, lowry.year, lowry.pages) == ("PROTEIN MEASUREMENT WITH THE FOLIN PHENOL REAGENT", 1951, "265-275")
    assert (lowry.identifiers.doi, lowry.identifiers.pmid) == ("10.1016/s0021-9258(19)52451-6", "14907713")
    assert lowry.venue == "Journal of Biological Chemistry"
    assert (vgg.identifiers.doi, vgg.identifiers.arxiv) == (None, "1409.1556")
    assert (peerj.authors[:2], peerj.identifiers.pmid) == (("Heather Piwowar", "Jason Priem"), "29456894")
    assert papers["W2194775991"].identifiers.arxiv == "1512.03385"
    assert papers["W2911964244"].title == ""
    assert "<" not in "".join(paper.title for paper in papers.values())


def strings(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        for name, value in node.items():
            yield name
            yield from strings(value)
    elif isinstance(node, list):
        for value in node:
            yield from strings(value)
    elif isinstance(node, str):
        yield node


def assert_values_occur(paper: Paper, response: Any) -> None:
    """Every link and identifier occurs in the answer, in any of its forms."""
    every = [one for one in strings(response) if len(one) <= 2_000]
    ids = paper.identifiers
    normal = {
        "doi": {normal_doi(one) for one in every},
        "pmid": {normal_pmid(one) for one in every},
        "pmcid": {f"PMC{one.rstrip('/').rpartition('/')[2].removeprefix('PMC')}" for one in every},
        "arxiv": {normal_arxiv(one) for one in every} | {(normal_doi(one) or "").removeprefix("10.48550/arxiv.") for one in every},
        "openalex": {one.rpartition("/")[2].upper() for one in every},
    }
    for scheme, value in ids.pairs():
        assert value in normal[scheme], scheme
    for url in (paper.url, paper.metadata.get("open_access_url")):
        assert url is None or url in every


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_property_no_damage_crashes_and_nothing_is_made_up(data: st.DataObject) -> None:
    response = damaged(WORK, data.draw, data.draw(st.integers(0, 12)))
    if (paper := parse_paper(response)) is not None:
        assert_values_occur(paper, response)
        assert RECORD.validate_json(RECORD.dump_json(paper)).doc_id == paper.doc_id
        assert paper.content_hash()
    openalex_records.parse_score(response)


@recorded_only
def test_property_recorded_works_say_their_links_and_identifiers() -> None:
    for _, response in recordings():
        for one in works_in(response):
            paper = parse_paper(one)
            assert paper is not None
            assert_values_occur(paper, one)


# Requests


async def test_a_search_requests_the_fields_it_reads_in_order_of_relevance() -> None:
    with serving(lambda _: as_json(listed(work(1), work(2)))) as server:
        source = openalex(server.base_url)
        answer = await source.search(
            query(keywords=("otters", "in", "Rivers"), constraints=Constraints(years=NumberRange(min=2020, max=2022)))
        )
        request = server.requests[0]
    _: Source = source
    assert (request.method, request.path) == ("GET", "/works")
    assert request.query == {
        "search": "otters rivers",
        "sort": "relevance_score:desc",
        "filter": "from_publication_date:2020-01-01,to_publication_date:2022-12-31",
        "select": f"{FIELDS},relevance_score",
        "per_page": "10",
        "page": "1",
    }
    assert [scored.record.doc_id for scored in answer.results] == ["openalex:W1", "openalex:W2"]
    assert [scored.score for scored in answer.results] == [999.0, 998.0]
    assert (answer.total, answer.status, answer.message) == (2, "", "")


async def test_no_constraint_is_no_filter_and_no_key_is_no_parameter() -> None:
    with serving(lambda _: as_json(listed(work(1)))) as server:
        await openalex(server.base_url).search(query())
    assert not {"filter", "api_key", "mailto"} & set(server.requests[0].query)


async def test_the_key_is_sent_with_each_request_and_shown_nowhere() -> None:
    with serving(lambda _: refusal(400, "your key k3y-of-mine is odd")) as server:
        source = openalex(server.base_url, key="k3y-of-mine")
        with pytest.raises(SourceUnavailable) as caught:
            await source.search(query())
    assert server.requests[0].query["api_key"] == "k3y-of-mine"
    assert "k3y-of-mine" not in str(caught.value) + repr(source)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"keywords": ("graph neural networks", "drug discovery")}, ["graph", "neural", "networks", "drug", "discovery"]),
        ({"keywords": ("COVID-19", "NOT", "state-of-the-art?")}, ["covid-19", "state-of-the-art"]),
        ({"keywords": ('"deep" learning*', "(deep)", "Alzheimer's")}, ["deep", "learning", "alzheimer"]),
        ({"text": "the who"}, ["the", "who"]),
        ({"keywords": ("हिन्दी भाषा", "日本語")}, ["हिन्दी", "भाषा", "日本語"]),
        ({"text": "?!", "keywords": ("~", "*")}, []),
    ],
)
def test_words_that_mean_nothing_but_themselves(fields: dict[str, Any], words: list[str]) -> None:
    assert search_words(query(**fields)) == words


async def test_of_many_words_the_first_are_sent_and_this_is_reported() -> None:
    with serving(lambda _: as_json(listed(work(1)))) as server:
        answer = await openalex(server.base_url).search(query("one1 two2 three3 four4 five5 six6 seven7 eight8"))
    assert server.requests[0].query["search"] == "one1 two2 three3 four4 five5 six6"
    assert "first 6 of 8 words" in answer.message


@pytest.mark.parametrize("fields", [{"text": " "}, {"text": "?"}, {"limit": 0}])
async def test_an_empty_query_is_not_sent(fields: dict[str, Any]) -> None:
    with serving(lambda _: as_json(listed(work(1)))) as server:
        answer = await openalex(server.base_url).search(query(**fields))
    assert answer.results == ()
    assert server.requests == []


def paged(total: int, count: int | None = None) -> Any:
    """A service that reports `total` works and returns `count` of them."""
    works = [work(number) for number in range(1, (total if count is None else count) + 1)]

    def handler(request: Request) -> Answer:
        page, size = int(request.query["page"]), int(request.query["per_page"])
        return as_json(listed(*works[(page - 1) * size : page * size], count=total))

    return handler


@pytest.mark.parametrize(
    ("limit", "total", "pages", "count"), [(100, 500, 1, 100), (150, 500, 2, 150), (200, 120, 2, 120), (200, 80, 1, 80), (50, 0, 1, 0)]
)
async def test_as_many_pages_as_needed(limit: int, total: int, pages: int, count: int) -> None:
    with serving(paged(total)) as server:
        answer = await openalex(server.base_url).search(query(limit=limit))
    assert len(server.requests) == pages
    assert [scored.record.doc_id for scored in answer.results] == [f"openalex:W{number}" for number in range(1, count + 1)]
    assert (answer.total, answer.status) == (total, "")


async def test_without_a_key_two_pages_are_the_most() -> None:
    with serving(paged(300)) as server:
        assert len((await openalex(server.base_url).search(query(limit=300))).results) == 200
        assert len((await openalex(server.base_url, key="k").search(query(limit=300))).results) == 300
    assert len(server.requests) == 2 + 3


async def test_a_page_that_fails_costs_itself_only() -> None:
    whole = paged(500)
    first = threading.Event()
    limited = replace(FAULTS["429, Retry-After"], release=first)  # an earlier refusal would stop the other pages

    def answer_page(request: Request) -> Answer:
        if request.query["page"] != "1":
            return limited
        first.set()
        return whole(request)

    with serving(answer_page) as server:
        answer = await openalex(server.base_url).search(query(limit=200))
    assert (len(answer.results), answer.total, answer.status) == (100, 500, "partial")
    assert answer.message.startswith("1 of 2 pages could not be loaded: openalex answered 429")
    assert answer.retry_at == pytest.approx(time.time() + 3600, abs=30)


async def test_a_page_that_hangs_does_not_lose_those_that_came() -> None:
    whole = paged(500)
    began = time.monotonic()
    with serving(lambda request: whole(request) if request.query["page"] == "1" else FAULTS["timeout"]) as server:
        answer = await openalex(server.base_url).search(query(limit=200, within_s=1.5))
    assert (len(answer.results), answer.status) == (100, "partial")
    assert time.monotonic() - began < 1.5 + BUSY_S


@pytest.mark.parametrize(("total", "count", "status"), [(500, 130, "partial"), (500, 0, "partial"), (3, 100, "")])
async def test_a_total_that_disagrees_with_the_pages_is_reported(total: int, count: int, status: str) -> None:
    works = paged(500, count)
    with serving(lambda request: as_json({**json.loads(works(request).body), "meta": {"count": total}})) as server:
        answer = await openalex(server.base_url).search(query(limit=200))
    assert (len(answer.results), answer.total, answer.status) == (count, total, status)
    assert f"reports {total} works and returned {count}" in answer.message


async def test_a_work_without_a_title_is_omitted_and_counted() -> None:
    with serving(lambda _: as_json(listed(work(1), work(2, title=None), 7, work(4)))) as server:
        answer = await openalex(server.base_url).search(query())
    assert [scored.record.doc_id for scored in answer.results] == ["openalex:W1", "openalex:W4"]
    assert "2 without a title" in answer.message


async def test_scores_are_its_own_or_ranks_but_not_both() -> None:
    with serving(lambda _: as_json(listed(work(1), work(2, relevance_score=None), work(1)))) as server:
        answer = await openalex(server.base_url).search(query())
    assert [scored.score for scored in answer.results] == [1.0, 0.5]


async def test_a_low_budget_is_reported() -> None:
    headers = {"X-RateLimit-Remaining-USD": "0.004", "X-RateLimit-Limit-USD": "0.1", "X-RateLimit-Remaining": "40"}
    with serving(lambda _: as_json(listed(work(1)), headers=headers)) as server:
        answer = await openalex(server.base_url).search(query())
    assert "0.0040 USD of the day's 0.1 USD are left" in answer.message


async def test_an_earlier_answer_has_its_age(tmp_path: Path) -> None:
    now = [1_000_000.0]
    caller = Caller(DiskCache(tmp_path, clock=lambda: now[0]))
    replies = [as_json(listed(work(1))), FAULTS["429, Retry-After"]]
    with serving(lambda _: replies.pop(0)) as server:
        source = openalex(server.base_url, caller=caller)
        assert (await source.search(query())).status == ""
        now[0] += 600
        cached = await source.search(query())
        now[0] += 7_200
        stale = await source.search(query())
    assert (cached.status, cached.message) == ("cached", "from the cache, 10 min old")
    assert (stale.status, len(stale.results)) == ("stale", 1)
    assert stale.message.endswith("is unavailable; this is its response of 2 h ago")


# One work


@pytest.mark.parametrize(
    ("scheme", "value", "target"),
    [
        ("doi", "https://doi.org/10.1000/A(b)/../c?d#e", "/works/doi:10.1000%2Fa%28b%29%2F..%2Fc%3Fd%23e"),
        ("pmid", "29456894", "/works/pmid:29456894"),
        ("openalex", "https://openalex.org/w7", "/works/W7"),
        ("arxiv", "arXiv:2108.04680v2", "/works/doi:10.48550%2Farxiv.2108.04680"),
        ("arxiv", "hep-th/9901001", "/works/doi:10.48550%2Farxiv.hep-th%2F9901001"),
    ],
)
async def test_one_work_by_its_identifier(scheme: str, value: str, target: str) -> None:
    with serving(lambda _: as_json(WORK)) as server:
        record = await openalex(server.base_url).get(scheme, value, 30.0)
    assert record is not None
    assert record.doc_id == "openalex:W7"
    assert server.requests[0].target.partition("?")[0] == target
    assert server.requests[0].query == {"select": FIELDS}


@pytest.mark.parametrize(
    ("scheme", "value"),
    [("doi", "no doi"), ("openalex", "A5"), ("openalex", "W1/../.."), ("isbn", "9780306406157"), ("pmid", "x"), ("pmid", "9" * 5000)],
)
async def test_an_invalid_identifier_is_not_requested(scheme: str, value: str) -> None:
    with serving(lambda _: as_json(WORK)) as server:
        assert await openalex(server.base_url).get(scheme, value, 30.0) is None
    assert server.requests == []


async def test_a_work_it_does_not_have_is_none() -> None:
    with serving(lambda _: as_text("<!doctype html><title>404 Not Found</title>", "text/html", 404)) as server:
        assert await openalex(server.base_url).get("doi", "10.1000/none", 30.0) is None


async def test_many_works_by_their_identifiers_with_one_call() -> None:
    """In the requested form; filter syntax and invalid identifiers are omitted."""
    works = [{**WORK, "doi": "https://doi.org/10.1000/a"}, {**work(9), "doi": "https://doi.org/10.48550/arXiv.2108.04680"}]
    with serving(lambda _: as_json({"meta": {"count": 2, "page": 1, "per_page": 100}, "results": works})) as server:
        source = openalex(server.base_url)
        by_doi = await source.get_many("doi", ["https://doi.org/10.1000/A", "10.1000/b,c", "no doi", "10.1000/d"], 30.0)
        by_number = await source.get_many("arxiv", ["2108.04680v2"], 30.0)
        assert await source.get_many("doi", ["10.1000/a|b"], 30.0) == {}
    assert {value: paper.doc_id for value, paper in by_doi.items()} == {"https://doi.org/10.1000/A": "openalex:W7"}
    assert {value: paper.doc_id for value, paper in by_number.items()} == {"2108.04680v2": "openalex:W9"}
    assert [request.query["filter"] for request in server.requests] == ["doi:10.1000/a|10.1000/d", "doi:10.48550/arxiv.2108.04680"]


async def test_a_merged_work_is_followed_to_its_id_and_nowhere_else() -> None:
    def handler(request: Request) -> Answer:
        moved = Answer(status=301, headers={"Location": "http://127.0.0.1:9/elsewhere/W9?x=1"})
        return moved if request.path == "/works/W7" else as_json(work(9))

    with serving(handler) as server:
        record = await openalex(server.base_url).get("openalex", "W7", 30.0)
    assert record is not None
    assert record.doc_id == "openalex:W9"
    assert [request.path for request in server.requests] == ["/works/W7", "/works/W9"]


async def test_sent_round_in_circles_is_malformed() -> None:
    with serving(lambda _: Answer(status=301, headers={"Location": "/works/W7"})) as server, pytest.raises(Malformed):
        await openalex(server.base_url).get("openalex", "W7", 30.0)
    assert len(server.requests) == 2


@pytest.mark.parametrize("response", [{}, [], {"error": "x"}, {"id": "https://openalex.org/A1"}])
async def test_one_work_of_another_shape_is_malformed(response: Any) -> None:
    with serving(lambda _: as_json(response)) as server, pytest.raises(Malformed):
        await openalex(server.base_url).get("openalex", "W7", 30.0)


async def test_sent_to_something_else_is_malformed() -> None:
    with serving(lambda _: Answer(status=301, headers={"Location": "https://example.org/login"})) as server, pytest.raises(Malformed):
        await openalex(server.base_url).get("openalex", "W7", 30.0)
    assert len(server.requests) == 1


# What goes wrong there

AT_ONCE = Caller(jitter=lambda: 0.0)
"""It tries again without a pause, so that the last try is as good as the first."""


@pytest.mark.parametrize("fault", FAULTS)
async def test_each_fault_is_its_own_error_in_time(fault: str) -> None:
    began = time.monotonic()
    with serving(lambda _: FAULTS[fault]) as server, pytest.raises(EXPECTED_ERRORS[fault]) as caught:
        await openalex(server.base_url, caller=AT_ONCE).search(query(within_s=1.5))
    assert time.monotonic() - began < 0.4 + BUSY_S
    assert type(caught.value) is EXPECTED_ERRORS[fault]
    assert "openalex" in str(caught.value) or server.base_url in str(caught.value)


async def test_a_refusal_with_status_200_has_its_reason_without_the_key_and_is_not_cached(tmp_path: Path) -> None:
    refused = as_json({"error": "Invalid query parameters error.", "message": "api_key=k3y-of-mine: wildcards require exact search"})
    replies = [refused, as_json(listed(work(1)))]
    with serving(lambda _: replies.pop(0)) as server:
        source = openalex(server.base_url, "k3y-of-mine", Caller(DiskCache(tmp_path)))
        with pytest.raises(Malformed, match="wildcards require exact search") as caught:
            await source.search(query())
        assert len((await source.search(query())).results) == 1
    assert "k3y" not in str(caught.value)
