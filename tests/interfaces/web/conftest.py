"""One server and one browser for all tests of the page; async on a loop of the session, since other tests run loops of their own."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio

from outrider.library.library import Library
from outrider.sources.http.transport import load_client
from outrider.sources.web.browser import find_chromium, unavailable_reason
from support.chat_server import ChatServer
from support.http_app import running
from support.http_server import serving
from support.page_site import Opens, answer_as_model, answer_as_services, make_records, search, services_over

if TYPE_CHECKING:
    from playwright.async_api import Browser, Page

for needed in ("langserve", "uvicorn", "prometheus_client", "playwright"):
    pytest.importorskip(needed, reason="the extras `serve` and `browser` are not installed")

SLOW = """{
  const send = window.fetch;
  window.fetch = async (...given) => {
    const answer = await send(...given);
    await new Promise((done) => setTimeout(done, MS));
    given[1]?.signal?.throwIfAborted();
    return answer;
  };
}"""
"""Delays each answer that the page gets, so that a test that reads the page at once is too early."""


@pytest.fixture(scope="session")
def page_world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, ChatServer, Path]]:
    folder = tmp_path_factory.mktemp("page")

    async def fill() -> None:
        library = await Library.open(folder / "library", create=True)
        await library.upsert(make_records())
        await library.optimize(force=True)
        library.close()

    asyncio.run(fill())
    load_client()  # a first search would wait for the thread in which the server loads it
    with serving(answer_as_services) as server, ChatServer(answer_as_model) as chat:
        yield server.base_url, chat, folder


@pytest.fixture(scope="session")
def site(page_world: tuple[str, ChatServer, Path]) -> Iterator[str]:
    with running(services_over(*page_world)) as address:
        yield address


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    if why := unavailable_reason():
        pytest.skip(why)
    from playwright.async_api import async_playwright

    async with async_playwright() as playwright:
        chromium = await playwright.chromium.launch(executable_path=find_chromium(), chromium_sandbox=os.geteuid() != 0)
        yield chromium
        await chromium.close()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def opens(browser: Browser, site: str) -> Opens:
    """Opens the page in a fresh context. Any console error, including a policy violation, fails the test."""

    @asynccontextmanager
    async def open_page(address: str = site, *, ready: bool = True, **context: Any) -> AsyncIterator[Page]:
        errors: list[str] = []
        browser_context = await browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **context})
        browser_context.set_default_timeout(60_000)
        if delay := os.environ.get("SLOW_PAGE_MS"):
            await browser_context.add_init_script(SLOW.replace("MS", delay))
        tab = await browser_context.new_page()
        tab.on("pageerror", lambda error: errors.append(str(error)))
        tab.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
        await tab.goto(f"{address}/")
        if ready:
            await tab.wait_for_selector("html[data-ready=yes]")
        try:
            yield tab
        finally:
            await browser_context.close()
        expected = ("the server responded with a status of", "net::ERR_FAILED")  # of requests that a test lets fail
        assert [one for one in errors if not any(text in one for text in expected)] == []

    return open_page


@pytest_asyncio.fixture(loop_scope="session")
async def page(opens: Opens) -> AsyncIterator[Page]:
    async with opens() as tab:
        yield tab


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def results_page(opens: Opens) -> AsyncIterator[Page]:
    """The page with the answer to one search; tests restore its state."""
    async with opens() as tab:
        await search(tab, top_k=30)
        yield tab
