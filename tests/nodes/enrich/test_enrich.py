from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from outrider.nodes.enrich.enrich import ORIGIN, Enrich
from outrider.nodes.enrich.lookup_by_identifier import plan_lookups
from outrider.settings.model import CoarseFilterSettings, EnrichSettings, RunSettings
from outrider.sources.web.link_identifiers import find_identifiers
from outrider.state.errors import (
    Forbidden,
    LibraryBusy,
    LibraryCorrupt,
    LibraryReadOnly,
    Malformed,
    RateLimited,
    SearchError,
    SourceError,
    SourceUnavailable,
)
from outrider.state.hits import Candidate
from outrider.state.intent import PlannedQuery, SearchStrategy
from outrider.state.pipeline import PipelineState
from outrider.state.ports import Capabilities, Detailed, SourceAnswer, SourceQuery
from outrider.state.records import Identifiers, Page, Paper, Record, Repository
from outrider.state.response import SourceReport
from support.fakes import NOON, candidate, doi, make_found_by, paper
from support.patience import BUSY_S

TITLE = "Lysis of bacteria by phages of the gut"
ABSTRACT = "Phages lyse bacteria."
Kind = Literal["html", "text", "pdf", "doi"]


@dataclass
class Service:
    """A source that knows works by identifier."""

    name: str
    works: Mapping[tuple[str, str], Record | SearchError] = field(default_factory=dict)
    schemes: frozenset[str] = frozenset({"doi"})
    delay_s: float = 0.0
    timeout_s: float = 10.0
    strategies: tuple[str, ...] = ("relevance",)
    lookups: list[tuple[str, str]] = field(default_factory=list)

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(frozenset({"paper"}), self.schemes)

    async def search(self, query: SourceQuery) -> SourceAnswer:
        raise AssertionError("nobody searches here")

    async def get(self, scheme: str, value: str, within_s: float) -> Record | None:
        self.lookups.append((scheme, value))
        await asyncio.sleep(self.delay_s)
        answer = self.works.get((scheme, value))
        if isinstance(answer, SearchError):
            raise answer
        return answer


@dataclass(frozen=True)
class Read:
    page: Page
    kind: Kind = "html"


@dataclass
class Reader:
    pages: Mapping[str, Read | SourceError | Exception] = field(default_factory=dict)
    delay_s: float = 0.0
    lookups: list[str] = field(default_factory=list)
    cancelled: int = 0

    async def fetch(self, url: str, within_s: float) -> Read:
        self.lookups.append(url)
        try:
            await asyncio.sleep(self.delay_s)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        answer = self.pages.get(url, SourceUnavailable(f"{url} answered 404"))
        if isinstance(answer, Exception):
            raise answer
        return answer


@dataclass
class Shelf:
    """A `Keeper` in memory."""

    records: dict[str, Record] = field(default_factory=dict)
    error: SearchError | None = None
    delay_s: float = 0.0
    writes: int = 0

    async def keep(self, records: Sequence[Record], renewed: Callable[[Record, Record | None], Record]) -> tuple[int, int]:
        await asyncio.sleep(self.delay_s)
        if self.error:
            raise self.error
        whole = {record.doc_id: renewed(record, self.records.get(record.doc_id)) for record in records}
        changed = [doc_id for doc_id, record in whole.items() if record is not self.records.get(doc_id)]
        new = sum(doc_id not in self.records for doc_id in changed)
        self.writes += bool(changed)
        self.records |= whole
        return new, len(changed) - new


@dataclass
class Describer:
    """A `Detailer`."""

    name: str = "github"
    delay_s: float = 0.0
    lookups: list[str] = field(default_factory=list)

    async def details(self, records: Sequence[Repository], within_s: float) -> Detailed:
        self.lookups += [record.doc_id for record in records]
        await asyncio.sleep(self.delay_s)
        described = tuple(record.model_copy(update={"text": f"README of {record.title}"}) for record in records)
        return Detailed(described, len(records), len(records), "ok", "as far as the limit allows", retry_at=NOON)


LIBRARY = Service("library", schemes=frozenset({"doi"}))
NOBODY = Service("openalex", schemes=frozenset())


def page(url: str, title: str = TITLE, **fields: Any) -> Candidate:
    record = Page(doc_id=f"web:{url}", title=title, url=url, source="web", identifiers=find_identifiers(url), **fields)
    return candidate(record, found_by=(make_found_by(source="web", strategy="duckduckgo"),))


def work(doc_id: str = "crossref:1", title: str = TITLE, by: str = "crossref", **fields: Any) -> Candidate:
    return candidate(paper(doc_id, title, **{"source": by, **fields}), found_by=(make_found_by(source=by, strategy="relevance"),))


