"""Web search: result pages of engines, targets of their links, requests to an engine."""

from __future__ import annotations

import asyncio
import base64
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field, replace
from urllib.parse import quote, unquote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.sources.adapter import SPARE
from outrider.sources.http.cache import CachedAnswer, flush_cache
from outrider.sources.web import search as module
from outrider.sources.web.browser_tab import RenderedPage
from outrider.sources.web.search import (
    BING,
    DUCKDUCKGO,
    ENGINES,
    GOOGLE,
    ResultPage,
    SearchEngine,
    SearchResult,
    WebSearch,
    parse_results,
    resolve_target,
)
from outrider.state.errors import Forbidden, Malformed, RateLimited, SourceError, SourceTimeout, SourceUnavailable
from outrider.state.ports import SourceQuery
from support.http_app import until
from support.patience import BUSY_S
from support.shared_data import DATA

SAVED = DATA / "web/serp_google"

PAPER, BLOG = "https://arxiv.org/abs/2101.00001v2", "https://example.org/phages?a=1&b=ü"
PACKED = base64.urlsafe_b64encode(BLOG.encode()).decode().rstrip("=")
PAGES = {
    "duckduckgo": f"""<div class="results"><div class="result results_links result--ad"><h2><a class="result__a"
 href="https://duckduckgo.com/y.js?ad_domain=shop.example&u3=https%3A%2F%2Fshop.example">Buy phages</a></h2></div>
<div class="result results_links results_links_deep web-result"><h2 class="result__title"><a rel="nofollow" class="result__a"
 href="{PAPER}">Phage   <b>lysis</b></a></h2><a class="result__snippet" href="{PAPER}">How <b>phages</b> lyse.</a></div>
<div class="result web-result"><h2><a class="result__a"
 href="//duckduckgo.com/l/?uddg={quote(BLOG, safe="")}&amp;rut=1">A blog</a></h2></div>
<div class="result web-result"><h2><a class="result__a" href="{PAPER}">Again</a></h2></div></div>""",
    "bing": f"""<ol id="b_results"><li class="b_ad"><ul><li class="b_algo"><h2><a href="https://www.bing.com/aclick?ld=1">Buy</a></h2></li></ul></li>
<li class="b_algo"><h2><a href="{PAPER}">Phage <strong>lysis</strong></a></h2><div class="b_caption"><p>How phages lyse.</p></div></li>
<li class="b_algo"><h2><a href="https://www.bing.com/ck/a?!&amp;&amp;p=1&amp;u=a1{PACKED}&amp;ntb=1">A blog</a></h2></li>
<li class="b_algo"><h2><a href="/images/search?q=x">Images</a></h2></li></ol>""",
    "google": f"""<div id="tads"><div class="tF2Cxc"><a href="https://shop.example"><h3>Buy</h3></a></div></div>
<div class="g"><div class="tF2Cxc"><a href="{PAPER}"><h3>Phage lysis</h3></a><div class="VwiC3b">How phages lyse.</div></div></div>
<div class="g"><div class="tF2Cxc"><a href="/url?q={quote(BLOG, safe="")}&amp;sa=U"><h3>A blog</h3></a></div></div>
<div class="g"><div class="tF2Cxc"><a href="/search?q=more"><h3>More</h3></a></div></div>""",
}
NOTHING = {
    "duckduckgo": '<div class="no-results">No results.</div>',
    "bing": '<ol id="b_results"><li class="b_no"><h1>There are no results for <strong>x</strong></h1></li></ol>',
    "google": "<div><p>Your search - <em>x</em> - did not match any documents.</p></div>",
}
CHALLENGE = {
    "duckduckgo": '<div class="anomaly-modal__title">Unfortunately, bots use DuckDuckGo too.</div>',
    "bing": '<div class="captcha"><div class="captcha_header">One last step</div><p>Please solve the challenge below to continue</p></div>',
    "google": '<form id="captcha-form"></form><div>Our systems have detected unusual traffic from your computer network.</div>',
}


def whole(body: str) -> str:
    return f"<html><head><title>x</title></head><body>{body}</body></html>"


@pytest.mark.parametrize("name", list(ENGINES))
def test_results_without_advertisements_each_link_once(name: str) -> None:
    results_page = parse_results(ENGINES[name], whole(PAGES[name]))
    assert results_page == ResultPage("results", (SearchResult(PAPER, "Phage lysis", "How phages lyse."), SearchResult(BLOG, "A blog", "")))


@pytest.mark.parametrize("name", list(ENGINES))
def test_no_results_a_challenge_and_another_page_are_distinguished(name: str) -> None:
    engine = ENGINES[name]
    assert parse_results(engine, whole(NOTHING[name])) == ResultPage("nothing")
    assert parse_results(engine, whole(CHALLENGE[name])) == ResultPage("challenge")
    for other in (whole("<p>Something else</p>"), "", "{}", whole("<script>did not match any documents; unusual traffic</script>")):
        with pytest.raises(Malformed, match=name):
            parse_results(engine, other)


