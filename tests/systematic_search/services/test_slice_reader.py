"""Services read to the last hit over their real limits: each record once, all counts checked."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import aclosing
from datetime import UTC, date, datetime
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from outrider.boolean.parser import parse
from outrider.services.systematic import make_remote_sources
from outrider.sources.http.service import Reply, Service
from outrider.state.errors import BadRequest, RateLimited, SourceError, SourceOff, SourceUnavailable, Unauthorized
from outrider.state.systematic import Harvest, MatchedPage, RemoteSource, SentQuery
from outrider.systematic_search.services.slice_reader import ServiceClient
from support import paged_services
from support.fake_services import SERVICES, settings
from support.http_server import Answer, Request, refusal, serving
from support.paged_services import Paged

QUERY = "liver[ti]"
MATCHES = 25_000
LIMITS = count(5)
Answers = Callable[[Request], Answer]


def source(name: str, base_url: str, **fields: Any) -> RemoteSource:
    """One service of that server; no other test shares its limit."""
    remote = make_remote_sources(settings(base_url, Path("unused"), per_s=0.001 * next(LIMITS)), waits.append)[name]
    for field, value in fields.items():
        object.__setattr__(remote, field, value)
    return remote


waits: list[str] = []


async def read(remote: RemoteSource, into: Harvest, query: str = QUERY, after: str = "") -> list[MatchedPage]:
    return [page async for page in remote.harvest(*query_arguments(remote, query), into, after)]


def query_arguments(remote: RemoteSource, query: str = QUERY) -> tuple[Any, SentQuery]:
    tree = parse(query).tree
    return tree, remote.translate(tree, query)


def ids(pages: list[MatchedPage]) -> list[str]:
    return [hit.record.doc_id for page in pages for hit in page.hits]


async def test_pubmed_beyond_its_cap_is_sliced_by_the_date_of_entry() -> None:
    """No search names more than 9,999 numbers; every article comes once; the slices add up to the whole."""
    service, into = paged_services.Pubmed(MATCHES), Harvest()
    with serving(service) as server:
        pages = await read(source("pubmed", server.base_url, today=lambda: date(2026, 11, 22)), into)
    doc_ids = ids(pages)
    assert len(doc_ids) == len(set(doc_ids)) == MATCHES
    assert (into.total, into.fetched, into.matched, into.complete, into.remarks) == (MATCHES, MATCHES, MATCHES, True, [])
    assert len(into.slices) >= 3
    assert all(one.total == one.fetched <= 9_999 for one in into.slices)
    assert sum(one.total for one in into.slices) == MATCHES
    assert service.most <= 9_999
    assert {hit.proof for page in pages for hit in page.hits} == {"verified"}


async def test_a_day_with_more_than_the_cap_is_reported() -> None:
    service, into = paged_services.Pubmed(140, a_day=100_000, first=date(2020, 5, 5), cap=99), Harvest()
    with serving(service) as server:
        pages = await read(source("pubmed", server.base_url, **SMALL), into)
    assert len(set(ids(pages))) == into.fetched == 99
    assert not into.complete
    assert into.remarks[0] == "entered 2020/05/05 to 2020/05/05: 140 records, of which pubmed gives 99"
    assert any("99 of 140" in remark for remark in into.remarks)


SMALL: dict[str, Any] = {"most": 99, "fetch_size": 20}
"""Of PubMed, so that a few hundred articles are too many."""
CURSORS: dict[str, Callable[..., Paged]] = {
    "openalex": paged_services.openalex,
    "semantic_scholar": paged_services.semantic_scholar,
    "crossref": paged_services.crossref,
}


@pytest.mark.parametrize("name", CURSORS)
async def test_services_with_a_cursor_are_read_to_their_end(name: str) -> None:
    matches = 5_000 if name == "crossref" else MATCHES
    service, into = CURSORS[name](matches), Harvest()
    with serving(service) as server:
        doc_ids = ids(await read(source(name, server.base_url), into))
    assert len(doc_ids) == len(set(doc_ids)) == matches
    assert (into.total, into.fetched, into.matched, into.complete, into.remarks) == (matches, matches, matches, True, [])
    assert len({one.target for one in service.requests}) == len(service.requests)


async def test_github_beyond_its_cap_is_sliced_by_creation() -> None:
    service, into = paged_services.Github(3_500), Harvest()
    with serving(service) as server:
        remote = source("github", server.base_url, now=lambda: datetime(2026, 11, 22, tzinfo=UTC))
        doc_ids = ids(await read(remote, into))
    assert len(doc_ids) == len(set(doc_ids)) == 3_500
    assert (into.complete, into.remarks, into.total) == (True, [], 3_500)
    assert max(map(len, service.queries)) <= 256
    assert all(one.total <= 1_000 for one in into.slices)


async def test_a_search_that_github_cut_short_is_not_complete() -> None:
    into = Harvest()
    with serving(paged_services.Github(20, cut_short=True)) as server:
        await read(source("github", server.base_url), into)
    assert not into.complete
    assert into.remarks == ["all: GitHub ran out of time before it had searched everything"]


@pytest.mark.parametrize("name", CURSORS)
async def test_a_total_that_changes_between_pages_is_reported(name: str) -> None:
    into = Harvest()
    with serving(CURSORS[name](2_500, grows_at=3)) as server:
        doc_ids = ids(await read(source(name, server.base_url), into))
    assert len(set(doc_ids)) == 2_500
    assert not into.complete
    assert into.remarks == ["all: its total changed from 2,500 to 2,501 meanwhile"]


async def test_slices_that_do_not_add_up_are_reported() -> None:
    into = Harvest()
    with serving(paged_services.Pubmed(240, grows_at=3, cap=99)) as server:
        await read(source("pubmed", server.base_url, **SMALL), into)
    assert not into.complete
    assert into.remarks == ["the slices hold 241 records, the whole 240"]


@pytest.mark.parametrize("name", CURSORS)
async def test_a_record_that_comes_twice_counts_once(name: str) -> None:
    into = Harvest()
    with serving(CURSORS[name](1_300, again=7)) as server:
        doc_ids = ids(await read(source(name, server.base_url), into))
    assert len(doc_ids) == len(set(doc_ids)) == into.fetched == 1_300
    assert any("came twice" in remark for remark in into.remarks)
    assert not into.complete


@pytest.mark.parametrize("name", CURSORS)
async def test_a_record_repeated_after_an_interruption_counts_once(name: str) -> None:
    """The caller passes the ids that were seen before."""
    into, rest = Harvest(), Harvest()
    with serving(CURSORS[name](1_300, again=7)) as server:
        remote = source(name, server.base_url)
        async with aclosing(remote.harvest(*query_arguments(remote), into)) as pages:
            first = await anext(pages)
        rest.seen = set(into.seen)
        doc_ids = ids(await read(remote, rest, after=first.cursor))
    assert len(doc_ids) == len(set(doc_ids)) == rest.fetched == 1_300 - len(first.hits)
    assert not set(doc_ids) & into.seen
    assert any("came twice" in remark for remark in rest.remarks)


async def test_numbers_without_an_article_are_reported() -> None:
    into = Harvest()
    with serving(paged_services.Pubmed(50, lost=frozenset({3, 49}))) as server:
        doc_ids = ids(await read(source("pubmed", server.base_url, **SMALL), into))
    assert len(doc_ids) == 48
    assert not into.complete
    assert into.remarks[0] == "all: 1 of 20 numbers have no record: 3"


async def test_pubmeds_warning_is_a_note_and_the_harvest_stays_complete() -> None:
    into = Harvest()
    with serving(paged_services.Pubmed(240, warns=True, cap=99)) as server:
        await read(source("pubmed", server.base_url, **SMALL), into)
    assert into.remarks == ['note: pubmed: it knows no "liver xx"']
    assert into.complete


async def read_until_error(remote: RemoteSource, into: Harvest) -> tuple[list[MatchedPage], SourceError]:
    pages: list[MatchedPage] = []
    try:
        async for page in remote.harvest(*query_arguments(remote), into):
            pages.append(page)  # noqa: PERF401 - it fails midway
    except SourceError as error:
        return pages, error
    raise AssertionError("it did not fail")


@pytest.mark.parametrize("name", ["pubmed", *CURSORS])
async def test_a_service_that_fails_midway_keeps_its_records_and_can_be_resumed(name: str) -> None:
    """Both parts together give the pages and counts of an undisturbed run."""
    make_service = partial(paged_services.Pubmed, cap=99) if name == "pubmed" else CURSORS[name]
    matches, small = (240, SMALL) if name == "pubmed" else (4_500, {})
    undisturbed, into = Harvest(), Harvest()
    with serving(make_service(matches)) as server:
        whole = await read(source(name, server.base_url, **small), undisturbed)
    with serving(make_service(matches, fails_at=4)) as server:
        first, error = await read_until_error(source(name, server.base_url, **small), into)
    assert isinstance(error, SourceUnavailable)
    assert f"{into.fetched:,} of {matches:,} records had come" in str(error)
    assert 0 < into.fetched == len(ids(first)) < matches
    with serving(make_service(matches)) as server:
        rest = await read(source(name, server.base_url, **small), into, after=first[-1].cursor)
    assert first + rest == whole
    into.took_s = undisturbed.took_s
    assert into == undisturbed
    assert into.complete


async def test_a_harvest_resumes_after_any_page() -> None:
    into = Harvest()
    with serving(paged_services.Github(1_100)) as server:
        remote = source("github", server.base_url, now=lambda: datetime(2026, 11, 22, tzinfo=UTC))
        pages = await read(remote, into)
        for place in (0, 3, len(pages) - 2):
            assert await read(remote, Harvest(), after=pages[place].cursor) == pages[place + 1 :]
        assert await read(remote, Harvest(), after=pages[-1].cursor) == []


@pytest.mark.parametrize("cursor", ["x", "{}", "[]", '[[[1]],"",null,0,false]', "7"])
async def test_an_invalid_cursor_is_refused(cursor: str) -> None:
    with serving(paged_services.Pubmed(3)) as server, pytest.raises(BadRequest, match="no cursor"):
        await read(source("pubmed", server.base_url), Harvest(), after=cursor)


async def test_a_requested_wait_is_honoured_and_reported() -> None:
    """A wait longer than the client's patience ends the run, which can be resumed later."""
    now, messages, slept = 1_000.0, list[str](), list[float]()
    refusals = [RateLimited("busy", now + 90), RateLimited("pool"), RateLimited("busy", now + 3_600)]

    class Caller:
        async def get(self, *_: object, **__: object) -> Reply:
            raise refusals.pop(0)

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    client = ServiceClient(Caller(), Service("openalex", "http://x", 1, 1), messages.append, sleep=sleep, clock=lambda: now)  # type: ignore[arg-type]
    with pytest.raises(RateLimited):
        await client.get("/works", {})
    assert slept == [90, 10]
    assert messages == ["openalex is rate-limiting us; retry in 90 s", "openalex is rate-limiting us; retry in 10 s"]


