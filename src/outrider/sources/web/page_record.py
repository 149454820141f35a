"""What came for a link, as a record: decoded, read as a page, in a thread, and within bounds that hold.

A thread cannot be stopped, so what is read is bounded, not the time: `MOST_CHARS` of a page and `MOST_NODES` of its elements
(`html.page_of`). Two are read at once in this process, in the order of their coming: Python runs one thread at a time anyway, and many at
once would all come too late instead of some in time.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import cache
from typing import Literal

from pydantic import JsonValue

from outrider.runtime.threads import call_on, run_in_thread
from outrider.sources.web.html_page import declared_charset, parse_page
from outrider.sources.web.link_identifiers import find_identifiers
from outrider.state.errors import Malformed
from outrider.state.records import Identifiers, Page
from outrider.text.encoding import NotText, decode_text

Kind = Literal["html", "text", "pdf", "doi"]

NAME = "web"
AT_ONCE = 2
MOST_CHARS = 1_000_000
MOST_NODES = 5_000
"""The worst that we could make of both took 0.9 s of one core; a page of an encyclopaedia with 2,800 takes 0.3 s."""
FEW_CHARS = 200
"""A page with scripts and less text than this is made by them."""
KINDS: dict[str, Kind] = {
    "text/html": "html",
    "application/xhtml+xml": "html",
    "text/plain": "text",
    "text/markdown": "text",
    "application/pdf": "pdf",
}


@dataclass(frozen=True, slots=True)
class FetchedPage:
    """What a link led to. Of a PDF and of a DOI the record holds nothing but link and identifiers: neither was fetched."""

    url: str
    """After redirects."""
    kind: Kind
    page: Page
    needs_browser: bool = False
    """It has scripts and hardly any text: a browser would see more."""


async def read_page(url: str, body: bytes, said: str) -> FetchedPage:
    """A body and what its Content-Type says. Runs on the background loop; raises `Malformed`."""
    turn, loop = _turn(), asyncio.get_running_loop()
    await turn.acquire()

    def work() -> FetchedPage:
        try:
            return parse_body(url, body, said)
        finally:
            call_on(loop, turn.release)

    return await run_in_thread(work, "outrider-page")


@cache
def _turn() -> asyncio.Semaphore:
    """For the process. Given back when the thread is done, not when whoever asked has left."""
    return asyncio.Semaphore(AT_ONCE)


def parse_body(url: str, body: bytes, said: str) -> FetchedPage:
    kind = KINDS[media_type(said)]
    parameters = (part.partition("=") for part in said.split(";")[1:])
    charset = next((value.strip(" \"'").lower() for name, _, value in parameters if name.strip().lower() == "charset" and value), None)
    try:
        text = decode_text(body, charset or (declared_charset(body) if kind == "html" else None))
    except NotText as why:
        raise Malformed(f"{url}: {why}") from why
    if kind == "text":
        return FetchedPage(url, kind, build_record(url, Page(doc_id="", text=text.text, metadata={**text.encoding.metadata()})))
    beginning = _beginning(text.text)
    cut: dict[str, JsonValue] = (
        {"cut": f"only its first {len(beginning):,} characters were read"} if len(beginning) < len(text.text) else {}
    )
    try:
        page = parse_page(beginning, {**text.encoding.metadata(), **cut}, MOST_NODES)
    except Malformed as broken:
        raise Malformed(f"{url}: {broken}") from broken
    return FetchedPage(url, kind, build_record(url, page), len(page.text) < FEW_CHARS and "<script" in beginning.lower())


def build_record(url: str, page: Page | None = None) -> Page:
    """The page under the link that it came from, with what that link names beside what the page says of itself."""
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


def media_type(said: str) -> str:
    """The type that a Content-Type names."""
    return said.partition(";")[0].strip().lower()


def _beginning(html: str) -> str:
    """What is read of a page; no tag is cut through unless it is half of that."""
    if len(html) <= MOST_CHARS:
        return html
    end = html.rfind("<", MOST_CHARS // 2, MOST_CHARS)
    return html[: end if end > 0 else MOST_CHARS]
