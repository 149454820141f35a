"""Background jobs under Status: listed, and stopped with the keyboard."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from outrider.jobs.job_table import JobTable
from outrider.services.citation_queue import FILE
from support.chat_server import ChatServer
from support.page_site import check

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.async_api import Page

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]


async def test_jobs_are_listed_under_status_and_stopped_by_keyboard(page: Page, page_world: tuple[str, ChatServer, Path]) -> None:
    table = JobTable(str(page_world[2] / FILE))  # beside the threads of the server
    target = "<b>aspirin</b> and the liver, with a name that is as long as a query of several words"
    number = await asyncio.to_thread(table.queue, "citations", target, "", {"works": ["a"]})
    await page.get_by_role("button", name="Status").click()
    jobs = page.get_by_role("dialog", name="Status").locator("#jobs")
    await jobs.get_by_text(target).wait_for()
    assert "to do, and nothing runs them at the moment." in await jobs.inner_text()
    await check(page)
    await jobs.get_by_role("button", name=f"Stop: {target}").focus()
    await page.keyboard.press("Enter")
    await jobs.get_by_text("The job was stopped.").wait_for()
    assert await page.evaluate("document.activeElement.textContent") == "Background jobs"
    assert await jobs.get_by_role("button", name=f"Stop: {target}").count() == 0
    assert (await asyncio.to_thread(table.get, number)).status == "cancelled"
    await check(page)
    await page.keyboard.press("Escape")
    assert not await page.get_by_role("dialog", name="Status").is_visible()
