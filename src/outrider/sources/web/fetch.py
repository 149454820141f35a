"""Fetcher of linked web pages, each parsed to a record: robots.txt, pauses, bounded size

Pages are fetched with plain HTTP first; a page that scripts build is loaded again in a browser, if there is one. A DOI
link is never fetched: the work is looked up by its DOI. A PDF is reported, not fetched. The `Guard` checks every link and redirect.

A fetched page is decoded and parsed in a thread. A thread cannot be stopped, so the input is bounded, not the
time: `MOST_CHARS` of a page and `MOST_NODES` of its elements (`html_page.parse_page`). The process parses two pages at a time, in order of
arrival: because of the GIL, many concurrent parses would all miss their deadlines.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol
from urllib.parse import urljoin, urlsplit

from pydantic import JsonValue

from outrider.runtime.run_calls import count_call
from outrider.runtime.threads_and_loops import call_on, in_background, run_in_thread
from outrider.sources.http.rate_limit import parse_retry_after
from outrider.sources.http.service import MEBIBYTE
from outrider.sources.http.ssrf_guard import Guard, Target
from outrider.sources.http.transport import ACCEPTED, read_body, read_body_start
from outrider.sources.web import crawl_rules as robots
from outrider.sources.web.browser_tab import NavigationCheck
from outrider.sources.web.crawl_rules import HostSchedule, RobotsRules
from outrider.sources.web.html_page import declared_charset, parse_page
from outrider.sources.web.link_identifiers import find_doi, find_identifiers
from outrider.state.errors import Forbidden, Malformed, RateLimited, SourceError, SourceTimeout, SourceUnavailable
from outrider.state.records import Identifiers, Page
from outrider.text.encoding import NotText, decode_text
from outrider.text.sanitize import redact

if TYPE_CHECKING:
    import httpx

MOST_BYTES = 5 * MEBIBYTE
MOST_REDIRECTS = 5
MOST_SITES = 1_000
"""Sites whose robots.txt stays in memory."""
ROBOTS_S = 86_400.0
"""How long a robots.txt is valid ..."""
REFUSED_S = 600.0
"""... and how long an unreadable one forbids the site."""
PAUSE_S = 60.0
"""Pause for a host that answers 429 without Retry-After."""
BROWSER_S = 1.0
"""With less time left the browser is not used."""
REDIRECTS = frozenset({301, 302, 303, 307, 308})


FAILURES = 3
"""Files of a host in a row that could not be fetched, after which it is left alone for a while."""
FILE_TYPES = "application/xml,text/xml,application/pdf,text/html;q=0.9,application/xhtml+xml;q=0.9,*/*;q=0.1"


@dataclass(frozen=True, slots=True)
class FetchedFile:
    """A file as its host sent it."""

    url: str
    """After redirects."""
    content_type: str
    headers: Mapping[str, str]
    """By lower-case name."""
    body: bytes = field(repr=False)


class Browser(Protocol):
    """Runs a page's scripts. Raises `SourceError`."""

    async def render(self, url: str, within_s: float, may: NavigationCheck) -> tuple[str, str]:
        """The final URL and the HTML. `may` is called with every URL that the page itself navigates to, redirects included."""
        ...


@dataclass(slots=True)
class _Site:
    """Cached robots.txt rules of one origin."""

    reading: asyncio.Lock = field(default_factory=asyncio.Lock)
    rules: RobotsRules | None = None
    until: float = 0.0


