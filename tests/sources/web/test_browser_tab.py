"""Where a page of the browser may go: by the rules that hold for a redirect of a page that is fetched."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from outrider.sources.http.ssrf_guard import Guard
from outrider.sources.web.browser import Chromium, unavailable_reason
from outrider.sources.web.browser_tab import SETTLED_S
from outrider.sources.web.fetch import PageFetcher
from outrider.state.errors import Forbidden, SourceUnavailable
from support.http_server import Answer, Request, as_text, refusal, serving
from support.shared_chromium import SharedChromium

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(unavailable_reason()), reason=unavailable_reason() or "has a browser")]

TEXT = "<article>" + "<p>Text of the page that the first one leads to, long enough to be taken for it.</p>" * 9 + "</article>"
REDIRECTS = {
    "script": "<script>location.href = '{to}'</script>",
    "later": "<script>setTimeout(() => {{ location.href = '{to}' }}, 200)</script>",
    "refresh": "<meta http-equiv=refresh content='0; url={to}'><script></script>",
    "form": "<form id=f method=post action='{to}'></form><script>f.submit()</script>",
    "frame": """<iframe srcdoc="<script>top.location = '{to}'</script>"></iframe><script></script>""",
    "redirect": "<script>location.href = '/moved'</script>",
    "twice": "<script>location.href = '/again'</script>",
    "window": "<script>open('{to}')</script>",
}
AGAIN = "<p>It reloads itself.<script>setTimeout(() => location.reload(), 50)</script>"


class LinkedHosts:
    """A host whose pages lead, in every way there is, to another one."""

    def __init__(self, owner: Chromium, robots: str = "User-agent: *\nDisallow: /forbidden") -> None:
        self.owner = owner
        self.robots = robots
        self.to = ""
        self.after_s = 0.0

    async def __aenter__(self) -> LinkedHosts:
        self.here = serving(self._first).__enter__()
        self.there = serving(self._second).__enter__()
        self.other = self.there.base_url.replace("127.0.0.1", "localhost")
        guard = Guard(frozenset({self.here.base_url[7:], self.other[7:]}))
        self.chromium = SharedChromium(guard, owner=self.owner)
        self.pages = PageFetcher(guard, per_s=0.001, browser=self.chromium)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.chromium.close()
        await self.pages.close()
        self.here.__exit__()
        self.there.__exit__()

    def _first(self, request: Request) -> Answer:
        if request.path == "/robots.txt":
            return refusal(404)
        if request.path == "/again":
            return Answer(status=307, headers={"Location": "/moved"})
        if request.path == "/moved":
            return Answer(status=302, headers={"Location": self.other + self.to})
        if request.path == "/itself":
            return as_text(f"<title>x</title>{AGAIN}", "text/html")
        return as_text("<title>x</title>" + REDIRECTS[request.path[1:]].format(to=self.other + self.to), "text/html")

    def _second(self, request: Request) -> Answer:
        if request.path == "/robots.txt":
            return as_text(self.robots)
        if request.path == "/dead":
            return Answer(reset=True, after_s=self.after_s)
        return as_text(f"<title>y</title>{TEXT}", "text/html", after_s=self.after_s)

    def requested_paths(self) -> list[str]:
        return [request.path for request in self.there.requests if request.path not in {"/robots.txt", "/favicon.ico"}]


@pytest.fixture
async def hosts(running_chromium: Chromium) -> AsyncIterator[LinkedHosts]:
    async with LinkedHosts(running_chromium) as linked_hosts:
        yield linked_hosts


async def test_a_page_may_lead_to_any_allowed_address(hosts: LinkedHosts) -> None:
    for way in sorted(REDIRECTS.keys() - {"window"}):
        hosts.to = f"/open-{way}"
        fetched = await hosts.pages.fetch(f"{hosts.here.base_url}/{way}", 60.0)
        assert (fetched.kind, fetched.url, "the first one leads to" in fetched.page.text) == ("html", hosts.other + hosts.to, True), way


async def test_where_a_page_leads_may_be_slow_to_answer(hosts: LinkedHosts) -> None:
    hosts.to, hosts.after_s = "/slow", SETTLED_S * 1.25
    fetched = await hosts.pages.fetch(f"{hosts.here.base_url}/later", 60.0)
    assert (fetched.url, fetched.page.title) == (hosts.other + hosts.to, "y")


async def test_a_page_that_comes_too_late_is_not_waited_for(hosts: LinkedHosts) -> None:
    hosts.to, hosts.after_s = "/too-slow", 60.0
    fetched = await hosts.chromium.render(f"{hosts.here.base_url}/later", 12.0)
    assert (fetched[0], "<title>x</title>" in fetched[1]) == (f"{hosts.here.base_url}/later", True)


@pytest.mark.parametrize("after_s", [0.0, SETTLED_S * 1.25])
async def test_the_first_page_is_used_where_the_target_does_not_answer(hosts: LinkedHosts, after_s: float) -> None:
    """And not what Chromium shows in its place."""
    hosts.to, hosts.after_s = "/dead", after_s
    fetched = await hosts.pages.fetch(f"{hosts.here.base_url}/later", 60.0)
    assert (fetched.url, fetched.page.title) == (f"{hosts.here.base_url}/later", "x")
    with pytest.raises(SourceUnavailable):
        await hosts.chromium.render(f"{hosts.here.base_url}/later", 60.0)


async def test_a_page_that_reloads_itself_for_ever_is_read(hosts: LinkedHosts) -> None:
    fetched = await hosts.pages.fetch(f"{hosts.here.base_url}/itself", 60.0)
    assert (fetched.page.title, fetched.page.text) == ("x", "It reloads itself.")


async def test_a_page_leads_nowhere_that_robots_forbid(hosts: LinkedHosts) -> None:
    hosts.to = "/forbidden/page"
    for way in REDIRECTS:
        fetched = await hosts.pages.fetch(f"{hosts.here.base_url}/{way}", 60.0)
        assert (fetched.url, fetched.page.title) == (f"{hosts.here.base_url}/{way}", "x"), way
    assert hosts.requested_paths() == []


@pytest.mark.parametrize(("to", "kind"), [("/doi/10.1000/secret", "doi"), ("/paper.pdf?x=1", "pdf")])
async def test_a_doi_or_a_pdf_that_a_page_leads_to_is_reported_not_fetched(hosts: LinkedHosts, to: str, kind: str) -> None:
    hosts.to = to
    for way in sorted(REDIRECTS.keys() - {"window"}):
        fetched = await hosts.pages.fetch(f"{hosts.here.base_url}/{way}", 60.0)
        assert (fetched.kind, fetched.url) == (kind, hosts.other + to), way
    assert hosts.requested_paths() == []


async def test_the_crawl_delay_of_a_target_host_is_obeyed(running_chromium: Chromium) -> None:
    async with LinkedHosts(running_chromium, "User-agent: *\nCrawl-delay: 600") as hosts:
        hosts.to = "/a"
        assert (await hosts.pages.fetch(f"{hosts.here.base_url}/script", 60.0)).url == f"{hosts.other}/a"
        assert (await hosts.pages.fetch(f"{hosts.here.base_url}/script", 60.0)).url == f"{hosts.here.base_url}/script"
        assert hosts.requested_paths() == ["/a"]


async def test_a_refusal_stops_the_page_and_frames_are_not_checked(hosts: LinkedHosts) -> None:
    urls: list[str] = []

    async def may(url: str) -> None:
        urls.append(url)
        await asyncio.sleep(0)
        if url.startswith(hosts.other):
            raise Forbidden("not there")

    hosts.to = "/a"
    with pytest.raises(Forbidden, match="not there"):
        await hosts.chromium.render(f"{hosts.here.base_url}/twice", 60.0, may)
    assert urls == [f"{hosts.here.base_url}{path}" for path in ("/twice", "/again", "/moved")] + [f"{hosts.other}/a"]
