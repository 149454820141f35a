"""Saved searches on the page: saved from a search and from a protocol, run, compared and deleted with the keyboard."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from outrider.services import Services
from outrider.settings.model import JobSettings, SavedSettings, Settings, SystematicSettings
from outrider.settings.sections import ServeSettings
from outrider.usecases.jobs import run_jobs
from outrider.usecases.saved import add_saved, run_now
from support import fakes
from support.http_app import running
from support.page_site import HOSTILE, Opens, check, hold_requests, release
from support.saved_searches import article
from support.systematic_runs import LibraryVersions

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]


class SavedSite:
    """A server over a library in memory, which a test changes."""

    def __init__(self, folder: Path) -> None:
        self.library = LibraryVersions([article(number) for number in range(4)])
        self.settings = Settings(
            jobs=JobSettings(uri=str(folder / "jobs.sqlite")),
            saved=SavedSettings(uri=str(folder / "saved.sqlite")),
            systematic=SystematicSettings(folder=str(folder / "runs")),
        )

    def make_services(self, **serve: Any) -> Services:
        shelf = fakes.Shelf(self.library.records)
        settings = self.settings.model_copy(update={"serve": ServeSettings(**serve)})
        return Services(settings, shelf=shelf, sources=(shelf,), reranker=fakes.no_reranker, pin=self.library, world={})

    async def run_jobs(self) -> None:
        """As the process of a server does, in a loop of its own: DBOS blocks the one on which it starts."""
        await asyncio.to_thread(lambda: asyncio.run(run_jobs(self.make_services())))


@pytest.fixture(scope="module")
def saved_site(tmp_path_factory: pytest.TempPathFactory) -> SavedSite:
    return SavedSite(tmp_path_factory.mktemp("saved"))


@pytest.fixture(scope="module")
def saved_address(saved_site: SavedSite) -> Iterator[str]:
    with running(saved_site.make_services()) as address:
        yield address


@pytest.mark.blocking  # DBOS blocks the loop on which it is launched
async def test_a_search_is_saved_run_compared_and_deleted_by_keyboard(opens: Opens, saved_address: str, saved_site: SavedSite) -> None:
    async with opens(saved_address, timezone_id="Europe/Berlin") as tab:
        await tab.get_by_role("link", name="Saved", exact=True).click()
        await tab.get_by_text("There is none yet.").wait_for()
        await tab.get_by_role("link", name="Search", exact=True).click()
        await tab.get_by_role("searchbox").fill("aspirin studies")
        await tab.get_by_role("searchbox").press("Enter")
        await tab.get_by_role("link", name="Run it again regularly").press("Enter")
        assert await tab.get_by_label("Name").input_value() == "aspirin-studies"
        assert await tab.get_by_label("Time zone").input_value() == "Europe/Berlin"
        await check(tab)
        await tab.get_by_label("or by a cron expression").fill("soon")
        await tab.get_by_role("button", name="Save", exact=True).press("Enter")
        await tab.get_by_text("is no schedule").wait_for()
        await tab.get_by_label("or by a cron expression").fill("")
        await tab.get_by_label("Runs").select_option("daily")
        await tab.get_by_role("button", name="Save", exact=True).press("Enter")
        await tab.get_by_text("aspirin-studies is saved.").wait_for()
        assert await tab.evaluate("document.activeElement.id") == "saved-said"
        assert "(daily, Europe/Berlin)" in await tab.locator("#saved-view").inner_text()
        for _ in range(2):
            await tab.get_by_role("button", name="Run aspirin-studies now").press("Enter")
            await tab.get_by_text("Queued; a background job runs it.").wait_for()
            assert await tab.locator("#saved-said").inner_text() == "", "nothing of an earlier run"
            await saved_site.run_jobs()
            await tab.get_by_text("aspirin-studies has run.").wait_for()
        assert "nothing changed" in await tab.locator(".saved-rows").inner_text()
        await tab.get_by_role("button", name="Delete aspirin-studies").press("Enter")
        await tab.get_by_text("Press again").wait_for()
        await tab.get_by_role("button", name="Delete aspirin-studies").press("Enter")
        await tab.get_by_text("aspirin-studies was deleted.").wait_for()


async def test_changes_are_listed_with_their_causes_and_fit_every_screen(opens: Opens, saved_address: str, saved_site: SavedSite) -> None:
    services = saved_site.make_services()
    request = {"query": "aspirin[ti] OR liver[ti]", "sources": ["library"]}
    await add_saved(
        services, "a-protocol-with-a-name-of-sixty-four-characters-that-does-not-br", request, kind="systematic", schedule="weekly"
    )
    await add_saved(services, "alert", request, kind="systematic")
    await run_now(services, "alert")
    records = saved_site.library.records
    retracted = records[0].model_copy(
        update={"metadata": {"updated_by": [{"type": "retraction", "doi": "10.1000/n", "source": "publisher"}]}}
    )
    saved_site.library.records = [retracted, records[1].model_copy(update={"venue": "Other Annals"}), *records[3:], article(40, HOSTILE)]
    await run_now(services, "alert")
    async with opens(saved_address) as tab:
        await tab.goto(f"{saved_address}/#/saved")
        await tab.get_by_role("link", name="alert", exact=True).wait_for()
        await check(tab)
        await tab.get_by_role("link", name="alert", exact=True).press("Enter")
        await tab.get_by_role("heading", name="Gone (1)").wait_for()
        text = await tab.locator("#saved-view").inner_text()
        causes = ("new in source", "record changed (venue)", "retracted (metadata.updated_by)", "gone from source")
        assert [cause for cause in causes if cause not in text] == []
        assert HOSTILE in text
        await check(tab)
        await tab.locator("#saved-view select[name=from]").select_option("1")
        await tab.get_by_role("button", name="Compare").press("Enter")
        await tab.wait_for_url("**/#/saved?name=alert&from=1&to=2")


async def test_a_late_list_does_not_replace_what_was_chosen_after_it(opens: Opens, saved_address: str, saved_site: SavedSite) -> None:
    await add_saved(saved_site.make_services(), "chosen", {"query": "aspirin[ti]"}, kind="systematic", replace=True)
    async with opens(saved_address) as tab:
        held = await hold_requests(tab, "api/saved$", times=1)
        async with tab.expect_request("**/api/saved"):
            await tab.evaluate("location.hash = '#/saved'")
        await tab.evaluate("location.hash = '#/saved?name=chosen'")
        await tab.get_by_text("It has not run yet.").wait_for()
        await release(tab, held, "api/saved$")
        assert await tab.get_by_text("It has not run yet.").is_visible()


async def test_a_protocol_of_the_systematic_view_is_saved(opens: Opens, saved_address: str) -> None:
    async with opens(saved_address) as tab:
        await tab.get_by_role("link", name="Systematic").click()
        await tab.get_by_label("Query, as for PubMed").fill("aspirin[ti] AND fever[ti]")
        await tab.get_by_role("button", name="Run it again regularly").press("Enter")
        await tab.get_by_label("Name").fill("fever")
        await tab.get_by_role("button", name="Save", exact=True).press("Enter")
        await tab.get_by_text("fever is saved.").wait_for()
        assert "every match" in await tab.locator(".saved-rows li", has_text="fever").first.inner_text()


async def test_a_server_that_only_reads_offers_no_changes(opens: Opens, saved_site: SavedSite) -> None:
    await add_saved(saved_site.make_services(), "seen", {"query": "aspirin[ti]"}, kind="systematic", replace=True)
    with running(saved_site.make_services(read_only=True)) as address:
        async with opens(address) as tab:
            await tab.goto(f"{address}/#/saved")
            await tab.get_by_role("link", name="seen", exact=True).wait_for()
            assert await tab.locator("#saved-view button").count() == 0
