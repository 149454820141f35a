"""The page with keyboard only, in dark mode, on a narrow screen, under axe's rules, and with an API key."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from outrider.interfaces.http.access import hash_key
from support.chat_server import ChatServer
from support.http_app import running
from support.page_site import QUERY, Opens, check, search, services_over

if TYPE_CHECKING:
    from playwright.async_api import Page

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]


async def test_everything_works_by_keyboard(page: Page) -> None:
    assert await page.evaluate("document.activeElement.id") == "query"  # the box has the focus
    await page.get_by_role("link", name="Skip to content").focus()
    await page.keyboard.press("Enter")
    await page.wait_for_function("document.activeElement.id === 'main'")
    await page.keyboard.press("/")
    await page.evaluate("dispatchEvent(new HashChangeEvent('hashchange'))")  # it may come as late as this, and takes no focus from a typist
    await page.keyboard.type(QUERY)
    assert await page.locator("#query").input_value() == QUERY
    await page.keyboard.press("Tab")
    assert await page.evaluate("document.activeElement.id") == "search-button"
    await page.keyboard.press("Enter")
    await page.locator("#hits .hit.done").first.wait_for()
    await _tab_to(page, "#answer .cite")
    await page.keyboard.press("Enter")
    await _tab_to(page, ".where")
    await page.keyboard.press("Enter")
    await page.wait_for_function("() => document.activeElement.matches('.context .text')")
    await _tab_to(page, ".keep")
    await page.keyboard.press("Space")
    assert await page.evaluate("document.activeElement.getAttribute('aria-pressed')") == "true"
    for _ in range(2):
        await _tab_to(page, ".compare input:not(:checked)")
        await page.keyboard.press("Space")
    await _tab_to(page, "#compare-button")
    await page.keyboard.press("Enter")
    await page.get_by_role("dialog", name="Side by side").wait_for()  # what draws it may be on its way
    await page.keyboard.press("Escape")
    assert await page.evaluate("document.activeElement.id") == "compare-button"


async def _tab_to(page: Page, selector: str) -> None:
    for _ in range(150):
        await page.keyboard.press("Tab")
        if await page.evaluate("wanted => document.activeElement.matches(wanted)", selector):
            outline = await page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
            assert outline != "none"
            return
    pytest.fail(f"Tab does not come to {selector}")


async def test_the_page_follows_the_system_and_the_chosen_theme_is_remembered(page: Page) -> None:
    back = "getComputedStyle(document.body).backgroundColor"
    for scheme, is_white in (("dark", False), ("light", True)):
        await page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        assert (await page.evaluate(back) == "rgb(255, 255, 255)") is is_white
    await page.get_by_role("button", name="Dark").click()
    await page.reload()
    await page.get_by_role("button", name="Light").wait_for()
    assert await page.evaluate(back) != "rgb(255, 255, 255)"


async def test_a_key_is_requested_stored_in_the_tab_and_sent(opens: Opens, page_world: tuple[str, ChatServer, Path]) -> None:
    keyed_services = services_over(*page_world, api_keys={"ann": hash_key("key of ann")})
    with running(keyed_services, needs_key=True) as address:
        async with opens(address, ready=False) as tab:
            dialog = tab.get_by_role("dialog", name="API key")
            await dialog.wait_for()
            assert "wants a key" in await dialog.inner_text()
            await dialog.get_by_label("Key").fill("wrong")
            await dialog.get_by_role("button", name="Use").click()
            await dialog.get_by_text("does not know that key").wait_for()
            await check(tab)
            await dialog.get_by_label("Key").fill("key of ann")
            await dialog.get_by_role("button", name="Use").click()
            await tab.wait_for_selector("html[data-ready=yes]")
            await search(tab)
            storage = await tab.evaluate("[JSON.stringify({...sessionStorage}), JSON.stringify({...localStorage}), document.cookie]")
    assert "key of ann" in storage[0]
    assert "key of ann" not in storage[1] + storage[2]
