from __future__ import annotations

import json
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.linkage.identifiers import normal_arxiv, normal_doi
from outrider.settings.sections import ArxivSettings
from outrider.sources.arxiv import NAME, Arxiv, build_query, build_search_answer, format_date_range, parse_page, select_terms
from outrider.sources.http.cache import DiskCache
from outrider.sources.http.client import Caller
from outrider.sources.http.service import Reply
from outrider.state.errors import Malformed, SearchError, SourceError
from outrider.state.intent import Constraints, NumberRange
from outrider.state.ports import Source, SourceAnswer, SourceQuery
from outrider.state.records import Paper
from support.http_server import FAULTS, Answer, Request, as_bytes, as_text, refusal, serving
from support.patience import BUSY_S
from support.shared_data import DATA

RECORDED = DATA / "recorded" / "arxiv_fixtures"
recorded = pytest.mark.skipif(not RECORDED.is_dir(), reason="needs the recorded answers in ../shared/data (OUTRIDER_DATA)")

HEAD = (
    '<?xml version="1.0" encoding="UTF-8"?><feed xmlns="http://www.w3.org/2005/Atom" xmlns:arxiv="http://arxiv.org/schemas/atom"'
    ' xmlns:opensearch="http://a9.com/-/spec/opensearch/1.1/">'
)
ENTRY = """<entry>
  <id>http://arxiv.org/abs/2101.00001v3</id>
  <title>Ice
    that  floats: $a&lt;b$ and \u00c5ngstr\u00f6m</title>
  <updated>2022-05-06T07:08:09Z</updated>
  <published>2021-01-02T03:04:05Z</published>
  <link href="https://arxiv.org/abs/2101.00001v3" rel="alternate" type="text/html"/>
  <link href="https://arxiv.org/pdf/2101.00001v3" rel="related" type="application/pdf" title="pdf"/>
  <link href="https://doi.org/10.1000/ABC" rel="related" title="doi"/>
  <summary>  It floats.
  </summary>
  <category term="physics.flu-dyn" scheme="http://arxiv.org/schemas/atom"/>
  <category term="cs.LG" scheme="http://arxiv.org/schemas/atom"/>
  <category term="cs.LG" scheme="http://arxiv.org/schemas/atom"/>
  <arxiv:primary_category term="physics.flu-dyn"/>
  <arxiv:comment>3 pages</arxiv:comment>
  <arxiv:journal_ref>J. Ice 12 (2021) 1-9</arxiv:journal_ref>
  <arxiv:doi>10.1000/ABC</arxiv:doi>
  <author><name>A. Frost</name><arxiv:affiliation>North</arxiv:affiliation></author>
  <author><name>B. Snow</name></author>
</entry>"""
ERROR = """<entry><id>{site}/api/errors#{kind}</id><title>Error</title><summary>{why}</summary>
  <author><name>arXiv api core</name></author></entry>"""


def feed(*entries: str, total: object = None) -> str:
    count = f"<opensearch:totalResults>{len(entries) if total is None else total}</opensearch:totalResults>"
    return HEAD + count + "".join(entries) + "</feed>"


def numbered(number: int) -> str:
    return f"<entry><id>http://arxiv.org/abs/2102.{number:05}v1</id><title>Paper {number}</title></entry>"


def as_feed(*entries: str, total: object = None, status: int = 200) -> Answer:
    return as_text(feed(*entries, total=total), "application/atom+xml", status)


def reply(body: str | bytes, status: int = 200) -> Reply:
    return Reply("https://export.arxiv.org/api/query", status, {}, body.encode() if isinstance(body, str) else body)


def read(body: str | bytes, status: int = 200, limit: int = 100) -> SourceAnswer:
    page_reply = reply(body, status)
    return build_search_answer(parse_page(page_reply), page_reply, limit)


def source(base_url: str, caller: Caller | None = None) -> Arxiv:
    return Arxiv.of(ArxivSettings(base_url=base_url, requests=1_000.0, timeout_s=30.0), caller or Caller())


def query(*keywords: str, limit: int = 100, text: str = "", **fields: Any) -> SourceQuery:
    return SourceQuery(text, "relevance", None, limit, keywords=keywords, **{"within_s": 30.0, **fields})


# records


