from __future__ import annotations

import functools
import gzip
import json
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import SecretStr

from outrider.linkage.identifiers import normal_doi, normal_isbn
from outrider.settings.sections import CrossrefSettings
from outrider.sources import crossref as crossref_records
from outrider.sources.crossref import FIELDS, Crossref, list_works, parse_date, parse_paper, parse_work
from outrider.sources.http.client import Caller
from outrider.state.errors import Malformed, SourceUnavailable
from outrider.state.intent import Constraints, NumberRange
from outrider.state.ports import Source, SourceQuery
from outrider.state.records import RECORD, Paper
from support.damaged_answers import damaged
from support.http_server import EXPECTED_ERRORS, FAULTS, Answer, Request, as_json, as_text, refusal, serving
from support.patience import BUSY_S
from support.shared_data import DATA

RECORDED = DATA / "recorded" / "crossref_habanero"
recorded_only = pytest.mark.skipif(not RECORDED.exists(), reason=f"{RECORDED} is not here; set OUTRIDER_DATA")

WORK: dict[str, Any] = {
    "DOI": "10.1000/ABC",
    "URL": "https://doi.org/10.1000/abc",
    "title": ["On <i>Otters</i>,\n   H<sub>2</sub>O &amp; mud"],
    "subtitle": ["A study"],
    "abstract": "<jats:title>Abstract</jats:title><jats:sec><jats:title>Aim</jats:title><jats:p>Otters\n  (<jats:italic>Lutra"
    "</jats:italic>) swim, p &lt; 0.05.</jats:p></jats:sec><jats:p>Often.</jats:p>",
    "author": [
        {"given": "Ada", "family": "Otter", "sequence": "first", "affiliation": []},
        {"family": "Solo", "sequence": "additional"},
        {"name": "The Otter Group", "sequence": "additional"},
        {"sequence": "additional", "affiliation": []},
    ],
    "issued": {"date-parts": [[2021, 3, 4]]},
    "container-title": ["Journal of Otters &amp; Rivers", "Second title"],
    "publisher": "River Press",
    "type": "journal-article",
    "volume": "6",
    "issue": "2",
    "page": "1-9",
    "is-referenced-by-count": 12,
    "subject": ["Ecology", "Ecology"],
    "ISBN": ["9780306406157"],
    "license": [{"URL": "https://creativecommons.org/licenses/by/4.0/", "content-version": "vor"}],
    "reference": [{"key": "1", "DOI": "10.1000/cited"}],
    "score": 41.5,
    "update-to": [{"DOI": "10.1000/OLD", "type": "correction", "label": "Correction", "updated": {"date-parts": [[2012, 5, 8]]}}],
    "updated-by": [
        {"DOI": "10.1000/notice", "type": "retraction", "source": "retraction-watch", "updated": {"date-parts": [[2022, 1]]}},
        {"DOI": "10.1000/untold"},
        {"type": "retraction"},
    ],
}


def work(number: int, **changes: Any) -> dict[str, Any]:
    return {**WORK, "DOI": f"10.1000/{number}", "score": 1000.0 - number, **changes}


def listed(*works: Any, total: int | None = None) -> dict[str, Any]:
    message = {"facets": {}, "total-results": len(works) if total is None else total, "items": list(works)}
    return {"status": "ok", "message-type": "work-list", "message": message}


def one(message: Any) -> dict[str, Any]:
    return {"status": "ok", "message-type": "work", "message": message}


def crossref(base_url: str, key: str = "", caller: Caller | None = None) -> Crossref:
    config = CrossrefSettings(base_url=base_url, api_key=SecretStr(key), requests=1000, timeout_s=30.0)
    return Crossref.of(config, caller or Caller())


def query(text: str = "ecology of otters", **fields: Any) -> SourceQuery:
    return SourceQuery(text, "relevance", None, **{"limit": 10, "within_s": 30.0, **fields})


# Records


