"""The box "Full texts" of the page, and the mark of a hit that has one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from outrider.state.full_text import FullText, WorkText, add_text
from outrider.state.records import Record
from support.chat_server import ChatServer
from support.http_app import running
from support.page_site import Opens, check, services_over

ORIGIN = FullText(url="https://example.org/text.pdf", form="pdf", licence="cc-by-4.0", version="published")
ANSWER = "Liver injury by drugs was seen at 9 grams."


class Texts:
    async def fetch(self, records: Sequence[Record], within_s: float) -> list[tuple[Record, WorkText]]:
        text = f"{'The weather was fine in that year. ' * 40}{ANSWER}"
        return [(add_text(one, text, ORIGIN), WorkText(doc_id=one.doc_id, status="fetched", full_text=ORIGIN)) for one in records]


@pytest.mark.asyncio(loop_scope="session")
async def test_full_texts_are_asked_for_and_marked(page_world: tuple[str, ChatServer, Path], opens: Opens) -> None:
    """The choice stands in the address; the mark has the licence, its title form, version and place."""
    services = services_over(*page_world)
    services._texts = Texts()
    with running(services) as address:
        async with opens(address) as tab:
            box = tab.get_by_label("Full texts")
            assert not await box.is_checked()
            await box.check()
            await tab.get_by_role("searchbox").fill("which grams of drugs gave liver injury?")
            await tab.get_by_role("searchbox").press("Enter")
            await tab.locator("#hits .hit.done").first.wait_for()
            mark = tab.locator("#hits .mark", has_text="Full text").first
            await mark.wait_for()
            assert await mark.inner_text() == "Full text, CC-BY-4.0"
            assert await mark.get_attribute("title") == "PDF, published version, cc-by-4.0, from https://example.org/text.pdf"
            assert "text=1" in tab.url
            assert await tab.locator('#strip li[data-step="full_text"]').get_attribute("data-state") == "done"
            await check(tab)
            await tab.reload()
            await tab.locator("#hits .mark", has_text="Full text").first.wait_for()
            assert await box.is_checked()
