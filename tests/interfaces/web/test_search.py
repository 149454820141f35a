"""The search tab in a real browser, over fake services on loopback."""

from __future__ import annotations

import asyncio
import csv
import io
import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.page_site import HOSTILE, QUERY, Opens, grave, hold, search

if TYPE_CHECKING:
    from playwright.async_api import Page, Route

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]

SHIFTS = """() => new Promise((done) => {
  const summed = (list) => done(list.getEntries().reduce((sum, one) => sum + one.value, 0));
  new PerformanceObserver(summed).observe({type: "layout-shift", buffered: true});
  setTimeout(() => done(0), 300);
})"""


async def test_first_hits_appear_before_the_search_ends(page: Page) -> None:
    """The hits of the sources are shown while the model still scores them, then the answer replaces them."""
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


async def test_a_short_answer_stands_above_the_hits_and_leads_to_them(page: Page) -> None:
    """Its switch is off at first; what was removed is counted; a citation moves the focus to the card of its hit."""
    box = page.get_by_label("Short answer written by a model")
    assert not await box.is_checked()
    await box.check()
    await search(page)
    answer = page.locator("#answer")
    assert await answer.locator("li").count() == 1
    removed = "3 sentences removed: 1 with a link or markup, 1 that repeats an earlier one, 1 with a number that no cited sentence has"
    assert removed in await answer.inner_text()
    assert "was not checked" in await answer.inner_text()
    assert (await page.locator('#strip li[data-step="answer"]').get_attribute("data-state")) == "done"
    top, hits = await answer.bounding_box(), await page.locator("#hits").bounding_box()
    assert top
    assert hits
    assert top["y"] < hits["y"]
    cited = answer.locator("button.cite").first
    title = await cited.get_attribute("title")
    await cited.click()
    assert title == await page.evaluate("document.activeElement.querySelector('h3').innerText")
    assert await grave(page) == []
    await box.uncheck()
    await search(page)
    assert await answer.is_hidden()
    assert (await page.locator('#strip li[data-step="answer"]').get_attribute("data-state")) == "passed"


async def test_without_a_model_there_is_no_switch(page: Page) -> None:
    async def without_model(route: Route) -> None:
        response = await route.fetch()
        await route.fulfill(response=response, json={**await response.json(), "answers": False})

    await page.route("**/api/about", without_model)
    await page.reload()
    await page.wait_for_selector("html[data-ready=yes]")
    assert await page.locator("#answer-choice").is_hidden()
    await search(page)
    assert await page.locator("#answer").is_hidden()


async def test_partial_hits_are_shown_on_arrival(page: Page) -> None:
    """Recorded by an observer, since later hits replace them."""
    await page.evaluate(
        """() => { window.partialHits = []; new MutationObserver(() => {
          const status = document.querySelector("#search-status").textContent;
          if (document.querySelector("#hits h3")) window.partialHits.push([status, !document.querySelector("#hits .compare")]);
        }).observe(document.querySelector("#hits"), {childList: true}); }"""
    )
    await search(page)
    partial_results = await page.evaluate("window.partialHits")
    assert partial_results[0][1]
    assert "after scout" in partial_results[0][0]


async def test_a_failing_service_is_named_and_loses_only_its_own_hits(page: Page) -> None:
    await search(page, f"{QUERY} broken")
    summary = page.locator("#source-summary")
    assert "failed: crossref" in await summary.inner_text()
    await summary.click()
    rows = await page.locator("#source-rows tbody tr").all_inner_texts()
    assert any("crossref" in row and "unavailable" in row for row in rows)
    assert any("openalex" in row and "ok" in row for row in rows)


async def test_a_failing_node_is_marked_in_the_strip_and_reported(opens: Opens) -> None:
    """The server's events of such a search are replayed."""
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
        last_event_ids: list[str] = []

        async def follow(route: object) -> None:
            """The connection breaks after the third event; a reconnection gets the last one."""
            last_id = route.request.headers.get("last-event-id", "")  # type: ignore[attr-defined]
            last_event_ids.append(last_id)
            await route.fulfill(body=end if last_id else wire, content_type="text/event-stream")  # type: ignore[attr-defined]

        await tab.route("**/events", follow)
        await tab.get_by_role("searchbox").fill("liver")
        await tab.get_by_role("searchbox").press("Enter")
        step = tab.locator('#strip li[data-step="fine_scorer"]')
        await tab.locator('#strip li[data-state="failed"]').wait_for()
        assert "rule ranker instead" in await step.inner_text()
        assert "the model is <b>down</b>" in await tab.locator("#failures").inner_text()
        await tab.get_by_text("nothing could be searched").wait_for()
        assert last_event_ids == ["", "3"]


async def test_a_hit_shows_reason_source_and_duplicates(results_page: Page) -> None:
    review = results_page.locator(".hit", has_text="a review").first
    assert "by model - it answers" in await review.inner_text()
    assert "library / lance fts, rank" in await review.inner_text()
    folded = results_page.locator(".hit", has=results_page.locator(".folded")).first
    assert "1 duplicate folded into it" in await folded.inner_text()
    assert "openalex" in await folded.inner_text()


async def test_kept_sentences_are_marked_in_place(results_page: Page) -> None:
    """Offsets count code points; the text has characters that are two units of a JavaScript string before them."""
    review = results_page.locator(".hit", has_text="a review").first
    marks = await review.locator("mark").all_inner_texts()
    assert "Liver injury by drugs ends." in marks
    assert "matters here" in await review.locator(".passage").first.inner_text()
    await review.get_by_text("The whole text").click()
    await review.locator("details .passage", has_text="🧪🧪 in rare cases").wait_for()
    assert "Liver injury by drugs ends." in await review.locator("details mark").all_inner_texts()


