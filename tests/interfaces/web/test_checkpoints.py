"""A search that waits for its reader, in a real browser: the plan as a form, the results with judgements."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.page_site import QUERY, check

if TYPE_CHECKING:
    from playwright.async_api import Page

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]


async def begin(page: Page, *points: str) -> None:
    await page.locator("#narrow summary").click()
    for point in points:
        await page.get_by_label(point).check()
    await page.get_by_role("searchbox").fill(QUERY)
    await page.get_by_role("searchbox").press("Enter")
    await page.locator("#checkpoint-title").wait_for()


async def test_the_plan_is_edited_in_a_form_and_refused_answers_say_why(page: Page) -> None:
    await begin(page, "after the plan")
    assert await page.locator("#search-status").inner_text() == "Waiting for you"
    await check(page)
    await page.get_by_role("button", name="Remove query 2").click()
    await page.get_by_label("Query 1", exact=True).fill("liver injury review")
    await page.locator("#checkpoint").get_by_text("Filters").click()
    await page.get_by_label("As JSON").fill('{"year": {"$near": 1}}')
    await page.get_by_role("button", name="Go on").click()
    await page.get_by_role("alert").filter(has_text="$near").wait_for()
    await page.get_by_label("As JSON").fill("")
    for box in await page.locator("#checkpoint .choices input:not([value=library])").all():
        await box.uncheck()
    async with page.expect_request("**/resume") as request_info:
        await page.get_by_role("button", name="Go on").click()
    await page.locator("#hits .hit.done").first.wait_for()
    sent = (await request_info.value).post_data_json
    assert (sent["queries"], sent["sources"]) == ([{"text": "liver injury review", "boolean_query": ""}], ["library"])
    assert not await page.locator("#checkpoint").is_visible()
    assert await page.evaluate("() => document.querySelector('#source-summary').textContent") == "Sources: 1 of 1 answered"


async def test_results_are_judged_and_the_address_leads_back_to_them(page: Page) -> None:
    await begin(page, "after the results")
    await page.reload()  # as another tab, or after the server was restarted
    await page.locator("#checkpoint-title").wait_for()
    rows = page.locator(".reviewed > li")
    before = await rows.count()
    hostile = rows.filter(has_text="<script>")
    assert await hostile.locator("script, img").count() == 0
    dropped = await hostile.get_attribute("data-id")
    await hostile.get_by_role("button", name="Not this").click()
    await rows.filter(has_text="a review").get_by_role("button", name="More like this").click()
    await check(page)
    await page.get_by_role("button", name="Go on").click()
    await page.locator("#hits .hit.done").first.wait_for()
    assert await page.locator("#hits .hit").count() == min(before - 1, 10)
    assert await page.locator(f'#hits [data-id="{dropped}"]').count() == 0
    assert "thread=search-" in page.url


async def test_a_search_that_waits_can_be_stopped(page: Page) -> None:
    await begin(page, "after the plan")
    async with page.expect_request(lambda request: request.method == "DELETE"):
        await page.get_by_role("button", name="Stop").click()
    assert await page.locator("#search-status").inner_text() == "Stopped"
    assert not await page.locator("#checkpoint").is_visible()