def fetched(url: str, kind: Kind = "html", **fields: Any) -> Read:
    return Read(Page(doc_id=f"web:{url}", url=url, source="web", **{"title": TITLE, **fields}), kind)


def prepared(
    *candidates: Candidate,
    sources: Sequence[Any] = (NOBODY,),
    reader: Reader | None = None,
    keeper: Shelf | None = None,
    detailers: Sequence[Describer] = (),
    named: tuple[str, ...] | None = None,
    run_timeout_s: float = 25.0,
    top_k: int = 10,
    **budgets: Any,
) -> tuple[Enrich, PipelineState]:
    everybody = (LIBRARY, *sources)
    node = Enrich(
        everybody,
        {one.name: one for one in detailers},
        reader or Reader(),
        find_identifiers,
        keeper,
        EnrichSettings(**budgets),
        CoarseFilterSettings(),
        RunSettings(run_timeout_s=run_timeout_s),
        lambda: NOON,
    )
    strategy = SearchStrategy(
        queries=(PlannedQuery(text="x", keywords=("x",), boolean_query="x"),),
        sources=named or tuple(source.name for source in everybody),
        strategies=(),
    )
    row = SourceReport(source="crossref", strategy="relevance", asked=9, status="ok")
    state = PipelineState(query="x", started_at=NOON, top_k=top_k)
    return node, state.model_copy(update={"strategy": strategy, "candidates": candidates, "sources": (row,)})


async def enriched(*candidates: Candidate, **fields: Any) -> Any:
    node, state = prepared(*candidates, **fields)
    return await node(state, None)  # type: ignore[arg-type]


def rows(update: Any) -> dict[str, SourceReport]:
    return {row.strategy: row for row in update["sources"][1:]}


def records(update: Any) -> list[Record]:
    return [one.record for one in update["candidates"]]


def tellers(record: Record | SearchError, *names: str, scheme: str = "doi", value: str = "10.1000/a") -> list[Service]:
    return [Service(name, {(scheme, value): record}, frozenset({scheme})) for name in names]


FULL = paper(
    "openalex:W1", TITLE, abstract=ABSTRACT, year=2020, source="openalex", identifiers=doi("10.1000/a"), url="https://doi.org/10.1000/a"
)


async def test_an_abstract_comes_by_the_identifier_and_names_its_source() -> None:
    (one,) = records(await enriched(work(identifiers=doi("10.1000/a")), sources=tellers(FULL, "openalex")))
    assert (one.doc_id, one.abstract, one.year, one.url) == ("crossref:1", ABSTRACT, 2020, "https://doi.org/10.1000/a")
    assert one.metadata["filled_from"] == {"abstract": "openalex", "year": "openalex", "url": "openalex"}


async def test_a_link_with_a_doi_is_looked_up_and_never_fetched() -> None:
    reader, url = Reader(), "https://publisher.example/doi/10.1000/a"
    update = await enriched(page(url, f"{TITLE} | Publisher"), sources=tellers(FULL, "openalex"), reader=reader)
    assert (records(update)[0].abstract, records(update)[0].url, reader.lookups) == (ABSTRACT, url, [])
    assert (rows(update)["identifiers"].status, rows(update)["identifiers"].returned) == ("ok", 1)
    assert (await enriched(page(url), reader=reader))["candidates"][0].record.abstract == ""
    assert reader.lookups == []  # no source to call is no reason to fetch it


async def test_the_source_of_a_work_is_not_called_again_and_the_next_only_where_the_first_has_no_abstract() -> None:
    bare = FULL.model_copy(update={"abstract": ""})
    crossref, pubmed = tellers(FULL, "crossref", "pubmed")
    openalex, scholar = *tellers(bare, "openalex"), *tellers(FULL, "semantic_scholar")
    await enriched(work(identifiers=doi("10.1000/a")), sources=[crossref, scholar, pubmed, openalex])
    assert [len(source.lookups) for source in (crossref, openalex, scholar, pubmed)] == [0, 1, 1, 0]


def test_the_source_with_most_abstracts_is_called_first_and_each_once() -> None:
    known = Identifiers(doi="10.1000/a", pmid="1", arxiv="2101.00001")
    schemes = {"crossref": ["doi"], "third": ["doi"], "semantic_scholar": ["doi", "arxiv", "pmid"], "arxiv": ["arxiv"]}
    schemes |= {"pubmed": ["pmid", "doi"], "openalex": ["doi", "pmid"]}
    sources = [Service(name, schemes=frozenset(known)) for name, known in schemes.items()]
    order = [(one.source.name, one.scheme) for one in plan_lookups(sources, known, frozenset())]
    assert order == [
        ("openalex", "doi"),
        ("pubmed", "pmid"),
        ("arxiv", "arxiv"),
        ("semantic_scholar", "doi"),
        ("crossref", "doi"),
        ("third", "doi"),
    ]
    only_doi = [one.source.name for one in plan_lookups(sources, doi("10.1000/a"), frozenset({"openalex"}))]
    assert only_doi == ["semantic_scholar", "crossref", "third", "pubmed"]


