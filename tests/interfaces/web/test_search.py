"""The search tab in a real browser, over a world of services on loopback."""

from __future__ import annotations

import asyncio
import csv
import io
import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.page_site import HOSTILE, QUERY, Opens, hold, search

if TYPE_CHECKING:
    from playwright.async_api import Page, Route

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]

SHIFTS = """() => new Promise((done) => {
  const summed = (list) => done(list.getEntries().reduce((sum, one) => sum + one.value, 0));
  new PerformanceObserver(summed).observe({type: "layout-shift", buffered: true});
  setTimeout(() => done(0), 300);
})"""


async def test_first_hits_come_before_the_search_is_over(page: Page) -> None:
    """What the sources found stands there while the model still scores it, then the answer replaces it."""
    with hold("crossref", "slowly") as source, hold("scorer", "slowly") as scorer:
        await page.get_by_role("searchbox").fill(f"{QUERY} slowly")
        await page.get_by_role("button", name="Search").click()
        await page.locator('#strip li[data-step="scout"][data-state="runs"]').wait_for()
        assert await page.get_by_role("button", name="Stop").is_enabled()
        source.set()
        await page.locator("#hits .hit:not(.coming)").first.wait_for()
        await page.locator('#strip li[data-step="fine_scorer"][data-state="runs"]').wait_for()
        assert await page.locator("#hits .compare").count() == 0
        scorer.set()
        await page.locator("#hits .compare").first.wait_for()
    states = await page.locator("#strip li").evaluate_all("all => all.map(one => [one.dataset.step, one.dataset.state])")
    assert dict(states)["scout"] == "done"
    assert dict(states)["rule_ranker"] == "passed"
    assert "waits" not in dict(states).values()
    assert "model calls" in await page.locator("#cost").inner_text()
    assert "Done in" in await page.locator("#search-status").inner_text()


async def test_partial_hits_are_shown_as_they_come(page: Page) -> None:
    """Seen by an observer, since what comes next replaces them."""
    await page.evaluate(
        """() => { window.seen = []; new MutationObserver(() => {
          const said = document.querySelector("#search-status").textContent;
          if (document.querySelector("#hits h3")) window.seen.push([said, !document.querySelector("#hits .compare")]);
        }).observe(document.querySelector("#hits"), {childList: true}); }"""
    )
    await search(page)
    seen = await page.evaluate("window.seen")
    assert seen[0][1]
    assert "after scout" in seen[0][0]


async def test_a_service_that_fails_is_named_and_costs_only_its_own(page: Page) -> None:
    await search(page, f"{QUERY} broken")
    summary = page.locator("#source-summary")
    assert "failed: crossref" in await summary.inner_text()
    await summary.click()
    rows = await page.locator("#source-rows tbody tr").all_inner_texts()
    assert any("crossref" in row and "unavailable" in row for row in rows)
    assert any("openalex" in row and "ok" in row for row in rows)


async def test_a_node_that_fails_is_marked_in_the_strip_and_said(opens: Opens) -> None:
    """As the server tells it: the events of such a search, played back."""
    events = [
        ("started", {"node": "fine_scorer"}),
        ("failures", {"failures": [{"node": "fine_scorer", "error": "ChatUnavailable", "message": "the model is <b>down</b>"}]}),
        ("finished", {"node": "fine_scorer", "took_ms": 1200}),
        ("problem", {"status": 503, "title": "Service Unavailable", "detail": "nothing could be searched"}),
    ]
    wire = "".join(f"id: {at}\nevent: {name}\ndata: {json.dumps(data)}\n\n" for at, (name, data) in enumerate(events[:3], 1))
    end = f"id: 4\nevent: problem\ndata: {json.dumps(events[3][1])}\n\n"
    async with opens() as tab:
        await tab.route("**/api/search", lambda route: route.fulfill(status=202, json={"id": "x"}))
        asked: list[str] = []

        async def follow(route: object) -> None:
            """The connection breaks behind the third event; who comes again gets the last one."""
            seen = route.request.headers.get("last-event-id", "")  # type: ignore[attr-defined]
            asked.append(seen)
            await route.fulfill(body=end if seen else wire, content_type="text/event-stream")  # type: ignore[attr-defined]

        await tab.route("**/events", follow)
        await tab.get_by_role("searchbox").fill("liver")
        await tab.get_by_role("searchbox").press("Enter")
        step = tab.locator('#strip li[data-step="fine_scorer"]')
        await tab.locator('#strip li[data-state="failed"]').wait_for()
        assert "rule ranker instead" in await step.inner_text()
        assert "the model is <b>down</b>" in await tab.locator("#failures").inner_text()
        await tab.get_by_text("nothing could be searched").wait_for()
        assert asked == ["", "3"]


async def test_a_hit_says_why_who_found_it_and_what_was_folded(searched: Page) -> None:
    review = searched.locator(".hit", has_text="a review").first
    assert "by model - it answers" in await review.inner_text()
    assert "library / lance fts, rank" in await review.inner_text()
    folded = searched.locator(".hit", has=searched.locator(".folded")).first
    assert "1 duplicate folded into it" in await folded.inner_text()
    assert "openalex" in await folded.inner_text()


