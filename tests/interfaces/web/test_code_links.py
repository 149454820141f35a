"""Code of a hit and of a record on the page, under axe; texts of strangers stay text."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from outrider.state.hits import Hit
from support.page_answers import ask, make_answer, receive
from support.page_site import check

if TYPE_CHECKING:
    from playwright.async_api import Page, Route

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]

SCRIPT = '<img src=x onerror="document.title=1">'
EVIDENCE: dict[str, Any] = {
    "work": "doi:10.1000/x", "target": "github:lab/snowfall", "kind": "paper's own code", "read_in": "a", "place": "abstract",
    "words": f"Our code is available at https://github.com/lab/snowfall. {SCRIPT}", "confidence": 0.9,
}  # fmt: skip
CODE: list[dict[str, Any]] = [
    {"name": f"github:lab/{name}", "url": f"https://github.com/lab/{name}", "liveness": liveness, "why": why, "kind": "paper's own code",
     "confidence": 0.9, "agree": True, "evidence": [EVIDENCE]}
    for name, liveness, why in (("snowfall", "alive", "last push 3 days ago"), ("drift", "dead", "archived"))
]  # fmt: skip
PAPER: dict[str, Any] = {
    "name": "doi:10.1000/x", "title": f"Snow {SCRIPT}", "kind": "repository's paper", "confidence": 0.9, "evidence": [EVIDENCE],
}  # fmt: skip


async def test_a_card_shows_code_and_papers_and_the_facet_narrows_by_it(page: Page) -> None:
    answer = make_answer(3)
    first = Hit.model_validate({**answer.hits[0].model_dump(), "code": CODE})
    second = Hit.model_validate({**answer.hits[1].model_dump(), "papers": [PAPER]})
    await receive(page, answer.model_copy(update={"hits": (first, second, *answer.hits[2:])}))
    await ask(page)
    await page.locator("#hits .hit.done").first.wait_for()
    card = page.locator("#hits .hit").nth(0)
    assert " ".join((await card.locator(".code-line").inner_text()).split()) == "Code: lab/snowfall alive, lab/drift dead"
    assert await card.locator(".code-line a").first.get_attribute("href") == "https://github.com/lab/snowfall"
    assert SCRIPT in await page.locator("#hits .hit").nth(1).locator(".code-line").inner_text()
    await card.get_by_role("button", name="Why this?").click()
    listed = await card.locator(".code-links").inner_text()
    assert "Our code is available" in listed
    assert "paper and repository name each other" in listed
    assert await page.title() != "1"
    await check(page)
    if shots := os.environ.get("SCREENSHOTS"):
        await page.screenshot(path=f"{shots}/code.png", full_page=True)
    await page.locator('#facets input[data-value="Code:alive"]').check()
    assert await page.locator("#hits .hit").count() == 1


async def test_a_record_shows_its_code(page: Page, site: str) -> None:
    async def add(route: Route) -> None:
        await route.fulfill(json={"doc_id": "a", "kind": "paper", "code": CODE, "papers": []})

    await page.route("**/api/library/links*", add)
    await page.goto(f"{site}/#/library")
    rows = page.locator("#library-list li")
    await rows.first.wait_for()
    await rows.nth(0).locator("h2 a").click()
    await page.locator("#library-record .code-links").wait_for()
    assert "lab/drift" in await page.locator("#library-record .code-links").inner_text()
    await check(page)
    if shots := os.environ.get("SCREENSHOTS"):
        await page.screenshot(path=f"{shots}/record.png", full_page=True)
