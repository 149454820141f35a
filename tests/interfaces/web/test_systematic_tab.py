"""The systematic tab and the scoring page in a real browser."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.page_site import grave, hold

if TYPE_CHECKING:
    from playwright.async_api import Page

LONG_MS = 300_000
pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]


async def test_a_query_is_explained_while_typing(page: Page) -> None:
    await page.get_by_role("link", name="Systematic").click()
    query = page.get_by_label("Query, as for PubMed")
    await query.fill("aspirin[Title] AND (liver")
    await page.get_by_text("This query cannot be read yet.").wait_for()
    assert "line 1, column" in await page.locator("#lint pre.alert").inner_text()
    await query.fill("aspirin[Title] AND nothing[Title]")
    await page.get_by_text("Read as PubMed, 0 hits in the library").wait_for()
    assert await page.locator("#lint tbody tr").all_inner_texts() == [
        '1\t"aspirin"[Title]\t10,000', '2\t"nothing"[Title]\t0', "3\t#1 AND #2\t0",
    ]  # fmt: skip
    assert "this term matches nothing" in await page.locator(".remarks").inner_text()


async def test_all_ten_thousand_hits_arrive_with_progress_report_and_files(page: Page, tmp_path: Path) -> None:
    await page.get_by_role("link", name="Systematic").click()
    await page.get_by_label("Query, as for PubMed").fill("aspirin[Title]")
    await page.evaluate(
        """() => { window.statuses = []; const line = document.querySelector("#exact-status");
          new MutationObserver(() => window.statuses.push(line.textContent)).observe(line, {childList: true}); }"""
    )
    await page.get_by_role("button", name="Run").click()
    await page.get_by_text("10,000 hits, to the last one.").wait_for(timeout=LONG_MS)
    assert len(set(await page.evaluate("window.statuses"))) > 5
    await page.locator(".prisma img").wait_for()
    assert await page.locator(".prisma img").evaluate("async one => { await one.decode(); return one.naturalWidth }") > 800
    assert "to be screened 10,000" in await page.locator(".prisma figcaption").inner_text()
    assert "Complete: 10,000 hits" in await page.locator("#exact-report").inner_text()
    assert await page.locator("#exact-hits tbody tr").count() == 100
    await page.get_by_role("button", name="Later").click()
    assert await page.locator("#exact-page").inner_text() == "101 to 200 of 10,000"
    assert "aspirin and the liver" in await page.locator("#exact-hits tbody tr").first.inner_text()
    async with page.expect_download() as coming:
        await page.get_by_role("button", name="RIS").click()
    await (await coming.value).save_as(tmp_path / "run.ris")
    assert (tmp_path / "run.ris").read_text(encoding="utf-8").count("TY  - ") == 10_000
    assert await grave(page) == []


async def test_a_run_shows_its_remarks(page: Page) -> None:
    await page.get_by_role("link", name="Systematic").click()
    await page.get_by_label("Query, as for PubMed").fill("zebra-fish[Title]")
    await page.get_by_role("button", name="Run").click()
    await page.get_by_text("Complete: 0 hits").wait_for()
    remarks = await page.locator("#exact-remarks li").all_inner_texts()
    assert [one.partition(":")[0] for one in remarks] == ["hyphen", "empty"]
    assert await page.locator("#exact-remarks h3").inner_text() == "2 remarks"
    assert await grave(page) == []
    await page.get_by_label("Query, as for PubMed").fill("mice[Title]")
    await page.get_by_role("button", name="Run").click()
    await page.get_by_text("this term matches nothing").first.wait_for()


async def test_a_stopped_run_resumes_without_losing_or_repeating_a_hit(page: Page) -> None:
    await page.get_by_role("link", name="Systematic").click()
    await page.get_by_label("Query, as for PubMed").fill("liver[Title]")
    with hold("library", "liver"):
        await page.get_by_role("button", name="Run").click()
        await page.locator("#exact-hits tbody tr").first.wait_for()
        await page.get_by_role("button", name="Stop").click()
        assert "the run is not complete" in await page.locator("#exact-status").inner_text()
    await page.get_by_role("button", name="Resume").click(timeout=LONG_MS)
    await page.get_by_text("15,000 hits, to the last one.").wait_for(timeout=LONG_MS)
    await page.get_by_text("Complete: 15,000 hits").wait_for()
    ranks = await page.locator("#exact-hits tbody td:first-child").all_inner_texts()
    assert ranks == [str(rank) for rank in range(1, 101)]


async def test_the_scoring_page_shows_the_codes_formulas(page: Page) -> None:
    await page.get_by_role("link", name="How we score").click()
    await page.get_by_text("min(1.0, log1p(stars) / log1p(10000))").first.wait_for()
    assert await page.locator(".dimension h3").all_inner_texts() == ["maturity", "activity", "community", "maintenance"]
    text = await page.locator("#scoring").inner_text()
    assert "exp2(-age_s(updated_at) / (90 * DAY_S))" in text
    assert "[object" not in text
    assert await grave(page) == []
