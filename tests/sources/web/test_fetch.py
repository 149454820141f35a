"""Fetching a page: robots.txt, limits of size, time, type and redirects, records, request rate."""

from __future__ import annotations

import asyncio
import gc
import gzip
import re
import threading
import time
import zlib
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.sources.http.ssrf_guard import Guard
from outrider.sources.web import crawl_rules as robots
from outrider.sources.web import fetch as module
from outrider.sources.web import html_page as pages_html
from outrider.sources.web.browser_tab import NavigationCheck
from outrider.sources.web.fetch import MOST_BYTES, FetchedPage, PageFetcher
from outrider.state.errors import Forbidden, Malformed, RateLimited, SourceError, SourceTimeout, SourceUnavailable
from outrider.state.records import Edge
from support.http_server import NEVER, RESET, Answer, Request, as_bytes, as_text, cut, dripping, refusal, serving
from support.patience import BUSY_S
from support.shared_data import DATA

WORDS = "Sentence {} about the lysis of bacteria is long enough to be part of the main text of a page."
BODY = "<article>" + "".join(f"<p>{WORDS.format(number)}</p>" for number in range(5)) + "</article>"
HEAD = """<title>Lysis</title><meta name="citation_doi" content="doi:10.1000/ABC"><meta name="citation_pmid" content="123">
<meta name="citation_arxiv_id" content="2101.00001v3"><meta name="citation_abstract" content="What phages do.">
<meta name="citation_pdf_url" content="https://example.org/lysis.pdf"><link rel="canonical" href="https://example.org/lysis">"""
LINKS = '<p><a href="https://doi.org/10.1000/other">x</a> <a href="https://arxiv.org/abs/2202.00002">y</a> <a href="/10">z</a></p>'
PAGE = f'<html lang="en"><head>{HEAD}</head><body>{BODY}{LINKS}</body></html>'

Handler = Callable[[Request], Answer]


def html(text: str = PAGE, **headers: str) -> Answer:
    return as_text(text, "text/html", headers=headers)


class Site:
    """A server, and a `PageFetcher` that may query it without pauses."""

    def __init__(self, answers: dict[str, Answer | Handler], **fields: object) -> None:
        self.answers = answers
        self.server = serving(self._answer)
        self.fields = fields

    def _answer(self, request: Request) -> Answer:
        answer = self.answers.get(request.path, refusal(404))
        return answer(request) if callable(answer) else answer

    async def __aenter__(self) -> Site:
        self.server.__enter__()
        self.url = self.server.base_url
        self.pages = PageFetcher(Guard(frozenset({self.url.removeprefix("http://")})), **{"per_s": 0.001, **self.fields})  # type: ignore[arg-type]
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.pages.close()
        self.server.__exit__()

    async def fetch(self, path: str, within_s: float = 10.0) -> FetchedPage:
        return await self.pages.fetch(self.url + path, within_s)

    def requested_paths(self) -> list[str]:
        return [request.path for request in self.server.requests if request.path != "/robots.txt"]


async def test_a_page_becomes_a_record() -> None:
    """With the identifiers that it declares of itself; those of works it links to are edges, not its own."""
    async with Site({"/a": html()}) as site:
        fetched = await site.fetch("/a")
    page = fetched.page
    assert (fetched.kind, fetched.url, page.doc_id, page.source) == ("html", page.url, f"web:{page.url}", "web")
    assert (page.title, page.abstract, page.language) == ("Lysis", "What phages do.", "en")
    assert dict(page.identifiers.pairs()) == {"doi": "10.1000/abc", "pmid": "123", "arxiv": "2101.00001"}
    assert page.edges == (Edge(relation="links_to", target="doi:10.1000/other"), Edge(relation="links_to", target="arxiv:2202.00002"))
    assert (page.metadata["pdf"], page.metadata["canonical"]) == ("https://example.org/lysis.pdf", "https://example.org/lysis")
    assert page.text.count("lysis of bacteria") == 5


