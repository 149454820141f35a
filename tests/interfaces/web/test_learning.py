"""Learning from use on the page: what is kept, dropped and opened is recorded, and past queries are offered."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from outrider.services import Services
from outrider.services.citation_queue import find_library_address
from outrider.services.learning import find_learning_store
from outrider.settings.model import LearningSettings, Settings
from support import fakes
from support.http_app import running
from support.page_site import Opens, check
from support.saved_searches import article

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]


@pytest.fixture(scope="module")
def learning_services(tmp_path_factory: pytest.TempPathFactory) -> Services:
    folder: Path = tmp_path_factory.mktemp("learning")
    shelf = fakes.Shelf([article(number, url=f"https://doi.org/10.1000/{number}") for number in range(4)])
    settings = Settings(learning=LearningSettings(enabled=True, file=str(folder / "learning.sqlite")))
    return Services(settings, shelf=shelf, sources=(shelf,), reranker=fakes.no_reranker)


@pytest.fixture(scope="module")
def learning_site(learning_services: Services) -> Iterator[str]:
    with running(learning_services) as address:
        yield address


async def test_what_is_kept_dropped_and_opened_is_recorded(opens: Opens, learning_site: str, learning_services: Services) -> None:
    settings = learning_services.settings
    store, library = find_learning_store(settings), find_library_address(settings)
    async with opens(learning_site) as tab:
        await tab.context.route("https://doi.org/**", lambda route: route.fulfill(body="a paper"))
        await tab.get_by_role("searchbox").fill("aspirin studies")
        await tab.get_by_role("searchbox").press("Enter")
        await tab.locator("#hits .hit.done").nth(3).wait_for()
        ids = [await tab.locator("#hits .hit").nth(at).get_attribute("data-id") for at in range(3)]
        async with tab.expect_response("**/api/feedback"):
            await tab.locator("#hits .hit").nth(0).get_by_role("button", name="Keep").press("Enter")
        async with tab.expect_response("**/api/feedback"):
            await tab.locator("#hits .hit h3 a").nth(1).press("Enter")
        async with tab.expect_response("**/api/feedback"):
            await tab.locator("#hits .hit").nth(2).get_by_role("button", name="Not this").press("Enter")
        (shown,) = await asyncio.to_thread(store.read, library, "")
        assert {work.doc_id: work.action for work in shown.works if work.action} == dict(zip(ids, ("keep", "open", "drop"), strict=True))
        async with tab.expect_response("**/api/complete?**"):
            await tab.get_by_role("searchbox").fill("asp")
        await tab.locator("#completions option[value='aspirin studies']").wait_for(state="attached")
        assert await tab.get_by_role("combobox", name="What are you looking for?").count() == 1
        await check(tab)