@pytest.mark.parametrize(("status", "kind"), [(401, Unauthorized), (404, SourceUnavailable)])
@pytest.mark.parametrize("name", ["pubmed", "github", *CURSORS])
async def test_a_refusal_raises_our_error(name: str, status: int, kind: type[SourceError]) -> None:
    into = Harvest()
    with serving(lambda request: refusal(status)) as server, pytest.raises(kind, match="0 records had come"):
        await read(source(name, server.base_url), into)
    assert not into.complete


async def test_non_reproducible_services_are_named_and_get_no_query() -> None:
    with serving(lambda request: refusal(500)) as server:
        every = make_remote_sources(settings(server.base_url, Path("unused")))
        assert [*every] == ["pubmed", "openalex", "semantic_scholar", "crossref", "github", "serpapi_scholar", "serpapi_google", "arxiv"]
        assert {*SERVICES} <= {*every}
        for name in ("serpapi_scholar", "serpapi_google", "arxiv"):
            translated = query_arguments(every[name])[1]
            assert translated.refused
            assert translated.reproducible == (name == "arxiv")
            into = Harvest()
            with pytest.raises(SourceOff):
                await read(every[name], into)
            assert not into.complete
        assert server.requests == []


def test_no_service_is_available_offline(tmp_path: Path) -> None:
    configured = settings("http://127.0.0.1:9", tmp_path)
    assert make_remote_sources(configured.model_copy(update={"sources": configured.sources.model_copy(update={"offline": True})})) == {}


def test_a_disabled_source_is_missing(tmp_path: Path) -> None:
    configured = settings("http://127.0.0.1:9", tmp_path, enabled=False)
    assert make_remote_sources(configured) == {}
