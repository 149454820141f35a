"""The systematic tab and the scoring page in a real browser."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.page_site import Opens, check, hold, hold_requests, release

if TYPE_CHECKING:
    from playwright.async_api import Page

LONG_MS = 300_000
pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]


async def open_tab(page: Page) -> None:
    await page.get_by_role("link", name="Systematic").click()
    await page.locator("#exact-sources legend").wait_for()


async def write(page: Page, query: str) -> None:
    await page.get_by_label("Query, as for PubMed").fill(query)


async def run_to_end(page: Page, query: str) -> None:
    await write(page, query)
    await page.get_by_role("button", name="Run", exact=True).click()
    await page.locator("#exact-status", has_text="omplete").wait_for(timeout=LONG_MS)


async def test_a_query_is_explained_while_typing_with_each_remark_at_its_place(page: Page) -> None:
    await open_tab(page)
    await write(page, "aspirin[Title] AND\n(liver")
    await page.get_by_text("This query cannot be read yet.").wait_for()
    assert await page.locator(".places.wrong .line-number").inner_text() == "2"
    wrong = await page.locator(".places.wrong .remarks li").inner_text()
    assert wrong == "Column 1: this parenthesis is never closed; expected “)” Show"
    await check(page)
    await write(page, "aspirin[Title]\nAND nothing[Title]")
    await page.get_by_text("Read as PubMed, 0 hits in your library").wait_for()
    assert await page.locator("#lint tbody tr").all_inner_texts() == [
        '1\t"aspirin"[Title]\t2,000', '2\t"nothing"[Title]\t0', "3\t#1 AND #2\t0",
    ]  # fmt: skip
    place = page.locator("#lint .places li", has=page.locator(".line-number", has_text="2")).first
    assert await place.locator("mark").inner_text() == "nothing[Title]"
    assert "No match: this term matches nothing" in await place.inner_text()
    await place.get_by_role("button", name="Go to line 2, column 5").press("Enter")
    selected = "(box => box.value.slice(box.selectionStart, box.selectionEnd))(document.querySelector('#boolean'))"
    assert await page.evaluate(selected) == "nothing[Title]"
    assert await page.evaluate("document.activeElement.id") == "boolean"


async def test_all_hits_of_many_pages_arrive_with_progress_report_and_files(page: Page, tmp_path: Path) -> None:
    await open_tab(page)
    await write(page, "aspirin[Title]")
    await page.evaluate(
        """() => { window.statuses = []; const line = document.querySelector("#exact-status");
          new MutationObserver(() => window.statuses.push(line.textContent)).observe(line, {childList: true}); }"""
    )
    await page.get_by_role("button", name="Run", exact=True).click()
    await page.get_by_text("Complete: 2,000 hits, 2,000 different works.").wait_for(timeout=LONG_MS)
    assert len(set(await page.evaluate("window.statuses"))) >= 5
    await page.get_by_text("PRISMA 2020 flow", exact=True).click()
    assert await page.locator(".prisma img").evaluate("async one => { await one.decode(); return one.naturalWidth }") > 800
    assert "to be screened 2,000" in await page.locator(".prisma figcaption").inner_text()
    await page.locator(".exact-list li").nth(99).wait_for()
    await page.get_by_role("button", name="Later").click()
    await page.get_by_text("101 to 200 of 2,000").wait_for()
    assert "aspirin and the liver" in await page.locator(".exact-list li").first.inner_text()
    assert await page.locator(".exact-list .number").first.inner_text() == "101"
    async with page.expect_download() as coming:
        await page.get_by_role("button", name="RIS").click()
    await (await coming.value).save_as(tmp_path / "run.ris")
    assert (tmp_path / "run.ris").read_text(encoding="utf-8").count("TY  - ") == 2_000


@pytest.mark.parametrize("early", ["api/about", "api/systematic/sources"])
async def test_a_query_that_is_sent_before_the_page_is_ready_runs(page: Page, early: str) -> None:
    await page.evaluate("location.hash = '#/systematic'")
    held = await hold_requests(page, early, times=1)
    async with page.expect_request(f"**/{early}"):
        await page.reload()
    await page.get_by_role("button", name="Run", exact=True).wait_for()
    await write(page, "aspirin[Title] AND 7[Title]")
    await page.get_by_role("button", name="Run", exact=True).click()
    held.set()
    await page.locator("#exact-status", has_text="Complete").wait_for(timeout=LONG_MS)
    assert await page.get_by_label("Query, as for PubMed").input_value() == "aspirin[Title] AND 7[Title]"


async def test_a_run_that_begins_late_leaves_the_address_to_another_view(page: Page) -> None:
    await open_tab(page)
    await write(page, "aspirin[Title] AND 7[Title]")
    held = await hold_requests(page, "api/systematic$", times=1)
    async with page.expect_request(lambda request: request.url.endswith("/api/systematic")):
        await page.get_by_role("button", name="Run", exact=True).click()
    await page.get_by_role("link", name="How we score").click()
    await page.get_by_role("heading", name="An example, step by step").wait_for()
    await release(page, held, "api/systematic$")
    assert page.url.endswith("#/scoring")
    await page.go_back()
    await page.locator("#exact-status", has_text="Complete").wait_for(timeout=LONG_MS)
    assert "run=" in page.url


async def test_a_late_page_of_hits_does_not_replace_the_next_one(page: Page) -> None:
    await open_tab(page)
    await run_to_end(page, "aspirin[Title]")
    await page.get_by_text("1 to 100 of 2,000").wait_for()
    held = await hold_requests(page, r"hits\?after=100&", times=1)
    async with page.expect_request("**/hits?after=100&*"):
        await page.get_by_role("button", name="Later").click()
    await page.get_by_role("button", name="Later").click()
    await page.get_by_text("201 to 300 of 2,000").wait_for()
    await release(page, held, r"hits\?after=100&")
    assert await page.locator("#exact-page").inner_text() == "201 to 300 of 2,000"


async def test_a_run_shows_its_remarks_at_their_lines(page: Page) -> None:
    await open_tab(page)
    await run_to_end(page, "zebra-fish[Title]")
    await page.locator("#exact-remarks h3", has_text="2 remarks").wait_for()
    remarks = await page.locator("#exact-remarks .remarks li b").all_inner_texts()
    assert remarks == ["Hyphen: ", "No match: "]
    assert await page.locator("#exact-remarks mark").inner_text() == "zebra-fish[Title]"
    assert await page.locator("#lint .remarks li b, #exact-run .remarks li b").all_inner_texts() == remarks, "each stands once"
    await page.get_by_text("The remarks stand with the run below.").wait_for()
    await write(page, "zebra-fish[Title] OR")
    await page.get_by_text("This query cannot be read yet.").wait_for()
    await write(page, "zebra-fish[Title] OR nothing[Title]")
    await page.locator("#lint .places").wait_for()
    assert await page.locator("#exact-remarks .remarks li b").all_inner_texts() == remarks, "the run keeps its own"
    await check(page)


async def test_a_stopped_run_resumes_without_losing_or_repeating_a_hit(page: Page) -> None:
    await open_tab(page)
    await write(page, "liver[Title]")
    with hold("library", "liver"):
        await page.get_by_role("button", name="Run", exact=True).click()
        await page.locator(".exact-list li").first.wait_for()
        await page.get_by_role("button", name="Stop").click()
        await page.locator("#exact-status", has_text="the run is not complete").wait_for()
    await page.get_by_role("button", name="Resume").click(timeout=LONG_MS)
    await page.get_by_text("Complete: 3,000 hits").wait_for(timeout=LONG_MS)
    ranks = await page.locator(".exact-list .number").all_inner_texts()
    assert ranks == [str(rank) for rank in range(1, 101)]


async def test_the_address_of_a_run_opens_it_again_with_query_and_hits(page: Page, opens: Opens, site: str) -> None:
    await open_tab(page)
    await run_to_end(page, "aspirin[Title] AND 7[Title]")
    address = await page.evaluate("location.href")
    assert "run=" in address
    assert "q=aspirin" in address
    total = await page.locator("#exact-status").inner_text()
    await page.reload()
    await page.get_by_text(total).wait_for()
    assert await page.get_by_label("Query, as for PubMed").input_value() == "aspirin[Title] AND 7[Title]"
    assert (await page.title()).startswith("aspirin[Title] AND 7[Title]")
    async with opens(f"{site}/{address.partition('/#')[1][1:]}{address.partition('/#')[2]}", ready=False) as shared:
        await shared.get_by_text(total).wait_for()
        await shared.locator(".exact-list li").first.wait_for()
    await page.evaluate("location.hash = '#/systematic?run=20260101-nowhere&q=liver'")
    await page.get_by_text("This server has no such run").wait_for()
    assert await page.get_by_label("Query, as for PubMed").input_value() == "liver"


async def test_hits_show_authors_year_venue_abstract_and_proof(page: Page) -> None:
    await open_tab(page)
    await page.get_by_role("button", name="Try an example").click()
    await page.locator("#lint-status", has_text="Read as PubMed").wait_for()
    await run_to_end(page, "aspirin[Title] AND 7[Title]")
    hit = page.locator(".exact-list li").first
    await hit.locator("summary", has_text="Abstract").wait_for()
    assert await page.evaluate("document.activeElement.id") == "exact-status"
    for width, is_open in ((1440, True), (1024, True), (768, True), (360, True)):
        await page.set_viewport_size({"width": width, "height": 800})
        assert await hit.locator(".proof").is_visible() is is_open
        box, frame = await hit.locator(".proof").bounding_box(), await hit.bounding_box()
        assert box
        assert frame
        assert box["x"] + box["width"] <= frame["x"] + frame["width"] + 1
    assert await hit.locator(".abstract").is_hidden()
    await hit.locator("summary", has_text="Abstract").press("Enter")
    assert await hit.locator(".abstract").is_visible()
    await hit.locator("summary", has_text="Where it matches").press("Enter")
    await hit.locator(".matches mark").first.wait_for()
    assert await hit.locator(".matches mark").all_inner_texts() == ["aspirin", "7"]
    assert "Title: " in await hit.locator(".matches").inner_text()
    assert await page.evaluate("document.activeElement.textContent") == "Where it matches"
    await check(page)
