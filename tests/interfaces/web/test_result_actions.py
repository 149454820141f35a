"""What a reader does with results: share, read in context, filter, export. Answers are given, so that each test is quick."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.page_answers import ask, make_answer, receive
from support.page_site import check, hold_requests, release

if TYPE_CHECKING:
    from playwright.async_api import Page

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]


async def show(page: Page, count: int = 12) -> None:
    await receive(page, make_answer(count))
    await ask(page)
    await page.locator("#hits .hit.done").first.wait_for()


async def test_the_link_of_a_search_is_copied(page: Page) -> None:
    await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    await show(page)
    await page.get_by_role("button", name="Copy link").click()
    await page.locator("#saved", has_text="Link copied").wait_for()
    assert await page.evaluate("navigator.clipboard.readText()") == page.url
    assert "run=x" in page.url


async def test_a_click_on_a_sentence_opens_it_in_its_text(page: Page) -> None:
    """A sentence of a hit and one of the best; a selection opens nothing."""
    await show(page)
    hit = page.locator("#hits .hit").first
    sentence = hit.locator(".piece .passage")
    await sentence.evaluate("one => getSelection().selectAllChildren(one)")
    await sentence.dispatch_event("click")
    assert await hit.locator(".context").is_hidden()
    await page.evaluate("getSelection().removeAllRanges()")
    await sentence.click()
    await hit.locator(".context mark.here").wait_for()
    assert await hit.get_by_role("button", name="In context", expanded=True).is_visible()
    second = page.locator("#hits .hit").nth(1)
    await page.locator("#answer .best li").nth(1).get_by_role("button", name="In context").press("Enter")
    await second.locator(".context mark.here").wait_for()
    await page.wait_for_function("() => document.activeElement.matches('.context .text')")
    await page.locator("#answer .best .sentence").nth(2).click()
    await page.locator("#hits .hit").nth(2).locator(".context mark.here").wait_for()
    await check(page)


async def test_the_sentence_that_is_opened_last_is_shown(page: Page) -> None:
    """Though the answer for the one before it comes later."""
    answer = make_answer(3)
    first = answer.hits[0]
    start = first.original_text.index("Nothing else")
    both = first.model_copy(update={"spans": (*first.spans, (start, len(first.original_text)))})
    await receive(page, answer.model_copy(update={"hits": (both, *answer.hits[1:])}))
    await ask(page)
    opens = page.locator("#hits .hit").first.get_by_role("button", name="In context")
    held = await hold_requests(page, "/text$", times=1)
    async with page.expect_request("**/text"):
        await opens.nth(0).click()
    await opens.nth(1).click()
    here = page.locator(".context mark.here")
    await here.filter(has_text="Nothing else").wait_for()
    await release(page, held, "/text$")
    assert "Nothing else" in await here.inner_text()


async def test_a_hit_that_a_filter_hides_is_never_cited(page: Page) -> None:
    """Best sentences come from what the filters leave, and their marks keep the filters."""
    await show(page)
    box = page.locator("#facets").get_by_role("checkbox", name="Paper")
    await box.check()
    shown = set(await page.locator("#hits .hit").evaluate_all("all => all.map(one => `[${one.dataset.rank}]`)"))
    cited = await page.locator("#answer .cite").all_inner_texts()
    assert cited
    assert set(cited) <= shown
    await page.locator("#answer .cite").last.click()
    assert await box.is_checked()
    assert "4 of 12 results fit the filters" in await page.locator("#hits-title").inner_text()
    await box.uncheck()
    assert len(await page.locator("#answer .cite").all_inner_texts()) == 4


async def test_the_export_menu_says_what_it_saves_and_closes(page: Page) -> None:
    await show(page)
    menu = page.locator("#export")
    summary = menu.locator("summary")
    await summary.click()
    assert await page.locator("#export-count").inner_text() == "Saves all 12 results."
    assert "RIS (Zotero, EndNote, Mendeley)" in await page.locator("#export-format option").all_inner_texts()
    await page.keyboard.press("Escape")
    assert await menu.get_attribute("open") is None
    await page.locator("#facets").get_by_role("checkbox", name="Paper").check()
    await summary.click()
    assert await page.locator("#export-count").inner_text() == "Saves the 4 of 12 results that fit the filters."
    await check(page)
    await page.locator("#hits-title").click()
    assert await menu.get_attribute("open") is None
    await summary.click()
    await menu.get_by_role("button", name="Save", exact=True).click()
    assert await menu.get_attribute("open") is None
    cite = page.locator("#hits .hit").first.get_by_role("button", name="Cite")
    await cite.click()
    panel = page.locator(".cite-panel")
    await panel.locator("pre").filter(has_not_text="Loading ...").wait_for()
    assert await panel.locator("pre").evaluate("one => one.scrollHeight <= one.clientHeight + 1")
    await page.keyboard.press("Escape")
    assert await panel.count() == 0
    assert await cite.evaluate("one => one === document.activeElement")
    await cite.click()
    await page.locator("#hits-title").click()
    assert await panel.count() == 0
    await summary.click()
    await ask(page, "kidney")
    await page.locator("#hits .hit.done").first.wait_for()
    assert await menu.get_attribute("open") is None


async def test_an_example_gives_the_focus_to_the_heading_of_the_results(page: Page) -> None:
    await receive(page, make_answer(3))
    await page.locator(".example").first.click()
    await page.locator("#hits .hit.done").first.wait_for()
    assert await page.evaluate("document.activeElement.id") == "hits-title"
    await page.locator("#facets input[type=checkbox]").first.focus()
    await page.keyboard.press("/")
    assert await page.evaluate("document.activeElement.id") == "query"


async def test_the_panel_of_the_export_is_within_the_window(page: Page) -> None:
    await show(page)
    size = page.viewport_size
    for width in (360, 768, 1024, 1280):
        await page.set_viewport_size({"width": width, "height": 740})
        await page.locator("#export summary").click()
        await page.wait_for_function(
            "() => { const box = document.querySelector('#export form').getBoundingClientRect();"
            " return box.width > 0 && box.left >= 0 && box.right <= innerWidth; }"
        )
        await page.keyboard.press("Escape")
    assert size is not None
    await page.set_viewport_size(size)