def test_a_work_becomes_a_paper() -> None:
    paper = parse_paper(WORK)
    assert paper is not None
    assert (paper.doc_id, paper.source, paper.title) == ("crossref:10.1000/abc", "crossref", "On Otters, H2O & mud")
    assert paper.abstract == "Aim\nOtters (Lutra) swim, p < 0.05.\nOften."
    assert paper.identifiers.pairs() == (("doi", "10.1000/abc"),)
    assert (paper.authors, paper.year) == (("Ada Otter", "Solo", "The Otter Group"), 2021)
    assert (paper.venue, paper.citations) == ("Journal of Otters & Rivers", 12)
    assert (paper.volume, paper.issue, paper.pages, paper.url) == ("6", "2", "1-9", "https://doi.org/10.1000/abc")
    assert (paper.language, paper.tags) == (None, ("Ecology",))
    assert paper.metadata == {
        "type": "journal-article", "subtitle": "A study", "published": "2021-03-04", "publisher": "River Press",
        "licence": "https://creativecommons.org/licenses/by/4.0/",
        "update_to": [{"type": "correction", "doi": "10.1000/old", "date": "2012-05-08"}],
        "updated_by": [{"type": "retraction", "doi": "10.1000/notice", "date": "2022-01", "source": "retraction-watch"}],
    }  # fmt: skip


def test_what_is_missing_is_missing() -> None:
    assert parse_paper({"DOI": "10.1000/x"}) == Paper(doc_id="crossref:10.1000/x", source="crossref", identifiers={"doi": "10.1000/x"})


@pytest.mark.parametrize("response", [None, [], "10.1000/x", {}, {"DOI": None}, {"DOI": "x"}, {"DOI": ["10.1000/x"]}])
def test_an_item_without_a_doi_is_no_paper(response: Any) -> None:
    assert parse_paper(response) is None


@pytest.mark.parametrize(
    ("parts", "date"),
    [
        ({"date-parts": [[2020, 1, 31]]}, (2020, 1, 31)),
        ({"date-parts": [[2020]]}, (2020,)),
        ({"date-parts": [["2020", "7"]]}, (2020, 7)),
        ({"date-parts": [2020, 7]}, (2020, 7)),
        ({"date-parts": [[2020, 13, 1]]}, (2020,)),
        ({"date-parts": [[2020, None, 1]]}, (2020,)),
        ({"date-parts": [[None]]}, ()),
        ({"date-parts": [[]]}, ()),
        ({"date-parts": []}, ()),
        ({"date-parts": None}, ()),
        ({"date-parts": [[0]]}, ()),
        ({"date-parts": [[True, True]]}, ()),
        ({"date-parts": [["²⁰²⁰"]]}, ()),
        ("2020", ()),
        (None, ()),
    ],
)
def test_dates_in_odd_forms(parts: Any, date: tuple[int, ...]) -> None:
    assert parse_date(parts) == date


def test_the_year_is_of_publication_not_of_registration() -> None:
    work = {"DOI": "10.1000/x", "issued": {"date-parts": [[None]]}, "created": {"date-parts": [[2019]]}}
    posted = {**work, "posted": {"date-parts": [[2018, 2]]}}
    assert [paper.year for response in (work, posted) if (paper := parse_paper(response))] == [None, 2018]


def test_an_isbn_names_a_book_and_not_its_chapters() -> None:
    book, chapter = parse_paper({**WORK, "type": "book"}), parse_paper({**WORK, "type": "book-chapter"})
    assert book is not None
    assert chapter is not None
    assert (book.identifiers.isbn, chapter.identifiers.isbn) == ("9780306406157", None)


def test_a_preprint_stands_on_its_server() -> None:
    paper = parse_paper(
        {"DOI": "10.1101/2020.01.01.1", "type": "posted-content", "subtype": "preprint", "institution": [{"name": "bioRxiv"}]}
    )
    assert paper is not None
    assert (paper.venue, paper.metadata["subtype"]) == ("bioRxiv", "preprint")