async def test_the_user_agent_is_sent_and_no_cookie_is_stored() -> None:
    async with Site({"/a": html(**{"Set-Cookie": "id=1; Path=/"}), "/b": html()}, agent="Outrider/9 (+mailto:ann@example.org)") as site:
        await site.fetch("/a")
        await site.fetch("/b")
    last = site.server.requests[-1]
    assert last.headers["user-agent"] == "Outrider/9 (+mailto:ann@example.org)"
    assert "cookie" not in last.headers


async def test_a_doi_or_a_pdf_is_reported_not_fetched() -> None:
    """Also where a redirect leads to one, or only the media type shows it; the body is not read then."""
    answers: dict[str, Answer | Handler] = {
        "/short": Answer(status=302, headers={"Location": "https://doi.org/10.1000/XYZ"}),
        "/paper": dripping(as_bytes(b"%PDF" * 1_000, "application/pdf"), 0.01),
    }
    async with Site(answers) as site:
        direct = await site.pages.fetch("https://doi.org/10.1000/XYZ", 30.0)
        led = await site.fetch("/short")
        pdf, typed = await site.fetch("/x/PAPER.PDF?download=1"), await site.fetch("/paper")
        sent_bytes = site.server.sent
    assert (direct.kind, led.kind, led.page.identifiers.doi) == ("doi", "doi", "10.1000/xyz")
    assert (pdf.kind, typed.kind, typed.page.text) == ("pdf", "pdf", "")
    assert site.requested_paths() == ["/short", "/paper"]
    assert sent_bytes < 1_000


async def test_robots_are_obeyed_and_requested_once() -> None:
    rules = as_text("User-agent: *\nDisallow: /\n\nUser-agent: Outrider\nDisallow: /private\nAllow: /private/but\n")
    async with Site({"/robots.txt": rules, "/a": html(), "/private/but": html()}) as site:
        await asyncio.gather(site.fetch("/a"), site.fetch("/a"), site.fetch("/private/but"))
        with pytest.raises(Forbidden, match=r"robots\.txt"):
            await site.fetch("/private/x")
    paths = [request.path for request in site.server.requests]
    assert (paths[0], paths.count("/robots.txt"), "/private/x" in paths) == ("/robots.txt", 1, False)


async def test_robots_are_requested_again_after_a_day() -> None:
    now = [0.0]
    async with Site({"/a": html()}, clock=lambda: now[0]) as site:
        for hours in (0, 23, 25):
            now[0] = hours * 3_600.0
            await site.fetch("/a")
    assert sum(request.path == "/robots.txt" for request in site.server.requests) == 2


@pytest.mark.parametrize(("status", "fetched"), [(404, True), (403, True), (429, False), (500, False), (503, False)])
async def test_robots_that_are_not_there_allow_and_that_fail_forbid(status: int, fetched: bool) -> None:
    async with Site({"/robots.txt": refusal(status), "/a": html()}) as site:
        if fetched:
            await site.fetch("/a")
        else:
            with pytest.raises(Forbidden, match=str(status)):
                await site.fetch("/a")
    assert site.requested_paths() == (["/a"] if fetched else [])


async def test_robots_of_a_redirect_s_host_count_too() -> None:
    """A redirect of robots.txt is followed, and a moved page follows the rules of its new host."""
    async with Site({"/robots.txt": as_text("User-agent: *\nDisallow: /b"), "/a": Answer(status=301, headers={"Location": "/b"})}) as site:
        with pytest.raises(Forbidden, match="robots"):
            await site.fetch("/a")
    assert site.requested_paths() == ["/a"]


