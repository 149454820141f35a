"""A fetched page as a record: decoded and parsed in a thread, within bounds

A thread cannot be stopped, so the input is bounded, not the time: `MOST_CHARS` of a page and `MOST_NODES` of its elements
(`html_page.parse_page`). The process parses two pages at a time, in order of arrival: because of the GIL, many concurrent parses would all
miss their deadlines.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import cache
from typing import Literal

from pydantic import JsonValue

from outrider.runtime.threads_and_loops import call_on, run_in_thread
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
    slots, loop = _parse_slots(), asyncio.get_running_loop()
    await slots.acquire()

    def work() -> FetchedPage:
        try:
            return parse_body(url, body, content_type)
        finally:
            call_on(loop, slots.release)

    return await run_in_thread(work, "outrider-page")


@cache
def _parse_slots() -> asyncio.Semaphore:
    """For the process. Released when the thread ends, not when the caller gives up."""
    return asyncio.Semaphore(AT_ONCE)


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