async def test_kept_sentences_are_marked_where_they_stand(searched: Page) -> None:
    """Offsets count code points; the text has characters that are two units of a JavaScript string before them."""
    review = searched.locator(".hit", has_text="a review").first
    marks = await review.locator("mark").all_inner_texts()
    assert "Liver injury by drugs ends." in marks
    assert "matters here" in await review.locator(".passage").first.inner_text()
    await review.get_by_text("The whole text").click()
    await review.locator("details .passage", has_text="🧪🧪 in rare cases").wait_for()
    assert "Liver injury by drugs ends." in await review.locator("details mark").all_inner_texts()


async def test_a_script_in_a_title_is_text_and_its_link_is_none(searched: Page) -> None:
    title = searched.locator(".hit h3", has_text="onerror")
    assert await title.inner_text() == HOSTILE
    assert await title.locator("a").count() == 0
    assert await searched.locator("#hits img, #hits script").count() == 0
    assert await searched.title() != "1"
    links = await searched.locator("#hits a").evaluate_all("all => all.map(one => [one.protocol, one.rel])")
    assert {tuple(one) for one in links} <= {("https:", "noopener noreferrer"), ("http:", "noopener noreferrer")}
    assert links


async def test_a_script_in_a_readme_is_text(searched: Page) -> None:
    tool = searched.locator(".hit", has=searched.locator("h3", has_text="liver/tool"))
    assert "<script>document.title=1</script>" in await tool.text_content()
    assert await searched.locator("#hits img, #hits script").count() == 0
    assert await searched.title() != "1"


async def test_hits_are_saved_as_files_and_formulas_are_defused(searched: Page, tmp_path: Path) -> None:
    for form, sign in (("ris", "TY  - "), ("bibtex", "@"), ("json", "outrider.record/1"), ("csv", "doc_id")):
        await searched.get_by_label("Export").select_option(form)
        async with searched.expect_download() as coming:
            await searched.get_by_role("button", name="Save").click()
        path = tmp_path / form
        download = await coming.value
        await download.save_as(path)
        assert download.suggested_filename.startswith("outrider-hits.")
        assert sign in path.read_text(encoding="utf-8")
    rows = list(csv.DictReader(io.StringIO((tmp_path / "csv").read_text(encoding="utf-8"), newline="")))
    assert len(rows) == await searched.locator("#hits .hit").count()
    assert [cell for row in rows for cell in row.values() if cell[:1] == "="] == []


async def test_a_search_is_stopped_on_the_server_too(page: Page) -> None:
    with hold("crossref", "endlessly"), hold("openalex", "endlessly"), hold("pubmed", "endlessly"):
        await page.get_by_role("searchbox").fill(f"endlessly {QUERY}")
        await page.get_by_role("searchbox").press("Enter")
        await page.locator('#strip li[data-step="scout"][data-state="runs"]').wait_for()
        async with page.expect_request(lambda asked: asked.method == "DELETE"):
            await page.get_by_role("button", name="Stop").click()
        assert await page.locator("#search-status").inner_text() == "Stopped."
        assert await page.get_by_role("button", name="Stop").is_disabled()


async def test_a_search_that_is_stopped_before_the_server_has_named_it_is_stopped_there_too(page: Page) -> None:
    accepted = asyncio.Event()

    async def later(route: Route) -> None:
        answer = await route.fetch()
        await accepted.wait()
        await route.fulfill(response=answer)

    await page.route("**/api/search", later)
    with hold("crossref", "endlessly"), hold("openalex", "endlessly"), hold("pubmed", "endlessly"):
        await page.get_by_role("searchbox").fill(f"endlessly {QUERY}")
        async with page.expect_request("**/api/search"):
            await page.get_by_role("searchbox").press("Enter")
        await page.get_by_role("button", name="Stop").click()
        async with page.expect_request(lambda asked: asked.method == "DELETE"):
            accepted.set()


async def test_filters_and_sources_narrow_what_is_asked_and_a_wrong_one_is_said(page: Page) -> None:
    await page.locator("#narrow summary").click()
    await page.get_by_label("From year").fill("2020")
    await page.get_by_label("Language").fill("Rust")
    await page.get_by_role("checkbox", name="library").check()
    assert await page.locator("#narrowed").inner_text() == "(year, language, library)"
    await page.get_by_label("Exploratory").check()
    async with page.expect_request("**/api/search") as sent:
        await page.get_by_role("searchbox").fill("liver")
        await page.get_by_role("searchbox").press("Enter")
    body = (await sent.value).post_data_json
    assert body["filters"] == {"year": {"$gte": 2020}, "language": "Rust"}
    assert (body["sources"], body["search_mode"]) == (["library"], "exploratory")
    await page.get_by_role("searchbox").fill("???")
    await page.get_by_role("searchbox").press("Enter")
    await page.get_by_text("has no letter or digit to search for").wait_for()


async def test_what_stands_there_does_not_jump(page: Page) -> None:
    """Cumulative layout shift beyond what the user set off; below 0.1 is called good (https://web.dev/articles/cls)."""
    await search(page)
    assert await page.evaluate(SHIFTS) < 0.1