async def test_a_service_that_fails_costs_only_its_own_call() -> None:
    broken = tellers(RateLimited("wait"), "openalex")
    update = await enriched(work(identifiers=doi("10.1000/a")), sources=[*broken, *tellers(FULL, "semantic_scholar")])
    assert records(update)[0].abstract == ABSTRACT
    row = rows(update)["identifiers"]
    assert (row.source, row.asked, row.returned, row.status) == ("enrich", 1, 1, "partial")
    assert row.message == "at most 100 works in 6 s, 3 s without news; openalex rate-limited (1)"
    alone = rows(await enriched(work(identifiers=doi("10.1000/a")), sources=broken))["identifiers"]
    assert (alone.returned, alone.status) == (0, "rate_limited")


async def test_an_identifier_of_another_work_adds_nothing() -> None:
    """Supplements of a conference share one DOI, and a page may claim any."""
    other = FULL.model_copy(update={"title": "Bread and wine in Roman Gaul"})
    url = "https://pages.example/a"
    reader = Reader({url: fetched(url, text="Buy!", identifiers=doi("10.1000/a"))})
    update = await enriched(page(url), work("s2:1", url=url, identifiers=doi("10.1000/a")), sources=tellers(other, "openalex"))
    assert [one.abstract for one in records(update)] == ["", ""]
    update = await enriched(page(url), sources=tellers(other, "openalex"), reader=reader)
    (one,) = records(update)
    assert (one.text, one.identifiers.doi, one.metadata.get("declared")) == ("Buy!", None, None)
    assert "1 with another title" in rows(update)["identifiers"].message


async def test_a_page_gives_text_and_identifiers_and_these_the_abstract() -> None:
    url = "https://pages.example/a"
    reader = Reader({url: fetched(url, text="Long text.", authors=("A. Frost",), identifiers=doi("10.1000/a"))})
    update = await enriched(page(url), sources=tellers(FULL, "openalex"), reader=reader)
    (one,) = records(update)
    assert (one.text, one.authors, one.abstract, one.identifiers.doi) == ("Long text.", ("A. Frost",), ABSTRACT, "10.1000/a")
    assert one.metadata["filled_from"]["abstract"] == "openalex"
    assert {name: (row.asked, row.returned, row.status) for name, row in rows(update).items()} == {
        "identifiers": (1, 1, "ok"),
        "pages": (1, 1, "ok"),
    }


@pytest.mark.parametrize("answer", [fetched("https://lab.example/a", text=ABSTRACT), Forbidden("it answered 403")])
async def test_finds_with_one_link_share_one_visit(answer: Read | SourceError) -> None:
    """A search engine gave it as a page, a catalogue as a paper: the page is fetched once, and both have its values."""
    reader = Reader({"https://lab.example/a": answer}, delay_s=0.01)
    update = await enriched(page("https://lab.example/a"), work(url="https://lab.example/a"), reader=reader)
    assert reader.lookups == ["https://lab.example/a"]
    assert [bool(record.text) for record in records(update)] == [isinstance(answer, Read)] * 2


async def test_a_link_that_leads_to_a_doi_is_looked_up() -> None:
    url = "https://short.example/a"
    reader = Reader({url: fetched("https://doi.org/10.1000/a", "doi", title="", identifiers=doi("10.1000/a"))})
    (one,) = records(await enriched(page(url), sources=tellers(FULL, "openalex"), reader=reader))
    assert (one.abstract, one.url, one.text) == (ABSTRACT, url, "")


async def test_a_paper_takes_nothing_of_a_page_with_another_title() -> None:
    """A login, a consent, a captcha."""
    url = "https://publisher.example/a"
    reader = Reader({url: fetched(url, title="Just a moment...", text="Are you a robot?", identifiers=doi("10.1000/a"))})
    update = await enriched(work(url=url), reader=reader)
    assert (records(update)[0].text, records(update)[0].identifiers.doi) == ("", None)
    assert "1 with another title" in rows(update)["pages"].message


FAMOUS = paper("openalex:W9", "Attention is all you need", abstract="Famous.", source="openalex", identifiers=doi("10.1000/a"))