@pytest.mark.parametrize(
    ("response", "title"),
    [
        (["A", "B"], "A"),
        (["", "B"], "B"),
        ("A text", "A text"),
        (["Polymer &amp;amp; Science"], "Polymer & Science"),
        (["The &lt;i&gt;ab initio&lt;/i&gt; way"], "The ab initio way"),
        (["a<b and c>d, vector<int>"], "a<b and c>d, vector<int>"),
        (["x<sup>2</sup> of <mml:math><mml:mi>y</mml:mi></mml:math>"], "x2 of y"),
        (["half \ud800 a pair\x00"], "half a pair"),
        ([None, 3], ""),
        (None, ""),
    ],
)
def test_titles_in_odd_forms(response: Any, title: str) -> None:
    paper = parse_paper({"DOI": "10.1000/x", "title": response})
    assert paper is not None
    assert paper.title == title


@pytest.mark.parametrize(
    "response", [[], None, "x", {}, {"message": []}, {"message": {"items": {}}}, {"status": "failed", "message": [{"message": "no"}]}]
)
def test_another_shape_is_malformed(response: Any) -> None:
    with pytest.raises(Malformed):
        list_works(response)
    with pytest.raises(Malformed):
        parse_work(response)


def test_only_fields_that_the_route_accepts_are_selected() -> None:
    """A field beyond these makes every search a 400; the list is from Crossref's own answer to one (3 October 2026)."""
    accepted = """
        abstract URL resource member posted score created degree update-policy short-title license ISSN container-title issued update-to
        issue prefix approved indexed article-number clinical-trial-number accepted author group-title DOI is-referenced-by-count
        updated-by event chair standards-body original-title funder translator published archive published-print alternative-id subject
        subtitle published-online publisher-location content-domain reference title link type publisher volume references-count ISBN
        issn-type assertion deposited page contributor content-created short-container-title relation editor
    """
    assert set(FIELDS) <= set(accepted.split())
    assert "reference" not in FIELDS


# The recorded answers


class Exchange(NamedTuple):
    place: str
    uri: str
    status: int
    body: bytes


@functools.cache
def recordings() -> tuple[Exchange, ...]:
    every: list[Exchange] = []
    for path in sorted(RECORDED.rglob("*.yaml")):
        for exchange in yaml.load(path.read_text(), getattr(yaml, "CSafeLoader", yaml.SafeLoader))["interactions"]:
            content = exchange["response"]["body"]["string"]
            raw = content if isinstance(content, bytes) else content.encode()
            body = gzip.decompress(raw) if raw.startswith(b"\x1f\x8b") else raw
            every.append(Exchange(str(path), exchange["request"]["uri"], exchange["response"]["status"]["code"], body))
    return tuple(every)