@pytest.mark.skipif(not SAVED.exists(), reason=f"no data at {SAVED}; set OUTRIDER_DATA")
def test_google_s_saved_pages() -> None:
    """Every link of a result stands on the page that it came from."""
    counts = {}
    for path in sorted(SAVED.glob("*.html")):
        html = path.read_text(encoding="utf-8", errors="replace")
        page = parse_results(GOOGLE, html)
        counts[path.stem] = (page.kind, len(page.results))
        for result in page.results:
            assert result.url in unquote(html.replace("&amp;", "&"))
            assert result.title
            assert urlsplit(result.url).hostname
            assert "google.com/url" not in result.url
    assert counts == {
        "coffee-nojs": ("results", 10),
        "domain-nojs": ("results", 9),
        "google-nojs": ("results", 10),
        "google100-nojs": ("results", 99),
        "hotels-nojs": ("results", 9),
        "matrix-nojs": ("results", 10),
        "no-results-nojs": ("nothing", 0),
    }
    first = parse_results(GOOGLE, (SAVED / "coffee-nojs.html").read_text(encoding="utf-8", errors="replace")).results[0]
    assert (first.url, first.title) == ("https://en.wikipedia.org/wiki/Coffee", "Coffee - Wikipedia")
    assert first.snippet.startswith("Coffee is a beverage prepared from roasted coffee beans.")


@pytest.mark.parametrize(
    ("href", "target"),
    [
        ("https://example.org/a", "https://example.org/a"),
        ("//duckduckgo.com/l/?uddg=https%3A%2F%2Fexample.org%2Fa%3Fb%3D1%26c%3D2&rut=x", "https://example.org/a?b=1&c=2"),
        ("https://duckduckgo.com/y.js?ad_domain=x&uddg=https%3A%2F%2Fx.com", None),
        ("https://www.google.com/url?q=https://example.org/a%3Fb%3D1&sa=U", "https://example.org/a?b=1"),
        ("https://www.google.de/url?sa=t&url=https%3A%2F%2Fexample.org%2F", "https://example.org/"),
        ("https://www.bing.com/ck/a?u=a1aHR0cHM6Ly9leGFtcGxlLm9yZy9h", "https://example.org/a"),
        ("https://www.bing.com/ck/a?u=a1%%%", None),
        ("https://www.bing.com/ck/a?u=a0aHR0cHM6Ly9leGFtcGxlLm9yZy9h", None),
        ("https://www.bing.com/aclick?ld=x", None),
        ("//duckduckgo.com/l/?uddg=javascript%3Aalert(1)", None),
        ("javascript:void(0)", None),
        ("/settings", None),
        ("http://[broken", None),
        ("", None),
    ],
)
def test_where_a_result_s_link_leads(href: str, target: str | None) -> None:
    assert resolve_target(href, DUCKDUCKGO.address) == target


@given(st.text(max_size=80), st.sampled_from(["", "//duckduckgo.com/l/?uddg=", "https://www.bing.com/ck/a?u=a1", "/url?q="]))
def test_any_link_is_read(text: str, before: str) -> None:
    target = resolve_target(before + text, GOOGLE.address)
    assert target is None or target.lower().startswith(("http://", "https://"))


@given(st.text(max_size=200), st.sampled_from([DUCKDUCKGO, BING, GOOGLE]))
def test_any_page_is_read(text: str, engine: SearchEngine) -> None:
    with suppress(Malformed):
        parse_results(engine, text)


def test_words_are_quoted_and_cut() -> None:
    assert DUCKDUCKGO.query_url('c++ & "a b" {query} ü') == "https://html.duckduckgo.com/html/?q=c%2B%2B+%26+%22a+b%22+%7Bquery%7D+%C3%BC"
    assert len(BING.query_url("x" * 9_999)) < 500


@dataclass
class FakeBrowser:
    """A browser that shows a page, or fails."""

    answer: RenderedPage | SourceError
    requests: list[tuple[str, frozenset[str] | None]] = field(default_factory=list)
    within_s: list[float] = field(default_factory=list)

    async def open_page(self, url: str, within_s: float, hosts: frozenset[str] | None = None, ready: str = "") -> RenderedPage:
        self.requests.append((url, hosts))
        self.within_s.append(within_s)
        if isinstance(self.answer, SourceError):
            raise self.answer
        return self.answer