@pytest.mark.parametrize("abstract", ["", "Pills!"])
@pytest.mark.parametrize(
    ("answer", "lookups", "declared"),
    [(FAMOUS, 20, False), (SourceUnavailable("down"), 20, True), (RateLimited("later"), 20, True), (FULL, 0, True)],
)
async def test_an_unconfirmed_identifier_is_not_used(answer: Record | SearchError, lookups: int, declared: bool, abstract: str) -> None:
    """Whether the page has an abstract or not, the service contradicts, is down, or may not be called."""
    url = "https://pages.example/a"
    reader, keeper = Reader({url: fetched(url, text="Buy!", abstract=abstract, identifiers=doi("10.1000/a"))}), Shelf()
    update = await enriched(page(url), sources=tellers(answer, "openalex"), reader=reader, lookups=lookups, keeper=keeper)
    for one in (*records(update), *keeper.records.values()):
        assert (one.identifiers.pairs(), one.text, one.metadata.get("declared")) == ((), "Buy!", {"doi": "10.1000/a"} if declared else None)
    assert ("1 with an identifier that nobody confirmed" in rows(update)["pages"].message) == declared


async def test_an_identifier_that_a_service_confirms_is_taken_with_the_pages_own_abstract() -> None:
    url = "https://pages.example/a"
    reader = Reader({url: fetched(url, abstract="As on the page.", identifiers=doi("10.1000/a"))})
    (one,) = records(await enriched(page(url), sources=tellers(FULL, "openalex", "crossref"), reader=reader))
    assert (one.abstract, one.identifiers.doi) == ("As on the page.", "10.1000/a")
    assert one.metadata["filled_from"]["identifiers.doi"] == "openalex"


async def test_another_page_confirms_nothing() -> None:
    url, other = "https://pages.example/a", "https://evil.example/doi/10.1000/a"
    reader = Reader({url: fetched(url, text="Buy!", identifiers=doi("10.1000/a"))})
    update = await enriched(page(url), page(other), reader=reader)
    assert [one.identifiers.doi for one in records(update)] == [None, "10.1000/a"]


async def test_a_page_gives_a_paper_its_text_and_never_its_abstract() -> None:
    url = "https://publisher.example/a"
    reader, keeper = Reader({url: fetched(url, text="The body.", abstract="Buy!")}), Shelf()
    (one,) = records(await enriched(work(url=url), reader=reader, keeper=keeper))
    assert (one.abstract, one.text, one.metadata["filled_from"]) == ("", "Buy!\n\nThe body.", {"text": "web"})
    assert keeper.records == {}


async def test_a_work_whose_text_is_a_pages_lacks_an_abstract() -> None:
    had = work(identifiers=doi("10.1000/a"), text="Of a page.", metadata={"filled_from": {"text": "web"}})
    own = work("crossref:2", identifiers=doi("10.1000/b"), text="Of Crossref.")
    (openalex,) = tellers(FULL, "openalex")
    first, _ = records(await enriched(had, own, sources=[openalex]))
    assert (first.abstract, first.text, openalex.lookups) == (ABSTRACT, "Of a page.", [("doi", "10.1000/a")])


@pytest.mark.parametrize("title", ["Sign in - Example SSO", "pages.example is for sale", ""])
async def test_nothing_of_a_page_that_is_not_the_finds_is_taken_or_kept(title: str) -> None:
    """A login, a parked domain."""
    url = "https://pages.example/a"
    reader, keeper = Reader({url: fetched(url, title=title, text="Please sign in.", identifiers=doi("10.1000/a"))}), Shelf()
    update = await enriched(page(url), sources=tellers(FULL, "openalex"), reader=reader, keeper=keeper)
    assert records(update) == [page(url).record]
    assert (rows(update)["pages"].returned, keeper.records) == (0, {})
    assert "1 with another title" in rows(update)["pages"].message


async def test_a_plain_text_needs_no_title() -> None:
    url = "https://pages.example/a.txt"
    (one,) = records(await enriched(page(url), reader=Reader({url: fetched(url, "text", title="", text="Plain.")})))
    assert (one.title, one.text) == (TITLE, "Plain.")


async def test_an_identifier_that_a_page_gave_makes_one_work_of_two() -> None:
    url = "https://pages.example/a"
    reader = Reader({url: fetched(url, text="Long text.", identifiers=doi("10.1000/a"))})
    first = work("openalex:W1", by="openalex", abstract=ABSTRACT, identifiers=doi("10.1000/a"))
    update = await enriched(page(url), first, reader=reader)
    (one,) = update["candidates"]
    assert (one.record.doc_id, one.record.text, update["total_candidates"]) == ("openalex:W1", "Long text.", 1)
    assert [fold.doc_id for fold in one.duplicates] == [f"web:{url}"]