def read(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        return None


def works_in(response: Any) -> list[Any]:
    kind = response.get("message-type") if isinstance(response, dict) else None
    return [response["message"]] if kind == "work" else response["message"]["items"] if kind == "work-list" else []


@recorded_only
def test_every_recorded_answer_is_read() -> None:
    assert len(recordings()) >= 120
    lists = 0
    for exchange in recordings():
        response = read(exchange.body)
        kind = response.get("message-type") if isinstance(response, dict) else None
        if kind == "work-list":
            works, total = list_works(response)
            lists += 1
            assert total == response["message"]["total-results"]
            assert len(works) == len(response["message"]["items"])
        elif kind == "work":
            assert parse_work(response).identifiers.doi == response["message"]["DOI"].lower()
        else:  # members, journals, refusals, redirects, BibTeX, HTML
            with pytest.raises(Malformed):
                parse_work(response)
    assert lists > 20


@recorded_only
def test_every_recorded_work_is_read() -> None:
    works = [one for exchange in recordings() for one in works_in(read(exchange.body))]
    assert len(works) > 450
    for recorded_work in works:
        paper = parse_paper(recorded_work)
        assert paper is not None
        assert bool(paper.title) == bool(recorded_work.get("title"))
        assert bool(paper.abstract) == bool(recorded_work.get("abstract"))
        assert "jats:" not in paper.title + paper.abstract
        assert "mml:" not in paper.title + paper.abstract
        assert paper.citations == recorded_work.get("is-referenced-by-count")
        assert paper.year == (recorded_work.get("issued") or recorded_work.get("published") or {"date-parts": [[None]]})["date-parts"][0][0]
        assert "reference" not in paper.metadata
        assert_values_occur(paper, recorded_work)
        assert RECORD.validate_json(RECORD.dump_json(paper)) == paper


@recorded_only
def test_recorded_values() -> None:
    papers = {
        paper.identifiers.doi: paper
        for exchange in recordings()
        for recorded_work in works_in(read(exchange.body))
        if (paper := parse_paper(recorded_work))
    }
    assert papers["10.1371/journal.pone.0033693"].metadata["updated_by"] == [
        {
            "type": "correction",
            "doi": "10.1371/annotation/c76da2c1-ccb8-4797-94c1-359d3ceceeda",
            "date": "2012-05-08",
            "source": "publisher",
        }
    ]
    assert papers["10.1371/journal.pgen.1011490"].metadata["update_to"] == [
        {"type": "new_version", "doi": "10.1371/journal.pgen.1011490", "date": "2024-12-09", "source": "publisher"}
    ]
    assert "Progress in Colloid & Polymer Science" in {paper.venue for paper in papers.values()}
    titles = {paper.title for paper in papers.values()}
    assert "Structure and ion physiology of Brasenia schreberi glandular trichomes in vivo" in titles
    assert "Are giant clams (Tridacna maxima) distractible? A multi-modal study" in titles


def strings(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        for value in node.values():
            yield from strings(value)
    elif isinstance(node, list):
        for value in node:
            yield from strings(value)
    elif isinstance(node, str):
        yield node


def assert_values_occur(paper: Paper, response: Any) -> None:
    """Every link and identifier occurs in the answer, in any of its forms."""
    every = list(strings(response))
    dois = {normal_doi(one) for one in every}
    assert paper.identifiers.doi in dois
    assert paper.identifiers.isbn in {None, *map(normal_isbn, every)}
    for url in (paper.url, paper.metadata.get("licence")):
        assert url is None or url in every
    for name in ("update_to", "updated_by"):
        for update in paper.metadata.get(name, []):  # type: ignore[union-attr]
            assert update["doi"] in dois  # type: ignore[index, call-overload]
            assert update["type"] in every  # type: ignore[index, call-overload]


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_property_no_damage_crashes_and_nothing_is_made_up(data: st.DataObject) -> None:
    response = damaged({**WORK, "type": data.draw(st.sampled_from(["book", "journal-article"]))}, data.draw, data.draw(st.integers(0, 12)))
    if (paper := parse_paper(response)) is not None:
        assert_values_occur(paper, response)
        assert RECORD.validate_json(RECORD.dump_json(paper)).doc_id == paper.doc_id
        assert paper.content_hash()
    crossref_records.parse_score(response)


# Requests


async def test_a_search_requests_the_fields_it_reads_in_order_of_relevance() -> None:
    with serving(lambda _: as_json(listed(work(1), work(2)))) as server:
        source = crossref(server.base_url)
        answer = await source.search(query("ecology  of\notters", constraints=Constraints(years=NumberRange(min=2020, max=2022)), limit=20))
        request = server.requests[0]
    _: Source = source
    assert (request.method, request.path) == ("GET", "/works")
    assert request.query == {
        "query.bibliographic": "ecology of otters",
        "sort": "relevance",
        "order": "desc",
        "rows": "20",
        "select": ",".join(FIELDS),
        "filter": "from-pub-date:2020-01-01,until-pub-date:2022-12-31",
    }
    assert [scored.record.doc_id for scored in answer.results] == ["crossref:10.1000/1", "crossref:10.1000/2"]
    assert [scored.score for scored in answer.results] == [999.0, 998.0]
    assert (answer.total, answer.status, answer.message) == (2, "", "")


async def test_no_constraint_is_no_filter_and_no_key_is_no_header() -> None:
    with serving(lambda _: as_json(listed(work(1)))) as server:
        await crossref(server.base_url, caller=Caller(contact="mailto:me@example.org")).search(query())
    request = server.requests[0]
    assert not {"filter", "mailto"} & set(request.query)
    assert "crossref-plus-api-token" not in request.headers
    assert "mailto:me@example.org" in request.headers["user-agent"]


async def test_the_key_is_sent_with_each_request_and_shown_nowhere() -> None:
    with serving(lambda _: refusal(400, "your key k3y-of-mine is odd")) as server:
        source = crossref(server.base_url, key="k3y-of-mine")
        with pytest.raises(SourceUnavailable) as caught:
            await source.search(query())
    assert server.requests[0].headers["crossref-plus-api-token"] == "Bearer k3y-of-mine"
    assert "k3y-of-mine" not in server.requests[0].target + str(caught.value) + repr(source)


@pytest.mark.parametrize("fields", [{"text": " \n"}, {"limit": 0}])
async def test_an_empty_query_is_not_sent(fields: dict[str, Any]) -> None:
    with serving(lambda _: as_json(listed(work(1)))) as server:
        answer = await crossref(server.base_url).search(query(**fields))
    assert answer.results == ()
    assert server.requests == []


@pytest.mark.parametrize(("limit", "rows"), [(1, "1"), (100, "100"), (5_000, "1000")])
async def test_one_request_brings_all_rows(limit: int, rows: str) -> None:
    with serving(lambda request: as_json(listed(*(work(number) for number in range(int(request.query["rows"]))), total=70_000))) as server:
        answer = await crossref(server.base_url).search(query(limit=limit))
    assert [request.query["rows"] for request in server.requests] == [rows]
    assert (len(answer.results), answer.total, answer.status) == (int(rows), 70_000, "")


async def test_a_long_query_is_cut() -> None:
    with serving(lambda _: as_json(listed(work(1)))) as server:
        await crossref(server.base_url).search(query("otter " * 1_000))
    assert len(server.requests[0].query["query.bibliographic"]) == 500


@pytest.mark.parametrize(("total", "count", "status"), [(500, 6, "partial"), (500, 0, "partial"), (3, 6, ""), (3, 30, "")])
async def test_a_total_that_disagrees_with_the_rows_is_reported(total: int, count: int, status: str) -> None:
    with serving(lambda _: as_json(listed(*(work(number) for number in range(count)), total=total))) as server:
        answer = await crossref(server.base_url).search(query())
    assert (len(answer.results), answer.total, answer.status) == (min(count, 10), total, status)
    assert f"reports {total} works and returned {count}" in answer.message


async def test_an_empty_answer_is_empty() -> None:
    with serving(lambda _: as_json(listed())) as server:
        answer = await crossref(server.base_url).search(query())
    assert (answer.results, answer.total, answer.status, answer.message) == ((), 0, "", "")


async def test_a_work_without_a_title_is_omitted_and_counted() -> None:
    with serving(lambda _: as_json(listed(work(1), work(2, title=[]), 7, work(4)))) as server:
        answer = await crossref(server.base_url).search(query())
    assert [scored.record.doc_id for scored in answer.results] == ["crossref:10.1000/1", "crossref:10.1000/4"]
    assert answer.message == "2 without a title"


# One work


@pytest.mark.parametrize(
    ("value", "target"),
    [
        ("https://doi.org/10.1000/ABC", "/works/10.1000%2Fabc"),
        ("10.1000/a(b)/../c?d#e", "/works/10.1000%2Fa%28b%29%2F..%2Fc%3Fd%23e"),
        ("10.1000/übung", "/works/10.1000%2F%C3%BCbung"),
    ],
)
async def test_one_work_by_its_doi(value: str, target: str) -> None:
    with serving(lambda _: as_json(one(WORK))) as server:
        record = await crossref(server.base_url).get("doi", value, 30.0)
    assert record is not None
    assert record.doc_id == "crossref:10.1000/abc"
    assert server.requests[0].target == target


@pytest.mark.parametrize(("scheme", "value"), [("doi", "no doi"), ("pmid", "29456894"), ("arxiv", "2108.04680")])
async def test_an_invalid_doi_is_not_requested(scheme: str, value: str) -> None:
    with serving(lambda _: as_json(one(WORK))) as server:
        assert await crossref(server.base_url).get(scheme, value, 30.0) is None
    assert server.requests == []


async def test_many_works_by_their_dois_in_one_request() -> None:
    """With their updates; a DOI with a comma, which no filter can hold, is requested by itself."""

    def handler(request: Request) -> Answer:
        if request.path != "/works":
            return as_json(one({**WORK, "DOI": "10.1000/a,b"}))
        items = [WORK, {"DOI": "10.1000/other"}, {"title": ["no DOI"]}]
        return as_json({"status": "ok", "message-type": "work-list", "message": {"total-results": 3, "items": items}})

    with serving(handler) as server:
        papers = await crossref(server.base_url).get_many("doi", ["10.1000/ABC", "10.1000/none", "10.1000/a,b", "no doi"], 30.0)
        assert await crossref(server.base_url).get_many("pmid", ["1"], 30.0) == {}
    assert {value: paper.identifiers.doi for value, paper in papers.items()} == {"10.1000/ABC": "10.1000/abc", "10.1000/a,b": "10.1000/a,b"}
    assert papers["10.1000/ABC"].metadata["updated_by"]
    filters = [request.query["filter"] for request in server.requests if request.path == "/works"]
    assert filters == ["doi:10.1000/abc,doi:10.1000/none"]
    assert len(server.requests) == 2


async def test_a_work_it_does_not_have_is_none() -> None:
    with serving(lambda _: as_text("Resource not found.", status=404)) as server:
        assert await crossref(server.base_url).get("doi", "10.1000/none", 30.0) is None


async def test_another_name_of_a_work_is_followed_to_its_doi_and_nowhere_else() -> None:
    def handler(request: Request) -> Answer:
        moved = Answer(status=301, headers={"Location": "http://127.0.0.1:9/elsewhere/10.1000%2Fabc"})
        return moved if request.path == "/works/10.1000/alias" else as_json(one(WORK))

    with serving(handler) as server:
        record = await crossref(server.base_url).get("doi", "10.1000/alias", 30.0)
    assert record is not None
    assert [request.path for request in server.requests] == ["/works/10.1000/alias", "/works/10.1000/abc"]


async def test_sent_round_in_circles_is_malformed() -> None:
    def handler(request: Request) -> Answer:
        return Answer(status=301, headers={"Location": f"https://api.crossref.org{request.target}"})

    with serving(handler) as server, pytest.raises(Malformed):
        await crossref(server.base_url).get("doi", "10.1000/abc", 30.0)
    assert len(server.requests) == 2


async def test_sent_to_something_else_is_malformed() -> None:
    with serving(lambda _: Answer(status=301, headers={"Location": "https://example.org/login"})) as server, pytest.raises(Malformed):
        await crossref(server.base_url).get("doi", "10.1000/abc", 30.0)
    assert len(server.requests) == 1


# What goes wrong there

AT_ONCE = Caller(jitter=lambda: 0.0)
"""It tries again without a pause, so that the last try is as good as the first."""


@pytest.mark.parametrize("fault", FAULTS)
async def test_each_fault_is_its_own_error_in_time(fault: str) -> None:
    began = time.monotonic()
    with serving(lambda _: FAULTS[fault]) as server, pytest.raises(EXPECTED_ERRORS[fault]) as caught:
        await crossref(server.base_url, caller=AT_ONCE).search(query(within_s=1.5))
    assert time.monotonic() - began < 0.4 + BUSY_S
    assert type(caught.value) is EXPECTED_ERRORS[fault]
    assert "crossref" in str(caught.value) or server.base_url in str(caught.value)


async def test_a_refusal_has_its_reason() -> None:
    response = {
        "status": "failed",
        "message-type": "validation-failure",
        "message": [{"type": "parameter-not-allowed", "message": "no sort here"}],
    }
    with serving(lambda _: as_json(response)) as server, pytest.raises(Malformed, match="no sort here"):
        await crossref(server.base_url).search(query())