async def test_a_host_gets_one_request_a_second() -> None:
    """The default, and a longer Crawl-delay; a request that would be too late fails with a retry time."""
    async with Site({"/a": html()}, per_s=1.0) as site:
        await asyncio.gather(site.fetch("/a"), site.fetch("/a"))
        times = [request.at for request in site.server.requests if request.path == "/a"]
        with pytest.raises(RateLimited) as limited:
            await site.fetch("/a", 0.2)
    assert times[1] - times[0] >= 0.95
    assert limited.value.retry_at
    assert limited.value.retry_at > time.time()
    async with Site({"/robots.txt": as_text("User-agent: *\nCrawl-delay: 30"), "/a": html()}) as site:
        await site.fetch("/a")
        with pytest.raises(RateLimited, match="30"):
            await site.fetch("/a", 1.0)


async def test_redirects_are_followed_five_times() -> None:
    answers: dict[str, Answer | Handler] = {f"/{step}": Answer(status=302, headers={"Location": f"/{step + 1}"}) for step in range(9)}
    async with Site({**answers, "/5": html(), "/loop": Answer(status=302, headers={"Location": "/loop"})}) as site:
        assert (await site.fetch("/0")).url.endswith("/5")
        with pytest.raises(SourceUnavailable, match="redirects"):
            await site.fetch("/loop")
    assert site.requested_paths().count("/loop") == 6


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (refusal(404), SourceUnavailable),
        (refusal(500), SourceUnavailable),
        (refusal(503), SourceUnavailable),
        (refusal(503, headers={"Retry-After": "5"}), RateLimited),
        (refusal(429), RateLimited),
        (refusal(401), Forbidden),
        (refusal(403), Forbidden),
        (Answer(status=302), SourceUnavailable),
        (as_bytes(b"\x89PNG", "image/png"), Malformed),
        (as_bytes(b"{}", "application/json"), Malformed),
        (as_bytes(b"\x00\x01\x02" * 100, "text/html"), Malformed),
        (as_bytes(b"", "text/html"), Malformed),
        (as_bytes(b"x" * (MOST_BYTES + 1), "text/html"), Malformed),
        (as_bytes(gzip.compress(b"x" * (MOST_BYTES + 1)), "text/html", headers={"Content-Encoding": "gzip"}), Malformed),
        (as_bytes(b"no gzip", "text/html", headers={"Content-Encoding": "gzip"}), Malformed),
        (cut(html()), SourceUnavailable),
        (RESET, SourceUnavailable),
        (NEVER, SourceTimeout),
        (dripping(html()), SourceTimeout),
    ],
)
async def test_what_is_no_page_is_one_of_our_errors(answer: Answer, error: type[SourceError]) -> None:
    async with Site({"/a": answer}) as site:
        began = time.monotonic()
        with pytest.raises(SourceError) as raised:
            await site.fetch("/a", 0.6 if error is SourceTimeout else 10.0)
    assert type(raised.value) is error
    assert time.monotonic() - began < (0.6 if error is SourceTimeout else 10.0) + BUSY_S


async def test_a_host_that_requests_a_pause_is_skipped() -> None:
    async with Site({"/a": refusal(429, headers={"Retry-After": "3600"}), "/b": html()}) as site:
        for path in ("/a", "/b"):
            with pytest.raises(RateLimited) as limited:
                await site.fetch(path)
            assert limited.value.retry_at
            assert 3_500 < limited.value.retry_at - time.time() <= 3_600
    assert site.requested_paths() == ["/a"]


async def test_more_than_the_bound_is_not_waited_for() -> None:
    """For any Content-Length, and however slowly the rest would arrive."""
    endless = Answer(b"<p>" + b"x" * 30 * 2**20, headers={"Content-Type": "text/html", "Content-Length": "99999999"})
    async with Site({"/a": endless}) as site:
        with pytest.raises(Malformed, match="more than"):
            await site.fetch("/a")
        assert site.server.sent < 30 * 2**20