@dataclass
class FakeCache:
    answer: CachedAnswer | None = None
    put_in: list[bytes] = field(default_factory=list)
    get_s: float = 0.0
    release: threading.Event | None = None
    """Nothing is put before it is set."""

    async def get(self, key: str) -> CachedAnswer | None:
        await asyncio.sleep(self.get_s)
        return self.answer

    async def put(self, key: str, body: bytes, headers: dict[str, str]) -> None:
        while self.release and not self.release.is_set():  # noqa: ASYNC110 - set in another thread
            await asyncio.sleep(0.01)
        self.put_in.append(body)


HOSTS = iter(range(10_000))


def engine(like: SearchEngine = DUCKDUCKGO) -> SearchEngine:
    """An engine without earlier requests: the state of an engine is shared by the process."""
    return replace(like, address=f"https://e{next(HOSTS)}.example.com/?q={{query}}")


def make_browser(name: str = "duckduckgo", status: int = 200) -> FakeBrowser:
    return FakeBrowser(RenderedPage("https://x", status, whole(PAGES[name])))


def query(text: str = "phage lysis", limit: int = 10, strategy: str = "duckduckgo", within_s: float = 5.0) -> SourceQuery:
    return SourceQuery(text, strategy, None, limit, within_s=within_s)


async def test_an_answer_s_records() -> None:
    browser, one = make_browser(), engine()
    answer = await WebSearch(browser, (one,), gap_s=0.0).search(query())
    assert [(hit.record.doc_id, hit.record.title, hit.score) for hit in answer.results] == [
        (f"web:{PAPER}", "Phage lysis", 1.0),
        (f"web:{BLOG}", "A blog", 0.5),
    ]
    first = answer.results[0].record
    assert (first.kind, first.source, first.url, first.identifiers.arxiv, first.description) == (
        "page",
        "web",
        PAPER,
        "2101.00001",
        "How phages lyse.",
    )
    assert (answer.total, answer.status) == (None, "")
    assert browser.requests == [(one.query_url("phage lysis"), frozenset({one.host}))]


async def test_a_source_with_a_strategy_an_engine() -> None:
    web = WebSearch(make_browser("bing"), (engine(), engine(BING)), gap_s=0.0)
    assert (web.name, web.strategies, web.capabilities.queries, web.capabilities.kinds) == ("web", ("duckduckgo", "bing"), 1, {"page"})
    assert len((await web.search(query(strategy="bing", limit=1))).results) == 1
    assert await web.get("doi", "10.1000/x", 1.0) is None


async def test_no_words_no_question() -> None:
    browser = make_browser()
    assert (await WebSearch(browser, (engine(),)).search(query(" "))).results == ()
    assert browser.requests == []


async def test_no_results_give_an_empty_answer() -> None:
    answer = await WebSearch(FakeBrowser(RenderedPage("", 200, whole(NOTHING["duckduckgo"]))), (engine(),)).search(query())
    assert (answer.results, answer.status) == ((), "")


@pytest.mark.parametrize(
    ("status", "html"), [(202, CHALLENGE["duckduckgo"]), (200, CHALLENGE["duckduckgo"]), (429, ""), (403, "<p>no</p>"), (202, "<p>x</p>")]
)
async def test_a_challenge_is_a_limit_and_the_engine_is_skipped(status: int, html: str) -> None:
    """By every `Web` of the process, until the pause is over."""
    browser, one = FakeBrowser(RenderedPage("", status, whole(html))), engine()
    for web in (WebSearch(browser, (one,), gap_s=0.0), WebSearch(browser, (one,), gap_s=0.0)):
        with pytest.raises(RateLimited) as limited:
            await web.search(query())
        assert limited.value.retry_at
        assert 890 < limited.value.retry_at - time.time() <= 900
    assert len(browser.requests) == 1


async def test_one_question_in_a_while() -> None:
    """A second request waits; one without time to wait is refused."""
    browser, one = make_browser(), engine()
    web = WebSearch(browser, (one,), gap_s=0.3)
    began = time.monotonic()
    await asyncio.gather(web.search(query("a")), web.search(query("b")))
    assert time.monotonic() - began >= 0.3
    rare = WebSearch(browser, (one,), gap_s=600.0)
    await rare.search(query("c"))
    with pytest.raises(RateLimited):
        await rare.search(query("d", within_s=30.0))
    assert len(browser.requests) == 3


