"""The playground of LangServe's endpoints and the description at `/docs`, in a real browser."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import httpx
import pytest

from outrider.interfaces.http.access import hash_key
from support.http_app import ASPIRIN, STATINS, BlockingLibrary, running, services
from support.page_site import Opens

if TYPE_CHECKING:
    from playwright.async_api import Page

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]

KEY = "outrider_of-ann"


@pytest.fixture(scope="module")
def aspirin_site() -> Iterator[str]:
    """A server whose library has two works."""
    with running(services(ASPIRIN, STATINS)) as address:
        yield address


async def _loaded(page: Page) -> None:
    await page.wait_for_selector("html[data-ready=yes]")


async def test_a_search_runs_in_the_playground_and_its_output_is_that_of_invoke(opens: Opens, aspirin_site: str) -> None:
    async with opens(f"{aspirin_site}/search/playground") as page:
        await page.get_by_label("query", exact=True).fill("aspirin liver")
        await page.get_by_text("More fields").click()
        await page.get_by_label("top k").fill("1")
        await page.get_by_label("rerank enabled").select_option("false")  # a field that may be null
        await page.get_by_label("filters").fill('{"year": {"$gte": 2000}}')
        await page.get_by_role("button", name="Start").click()
        await page.get_by_text("Done in").wait_for()
        steps = await page.locator("#steps li").evaluate_all("all => all.map(one => one.dataset.step)")
        output = json.loads(await page.locator("#output").text_content() or "")
        titles = await page.locator("#hits h3").all_text_contents()
        status = await page.locator("#status").text_content() or ""
        await page.get_by_label("query", exact=True).fill("xylophone")
        await page.get_by_role("button", name="Start").click()
        await page.get_by_text("no work was found").wait_for()
    request = {"query": "aspirin liver", "top_k": 1, "rerank_enabled": False, "filters": {"year": {"$gte": 2000}}}
    async with httpx.AsyncClient(base_url=aspirin_site, timeout=60) as client:
        expected = (await client.post("/search/invoke", json={"input": request})).json()["output"]
    assert (steps[0], steps[-1]) == ("translator", "distiller")
    assert output["hits"] == expected["hits"]
    assert titles == ["Aspirin and the liver"]
    assert status.endswith(": 1 of 1 works.")


async def test_an_analysis_runs_in_its_playground(opens: Opens, aspirin_site: str) -> None:
    async with opens(f"{aspirin_site}/analyze/playground") as page:
        await page.get_by_label("target", exact=True).fill("doi:10.1000/nothing")
        await page.get_by_role("button", name="Start").click()
        await page.get_by_text("Done in").wait_for()
        output = json.loads(await page.locator("#output").text_content() or "")
    assert output["failures"][0]["node"] == "subject"


@pytest.mark.parametrize(
    ("label", "text", "message"),
    [
        ("filters", '{"yeer": 1}', "yeer"),
        ("filters", "{year", "filters takes JSON"),
        ("query", "?", "no letter or digit"),
    ],
)
async def test_a_wrong_field_is_named(opens: Opens, aspirin_site: str, label: str, text: str, message: str) -> None:
    async with opens(f"{aspirin_site}/search/playground") as page:
        await page.get_by_text("More fields").click()
        await page.get_by_label("query", exact=True).fill("aspirin")
        await page.get_by_label(label, exact=True).fill(text)
        await page.get_by_role("button", name="Start").click()
        assert message in (await page.locator("#problem .alert").text_content() or "")


async def test_a_run_can_be_stopped(opens: Opens) -> None:
    shelf = BlockingLibrary([ASPIRIN])
    with running(services(shelf=shelf)) as address:
        async with opens(f"{address}/search/playground") as page:
            await page.get_by_label("query", exact=True).fill("aspirin")
            await page.get_by_role("button", name="Start").click()
            await page.locator('[data-step="translator"]').wait_for()
            await page.get_by_role("button", name="Stop").click()
            await page.get_by_text("Stopped.").wait_for()


async def test_the_description_can_be_tried_and_nothing_comes_from_another_host(opens: Opens, aspirin_site: str) -> None:
    hosts: set[str] = set()
    async with opens(aspirin_site) as page:
        page.on("request", lambda request: hosts.add(urlsplit(request.url).netloc))
        await page.goto(f"{aspirin_site}/docs")
        await _loaded(page)
        operation = page.locator("#operations-rest-search_api_search_post")
        await operation.locator(".opblock-summary").click()
        await operation.locator("textarea").fill('{"query": "aspirin liver"}')
        await operation.get_by_role("button", name="Execute").click()
        answer = await operation.locator(".live-responses-table .response-col_description pre").first.text_content() or ""
    assert "Aspirin and the liver" in answer
    assert hosts == {urlsplit(aspirin_site).netloc}


async def test_with_keys_both_pages_ask_for_one_and_send_it(opens: Opens) -> None:
    with running(services(ASPIRIN, api_keys={"ann": hash_key(KEY)}), needs_key=True) as address:
        async with opens(f"{address}/search/playground", ready=False) as page:
            await page.locator("#key-input").fill(KEY)
            await page.get_by_role("button", name="Use").click()
            await _loaded(page)
            await page.get_by_label("query", exact=True).fill("aspirin")
            await page.get_by_role("button", name="Start").click()
            await page.get_by_text("Done in").wait_for()
            await page.goto(f"{address}/docs")
            await _loaded(page)  # the key is that of the tab
            operation = page.locator("#operations-rest-library_api_library_get")
            await operation.locator(".opblock-summary").click()
            await operation.get_by_role("button", name="Execute").click()
            status = await operation.locator(".live-responses-table .response-col_status").nth(1).text_content() or ""
    assert status.strip().startswith(("200", "404"))
