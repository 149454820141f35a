"""The search tab in a real browser, over fake services on loopback."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.page_site import HOSTILE, QUERY, Opens, check, hold, search

if TYPE_CHECKING:
    from playwright.async_api import Page, Route

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]

SHIFTS = """() => new Promise((done) => {
  const summed = (list) => done(list.getEntries().filter((one) => !one.hadRecentInput).reduce((sum, one) => sum + one.value, 0));
  new PerformanceObserver(summed).observe({type: "layout-shift", buffered: true});
  setTimeout(() => done(0), 300);
})"""


async def test_first_hits_appear_before_the_search_ends(page: Page) -> None:
    """The hits of the sources are shown while the model still scores them, then the answer replaces them."""
    with hold("crossref", "slowly") as source, hold("scorer", "slowly") as scorer:
        await page.get_by_role("searchbox").fill(f"{QUERY} slowly")
        await page.get_by_role("button", name="Search").click()
        await page.locator('#strip li[data-step="scout"][data-state="runs"]').wait_for(state="attached")
        assert await page.get_by_role("button", name="Stop").is_visible()
        source.set()
        await page.locator("#hits .hit:not(.coming)").first.wait_for()
        await page.locator('#strip li[data-step="fine_scorer"][data-state="runs"]').wait_for(state="attached")
        assert "The model reads the works" in await page.locator("#search-status").inner_text()
        assert await page.locator("#hits .hit.done").count() == 0
        scorer.set()
        await page.locator("#hits .hit.done").first.wait_for()
    states = await page.locator("#strip li").evaluate_all("all => all.map(one => [one.dataset.step, one.dataset.state])")
    assert dict(states)["scout"] == "done"
    assert dict(states)["rule_ranker"] == "passed"
    assert "waits" not in dict(states).values()
    assert "model calls" in (await page.locator("#cost").text_content() or "")
    assert "Done in " in await page.locator("#search-status").inner_text()


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
    await check(page)
    await box.uncheck()
    await search(page)
    assert "Short answer" not in await answer.inner_text()
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
    assert await page.locator("#answer h2").inner_text() == "Best sentences"


async def test_partial_hits_are_shown_on_arrival(page: Page) -> None:
    """Recorded by an observer, since later hits replace them."""
    await page.evaluate(
        """() => { window.partialHits = []; new MutationObserver(() => {
          const title = document.querySelector("#hits-title").textContent;
          if (document.querySelector("#hits h3")) window.partialHits.push([title, !document.querySelector("#hits .done")]);
        }).observe(document.querySelector("#hits"), {childList: true}); }"""
    )
    await search(page)
    partial_results = await page.evaluate("window.partialHits")
    assert partial_results[0][1]
    assert "in a provisional order" in partial_results[0][0]


async def test_a_failing_service_is_named_and_loses_only_its_own_hits(page: Page) -> None:
    await search(page, f"{QUERY} broken")
    summary = page.locator("#source-summary")
    assert "no answer from Crossref" in await summary.inner_text()
    await summary.click()
    rows = await page.locator("#source-rows tbody tr").all_inner_texts()
    assert any("Crossref" in row and "could not be reached" in row for row in rows)
    assert any("OpenAlex" in row and "answered" in row for row in rows)
    shown = await page.locator("main").inner_text()
    assert not re.search(r"lance_|https?://|Errno|OUTRIDER_", shown)


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
        await tab.locator('#strip li[data-state="failed"]').wait_for(state="attached")
        assert "rules ranked instead" in (await step.text_content() or "")
        await tab.locator("#failures").get_by_text("Nothing could be searched").wait_for()
        await tab.get_by_role("button", name="Search again").wait_for()
        assert await tab.locator("#hits .coming").count() == 0
        assert last_event_ids == ["", "3"]


async def test_why_a_hit_is_there_stands_behind_a_disclosure(results_page: Page) -> None:
    review = results_page.locator(".hit", has_text="a review").first
    assert await review.locator(".why").count() == 0
    await review.get_by_role("button", name="Why this?").click()
    assert "Score 0.950: orders the results of this search. Rank 1, by the model - it answers" in await review.locator(".why").inner_text()
    assert "relevance" in await review.locator(".why .score-parts").inner_text()
    assert "your library, by words: rank" in await review.locator(".why").inner_text()
    await review.get_by_role("button", name="Why this?").click()
    assert await review.locator(".why").count() == 0
    for hit in await results_page.locator("#hits .hit").all():
        await hit.get_by_role("button", name="Why this?").click()
    folded = results_page.locator(".hit", has=results_page.locator(".folded")).first
    assert "1 duplicate merged into it" in await folded.inner_text()
    assert "OpenAlex" in await folded.inner_text()
    for hit in await results_page.locator("#hits .hit").all():
        await hit.get_by_role("button", name="Why this?").click()


async def test_a_kept_sentence_opens_in_its_text(results_page: Page) -> None:
    """Offsets count code points; the text has characters that are two units of a JavaScript string before them."""
    review = results_page.locator(".hit", has_text="a review").first
    assert "Liver injury by drugs ends." in await review.locator(".piece .passage").all_inner_texts()
    piece = review.locator(".piece", has_text="Liver injury by drugs ends.")
    await piece.get_by_role("button", name="In context").click()
    here = review.locator(".context mark.here")
    await here.wait_for()
    assert await here.inner_text() == "Liver injury by drugs ends."
    assert await here.evaluate(IN_SIGHT)
    assert "🧪🧪 in rare cases" in await review.locator(".context").inner_text()
    await piece.get_by_role("button", name="In context").click()
    assert await review.locator(".context").is_hidden()


IN_SIGHT = """one => {
  const mark = one.getBoundingClientRect(), box = one.closest(".text").getBoundingClientRect();
  return mark.top >= box.top && mark.bottom <= box.bottom;
}"""
PASSAGES = """async (hit) => {
  const { passages } = await import("/page/hits.js");
  return passages(hit).filter(Boolean).map((node) => [node.tagName, node.className, node.textContent]);
}"""


async def test_a_hit_says_whether_it_answers_and_shows_code_as_code(results_page: Page) -> None:
    code = "for call in calls:\n    retry(call)"
    pieces = [
        {"start": 0, "kind": "code", "parts": [{"text": code, "is_code": True, "kept": 0}], "more_lines": 0},
        {
            "start": 50,
            "kind": "sentence",
            "parts": [{"text": "It ", "is_code": False, "kept": 50}, {"text": "waits", "is_code": True, "kept": 50}],
        },
    ]
    hit = {"answers": "perhaps", "reading": {"pieces": pieces, "summary": "", "hidden": 0}}
    shown = await results_page.evaluate(PASSAGES, hit)
    assert shown == [["P", "verdict", "May not answer:"], ["PRE", "", code], ["P", "passage", "It waits"]]
    nothing = {"answers": "no", "reading": {"pieces": [], "summary": "A package for retries.", "hidden": 0}}
    about = ["P", "passage about", "About: A package for retries."]
    assert await results_page.evaluate(PASSAGES, nothing) == [["P", "verdict", "No sentence here answers."], about]
    right_to_left = {"answers": "no", "reading": {"pieces": [], "summary": "عدد التلميذات أربعين.", "hidden": 0}}
    isolated = "async (hit) => (await import('/page/hits.js')).passages(hit)[1].querySelector('bdi').textContent"
    assert await results_page.evaluate(isolated, right_to_left) == "عدد التلميذات أربعين.", "its full stop stands at its end"


@pytest.mark.parametrize(
    ("hit", "shown"),
    [
        ({"kind": "document", "file": "notes.md", "year": 2020}, ["2020", "notes.md"]),
        ({"kind": "page", "file": "saved.html", "url": None}, ["saved.html"]),
        ({"kind": "page", "file": "saved.html", "url": "https://a.example/"}, []),
        ({"kind": "paper", "file": "refs.bib"}, []),
    ],
)
async def test_a_note_or_saved_page_names_its_file(results_page: Page, hit: dict[str, object], shown: list[str]) -> None:
    names = "async (hit) => (await import('/page/hits.js')).meta(hit).map((node) => node.textContent)"
    assert await results_page.evaluate(names, hit) == shown


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
    await tool.get_by_role("button", name="Read text").click()
    await tool.get_by_text("<script>document.title=1</script>").first.wait_for()
    await tool.get_by_role("button", name="Read text").click()
    assert await results_page.locator("#hits img, #hits script").count() == 0
    assert await results_page.title() != "1"


async def test_hits_are_saved_as_files_and_formulas_are_defused(results_page: Page, tmp_path: Path) -> None:
    for form, sign in (("ris", "TY  - "), ("bibtex", "@"), ("json", "outrider.record/1"), ("csv", "doc_id")):
        await results_page.locator("#export summary").click()
        await results_page.get_by_label("Format").select_option(form)
        async with results_page.expect_download() as coming:
            await results_page.locator("#export").get_by_role("button", name="Save").click()
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
        await page.locator('#strip li[data-step="scout"][data-state="runs"]').wait_for(state="attached")
        async with page.expect_request(lambda request: request.method == "DELETE"):
            await page.get_by_role("button", name="Stop").click()
        assert await page.locator("#search-status").inner_text() == "Stopped"
        assert await page.get_by_role("button", name="Stop").is_hidden()
        assert await page.locator("#hits .coming").count() == 0
        assert await page.get_by_role("button", name="Search again").is_visible()


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
    assert await page.locator("#narrowed").inner_text() == "(from 2020, language Rust, only your library)"
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


async def test_the_layout_does_not_shift_while_results_arrive(page: Page) -> None:
    """Cumulative layout shift not caused by the user, once what searches is loaded: before that the first view goes late."""
    await page.evaluate("async () => { await (await import('/page/first-view.js')).load(); }")
    await search(page)
    assert await page.evaluate(SHIFTS) < 0.05


async def test_the_command_that_embeds_the_library_can_be_copied(page: Page) -> None:
    """The library of this site has no vectors; after a search the status offers the exact command, apart from its message."""
    await search(page)
    assert "outrider library" not in await page.locator("main").inner_text()
    await page.get_by_role("button", name="Status").click()
    dialog = page.get_by_role("dialog", name="Status")
    await dialog.get_by_text("Works are found by the words that you write").wait_for()
    assert not re.search("OPENAI|embedding\\.|outrider library", await dialog.inner_text()), "a reader needs no settings"
    await dialog.get_by_text("For whoever runs this server").click()
    command = dialog.locator("code.command").first
    assert (await command.inner_text()).startswith("outrider library reindex --library /")
    await check(page)