def test_an_entry_becomes_a_record():
    (scored,) = read(feed(ENTRY)).results
    assert scored.record == Paper(
        doc_id="arxiv:2101.00001",
        source=NAME,
        title="Ice that floats: $a<b$ and \u00c5ngstr\u00f6m",
        abstract="It floats.",
        url="https://arxiv.org/abs/2101.00001v3",
        identifiers={"arxiv": "2101.00001", "doi": "10.1000/abc"},
        authors=("A. Frost", "B. Snow"),
        year=2021,
        tags=("physics.flu-dyn", "cs.LG"),
        metadata={
            "published": "2021-01-02T03:04:05Z",
            "updated": "2022-05-06T07:08:09Z",
            "version": 3,
            "primary_category": "physics.flu-dyn",
            "comment": "3 pages",
            "journal_ref": "J. Ice 12 (2021) 1-9",
            "pdf_url": "https://arxiv.org/pdf/2101.00001v3",
        },
    )


@pytest.mark.parametrize(
    ("address", "identifier", "version"),
    [
        ("http://arxiv.org/abs/1707.08567v12", "1707.08567", 12),
        ("https://arxiv.org/abs/1707.08567", "1707.08567", None),
        ("http://arxiv.org/abs/astro-ph/0601001v1", "astro-ph/0601001", 1),
        ("http://arxiv.org/abs/math.GT/0309136", "math.gt/0309136", None),
    ],
)
def test_identifiers_of_both_forms_with_and_without_version(address: str, identifier: str, version: int | None):
    (scored,) = read(feed(f"<entry><id>{address}</id></entry>")).results
    assert (scored.record.doc_id, scored.record.identifiers.arxiv) == (f"arxiv:{identifier}", identifier)
    assert scored.record.metadata.get("version") == version
    assert scored.record.url == address


def test_an_entry_without_an_identifier_is_counted_and_omitted():
    answer = read(feed(ENTRY, "<entry><title>Who am I?</title></entry>", "<entry><id>http://elsewhere.org/1</id></entry>"))
    assert (len(answer.results), answer.message) == (1, "2 without a title")


@pytest.mark.parametrize("site", ["http://arxiv.org", "https://arxiv.org", "http://export.arxiv.org"])
@pytest.mark.parametrize("status", [200, 400])
def test_an_error_in_a_feed_is_reported_in_its_words(site: str, status: int):
    error = ERROR.format(site=site, kind="max_results_must_be_an_integer", why="max_results must be an integer")
    with pytest.raises(Malformed, match="max_results must be an integer"):
        read(feed(error), status)


@pytest.mark.parametrize(
    "body",
    [
        "",
        "<html><body>Rate exceeded.</body></html>",
        "<!doctype html><p>down<br>",
        feed(ENTRY)[:-200],
        "{}",
        '<!DOCTYPE feed [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><feed xmlns="http://www.w3.org/2005/Atom"><entry><id>&b;</id></entry></feed>',
        '<!DOCTYPE feed [<!ENTITY x SYSTEM "file:///etc/passwd">]><feed xmlns="http://www.w3.org/2005/Atom"><id>&x;</id></feed>',
        '<?xml version="1.0" encoding="no-such"?><feed/>',
        b"\xff\xfe\x00\x00",
    ],
)
def test_anything_but_a_feed_is_malformed(body: str | bytes):
    with pytest.raises(Malformed, match="Atom feed"):
        read(body)


def test_a_refusal_without_a_reason_is_malformed():
    with pytest.raises(Malformed, match="400"):
        read(feed(), 400)


def elements(root: ET.Element) -> Iterator[tuple[ET.Element, ET.Element]]:
    for parent in root.iter():
        yield from ((parent, child) for child in parent)