class Unpacking:
    """Counts the bytes that anything in this process unpacks."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.bytes = 0
        original = zlib.decompressobj
        monkeypatch.setattr(zlib, "decompressobj", lambda *how: Counted(original(*how), self))


class Counted:
    def __init__(self, unpacks: Any, total: Unpacking) -> None:
        self.unpacks, self.total = unpacks, total

    def decompress(self, *args: Any) -> bytes:
        came: bytes = self.unpacks.decompress(*args)
        self.total.bytes += len(came)
        return came

    def __getattr__(self, name: str) -> Any:
        return getattr(self.unpacks, name)


def bomb(layers: int) -> Answer:
    body = bytes(20 * 2**20)
    for _ in range(layers):
        body = gzip.compress(body)
    return as_bytes(body, "text/html", headers={"Content-Encoding": ", ".join(["gzip"] * layers)})


@pytest.mark.parametrize(("layers", "message", "most"), [(1, "more than", MOST_BYTES + 1), (2, "encoded as 'gzip, gzip'", 0)])
async def test_no_bomb_is_unpacked(layers: int, message: str, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """20 MB: not further than to the bound, and not twice."""
    unpacking = Unpacking(monkeypatch)
    async with Site({"/a": bomb(layers)}) as site:
        with pytest.raises(Malformed, match=message):
            await site.fetch("/a")
    assert unpacking.bytes <= most


@pytest.mark.parametrize(("layers", "most", "fetched"), [(1, robots.MOST_BYTES, True), (2, 0, False)])
async def test_no_bomb_of_a_robots_txt_is_unpacked(layers: int, most: int, fetched: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a long one the beginning is read (RFC 9309 §2.5); one that is packed in another way cannot be read."""
    unpacking = Unpacking(monkeypatch)
    async with Site({"/robots.txt": bomb(layers), "/a": html()}) as site:
        if fetched:
            await site.fetch("/a")
        else:
            with pytest.raises(Forbidden, match="encoded as"):
                await site.fetch("/a")
    assert unpacking.bytes <= most