@dataclass(slots=True)
class PageFetcher:
    """Fetches pages on the background loop: all searches of this process share one client and one schedule per host."""

    guard: Guard
    agent: str = "Outrider"
    """User agent: name, version and contact of the operator."""
    browser: Browser | None = None
    per_s: float = 1.0
    """Seconds between two requests to one host, unless its robots.txt demands more. Requests for robots.txt do not wait."""
    clock: Callable[[], float] = time.time
    _sites: dict[str, _Site] = field(default_factory=dict)
    _failures: dict[str, int] = field(default_factory=dict)
    """Failures in a row, by host."""
    _visits: HostSchedule = field(init=False)
    _client: httpx.AsyncClient | None = None

    def __post_init__(self) -> None:
        self._visits = HostSchedule(self.clock)

    async def fetch(self, url: str, within_s: float) -> FetchedPage:
        """Raises `SourceError`: `Forbidden` (by the guard, robots.txt or the host), `RateLimited`, `Malformed` for another media type."""
        return await in_background(self._follow(url, within_s))

    async def fetch_file(self, url: str, within_s: float, most_bytes: int, check: Callable[[str], str]) -> FetchedFile:
        """A file under a link that a service calls open, with the same manners as a page, a DOI's and a PDF's link included.

        `check` says of each address, redirects included, why it may not be requested; empty if it may. Raises as `fetch`, `Malformed` for
        more than `most_bytes`. A host that fails several times in a row is left alone for a while.
        """
        return await in_background(self._follow_file(url, within_s, most_bytes, check))

    async def _follow_file(self, url: str, within_s: float, most_bytes: int, check: Callable[[str], str]) -> FetchedFile:
        start_url = url
        try:
            async with asyncio.timeout(max(within_s, 0.0)):
                await asyncio.sleep(0)
                until = time.monotonic() + within_s
                for _ in range(MOST_REDIRECTS + 1):
                    target = self.guard.target(url)
                    if reason := check(target.url):
                        raise Forbidden(f"{start_url} leads to {reason}: {target.url}" if url != start_url else f"{url} is {reason}")
                    await self._turn(target, until)
                    result = await self._get_file(target, most_bytes)
                    if isinstance(result, FetchedFile):
                        return result
                    url = follow_redirect(target.url, result)
                raise SourceUnavailable(f"{url} redirects more than {MOST_REDIRECTS} times")
        except TimeoutError as error:
            raise SourceTimeout(f"{start_url} did not answer within {max(within_s, 0.0):.3g} s") from error

    async def _get_file(self, target: Target, most_bytes: int) -> FetchedFile | str:
        """A file, or the target of a redirect. A host that fails several times in a row is closed for a while."""
        has_answered = False
        try:
            async with _errors(target.host), self._http().stream("GET", target.url, headers={"Accept": FILE_TYPES}) as response:
                has_answered = response.status_code < 500
                if response.status_code in REDIRECTS and response.headers.get("location"):
                    return str(response.headers["location"])
                if response.status_code != 200:
                    self._refuse_status(response, target)
                body = await read_body(response, most_bytes, f"{target.url} answered with")
                headers = {name.lower(): value for name, value in response.headers.items()}
                return FetchedFile(target.url, media_type(headers.get("content-type", "")), headers, body)
        except SourceUnavailable as error:
            if not has_answered:
                failed = self._failures[target.host] = self._failures.get(target.host, 0) + 1
                if failed >= FAILURES:
                    until = self.clock() + robots.pause_after(failed - FAILURES + 1)
                    self._visits.close(target.host, until, str(error), SourceUnavailable)
            raise
        finally:
            if has_answered:
                self._failures.pop(target.host, None)

    def _refuse_status(self, response: httpx.Response, target: Target) -> None:
        """Raise the error of an answer other than 200."""
        status, message = response.status_code, f"{target.url} answered {response.status_code}"
        headers = {name.lower(): value for name, value in response.headers.items()}
        pause_s = parse_retry_after(headers, self.clock())
        if status == 429 or (status == 503 and pause_s is not None):
            retry_at = self.clock() + (pause_s if pause_s is not None else PAUSE_S)
            self._visits.close(target.host, retry_at, f"it answered {status}")
            raise RateLimited(message, retry_at)
        if status in {401, 402, 403, 451}:
            raise Forbidden(message)
        raise SourceUnavailable(message)

    async def close(self) -> None:
        if self._client:
            await in_background(self._client.aclose())

    async def _follow(self, url: str, within_s: float) -> FetchedPage:
        start_url = url
        try:
            async with asyncio.timeout(max(within_s, 0.0)):
                await asyncio.sleep(0)  # raises TimeoutError before the first request if no time is left
                until = time.monotonic() + within_s
                for _ in range(MOST_REDIRECTS + 1):
                    target = self.guard.target(url)
                    result: FetchedPage | str | None = _known_by_link(target.url)
                    if result is None:
                        await self._turn(target, until)
                        response = await self._get(target)
                        result = await read_page(target.url, *response) if isinstance(response, tuple) else response
                    if isinstance(result, FetchedPage):
                        return await self._load_in_browser(result, until)
                    url = follow_redirect(target.url, result)
                raise SourceUnavailable(f"{url} redirects more than {MOST_REDIRECTS} times")
        except TimeoutError as error:
            raise SourceTimeout(f"{start_url} did not answer within {max(within_s, 0.0):.3g} s") from error

    async def _turn(self, target: Target, until: float) -> None:
        """Check robots.txt, which is read at most once a day, and wait until the host may be requested."""
        origin = f"{target.scheme}://{target.host}:{target.port}"
        if origin not in self._sites and len(self._sites) >= MOST_SITES:
            del self._sites[next(iter(self._sites))]
        site = self._sites.setdefault(origin, _Site())
        async with site.reading:
            if site.rules is None or self.clock() >= site.until:
                site.rules = await self._robots(urljoin(target.url, "/robots.txt"))
                site.until = self.clock() + (REFUSED_S if site.rules.refusing else ROBOTS_S)
            rules = site.rules
        if not rules.allow(target.url):
            raise Forbidden(f"robots.txt of {target.host} does not allow {target.url}" + (f": {rules.refusing}" if rules.refusing else ""))
        await self._visits.wait_turn(target.host, max(self.per_s, rules.delay_s), until)

    async def _get(self, target: Target) -> FetchedPage | str | tuple[bytes, str]:
        """The target of a redirect, the record of a PDF, or a body and its Content-Type."""
        count_call("pages")
        async with _errors(target.host), self._http().stream("GET", target.url) as response:
            if response.status_code in REDIRECTS and response.headers.get("location"):
                return str(response.headers["location"])
            if response.status_code != 200:
                self._refuse_status(response, target)
            content_type = str(response.headers.get("content-type", "text/html"))
            kind = KINDS.get(media_type(content_type))
            if kind == "pdf":
                return FetchedPage(target.url, "pdf", build_record(target.url))
            if kind is None:
                raise Malformed(f"{target.url} is {media_type(content_type)[:80] or 'of no type'}, not a page")
            return await read_body(response, MOST_BYTES, f"{target.url} answered with"), content_type

    async def _load_in_browser(self, fetched: FetchedPage, until: float) -> FetchedPage:
        """The page after its scripts have run. Their navigations are checked like redirects."""
        left_s = until - time.monotonic()
        if not (fetched.needs_browser and self.browser and left_s > BROWSER_S):
            return fetched
        unfetched_targets: list[FetchedPage] = []

        async def may(url: str) -> None:
            target = self.guard.target(url)
            if unfetched := _known_by_link(target.url):
                unfetched_targets.append(unfetched)
                raise Forbidden(f"{fetched.url} leads to {target.url}, which is not fetched")
            if target.url != fetched.url:  # its turn has already been waited for
                await self._turn(target, until)

        try:
            url, html = await self.browser.render(fetched.url, left_s, may)
        except SourceError:
            return unfetched_targets[0] if unfetched_targets else fetched
        rendered = _known_by_link(url) or await read_page(url, html.encode(errors="replace"), "text/html; charset=utf-8")
        return rendered if len(rendered.page.text) > len(fetched.page.text) else fetched

    async def _robots(self, url: str) -> RobotsRules:
        """Read robots.txt. A missing file allows everything, an unreachable one nothing (RFC 9309 §2.3.1)."""
        for _ in range(MOST_REDIRECTS + 1):
            target = self.guard.target(url)
            async with _errors(target.host), self._http().stream("GET", target.url) as response:
                status = response.status_code
                if status in REDIRECTS and response.headers.get("location"):
                    url = follow_redirect(target.url, response.headers["location"])
                    continue
                if status == 429 or status >= 500:
                    return RobotsRules(refusing=f"it could not be read ({status})")
                if status != 200:
                    return RobotsRules()
                try:
                    body = await read_body_start(response, robots.MOST_BYTES, "it answered with")
                except Malformed as why:
                    return RobotsRules(refusing=str(why))
                return robots.parse_robots(body.decode(errors="replace"))
        return RobotsRules()

    def _http(self) -> httpx.AsyncClient:
        """The client: without cookies, redirects and proxies of the environment."""
        if self._client is None:
            from http.cookiejar import CookieJar, DefaultCookiePolicy

            import httpx

            from outrider.sources.http.pinned_transport import PinnedTransport  # loads httpx

            self._client = httpx.AsyncClient(
                transport=PinnedTransport(self.guard),
                trust_env=False,
                follow_redirects=False,
                timeout=httpx.Timeout(None, connect=5.0),  # the caller limits the total time
                cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
                headers={
                    "User-Agent": self.agent,
                    "Accept": "text/html,application/xhtml+xml,text/plain;q=0.8,*/*;q=0.1",
                    "Accept-Encoding": ACCEPTED,
                },
            )
        return self._client