JUNK = st.sampled_from(["", " ", "x", "-1", "9" * 5_000, "10.1/x", "http://[", "javascript:alert(1)", "v3", "2021", "\u202e\x85", "NaN"])


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A feed of which parts are gone, empty, doubled, or hold something else."""
    root = ET.fromstring(feed(ENTRY, ENTRY.replace("2101.00001", "2101.00002"), total=2))
    for _ in range(draw(st.integers(1, 8))):
        every = list(elements(root))
        if not every:
            break
        parent, child = draw(st.sampled_from(every))
        match draw(st.sampled_from(["remove", "empty", "text", "attribute", "name", "double"])):
            case "remove":
                parent.remove(child)
            case "empty":
                child.text = None
                child.attrib.clear()
            case "text":
                child.text = draw(JUNK)
            case "attribute":
                child.attrib |= {name: draw(JUNK) for name in list(child.attrib)}
            case "name":
                child.tag = draw(st.sampled_from(["entry", "{http://www.w3.org/2005/Atom}entry", "id", "other"]))
            case "double" if len(every) < 200:
                parent.append(child)
    return ET.tostring(root)


def named_in(body: bytes) -> set[str]:
    """Everything that the feed could name, in normal form."""
    every = {text for one in ET.fromstring(body).iter() for text in ("".join(one.itertext()), *one.attrib.values())}
    every |= {" ".join(text.split()) for text in every}
    normal = {form(text) for form in (normal_doi, normal_arxiv) for text in every}
    return every | {one for one in normal if one}


def links_and_identifiers(paper: Paper) -> set[str]:
    named = {value for _, value in paper.identifiers.pairs()} | {paper.doc_id.removeprefix(f"{NAME}:")}
    return named | {link for link in (paper.url, paper.metadata.get("pdf_url")) if isinstance(link, str)}


@settings(max_examples=300, deadline=None)
@given(damaged())
def test_every_link_and_identifier_stands_in_the_answer_it_came_from(body: bytes):
    try:
        answer = read(body)
    except Malformed:
        return
    for one in answer.results:
        assert isinstance(one.record, Paper)
        assert links_and_identifiers(one.record) <= named_in(body)
        one.record.content_hash()  # can be written down


# the recorded answers


@cache
def fixtures() -> dict[str, tuple[int, str]]:
    """Status and body of every recorded answer, by request."""
    read_in = {path.stem.rpartition("_")[0]: json.loads(path.read_text(encoding="utf-8")) for path in sorted(RECORDED.glob("*.json"))}
    return {name: (one["status_code"], one["body"]) for name, one in read_in.items()}


@recorded
def test_every_recorded_answer_can_be_read():
    assert len(fixtures()) == 20
    for name, (status, body) in fixtures().items():
        if status == 400:
            with pytest.raises(Malformed, match="incorrect id format for abc"):
                read(body, status)
            continue
        answer = read(body, status)
        assert len(answer.results) == body.count("<entry>"), name
        for one in answer.results:
            assert isinstance(one.record, Paper)
            assert one.record.title
            assert one.record.abstract
            assert one.record.authors
            assert one.record.year
            assert links_and_identifiers(one.record) <= named_in(body.encode()), name


@recorded
def test_recorded_papers_have_their_real_values():
    (hot,) = read(fixtures()["id_astro-ph_0601001_s0_m100"][1]).results
    assert hot.record.doc_id == "arxiv:astro-ph/0601001"
    assert hot.record.title.startswith("Frequency of Hot Jupiters and Very Hot Jupiters from the OGLE-III")
    assert (hot.record.year, hot.record.tags, hot.record.authors[0]) == (2006, ("astro-ph",), "Andrew Gould")
    assert hot.record.metadata["journal_ref"] == "ActaAstron.56:1-50,2006"
    assert "V_max<17.5" in hot.record.abstract
    (zero,) = read(fixtures()["id_2104.12255v1_s0_m100"][1]).results
    assert (zero.record.title, zero.record.year) == ("0", 2021)
    many = read(fixtures()["q_testing_s0_m100"][1])
    assert (len(many.results), many.total, many.status) == (100, 214_881, "")
    assert (
        sum(one.record.identifiers.doi is not None for one in many.results) == fixtures()["q_testing_s0_m100"][1].count("<arxiv:doi>") > 20
    )


@recorded
async def test_a_recorded_wrong_identifier_is_nothing():
    status, body = fixtures()["id_abc_s0_m100"]
    async with serving(lambda _: as_text(body, "application/atom+xml", status)) as server:
        assert await source(server.base_url).get("arxiv", "0000.00000", 30.0) is None
        with pytest.raises(Malformed, match="incorrect id format for abc"):
            await source(server.base_url).search(query("ice"))


@recorded
@pytest.mark.parametrize(
    ("name", "value", "identifier"),
    [
        ("id_1605.08386_s0_m100", "https://arxiv.org/abs/1605.08386v1", "1605.08386"),
        ("id_quant-ph_0201082v1_s0_m100", "quant-ph/0201082", "quant-ph/0201082"),
        ("id_0000.0000_s0_m100", "arXiv:0000.0000", "0000.0000"),
    ],
)
async def test_a_recorded_paper_is_got_by_its_identifier(name: str, value: str, identifier: str):
    async with serving(lambda _: as_text(fixtures()[name][1], "application/atom+xml")) as server:
        paper = await source(server.base_url).get("arxiv", value, 30.0)
    assert server.requests[0].query == {"id_list": identifier, "max_results": "1"}
    assert (paper.doc_id if paper else None) == (None if identifier == "0000.0000" else f"arxiv:{identifier}")


# requests


async def test_a_search_is_one_request_in_the_order_of_relevance():
    async with serving(lambda _: as_feed(ENTRY, numbered(1))) as server:
        search_query = query("Large Language Models", "imaging", limit=20, constraints=Constraints(years=NumberRange(min=2022, max=2024)))
        answer = await source(server.base_url).search(search_query)
    (request,) = server.requests
    assert (request.method, request.path) == ("GET", "/api/query")
    assert request.query == {
        "search_query": '(all:"large language models" AND all:imaging) AND submittedDate:[202201010000 TO 202412312359]',
        "sortBy": "relevance",
        "sortOrder": "descending",
        "start": "0",
        "max_results": "20",
    }
    assert (answer.total, answer.status, [one.score for one in answer.results]) == (2, "", [1.0, 0.5])


async def test_however_many_are_wanted_it_is_one_request():
    async with serving(lambda _: as_feed(numbered(1), total=100_000)) as server:
        answer = await source(server.base_url).search(query("ice", limit=100_000))
    assert [one.query["max_results"] for one in server.requests] == ["500"]
    assert (answer.status, answer.message) == ("partial", "it reports 100000 and returned 1")


async def test_no_request_without_words_or_before_the_service_existed():
    async with serving(lambda _: as_feed(ENTRY)) as server:
        arxiv = source(server.base_url)
        for empty in (query(), query("", "?!"), query(text="   ")):
            assert (await arxiv.search(empty)).results == ()
        old = await arxiv.search(query("ice", constraints=Constraints(years=NumberRange(max=1980))))
        assert await arxiv.get("doi", "10.1000/x", 30.0) is None
        assert await arxiv.get("arxiv", "../../etc", 30.0) is None
    assert (old.results, old.message) == ((), "it has no papers from before 1991")
    assert server.requests == []


async def test_words_of_the_text_stand_in_for_keywords():
    async with serving(lambda _: as_feed(ENTRY)) as server:
        await source(server.base_url).search(query(text="the physics of ice"))
    assert server.requests[0].query["search_query"] == "all:physics AND all:ice"


@pytest.mark.parametrize(
    ("keywords", "terms"),
    [
        (("Ice", "ice", "ICE"), ("ice",)),
        (("the", "state of the art", "of", "ice"), ('"state of the art"', "ice")),
        (("GPT-4", 'say "hi" OR (all:x)'), ('"gpt 4"', '"say hi or all x"')),
        (("AND", "NOT", "submittedDate:[1 TO 2]"), ('"submitteddate 1 to 2"',)),
        (("to", "be"), ("to", "be")),
        (("\u6df1\u5ea6\u5b66\u4e60",), ("\u6df1\u5ea6\u5b66\u4e60",)),
        (tuple("abcdefghij"), ("b", "c", "e", "f", "g", "h")),
        (("", "--"), ()),
    ],
)
def test_terms_are_plain_words_and_phrases(keywords: tuple[str, ...], terms: tuple[str, ...]):
    assert select_terms(keywords) == terms


@pytest.mark.parametrize(
    ("terms", "text"),
    [
        ((), ""),
        (("a1",), "all:a1"),
        (("a1", "b1", '"c d"'), 'all:a1 AND all:b1 AND all:"c d"'),
        (
            ("p", "q", "r", "u"),
            "(all:p AND all:q) OR (all:p AND all:r) OR (all:p AND all:u) OR (all:q AND all:r) OR (all:q AND all:u) OR (all:r AND all:u)",
        ),
    ],
)
def test_few_terms_must_all_match_and_two_of_many(terms: tuple[str, ...], text: str):
    assert build_query(terms) == text


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [
        (None, None, ""),
        (2020, 2020, "submittedDate:[202001010000 TO 202012312359]"),
        (2020, None, "submittedDate:[202001010000 TO 209912312359]"),
        (None, 2020, "submittedDate:[199101010000 TO 202012312359]"),
        (0, 99_999, "submittedDate:[199101010000 TO 209912312359]"),
        (None, 1990, None),
        (2021, 2020, None),
    ],
)
def test_years_are_those_of_the_first_version(low: int | None, high: int | None, text: str | None):
    assert format_date_range(NumberRange(min=low, max=high)) == text


async def test_an_old_identifier_is_requested_without_its_subject_class():
    async with serving(lambda _: as_feed()) as server:
        assert await source(server.base_url).get("arxiv", "math.GT/0309136v2", 30.0) is None
    assert server.requests[0].query["id_list"] == "math/0309136"


async def test_the_default_limits_leave_three_seconds_between_requests():
    service = Arxiv.of(ArxivSettings(), Caller()).service
    assert (service.requests, service.per_s, service.at_once) == (1, 3, 1)


# what can go wrong


@pytest.mark.parametrize("fault", sorted(FAULTS))
async def test_every_fault_is_one_error_of_ours_in_time(fault: str):
    started = time.monotonic()
    async with serving(lambda _: FAULTS[fault]) as server:
        arxiv = source(server.base_url)
        with pytest.raises(SourceError) as error:
            await arxiv.search(query("ice", within_s=1.5))
        with pytest.raises(SearchError):
            await arxiv.get("arxiv", "2101.00001", 0.3)
    assert time.monotonic() - started < 0.7 + BUSY_S
    assert str(error.value)


async def test_half_a_feed_is_malformed_and_an_empty_page_is_reported():
    async with serving(lambda _: as_bytes(feed(ENTRY, ENTRY).encode()[:-300])) as server:
        with pytest.raises(Malformed):
            await source(server.base_url).search(query("ice"))
    async with serving(lambda _: as_feed(total=214_881)) as server:  # arXiv is known to answer so for minutes
        answer = await source(server.base_url).search(query("ice"))
    assert (answer.results, answer.status, answer.message) == ((), "partial", "it reports 214881 and returned 0")


@pytest.mark.parametrize("total", ["", "many", "-1", "9" * 5_000])
async def test_a_total_that_is_no_number_is_none(total: str):
    assert read(feed(ENTRY, total=total)).total is None


async def test_results_over_the_limit_are_cut():
    async with serving(lambda _: as_feed(*map(numbered, range(9)))) as server:
        answer = await source(server.base_url).search(query("ice", limit=4))
    assert (len(answer.results), answer.total, answer.status) == (4, 9, "")


async def test_an_older_response_is_used_and_its_age_is_reported(tmp_path: Path):
    now = [1_000_000.0]
    up = [True]

    def handler(_: Request) -> Answer:
        return as_feed(ENTRY) if up[0] else refusal(503, headers={"Retry-After": "60"})

    async with serving(handler) as server:
        arxiv = source(server.base_url, Caller(DiskCache(tmp_path, clock=lambda: now[0])))
        assert (await arxiv.search(query("ice"))).status == ""
        now[0] += 600
        cached = await arxiv.search(query("ice"))
        up[0], now[0] = False, now[0] + 7_200
        stale = await arxiv.search(query("ice", within_s=1.5))
    assert (cached.status, len(cached.results)) == ("cached", 1)
    assert "10 min" in cached.message
    assert (stale.status, len(stale.results)) == ("stale", 1)
    assert "2 h" in stale.message


def test_it_is_a_source():
    arxiv: Source = source("http://127.0.0.1:1")
    assert (arxiv.name, arxiv.strategies) == (NAME, ("relevance",))
    assert (arxiv.capabilities.identifiers, arxiv.capabilities.queries) == ({"arxiv"}, 1)


async def test_many_works_by_their_numbers_in_one_request() -> None:
    """Versions and subject classes are left out, and a number that arXiv does not have is missing."""
    spaces = 'xmlns="http://www.w3.org/2005/Atom" xmlns:opensearch="http://a9.com/-/spec/opensearch/1.1/"'
    entries = "".join(
        f"<entry><id>http://arxiv.org/abs/{number}</id><title>Livers</title></entry>" for number in ("2101.00001v2", "math/0309136v1")
    )
    feed = f"<feed {spaces}><opensearch:totalResults>2</opensearch:totalResults>{entries}</feed>"
    with serving(lambda _: as_text(feed, "application/atom+xml")) as server:
        papers = await source(server.base_url).get_many("arxiv", ["2101.00001v1", "math.GT/0309136", "2101.99999", "nothing"], 30.0)
        assert await source(server.base_url).get_many("doi", ["10.1000/x"], 30.0) == {}
    assert [(value, paper.identifiers.arxiv) for value, paper in papers.items()][:1] == [("2101.00001v1", "2101.00001")]
    assert set(papers) == {"2101.00001v1", "math.GT/0309136"}
    (request,) = server.requests
    assert request.query["id_list"] == "2101.00001,math/0309136,2101.99999"