PASSAGES = """async (hit) => {
  const { passages } = await import("/page/hits.js");
  return passages(hit).filter(Boolean).map((node) => [node.tagName, node.className, node.textContent]);
}"""


async def test_a_hit_says_whether_it_answers_and_shows_code_as_code(results_page: Page) -> None:
    text = "Try it:\n\n    for call in calls:\n        retry(call)\n\nIt waits."
    spans = [[13, 51], [53, 62]]
    units = [{"start": 13, "end": 51, "kind": "code"}, {"start": 53, "end": 62, "kind": "sentence"}]
    hit = {"original_text": text, "spans": spans, "units": units, "answers": "perhaps", "summary": "", "content": ""}
    shown = await results_page.evaluate(PASSAGES, hit)
    code = "for call in calls:\n    retry(call)"
    assert shown[:3] == [["P", "verdict", "May not answer:"], ["PRE", "wide", code], ["P", "passage", "... \n\nIt waits."]]
    nothing = {**hit, "spans": [], "answers": "no", "summary": "A package for retries.", "content": "A package for retries. More."}
    about = ["P", "passage", "About: A package for retries."]
    assert await results_page.evaluate(PASSAGES, nothing) == [["P", "verdict", "No sentence here answers."], about]


async def test_a_script_in_a_title_is_text_without_a_link(results_page: Page) -> None:
    title = results_page.locator(".hit h3", has_text="onerror")
    assert await title.inner_text() == HOSTILE
    assert await title.locator("a").count() == 0
    assert await results_page.locator("#hits img, #hits script").count() == 0
    assert await results_page.title() != "1"
    links = await results_page.locator("#hits a").evaluate_all("all => all.map(one => [one.protocol, one.rel])")
    assert {tuple(one) for one in links} <= {("https:", "noopener noreferrer"), ("http:", "noopener noreferrer")}
    assert links


async def test_a_script_in_a_readme_is_text(results_page: Page) -> None:
    tool = results_page.locator(".hit", has=results_page.locator("h3", has_text="liver/tool"))
    assert "<script>document.title=1</script>" in await tool.text_content()
    assert await results_page.locator("#hits img, #hits script").count() == 0
    assert await results_page.title() != "1"


async def test_hits_are_saved_as_files_and_formulas_are_defused(results_page: Page, tmp_path: Path) -> None:
    for form, sign in (("ris", "TY  - "), ("bibtex", "@"), ("json", "outrider.record/1"), ("csv", "doc_id")):
        await results_page.get_by_label("Export").select_option(form)
        async with results_page.expect_download() as coming:
            await results_page.get_by_role("button", name="Save").click()
        path = tmp_path / form
        download = await coming.value
        await download.save_as(path)
        assert download.suggested_filename.startswith("outrider-hits.")
        assert sign in path.read_text(encoding="utf-8")
    rows = list(csv.DictReader(io.StringIO((tmp_path / "csv").read_text(encoding="utf-8"), newline="")))
    assert len(rows) == await results_page.locator("#hits .hit").count()
    assert [cell for row in rows for cell in row.values() if cell[:1] == "="] == []


async def test_stop_also_stops_the_search_on_the_server(page: Page) -> None:
    with hold("crossref", "endlessly"), hold("openalex", "endlessly"), hold("pubmed", "endlessly"):
        await page.get_by_role("searchbox").fill(f"endlessly {QUERY}")
        await page.get_by_role("searchbox").press("Enter")
        await page.locator('#strip li[data-step="scout"][data-state="runs"]').wait_for()
        async with page.expect_request(lambda request: request.method == "DELETE"):
            await page.get_by_role("button", name="Stop").click()
        assert await page.locator("#search-status").inner_text() == "Stopped."
        assert await page.get_by_role("button", name="Stop").is_disabled()


async def test_a_search_stopped_before_it_has_an_id_is_stopped_on_the_server(page: Page) -> None:
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
        async with page.expect_request(lambda request: request.method == "DELETE"):
            accepted.set()


async def test_filters_and_sources_narrow_the_request_and_errors_are_reported(page: Page) -> None:
    await page.locator("#narrow summary").click()
    await page.get_by_label("From year").fill("2020")
    await page.get_by_label("Language").fill("Rust")
    await page.get_by_role("checkbox", name="library").check()
    assert await page.locator("#narrowed").inner_text() == "(year, language, library)"
    await page.get_by_label("Exploratory").check()
    async with page.expect_request("**/api/search") as request_info:
        await page.get_by_role("searchbox").fill("liver")
        await page.get_by_role("searchbox").press("Enter")
    body = (await request_info.value).post_data_json
    assert body["filters"] == {"year": {"$gte": 2020}, "language": "Rust"}
    assert (body["sources"], body["search_mode"]) == (["library"], "exploratory")
    await page.get_by_role("searchbox").fill("???")
    await page.get_by_role("searchbox").press("Enter")
    await page.get_by_text("has no letter or digit to search for").wait_for()


async def test_the_layout_does_not_shift(page: Page) -> None:
    """Cumulative layout shift not caused by the user; below 0.1 is good (https://web.dev/articles/cls)."""
    await search(page)
    assert await page.evaluate(SHIFTS) < 0.1


async def test_the_command_that_embeds_the_library_can_be_copied(results_page: Page) -> None:
    """The library of this site has no vectors; the row of dense search offers the exact command, set apart from its message."""
    await results_page.locator("#source-rows summary").click()
    row = results_page.locator("#source-rows tbody tr", has_text="lance dense").first  # of several queries
    (command,) = await row.locator("code.command").all_inner_texts()
    assert command.startswith("outrider library reindex --library /")
    assert command in await row.inner_text()
    await results_page.locator("#source-rows summary").click()
