"""Citation chasing on the page: from a label and from a thread, decided with the keyboard, with its map."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from outrider.services.citation_queue import find_job_table
from support.chase_library import HOSTILE, TARGET, make_services
from support.http_app import running
from support.page_site import Opens, check, hold_requests, release

if TYPE_CHECKING:
    from playwright.async_api import Page

    from outrider.services import Services

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]


@pytest.fixture(scope="module")
def chase_services(tmp_path_factory: pytest.TempPathFactory) -> Services:
    return make_services(tmp_path_factory.mktemp("chase"))


@pytest.fixture(scope="module")
def chase_site(chase_services: Services) -> Iterator[str]:
    with running(chase_services) as address:
        yield address


async def read_said(tab: Page, text: str) -> None:
    await tab.locator("#chase-said", has_text=text).wait_for()


async def test_a_label_leads_to_candidates_that_the_keyboard_queues(opens: Opens, chase_site: str, chase_services: Services) -> None:
    async with opens(chase_site) as tab:
        await tab.get_by_role("link", name="Library").click()
        await tab.get_by_role("button", name="otters 2").click()
        await tab.get_by_role("link", name="Citations of these records").click()
        await read_said(tab, "5 candidates around 2 works.")
        await tab.locator(".citation-map img").wait_for()
        assert "is not complete" in await tab.locator("#chase-complete").inner_text()
        assert await tab.locator(".candidates .mark", has_text="Retracted").count() == 1
        assert await tab.get_by_role("button", name="Queue", exact=True).is_disabled()
        await tab.get_by_role("checkbox", name="Include: Study 3 of otters in rivers").press("Space")
        await tab.get_by_role("button", name="Preview").press("Enter")
        await read_said(tab, "Round 1 would fetch 1 work. Nothing was queued.")
        late = {}
        for name, address in (("Look again", "cite/candidates"), ("Preview", "cite/queue")):
            late[address] = await hold_requests(tab, f"{address}$", times=1)
            async with tab.expect_request(f"**/{address}"):
                await tab.get_by_role("button", name=name).click()
        await tab.get_by_role("button", name="Queue 1 work").press("Enter")
        await read_said(tab, "Round 1: 1 work queued in 1 background job.")
        for address, held in late.items():
            await release(tab, held, f"{address}$")
            await read_said(tab, "Round 1: 1 work queued in 1 background job.")
        assert await tab.evaluate("document.activeElement.id") == "chase-said"
        jobs = await asyncio.to_thread(find_job_table(chase_services.settings).list_jobs, TARGET)
        assert [job.kind for job in jobs if job.kind == "fetch"] == ["fetch"]
        assert await tab.locator("#chase-rounds tbody td").all_inner_texts() == ["1", "5", "1", "1", "1", "1"]
        await tab.get_by_role("radio", name="All works but those that I exclude").check()
        await tab.get_by_role("checkbox", name="Exclude: Study 7 of otters in rivers").check()
        await tab.get_by_text("The map as a list").click()
        await tab.locator("#chase-map").get_by_text("Study 3 of otters in rivers (1999), round 1", exact=True).wait_for()
        assert any(HOSTILE in one for one in await tab.locator("#chase-map li").all_inner_texts())
        assert await tab.locator(".citation-map img").evaluate("async one => { await one.decode(); return one.naturalWidth }") == 640
        await check(tab)
        async with tab.expect_download() as saved:
            await tab.get_by_role("button", name="Save", exact=True).click()
        assert (await saved.value).suggested_filename == "outrider-citations.ris"
        await tab.get_by_role("link", name="How we score").click()
        await tab.go_back()
        await tab.wait_for_function("document.title === 'Citations of otters - Outrider'")


async def test_a_search_on_a_thread_leads_to_its_citations_and_an_unknown_target_is_explained(opens: Opens, chase_site: str) -> None:
    async with opens(chase_site) as tab:
        await tab.locator("#narrow summary").click()
        await tab.get_by_label("Keep as thread").fill("rivers")
        await tab.get_by_role("searchbox").fill("otters in rivers")
        await tab.get_by_role("searchbox").press("Enter")
        await tab.locator("#hits .hit.done").first.wait_for()
        await tab.get_by_role("link", name="Citations of these works").click()
        await read_said(tab, "candidate")
        assert "target=rivers" in tab.url
        await tab.evaluate("location.hash = '#/citations?target=gone'")
        await tab.get_by_text("This server has no such thread.").wait_for()
        await tab.evaluate("location.hash = '#/citations'")
        await tab.get_by_role("link", name="rivers: otters in rivers").wait_for()
        await tab.get_by_role("link", name="otters", exact=True).click()
        await read_said(tab, "candidates around")