async def test_failing_pages_cost_themselves_and_are_counted_by_reason() -> None:
    links = [f"https://pages.example/{number}" for number in range(6)]
    answers = {
        links[0]: Forbidden("robots.txt of pages.example does not allow it"),
        links[1]: Forbidden("robots.txt of pages.example does not allow it"),
        links[2]: Malformed("image/png"),
        links[3]: fetched(links[3], "pdf"),
        links[4]: fetched(links[4], text="Text."),
    }
    update = await enriched(*(page(link) for link in links), reader=Reader(answers))
    row = rows(update)["pages"]
    assert (row.asked, row.returned, row.status) == (6, 1, "partial")
    assert row.message == (
        "at most 10 pages in 6 s, 3 s without news; 2 not allowed by robots.txt; 1 a PDF, which is not read; 1 could not be reached; "
        "1 could not be read"
    )


@pytest.mark.parametrize(
    "url",
    [
        "https://openalex.org/W1",
        "https://www.semanticscholar.org/paper/1",
        "https://github.com/a/b",
        "https://[::1",
        "https://x.example/10.1000/a",
    ],
)
async def test_a_page_that_adds_nothing_to_its_service_is_not_fetched(url: str) -> None:
    reader = Reader()
    assert rows(await enriched(page(url), reader=reader)) == {}
    assert reader.lookups == []


async def test_a_bug_in_a_reader_is_no_status_and_leaves_no_task_behind() -> None:
    bad, slow = "https://pages.example/bad", "https://pages.example/slow"
    with pytest.raises(KeyError):
        await enriched(page(bad), page(slow), reader=Reader({bad: KeyError("bug"), slow: fetched(slow)}))
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_of_lookups_the_best_finds_come_first_whatever_they_are() -> None:
    openalex, url = Service("openalex"), "https://x.example/doi/10.1000/web"
    await enriched(work(identifiers=doi("10.1000/best")), page(url), sources=[openalex], lookups=1)
    assert openalex.lookups == [("doi", "10.1000/best")]


async def test_budgets_leave_out_the_last_and_pages_come_before_papers() -> None:
    links = [f"https://pages.example/{number}" for number in range(3)]
    reader = Reader({link: fetched(link, text="Text.") for link in links})
    by_link = [work(f"s2:{number}", url=f"https://papers.example/{number}") for number in range(2)]
    numbered = [work(f"crossref:{number}", identifiers=doi(f"10.1000/{number}")) for number in range(3)]
    openalex = Service("openalex")
    update = await enriched(*by_link, *numbered, *map(page, links), sources=[openalex], reader=reader, pages=4, lookups=2)
    assert reader.lookups == [*links, "https://papers.example/0"]
    assert openalex.lookups == [("doi", "10.1000/0"), ("doi", "10.1000/1")]
    report = rows(update)
    assert ("1 left out (enrich.pages)" in report["pages"].message, report["pages"].asked) == (True, 4)
    assert ("1 left out (enrich.lookups)" in report["identifiers"].message, report["identifiers"].asked) == (True, 2)


async def test_what_came_is_used_when_time_is_over() -> None:
    quick, slow = "https://pages.example/quick", "https://pages.example/slow"

    class Uneven(Reader):
        async def fetch(self, url: str, within_s: float) -> Read:
            self.delay_s = 600.0 if url == slow else 0.0
            return await super().fetch(url, within_s)

    reader, began = Uneven({quick: fetched(quick, text="Text.")}), time.monotonic()
    update = await enriched(page(quick), page(slow), reader=reader, time_s=0.3)
    assert time.monotonic() - began < 0.3 + BUSY_S
    assert [one.text for one in records(update)] == ["Text.", ""]
    row = rows(update)["pages"]
    assert (row.status, row.returned) == ("partial", 1)
    assert "1 given up (enrich.time_s)" in row.message
    assert reader.cancelled == 1


async def test_nothing_for_too_long_ends_it() -> None:
    reader = Reader(delay_s=30.0)
    update = await enriched(page("https://pages.example/a"), reader=reader, idle_s=0.2)
    row = rows(update)["pages"]
    assert (row.status, reader.cancelled) == ("timeout", 1)
    assert "1 given up (enrich.idle_s)" in row.message


