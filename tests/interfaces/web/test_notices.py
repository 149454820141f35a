"""Marks of retracted and corrected works on the page, under axe; texts of strangers stay text."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from outrider.state.hits import Hit
from outrider.state.notices import KINDS
from support.page_answers import ask, make_answer, receive
from support.page_site import check

if TYPE_CHECKING:
    from playwright.async_api import Page, Route

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]

SCRIPT = '<img src=x onerror="document.title=1">'
NOTICES: list[dict[str, Any]] = [
    {"kind": "retracted", "doi": "10.1000/r", "date": "2020-01-31", "citation": SCRIPT, "reported_by": ["crossref", "pubmed"]},
    *({"kind": kind} for kind in KINDS[1:]),
]
LABELS = [kind[0].upper() + kind[1:] for kind in KINDS]
ALARMING = ["Retracted", "Withdrawn", "Partly retracted", "Expression of concern", "Corrected"]


async def test_cards_and_filter(page: Page) -> None:
    """Each kind once, the gravest first, with its report as a tooltip; the filter counts works by kind."""
    answer = make_answer(3)
    first = Hit.model_validate({**answer.hits[0].model_dump(), "notices": [*NOTICES, {"kind": "retracted", "pmid": "9"}]})
    await receive(page, answer.model_copy(update={"hits": (first, *answer.hits[1:])}))
    await ask(page)
    await page.locator("#hits .hit.done").first.wait_for()
    card = page.locator("#hits .hit").nth(0)
    assert await card.locator(".mark").all_inner_texts() == LABELS
    assert await card.locator(".mark.alarming").all_inner_texts() == ALARMING
    title = await card.locator(".mark").nth(0).get_attribute("title")
    assert title == f"2020-01-31, doi:10.1000/r, {SCRIPT}, reported by Crossref, PubMed; pmid:9"
    assert await page.title() != "1"
    await check(page)
    await page.locator('#facets input[data-value="Notices:corrected"]').check()
    assert await page.locator("#hits .hit").count() == 1
    await page.locator('#facets input[data-value="Notices:corrected"]').uncheck()
    await page.locator('#facets input[data-value="Notices:none"]').check()
    assert await page.locator("#hits .hit").count() == 1  # the second work has a linked notice


async def test_library_and_record(page: Page, site: str) -> None:
    """In the list as marks, on the record with the reports."""

    async def add(route: Route) -> None:
        response = await route.fetch()
        body = await response.json()
        for record in body.get("records", [body])[:1]:
            record["notices"] = NOTICES
        await route.fulfill(response=response, json=body)

    await page.route("**/api/library/record*", add)
    await page.goto(f"{site}/#/library")
    rows = page.locator("#library-list li")
    await rows.first.wait_for()
    assert await rows.nth(0).locator(".mark").all_inner_texts() == LABELS
    assert await rows.nth(1).locator(".mark").count() == 0
    await check(page)
    await rows.nth(0).locator("h2 a").click()
    await page.locator("#library-record h1").wait_for()
    text = await page.locator("#library-record .remarks").inner_text()
    assert f"Retracted2020-01-31, doi:10.1000/r, {SCRIPT}, reported by Crossref, PubMed" in text.replace("\n", "").replace("\xa0", " ")
    assert await page.title() != "1"
    await check(page)


async def test_systematic_results(page: Page, site: str) -> None:
    """Every match stays, marked, while the run goes on and after it."""
    from playwright.async_api import expect

    async def mark_streamed(route: Route) -> None:
        response = await route.fetch()
        text = (await response.text()).replace('{"hit": {', '{"hit": {"notices": [{"kind": "withdrawn"}], ')
        await route.fulfill(response=response, body=text)

    async def mark_stored(route: Route) -> None:
        response = await route.fetch()
        body = await response.json()
        body["hits"][0]["notices"] = NOTICES[:1]
        await asyncio.wait_for(seen.wait(), 30)
        await route.fulfill(response=response, json=body)

    seen = asyncio.Event()
    await page.route("**/api/systematic", mark_streamed)
    await page.route("**/api/systematic/*/hits*", mark_stored)
    await page.goto(f"{site}/#/systematic?q=aspirin")
    await expect(page.locator("#boolean")).to_have_value("aspirin")  # a click before the page has read its address is of no avail
    await page.locator("#systematic-form button[type=submit]").click()
    mark = page.locator(".exact-list li").first.locator(".mark.alarming")
    await mark.get_by_text("Withdrawn").wait_for()
    seen.set()
    await mark.get_by_text("Retracted").wait_for()
    await check(page)