def follow_redirect(url: str, location: str) -> str:
    """The address that a page redirects to. Raises `Malformed` for one that is none, such as `http://[x`."""
    try:
        return urljoin(url, location)
    except ValueError as error:
        raise Malformed(f"{url} redirects to what is no address: {redact(location[:100], '')}") from error


def _known_by_link(url: str) -> FetchedPage | None:
    """The record of a link that is never fetched: a DOI or a PDF."""
    if find_doi(url):
        return FetchedPage(url, "doi", build_record(url))
    return FetchedPage(url, "pdf", build_record(url)) if urlsplit(url).path.lower().endswith(".pdf") else None


class _errors:  # noqa: N801 - used as a function
    """Raise the client's errors as `SourceError`."""

    def __init__(self, host: str) -> None:
        self.host = host

    async def __aenter__(self) -> None:
        return None

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        import httpx

        if isinstance(error, httpx.HTTPError | httpx.InvalidURL):
            raise SourceUnavailable(f"{self.host} could not be reached: {redact(error, '') or type(error).__name__}") from error


Kind = Literal["html", "text", "pdf", "doi"]

NAME = "web"
AT_ONCE = 2
PARSE_SLOTS = asyncio.Semaphore(AT_ONCE)
"""For the process. Released when the thread ends, not when the caller gives up."""
MOST_CHARS = 1_000_000
MOST_NODES = 5_000
"""The slowest page that we could construct took 0.9 s on one core; an encyclopaedia page with 2,800 elements takes 0.3 s."""
FEW_CHARS = 200
"""A page with scripts and less text than this is assumed to be built by its scripts."""
KINDS: dict[str, Kind] = {
    "text/html": "html",
    "application/xhtml+xml": "html",
    "text/plain": "text",
    "text/markdown": "text",
    "application/pdf": "pdf",
}


