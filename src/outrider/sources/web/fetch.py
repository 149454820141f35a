"""Fetcher of linked web pages: robots.txt, one request a second and host, bounded size

Plain HTTP first; a page that its scripts build is loaded again in a browser if there is one. A link to a DOI is never fetched: the work
is looked up by its DOI. A PDF is reported, not fetched. Every link, those of redirects too, passes the `Guard`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urljoin, urlsplit

from outrider.runtime.threads_and_loops import in_background
from outrider.sources.http.rate_limit import parse_retry_after
from outrider.sources.http.service import MEBIBYTE
from outrider.sources.http.ssrf_guard import Guard, Target
from outrider.sources.http.transport import ACCEPTED, read_body, read_body_start
from outrider.sources.web import crawl_rules as robots
from outrider.sources.web.browser_tab import NavigationCheck
from outrider.sources.web.crawl_rules import HostSchedule, RobotsRules
from outrider.sources.web.link_identifiers import find_doi
from outrider.sources.web.page_record import KINDS, FetchedPage, build_record, media_type, read_page
from outrider.state.errors import Forbidden, Malformed, RateLimited, SourceError, SourceTimeout, SourceUnavailable
from outrider.text.sanitize import redact

if TYPE_CHECKING:
    import httpx

MOST_BYTES = 5 * MEBIBYTE
MOST_REDIRECTS = 5
MOST_SITES = 1_000
"""Whose robots.txt is remembered."""
ROBOTS_S = 86_400.0
"""How long a robots.txt holds ..."""
REFUSED_S = 600.0
"""... and how long one that could not be read keeps us away."""
PAUSE_S = 60.0
"""For a host that says too often and not for how long."""
BROWSER_S = 1.0
"""Less time is not worth starting a browser for."""
REDIRECTS = frozenset({301, 302, 303, 307, 308})


class Browser(Protocol):
    """Runs a page's scripts. Raises `SourceError`."""

    async def render(self, url: str, within_s: float, may: NavigationCheck) -> tuple[str, str]:
        """Where it ended, and its HTML. `may` is asked of every address that the page itself goes to, redirects included."""
        ...


@dataclass(slots=True)
class _Site:
    """What is known of one host at one port."""

    reading: asyncio.Lock = field(default_factory=asyncio.Lock)
    rules: RobotsRules | None = None
    until: float = 0.0