async def test_a_service_that_hangs_leaves_time_to_the_next() -> None:
    """With the default budgets: the next one is called before nothing came for too long."""
    openalex, scholar = tellers(FULL, "openalex", "semantic_scholar")
    openalex.delay_s, began = 3_600.0, time.monotonic()
    update = await enriched(*(work(f"crossref:{at}", identifiers=doi("10.1000/a")) for at in range(3)), sources=[openalex, scholar])
    assert time.monotonic() - began < EnrichSettings().idle_s
    assert [one.abstract for one in records(update)] == [ABSTRACT] * 3
    row = rows(update)["identifiers"]
    assert (row.status, row.returned) == ("partial", 3)
    assert "openalex did not answer in time (3)" in row.message


async def test_a_service_that_is_given_up_is_news() -> None:
    """Three that hang, one after another, take longer than `idle_s`, and the fourth is still called."""
    hanging, (last,) = tellers(FULL, "openalex", "semantic_scholar", "third"), tellers(FULL, "fourth")
    for one in hanging:
        one.delay_s = 3_600.0
    update = await enriched(work(identifiers=doi("10.1000/a")), sources=[*hanging, last], idle_s=0.8)
    assert (records(update)[0].abstract, len(last.lookups)) == (ABSTRACT, 1)


async def test_what_was_given_up_took_all_the_time() -> None:
    reader, openalex = Reader(delay_s=600.0), Service("openalex", delay_s=600.0)
    update = await enriched(
        page("https://pages.example/a"), work(identifiers=doi("10.1000/a")), sources=[openalex], reader=reader, time_s=0.3, idle_s=600.0
    )
    assert all(300 <= rows(update)[name].took_ms < 300 + 1_000 * BUSY_S for name in ("identifiers", "pages"))


async def test_a_rate_limited_source_is_not_called_again() -> None:
    """The searches of others want it."""

    class Limited(Service):
        async def get(self, scheme: str, value: str, within_s: float) -> Record | None:
            await super().get(scheme, value, within_s)
            raise RateLimited("used up")

    class Uneven(Service):
        async def get(self, scheme: str, value: str, within_s: float) -> Record | None:
            self.delay_s += 0.05
            return await super().get(scheme, value, within_s)

    openalex, scholar = Uneven("openalex"), Limited("semantic_scholar")
    works = [work(f"crossref:{at}", identifiers=doi(f"10.1000/{at}")) for at in range(5)]
    first = page("https://pages.example/a")
    reader = Reader({"https://pages.example/a": fetched("https://pages.example/a", identifiers=doi("10.1000/z"))}, delay_s=0.3)
    update = await enriched(*works, first, sources=[openalex, scholar], reader=reader)
    assert len(scholar.lookups) == 1
    row = rows(update)["identifiers"]
    assert (row.asked, row.status) == (6, "rate_limited")
    assert "semantic_scholar rate-limited (6)" in row.message


async def test_most_of_the_runs_time_is_left_to_scoring() -> None:
    began = time.monotonic()
    await enriched(page("https://pages.example/a"), reader=Reader(delay_s=600.0), run_timeout_s=5.0, idle_s=600.0)
    assert 1.9 < time.monotonic() - began < 2.0 + BUSY_S  # two fifths, and what a busy machine adds


async def test_cancelled_it_leaves_nothing_behind() -> None:
    reader, openalex, describer = Reader(delay_s=30.0), Service("openalex", delay_s=30.0), Describer(delay_s=30.0)
    github = Service("github", schemes=frozenset())
    repository = candidate(
        Repository(doc_id="github:a/b", title="b", source="github", stars=99), found_by=(make_found_by(source="github"),)
    )
    candidates = (page("https://pages.example/a"), work(identifiers=doi("10.1000/a")), repository)
    running = asyncio.create_task(enriched(*candidates, sources=[openalex, github], reader=reader, detailers=[describer]))
    async with asyncio.timeout(60):
        while not (reader.lookups and openalex.lookups and describer.lookups):  # noqa: ASYNC110 - lists of the stand-ins
            await asyncio.sleep(0.01)
    assert (len(reader.lookups), len(openalex.lookups), len(describer.lookups)) == (1, 1, 1)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert asyncio.all_tasks() == {asyncio.current_task()}


def repository(number: int, **fields: Any) -> Candidate:
    record = Repository(doc_id=f"github:x/{number}", title=f"x{number}", **{"source": "github", "stars": 100, **fields})
    return candidate(record, found_by=(make_found_by(source="github", strategy="stars"),))


async def test_repositories_that_would_be_scored_are_looked_at() -> None:
    describer = Describer()
    others = [repository(100, updated_at="2020-01-01"), repository(101, archived=True), repository(102, source="library")]
    those = [*others, *(repository(number) for number in range(30))]
    update = await enriched(*those, sources=[Service("github", schemes=frozenset())], detailers=[describer])
    assert describer.lookups == [f"github:x/{number}" for number in range(24)]  # of 25 that break no rule one is the library's own
    assert [one.record.doc_id for one in update["candidates"]] == [one.record.doc_id for one in those]
    assert [bool(one.record.text) for one in update["candidates"]] == [False] * 3 + [True] * 24 + [False] * 6
    row = rows(update)["details"]
    assert (row.source, row.asked, row.returned, row.status, row.message) == ("github", 24, 24, "ok", "as far as the limit allows")
    assert row.retry_at == "2026-09-21T14:13:20+00:00"