@dataclass(frozen=True, slots=True)
class FetchedPage:
    """The target of a link. The record of a PDF or DOI has only link and identifiers, because neither is fetched."""

    url: str
    """After redirects."""
    kind: Kind
    page: Page
    needs_browser: bool = False
    """It has scripts and hardly any text, so that a browser may return more."""


async def read_page(url: str, body: bytes, content_type: str) -> FetchedPage:
    """A body and its Content-Type. Runs on the background loop; raises `Malformed`."""
    loop = asyncio.get_running_loop()
    await PARSE_SLOTS.acquire()

    def work() -> FetchedPage:
        try:
            return parse_body(url, body, content_type)
        finally:
            call_on(loop, PARSE_SLOTS.release)

    return await run_in_thread(work, "outrider-page")


def parse_body(url: str, body: bytes, content_type: str) -> FetchedPage:
    """The page of a body whose media type is in `KINDS`. Raises `Malformed`."""
    kind = KINDS[media_type(content_type)]
    parameters = (part.partition("=") for part in content_type.split(";")[1:])
    charset = next((value.strip(" \"'").lower() for name, _, value in parameters if name.strip().lower() == "charset" and value), None)
    try:
        text = decode_text(body, charset or (declared_charset(body) if kind == "html" else None))
    except NotText as why:
        raise Malformed(f"{url}: {why}") from why
    if kind == "text":
        return FetchedPage(url, kind, build_record(url, Page(doc_id="", text=text.text, metadata={**text.encoding.metadata()})))
    beginning = text.text
    if len(beginning) > MOST_CHARS:  # cut before a tag, unless that would lose half of it
        end = beginning.rfind("<", MOST_CHARS // 2, MOST_CHARS)
        beginning = beginning[: end if end > 0 else MOST_CHARS]
    cut: dict[str, JsonValue] = (
        {"cut": f"only its first {len(beginning):,} characters were read"} if len(beginning) < len(text.text) else {}
    )
    try:
        page = parse_page(beginning, {**text.encoding.metadata(), **cut}, MOST_NODES)
    except Malformed as broken:
        raise Malformed(f"{url}: {broken}") from broken
    return FetchedPage(url, kind, build_record(url, page), len(page.text) < FEW_CHARS and "<script" in beginning.lower())


def build_record(url: str, page: Page | None = None) -> Page:
    """The page under its link, with the identifiers in the link besides those that it declares."""
    page = page or Page(doc_id="")
    known = {**dict(find_identifiers(url).pairs()), **dict(page.identifiers.pairs())}
    declared: dict[str, JsonValue] = {"canonical": page.url} if page.url and page.url != url else {}
    return page.model_copy(
        update={
            "doc_id": f"{NAME}:{url}",
            "source": NAME,
            "url": url,
            "identifiers": Identifiers(**known),
            "metadata": {**page.metadata, **declared},
        }
    )


def media_type(content_type: str) -> str:
    """The media type of a Content-Type."""
    return content_type.partition(";")[0].strip().lower()