@pytest.mark.parametrize("error", [SourceTimeout("late"), SourceUnavailable("crashed"), Forbidden("elsewhere")])
async def test_the_browser_s_errors_pass(error: SourceError) -> None:
    with pytest.raises(type(error)):
        await WebSearch(FakeBrowser(error), (engine(),)).search(query())


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time of the schedule; a test moves it on."""
    now = [time.time()]
    monkeypatch.setattr(module._schedule(), "clock", lambda: now[0])
    return now


@pytest.mark.parametrize("error", [SourceTimeout("late"), SourceUnavailable("crashed")])
async def test_an_engine_that_the_browser_cannot_reach_costs_one_search_its_time(error: SourceError, clock: list[float]) -> None:
    browser, one = FakeBrowser(error), engine()
    for _ in range(4):  # whatever source of the process asks
        with pytest.raises(type(error)) as refused:
            await WebSearch(browser, (one,), gap_s=0.0, timeout_s=5.0).search(query())
    assert len(browser.requests) == 1
    assert refused.value.retry_at == pytest.approx(clock[0] + 30, abs=1)


async def test_no_search_waits_for_the_next_try_either(clock: list[float]) -> None:
    """It runs beside the search that finds the pause over; each failure doubles the pause, and a success ends it."""
    browser, one, answers = FakeBrowser(SourceTimeout("late")), engine(), FakeCache()
    web = WebSearch(browser, (one,), gap_s=0.0, timeout_s=5.0, answers=answers)
    pauses = []
    for tries in range(1, 5):
        with pytest.raises((SourceTimeout, SourceUnavailable)):
            await web.search(query())
        await until(lambda tries=tries: len(browser.requests) == tries)  # type: ignore[misc]
        await asyncio.sleep(0.05)
        with pytest.raises(SourceError) as refused:
            await web.search(query())
        assert refused.value.retry_at is not None
        pauses.append(round(refused.value.retry_at - clock[0]))
        clock[0] = refused.value.retry_at + 1
    browser.answer = RenderedPage("https://x", 200, whole(PAGES["duckduckgo"]))
    with pytest.raises(SourceUnavailable, match="tries again"):
        await web.search(query())
    await until(lambda: len(browser.requests) == 5)
    await asyncio.sleep(0.05)
    assert len((await web.search(query())).results) == 2
    assert pauses == [30, 60, 120, 240]


async def test_a_search_with_little_time_left_closes_no_engine() -> None:
    browser, one = FakeBrowser(SourceTimeout("late")), engine()
    for _ in range(2):
        with pytest.raises(SourceTimeout):
            await WebSearch(browser, (one,), gap_s=0.0, timeout_s=10.0).search(query(within_s=2.0))
    assert len(browser.requests) == 2


@pytest.mark.parametrize(("status", "error"), [(500, SourceUnavailable), (404, SourceUnavailable)])
async def test_an_engine_that_fails(status: int, error: type[SourceError]) -> None:
    with pytest.raises(error, match=str(status)):
        await WebSearch(make_browser(status=status), (engine(),)).search(query())


async def test_a_recent_answer_is_not_requested_again() -> None:
    html = whole(PAGES["duckduckgo"]).encode()
    browser, answers = make_browser(), FakeCache()
    await WebSearch(browser, (engine(),), answers=answers).search(query())
    await asyncio.to_thread(flush_cache)
    assert answers.put_in == [html]
    answer = await WebSearch(browser, (engine(),), answers=FakeCache(CachedAnswer(html, {}, 600.0))).search(query())
    assert (len(answer.results), answer.status, len(browser.requests)) == (2, "cached", 1)
    assert "10 min" in answer.message


async def test_an_old_answer_is_better_than_none() -> None:
    html = whole(PAGES["duckduckgo"]).encode()
    web = WebSearch(FakeBrowser(RenderedPage("", 429, "")), (engine(),), answers=FakeCache(CachedAnswer(html, {}, 7_200.0)))
    answer = await web.search(query())
    assert (len(answer.results), answer.status) == (2, "stale")
    assert "2 h" in answer.message
    assert answer.retry_at


async def test_the_browser_has_time_to_return_an_old_answer() -> None:
    """The caller stops waiting when its time is over."""
    browser = make_browser()
    await WebSearch(browser, (engine(),), timeout_s=5.0).search(query(within_s=5.0))
    await WebSearch(browser, (engine(),), timeout_s=60.0).search(query(within_s=5.0))
    assert max(browser.within_s) <= 5.0 * (1 - SPARE)


async def test_an_answer_of_an_engine_does_not_wait_for_the_cache() -> None:
    release = threading.Event()
    answers = FakeCache(release=release)
    assert (await WebSearch(make_browser(), (engine(),), answers=answers).search(query())).results
    assert not answers.put_in
    release.set()
    await asyncio.to_thread(flush_cache)
    assert answers.put_in
    began = time.monotonic()
    with pytest.raises(RateLimited):
        await WebSearch(make_browser(), (engine(),), answers=FakeCache(get_s=600.0)).search(query(within_s=0.2))
    assert time.monotonic() - began < 0.2 + BUSY_S


async def test_challenges_and_broken_pages_are_not_cached() -> None:
    answers = FakeCache()
    for html in (CHALLENGE["duckduckgo"], "<p>x</p>"):
        with pytest.raises(SourceError):
            await WebSearch(FakeBrowser(RenderedPage("", 200, whole(html))), (engine(),), answers=answers).search(query())
    assert answers.put_in == []