async def test_as_many_repositories_as_hits_are_requested() -> None:
    describer = Describer()
    await enriched(*map(repository, range(40)), sources=[Service("github", schemes=frozenset())], detailers=[describer], top_k=30)
    assert len(describer.lookups) == 30


async def test_a_slow_look_at_repositories_is_a_status() -> None:
    update = await enriched(
        repository(1), sources=[Service("github", schemes=frozenset())], detailers=[Describer(delay_s=30.0)], time_s=0.2
    )
    assert (rows(update)["details"].status, records(update)[0].text) == ("timeout", "")


async def test_the_library_alone_costs_nothing() -> None:
    keeper = Shelf()
    candidates = (page("https://pages.example/a"), work(identifiers=doi("10.1000/a")))
    assert await enriched(*candidates, sources=(), keeper=keeper) == {}
    assert await enriched(*candidates, sources=tellers(FULL, "openalex"), named=("library",), keeper=keeper) == {}
    assert await enriched(*candidates, sources=tellers(FULL, "openalex"), enabled=False, keeper=keeper) == {}
    assert keeper.writes == 0


async def test_only_sources_that_the_request_names_are_called() -> None:
    openalex, scholar = tellers(FULL, "openalex", "semantic_scholar")
    keeper = Shelf()
    await enriched(work(identifiers=doi("10.1000/a")), sources=[openalex, scholar], named=("semantic_scholar",), keeper=keeper)
    assert (openalex.lookups, scholar.lookups, keeper.writes) == ([], [("doi", "10.1000/a")], 0)


async def test_abstracts_of_services_are_kept_with_who_found_them() -> None:
    url = "https://pages.example/a"
    mine = candidate(paper("mine", "My own", abstract="Mine."), found_by=(make_found_by(), make_found_by(source="openalex")))
    complete = candidate(paper("s2:9", "Kept before", abstract="Old.", source="semantic_scholar"), found_by=(make_found_by(),))
    repo = candidate(Repository(doc_id="github:a/b", text="README", source="github"), found_by=(make_found_by(source="github"),))
    bare = work("crossref:2", "Nobody knows what it says")
    keeper = Shelf()
    those = (page(url), work(abstract=ABSTRACT), mine, complete, repo, bare)
    update = await enriched(*those, reader=Reader({url: fetched(url, text="Text.")}), keeper=keeper)
    assert {doc_id: (one.source, one.origin) for doc_id, one in keeper.records.items()} == {
        f"web:{url}": ("web", ORIGIN),
        "crossref:1": ("crossref", ORIGIN),
    }
    row = rows(update)["keep"]
    assert (row.source, row.asked, row.returned, row.status, row.message) == ("library", 2, 2, "ok", "2 new")
    assert rows(await enriched(work(abstract=ABSTRACT), keeper=Shelf(), keep=False)) == {}


async def test_what_the_library_holds_already_is_not_written() -> None:
    keeper = Shelf()
    known_work = work(abstract=ABSTRACT, citations=3, metadata={"type": "article"}, authors=("A. Frost",))
    await enriched(known_work, keeper=keeper)
    again = await enriched(known_work, keeper=keeper)
    assert (keeper.writes, rows(again)["keep"].message) == (1, "1 unchanged")


async def test_newer_figures_replace_kept_ones_and_what_is_left_out_stays() -> None:
    long = "Text. " * 2_000
    before = paper(
        "crossref:1",
        TITLE,
        abstract=ABSTRACT,
        text=long,
        citations=3,
        year=2020,
        source="crossref",
        origin="list.bib",
        edges=({"relation": "cites", "target": "doi:10.1/x"},),
    )
    keeper = Shelf({"crossref:1": before})
    update = await enriched(work(abstract=ABSTRACT, text=long[:4_000], citations=5), keeper=keeper)
    now = keeper.records["crossref:1"]
    assert (now.citations, now.year, now.text, now.edges, now.origin) == (5, 2020, long, before.edges, "list.bib")
    assert rows(update)["keep"].message == "1 changed"