async def test_hosts_that_hang_hold_up_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sixty of them, each under a name of its own."""

    async def here(host: str, port: int) -> tuple[str, ...]:
        return ("127.0.0.1",)

    def answer(request: Request) -> Answer:
        return refusal(404) if request.path == "/robots.txt" else NEVER if request.path == "/hang" else html()

    with serving(answer) as server:
        port = server.base_url.rpartition(":")[2]
        hosts = [f"h{number}.example.org:{port}" for number in range(61)]
        pages = PageFetcher(Guard(frozenset(hosts), here))
        await pages.fetch(f"http://{hosts[60]}/warm", 30.0)
        hanging = [asyncio.create_task(pages.fetch(f"http://{host}/hang", 30.0)) for host in hosts[:60]]
        while sum(request.path == "/hang" for request in server.requests) < 50:  # noqa: ASYNC110 - of another thread
            await asyncio.sleep(0.02)
        await asyncio.sleep(0.2)
        assert (await pages.fetch(f"http://{hosts[60]}/a", 30.0)).page.title == "Lysis"
        for task in hanging:
            task.cancel()
        await asyncio.gather(*hanging, return_exceptions=True)
        await pages.close()


async def test_without_time_nothing_is_begun(recwarn: pytest.WarningsRecorder) -> None:
    async with Site({"/a": html()}) as site:
        with pytest.raises(SourceTimeout):
            await site.fetch("/a", 0.0)
    gc.collect()
    assert (site.requested_paths(), [str(one.message) for one in recwarn]) == ([], [])


@pytest.mark.parametrize(
    ("body", "kind", "title"),
    [
        ("Фаги".encode("cp1251"), "text/html; charset=windows-1251", "Фаги"),
        ("噬菌体裂解".encode("gb18030"), 'text/html; charset="gb18030"', "噬菌体裂解"),
        ("Fähre".encode("cp1252"), "text/html", "Fähre"),
        ("Fähre".encode(), "text/html; charset=utf-8", "Fähre"),
        ("Fähre".encode(), "text/html; charset=no-such", "Fähre"),
    ],
)
async def test_the_encoding_of_a_page(body: bytes, kind: str, title: str) -> None:
    """The charset of the header, else of the page, else a guess from the bytes."""
    text = b"<html><head><title>" + body + b"</title></head><body>" + BODY.encode() + b"</body></html>"
    async with Site({"/a": as_bytes(text, kind)}) as site:
        assert (await site.fetch("/a")).page.title == title


async def test_a_guessed_encoding_is_named() -> None:
    russian = "<title>Фаги</title><p>Влияние бактериофагов на численность бактерий в почве и воде</p>".encode("koi8_r")
    async with Site({"/a": as_bytes(russian, "text/html")}) as site:
        page = (await site.fetch("/a")).page
    assert (page.title, page.metadata["encoding"]) == ("Фаги", "koi8_r (guessed)")


async def test_plain_text_has_no_title() -> None:
    async with Site({"/a.txt": as_text("Phages\nlyse.")}) as site:
        fetched = await site.fetch("/a.txt")
    assert (fetched.kind, fetched.page.title, fetched.page.text) == ("text", "", "Phages\nlyse.")


class Rendering:
    """A browser that sees what scripts would have made."""

    def __init__(self, html: str | SourceError) -> None:
        self.html = html
        self.requested_paths: list[str] = []

    async def render(self, url: str, within_s: float, may: NavigationCheck) -> tuple[str, str]:
        self.requested_paths.append(url)
        if isinstance(self.html, SourceError):
            raise self.html
        return url, self.html


EMPTY = "<html><head><title>App</title></head><body><div id=root></div><script src=/app.js></script></body></html>"


async def test_a_page_made_by_scripts_is_read_by_the_browser_if_there_is_one() -> None:
    async with Site({"/a": html(EMPTY), "/b": html()}) as site:
        assert (await site.fetch("/a")).needs_browser
        assert not (await site.fetch("/b")).needs_browser
    browser = Rendering(PAGE)
    async with Site({"/a": html(EMPTY), "/b": html()}, browser=browser) as site:
        fetched = await site.fetch("/a")
        await site.fetch("/b")
    assert (fetched.page.title, fetched.needs_browser, browser.requested_paths) == ("Lysis", False, [f"{site.url}/a"])


async def test_the_plain_page_is_used_where_the_browser_fails() -> None:
    async with Site({"/a": html(EMPTY)}, browser=Rendering(SourceUnavailable("crashed"))) as site:
        fetched = await site.fetch("/a")
    assert (fetched.page.title, fetched.needs_browser) == ("App", True)


async def test_time_includes_what_is_done_with_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    real, release = module.parse_body, threading.Event()
    monkeypatch.setattr(module, "parse_body", lambda *args: release.wait(600) and real(*args))
    async with Site({"/a": html()}) as site:
        with pytest.raises(SourceTimeout):
            await site.fetch("/a", 0.3)
        release.set()


@pytest.mark.skipif(not DATA.exists(), reason=f"no data at {DATA}; set OUTRIDER_DATA")
async def test_saved_pages_are_fetched_with_their_main_text() -> None:
    """Every link and identifier of a record occurs in the page that it came from, or in its address."""
    sources = sorted((DATA / "web/readability").glob("*/source.html"))[::4]
    async with Site({f"/{number}": as_bytes(source.read_bytes(), "text/html") for number, source in enumerate(sources)}) as site:
        for number, source in enumerate(sources):
            page = (await site.fetch(f"/{number}")).page
            text = source.read_text(encoding="utf-8", errors="replace").lower()
            assert len(page.text) > 100 or source.parent.name in {"basic-tags-cleaning", "base-url"}, source
            for name in (*dict(page.identifiers.pairs()).values(), *(edge.target.partition(":")[2] for edge in page.edges)):
                assert re.search(re.escape(name).replace("/", "(?:/|%2f)"), text), (source, name)


WORST = {
    "paragraphs": '<p class="a b c" id="comment">t</p>',
    "long paragraphs": "<p>Some words here about the liver and drugs of it, which may block the flow of bile.</p>",
    "divisions": "<div>x</div>",
    "table": "<tr>" + "<td>abc def</td>" * 20 + "</tr>",
    "links": '<a href="https://doi.org/10.1000/x1">a</a>',
    "list": "<li>a <b>b</b></li>",
    "spans": "<span>a</span>",
    "deep": "<div>",
}


@pytest.mark.parametrize("shape", WORST)
def test_no_page_takes_long_to_read(shape: str) -> None:
    """Five megabytes once took over half a minute; now under two seconds of one core, and the cut is reported."""
    module.parse_body("http://x.org/", PAGE.encode(), "text/html")
    body = b"<html><body>" + (WORST[shape] * (MOST_BYTES // len(WORST[shape]))).encode()
    began = time.process_time()
    page = module.parse_body("http://x.org/", body, "text/html").page
    assert time.process_time() - began < 4.0
    assert "were read" in str(page.metadata["cut"])


def test_a_long_page_keeps_its_beginning() -> None:
    """Elements in their order, and no text of what comes after; a page within the bounds is whole."""
    parts = [f"<p>Paragraph number {number} says something about bacteria.</p>" for number in range(6_000)]
    page = module.parse_body("http://x.org/", f"<body><div>{''.join(parts)}tail</div>after</body>".encode(), "text/html").page
    lines = page.text.split("\n\n")
    assert lines == [part[3:-4] for part in parts[: len(lines)]]
    assert 4_900 < len(lines) < module.MOST_NODES
    assert page.metadata["cut"] == "only its first 5,000 elements were read"
    whole = module.parse_body("http://x.org/", f"<body><div>{''.join(parts[:2_100])}</div></body>".encode(), "text/html").page
    assert ("cut" in whole.metadata, whole.text.count("Paragraph")) == (False, 2_100)


@given(
    st.integers(1, 60), st.recursive(st.just("<i>x</i>y"), lambda inner: st.lists(inner, max_size=4).map(lambda p: f"<p>{''.join(p)}</p>z"))
)
def test_a_page_is_cut_after_so_many_elements(most: int, body: str) -> None:
    whole, cut = pages_html.parse_tree(f"<body>{body}</body>"), pages_html.parse_tree(f"<body>{body}</body>")
    tags = [node.tag for node in whole.iter()]
    assert pages_html._cut(cut, most) == (len(tags) > most)
    assert [node.tag for node in cut.iter()] == tags[:most]
    assert "".join(whole.itertext()).startswith("".join(cut.itertext()))


async def test_two_pages_are_parsed_at_once_and_expired_requests_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    now, most, began = 0, 0, list[str]()
    real, release, both_began = module.parse_body, threading.Event(), threading.Event()

    def slow(url: str, body: bytes, kind: str) -> FetchedPage:
        nonlocal now, most
        now += 1
        most = max(most, now)
        began.append(url)
        if len(began) == 2:
            both_began.set()
        release.wait(600)
        now -= 1
        return real(url, body, kind)

    monkeypatch.setattr(module, "parse_body", slow)
    async with Site({f"/{number}": html() for number in range(8)}) as site:
        first = [asyncio.create_task(site.fetch(f"/{number}", 600)) for number in range(2)]
        assert await asyncio.to_thread(both_began.wait, 600)  # both places are taken until the test lets go
        expired = [asyncio.create_task(site.fetch(f"/{number}", 0.2)) for number in range(2, 6)]
        assert {type(error) for error in await asyncio.gather(*expired, return_exceptions=True)} == {SourceTimeout}
        for task in first:
            task.cancel()
        await asyncio.gather(*first, return_exceptions=True)
        release.set()
        await asyncio.gather(site.fetch("/6"), site.fetch("/7"))
    assert (most, len(began)) == (2, 4)