@dataclass(slots=True)
class PageFetcher:
    """Fetches pages. Everything runs on the background loop: one client, one turn a host, for all searches of this process."""

    guard: Guard
    agent: str = "Outrider"
    """Who asks, as the user agent says it: name, version, and how to reach whoever runs this."""
    browser: Browser | None = None
    per_s: float = 1.0
    """Seconds between two requests of one host, unless its robots.txt asks for more. That file itself does not wait."""
    clock: Callable[[], float] = time.time
    _sites: dict[str, _Site] = field(default_factory=dict)
    _visits: HostSchedule = field(init=False)
    _client: httpx.AsyncClient | None = None

    def __post_init__(self) -> None:
        self._visits = HostSchedule(self.clock)

    async def fetch(self, url: str, within_s: float) -> FetchedPage:
        """Raises `SourceError`: `Forbidden` by our guard, by its robots.txt or by itself, `RateLimited`, `Malformed` for another type."""
        return await in_background(self._follow(url, within_s))

    async def close(self) -> None:
        if self._client:
            await in_background(self._client.aclose())

    async def _follow(self, url: str, within_s: float) -> FetchedPage:
        start_url = url
        try:
            async with asyncio.timeout(max(within_s, 0.0)):
                await asyncio.sleep(0)  # without time nothing is begun
                until = time.monotonic() + within_s
                for _ in range(MOST_REDIRECTS + 1):
                    target = self.guard.target(url)
                    found: FetchedPage | str | None = _known_by_link(target.url)
                    if found is None:
                        await self._turn(target, until)
                        response = await self._get(target)
                        found = await read_page(target.url, *response) if isinstance(response, tuple) else response
                    if isinstance(found, FetchedPage):
                        return await self._load_in_browser(found, until)
                    url = urljoin(target.url, found)
                raise SourceUnavailable(f"{url} redirects more than {MOST_REDIRECTS} times")
        except TimeoutError as error:
            raise SourceTimeout(f"{start_url} did not answer within {max(within_s, 0.0):.3g} s") from error

    async def _turn(self, target: Target, until: float) -> None:
        """Waits until the host may be asked for it."""
        rules = await self._rules(target)
        if not rules.allow(target.url):
            raise Forbidden(f"robots.txt of {target.host} does not allow {target.url}" + (f": {rules.refusing}" if rules.refusing else ""))
        await self._visits.wait_turn(target.host, max(self.per_s, rules.delay_s), until)

    async def _get(self, target: Target) -> FetchedPage | str | tuple[bytes, str]:
        """Where it redirects to, or a PDF, or a body and what its Content-Type says."""
        async with _errors(target.host), self._http().stream("GET", target.url) as response:
            if response.status_code in REDIRECTS and response.headers.get("location"):
                return str(response.headers["location"])
            if (status := response.status_code) != 200:
                message = f"{target.url} answered {status}"
                headers = {name.lower(): value for name, value in response.headers.items()}
                pause_s = parse_retry_after(headers, self.clock())
                if status == 429 or (status == 503 and pause_s is not None):
                    retry_at = self.clock() + (pause_s if pause_s is not None else PAUSE_S)
                    self._visits.close(target.host, retry_at, f"it answered {status}")
                    raise RateLimited(message, retry_at)
                raise Forbidden(message) if status in {401, 402, 403, 451} else SourceUnavailable(message)
            said = str(response.headers.get("content-type", "text/html"))
            kind = KINDS.get(media_type(said))
            if kind == "pdf":
                return FetchedPage(target.url, "pdf", build_record(target.url))
            if kind is None:
                raise Malformed(f"{target.url} is {media_type(said)[:80] or 'of no type'}, not a page")
            return await read_body(response, MOST_BYTES, f"{target.url} answered with"), said

    async def _load_in_browser(self, fetched: FetchedPage, until: float) -> FetchedPage:
        """The page with what its scripts made of it. Where they lead is asked by the same rules as a redirect."""
        left_s = until - time.monotonic()
        if not (fetched.needs_browser and self.browser and left_s > BROWSER_S):
            return fetched
        leading: list[FetchedPage] = []

        async def may(url: str) -> None:
            target = self.guard.target(url)
            if leads := _known_by_link(target.url):
                leading.append(leads)
                raise Forbidden(f"{fetched.url} leads to {target.url}, which is not fetched")
            if target.url != fetched.url:  # whose turn this is
                await self._turn(target, until)

        try:
            url, html = await self.browser.render(fetched.url, left_s, may)
        except SourceError:
            return leading[0] if leading else fetched
        seen = _known_by_link(url) or await read_page(url, html.encode(errors="replace"), "text/html; charset=utf-8")
        return seen if len(seen.page.text) > len(fetched.page.text) else fetched

    async def _rules(self, target: Target) -> RobotsRules:
        """What its robots.txt says, read once a day however many ask."""
        origin = f"{target.scheme}://{target.host}:{target.port}"
        if origin not in self._sites and len(self._sites) >= MOST_SITES:
            del self._sites[next(iter(self._sites))]
        site = self._sites.setdefault(origin, _Site())
        async with site.reading:
            if site.rules is None or self.clock() >= site.until:
                site.rules = await self._robots(urljoin(target.url, "/robots.txt"))
                site.until = self.clock() + (REFUSED_S if site.rules.refusing else ROBOTS_S)
            return site.rules

    async def _robots(self, url: str) -> RobotsRules:
        """RFC 9309 §2.3.1: a file that is not there allows everything, one that cannot be had nothing."""
        for _ in range(MOST_REDIRECTS + 1):
            target = self.guard.target(url)
            async with _errors(target.host), self._http().stream("GET", target.url) as response:
                status = response.status_code
                if status in REDIRECTS and response.headers.get("location"):
                    url = urljoin(target.url, response.headers["location"])
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
        """Sends and keeps no cookies, follows nothing by itself, uses no proxy of the environment."""
        if self._client is None:
            from http.cookiejar import CookieJar, DefaultCookiePolicy

            import httpx

            from outrider.sources.http.pinned_transport import PinnedTransport  # loads httpx

            self._client = httpx.AsyncClient(
                transport=PinnedTransport(self.guard),
                trust_env=False,
                follow_redirects=False,
                timeout=httpx.Timeout(None, connect=5.0),  # the whole is bounded by whoever asks
                cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
                headers={
                    "User-Agent": self.agent,
                    "Accept": "text/html,application/xhtml+xml,text/plain;q=0.8,*/*;q=0.1",
                    "Accept-Encoding": ACCEPTED,
                },
            )
        return self._client


def _known_by_link(url: str) -> FetchedPage | None:
    """What is known by its link alone, and never fetched."""
    if find_doi(url):
        return FetchedPage(url, "doi", build_record(url))
    return FetchedPage(url, "pdf", build_record(url)) if urlsplit(url).path.lower().endswith(".pdf") else None


class _errors:  # noqa: N801 - used as a function
    """The client's errors as ours."""

    def __init__(self, host: str) -> None:
        self.host = host

    async def __aenter__(self) -> None:
        return None

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        import httpx

        if isinstance(error, httpx.HTTPError | httpx.InvalidURL):
            raise SourceUnavailable(f"{self.host} could not be reached: {redact(error, '') or type(error).__name__}") from error