async def test_a_record_of_the_users_own_is_never_overwritten() -> None:
    own = paper("crossref:1", "My notes on it", abstract="Mine.")
    keeper = Shelf({"crossref:1": own})
    await enriched(work(abstract=ABSTRACT), keeper=keeper)
    assert (keeper.records, keeper.writes) == ({"crossref:1": own}, 0)


@pytest.mark.parametrize(
    ("error", "status"),
    [(LibraryBusy("busy"), "timeout"), (LibraryReadOnly("may not"), "forbidden"), (LibraryCorrupt("torn"), "unavailable")],
)
async def test_a_library_that_cannot_be_written_costs_one_row(error: SearchError, status: str) -> None:
    update = await enriched(work(abstract=ABSTRACT), keeper=Shelf(error=error))
    row = rows(update)["keep"]
    assert (row.status, row.returned, row.message) == (status, 0, f"not kept: {error}")
    assert len(update["candidates"]) == 1


async def test_a_slow_library_does_not_hold_up_the_answer() -> None:
    began = time.monotonic()
    update = await enriched(work(abstract=ABSTRACT), keeper=Shelf(delay_s=600.0), run_timeout_s=1.0)
    row = rows(update)["keep"]
    assert (row.status, row.returned, time.monotonic() - began < 1 + BUSY_S) == ("partial", 0, True)
    assert row.message.startswith("being kept: it takes more than ")


LINKS = [f"https://pages.example/{name}" for name in "abc"] + [f"https://pub.example/doi/10.1000/{name}" for name in "abc"]
DOIS = [f"10.1000/{name}" for name in "abc"]
TITLES = [TITLE, "Bread and wine in Roman Gaul", ""]
identified = some.builds(
    Identifiers, doi=some.none() | some.sampled_from(DOIS), arxiv=some.none() | some.sampled_from(["2101.00001", "2101.00002"])
)
titled: dict[str, Any] = {"title": some.sampled_from(TITLES), "identifiers": identified, "url": some.none() | some.sampled_from(LINKS)}
answers = some.builds(
    Paper, doc_id=some.just("openalex:W"), source=some.just("openalex"), abstract=some.sampled_from(["", "Said."]), **titled
)
Build = Callable[..., Any]


@settings(max_examples=60, deadline=None)
@given(
    some.lists(some.tuples(some.sampled_from([Paper, Page]), some.fixed_dictionaries(titled)), max_size=5),
    some.dictionaries(some.sampled_from([("doi", name) for name in DOIS] + [("arxiv", "2101.00001")]), answers, max_size=4),
    some.dictionaries(
        some.sampled_from(LINKS),
        some.tuples(
            some.sampled_from(["html", "pdf", "doi"]), some.fixed_dictionaries({"title": titled["title"], "identifiers": identified})
        ),
        max_size=4,
    ),
)
def test_every_link_and_identifier_comes_from_somebodys_answer(
    builds: list[tuple[Build, dict[str, Any]]], works: dict[tuple[str, str], Paper], pages: dict[str, tuple[Kind, dict[str, Any]]]
) -> None:
    """And no link with a DOI is fetched, no abstract is another title's, no candidate is lost but into another."""
    reader = Reader({url: fetched(url, kind, **fields) for url, (kind, fields) in pages.items()})
    inputs = [
        candidate(build(doc_id=f"x:{number}", source="x", **fields), found_by=(make_found_by(source="x", rank=number + 1),))
        for number, (build, fields) in enumerate(builds)
    ]
    update = asyncio.run(enriched(*inputs, sources=[Service("openalex", works, frozenset({"doi", "arxiv"}))], reader=reader))
    origins = [*(one.record for one in inputs), *works.values(), *(one.page for one in reader.pages.values())]  # type: ignore[union-attr]
    if not inputs:
        assert update == {}
        return
    for record in records(update):
        assert record.url is None or record.url in {one.url for one in origins}
        assert {*record.identifiers.pairs()} <= {pair for one in origins for pair in one.identifiers.pairs()}
        if record.abstract:
            assert record.title in {one.title for one in works.values() if one.abstract}
    assert not [url for url in reader.lookups if "/10." in url]
    folded = [doc_id for one in update["candidates"] for doc_id in (one.record.doc_id, *(fold.doc_id for fold in one.duplicates))]
    assert sorted(folded) == [one.record.doc_id for one in inputs]


async def test_without_the_world_it_takes_no_time() -> None:
    """The bound of the whole graph leaves room for no more than a fifth of a millisecond; the best of many."""
    node, state = prepared(*(work(f"x:{number}") for number in range(100)), sources=())
    took_s = []
    for _ in range(20):
        began = time.thread_time()
        assert await node(state, None) == {}  # type: ignore[arg-type]
        took_s.append(time.thread_time() - began)
    assert min(took_s) < 0.0002
