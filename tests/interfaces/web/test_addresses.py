"""Addresses of searches, what the browser remembers, rounds and threads."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from support.page_answers import ask, make_answer, receive
from support.page_site import QUERY, Opens, check, hold_requests, release, search

if TYPE_CHECKING:
    from playwright.async_api import Page

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]


async def test_an_address_holds_query_filters_and_run_and_can_be_shared(opens: Opens) -> None:
    async with opens() as tab:
        await tab.locator("#narrow summary").click()
        await tab.get_by_label("From year").fill("2000")
        await tab.get_by_label("Focused").check()
        await search(tab)
        assert await tab.title() == f"{QUERY} - Outrider"
        assert re.search(r"#/search\?q=liver\+injury\+by\+drugs&mode=focused&from=2000&run=[0-9a-f-]{36}$", tab.url)
        first = await tab.locator("#hits h3").first.inner_text()
        async with tab.expect_response("**/api/search/*"):  # the kept answer: nothing is searched again
            await tab.reload()
        await tab.locator("#hits .hit.done").first.wait_for()
        assert await tab.locator("#hits h3").first.inner_text() == first
        assert await tab.locator("li[data-step=scout]").get_attribute("data-state") == "done", "it ran, though its time is not known"
        address = tab.url
        await tab.go_back()
        await tab.locator("#landing").wait_for()
        assert await tab.get_by_role("searchbox").input_value() == ""
        await tab.go_forward()
        await tab.locator("#hits .hit.done").first.wait_for()
        assert await tab.get_by_label("From year").input_value() == "2000"
        async with opens() as other:
            await other.goto(address)
            await other.locator("#hits .hit.done").first.wait_for()
            assert await other.get_by_role("searchbox").input_value() == QUERY
            await other.goto(re.sub(r"run=.*", "run=gone", address))
            await other.get_by_text("this one is gone").wait_for()
            await check(other)
            await other.get_by_role("button", name=f'Search for "{QUERY}"').click()
            await other.locator("#hits .hit.done").first.wait_for()
            assert "run=" in other.url


async def test_a_search_that_is_accepted_late_leaves_the_address_to_another_view(page: Page) -> None:
    held = await hold_requests(page, "/api/search$", times=1)
    await page.get_by_role("searchbox").fill(QUERY)
    async with page.expect_request("**/api/search"):
        await page.get_by_role("searchbox").press("Enter")
    await page.get_by_role("link", name="Library").click()
    await page.locator("#library-list li").first.wait_for()
    await release(page, held, "/api/search$")
    assert page.url.endswith("#/library")
    await page.go_back()
    await page.locator("#hits .hit.done").first.wait_for()
    assert "run=" in page.url


@pytest.mark.parametrize(("old", "title"), [("#/search", "Search papers"), ("#/systematic", "Every match"), ("#/scoring", "How we score")])
async def test_old_addresses_work(page: Page, old: str, title: str) -> None:
    await page.goto(f"{page.url.partition('#')[0]}{old}")
    await page.get_by_role("heading", level=1, name=title).wait_for()


async def test_an_example_runs_and_is_remembered_until_it_is_removed(page: Page) -> None:
    await receive(page, make_answer(3))
    example = page.locator(".example").first
    text = await example.inner_text()
    await example.click()
    await page.locator("#hits .hit.done").first.wait_for()
    await page.get_by_role("button", name="Save this search").click()
    assert await page.get_by_role("button", name="Save this search").get_attribute("aria-pressed") == "true"
    await page.get_by_role("link", name="Outrider", exact=True).click()
    await page.get_by_role("heading", name="Saved searches").wait_for()
    await check(page)
    await page.get_by_role("button", name=f"Save the search {text}").click()
    await page.get_by_role("heading", name="Recent searches").wait_for()
    await page.get_by_role("link", name=text, exact=True).click()
    await page.locator("#hits .hit.done").first.wait_for()
    await page.get_by_role("link", name="Outrider", exact=True).click()
    await page.get_by_role("button", name=f"Remove the search {text}").click()
    assert await page.locator("#recent").inner_text() == ""


async def test_works_are_kept_and_dropped_and_the_next_round_tells_the_model(page: Page) -> None:
    await receive(page, make_answer(12))
    await ask(page)
    fourth = page.locator('#hits .hit[data-rank="4"]')
    await fourth.get_by_role("button", name="Keep").click()
    await page.locator('#hits .hit[data-rank="5"]').get_by_role("button", name="Not this").click()
    assert await page.locator('#hits .hit[data-rank="5"]').count() == 0
    assert await page.evaluate("document.activeElement.closest('.hit').dataset.rank") == "6"
    assert "1 work dropped" in await page.locator("#shown").inner_text()
    await page.get_by_label("What should be different?").fill("only adults")
    await check(page)
    async with page.expect_request(lambda one: one.method == "POST") as sent:
        await page.get_by_role("button", name="Next round").click()
    body = (await sent.value).post_data_json
    assert body["user_feedback"] == 'More like: "Liver injury by drugs, part 4". Not like: "Liver injury by drugs, part 5". only adults'
    assert body["previous_strategies"][0]["queries"][0]["text"] == "liver"


async def test_similar_works_come_from_the_library_and_else_from_a_search(page: Page) -> None:
    """The library of this site connects its two papers by their venue; what it lacks is searched, and the page says so."""
    await search(page)
    review = page.locator(".hit", has_text="a review").first
    await review.get_by_role("button", name="Similar works").click()
    panel = review.locator(".similar")
    await panel.get_by_text("Connected with it in your library").wait_for()
    assert "shares venue hepatology with it" in await panel.inner_text()
    await check(page)
    await receive(page, make_answer(12))
    await ask(page)
    await page.locator('#hits .hit[data-rank="5"]').get_by_role("button", name="Similar works").click()
    await page.wait_for_function("() => document.title.startsWith('Liver injury by drugs, part 5')")
    await page.get_by_text("Your library does not have this work").wait_for()


async def test_similar_works_that_are_put_away_again_begin_no_search(page: Page) -> None:
    await receive(page, make_answer(12))
    await ask(page)
    held = await hold_requests(page, "api/library/related")
    similar = page.locator('#hits .hit[data-rank="5"]').get_by_role("button", name="Similar works")
    async with page.expect_request("**/api/library/related*"):
        await similar.click()
    await similar.click()
    await release(page, held, "api/library/related")
    assert await page.title() == "liver - Outrider"


async def test_a_work_is_cited(page: Page) -> None:
    await search(page)
    review = page.locator(".hit", has_text="a review").first
    await review.get_by_role("button", name="Cite").click()
    panel = review.locator(".cite-panel")
    await panel.get_by_text("@article").wait_for()
    assert "Doe, J., & Roe, R. (2021). Liver injury by drugs, a review. Hepatology." in await panel.inner_text()
    await panel.get_by_role("button", name="Copy APA").click()
    await check(page)


APA = """async (hit) => (await import("/page/cite.js")).makeApa({ doc_id: "x", kind: "paper", authors: [], identifiers: {}, ...hit })"""


@pytest.mark.parametrize(
    ("hit", "text"),
    [
        ({"title": "T", "authors": ["Jane Mary Doe"], "year": 2020}, "Doe, J. M. (2020). T."),
        ({"title": "T.", "authors": ["aiohttp team"], "kind": "repository"}, "aiohttp team. (n.d.). T [Computer software]."),
        (
            {"title": "T", "authors": ["Jean-Luc Roe", "Doe, J."], "identifiers": {"doi": "10.1/x"}},
            "Roe, J.-L., & Doe, J. (n.d.). T. https://doi.org/10.1/x",
        ),
        ({"title": "T", "authors": ["World Health Organization"], "year": 2021}, "World Health Organization. (2021). T."),
        ({"title": "T", "authors": ["Universität Leipzig", "Ada Groupman"]}, "Universität Leipzig, & Groupman, A. (n.d.). T."),
        ({"title": "T", "year": 1999, "venue": "V"}, "T. (1999). V."),
    ],
)
async def test_apa(results_page: Page, hit: dict[str, object], text: str) -> None:
    assert await results_page.evaluate(APA, hit) == text


async def test_a_thread_is_listed_opened_and_deleted(page: Page) -> None:
    await page.locator("#narrow summary").click()
    await page.get_by_label("Keep as thread").fill("liver-1")
    await search(page)
    await page.get_by_role("button", name="Threads").click()
    dialog = page.get_by_role("dialog", name="Threads")
    await dialog.get_by_text("liver-1").wait_for()
    await check(page)
    run = page.url
    await dialog.get_by_role("button", name="Open").click()
    await page.wait_for_function("before => location.href !== before", arg=run)
    await page.locator("#hits .hit.done").first.wait_for()
    assert "thread=liver-1" in page.url
    await page.get_by_role("button", name="Threads").click()
    await dialog.get_by_role("button", name="Delete thread liver-1").click()
    await dialog.get_by_text("There is no thread yet").wait_for()
