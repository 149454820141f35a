"""The comparison in a real browser: chosen by hand, and filled with hits of every kind at all widths."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from support.compared_hits import HITS, LONG
from support.page_site import Opens, check
from support.svg import read_svg

if TYPE_CHECKING:
    from playwright.async_api import Page

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]

WIDTHS = (320, 360, 768, 1280, 1440)
COMPARE = """async ([hits, address]) => {
  const { Comparison } = await import("/page/compare.js");
  const about = await (await fetch("/api/about")).json();
  const comparison = new Comparison(() => address, about.source_names);
  for (const hit of hits) comparison.hits.set(hit.doc_id, hit);
  await comparison.show();
}"""
OVERFLOWING = """() => [...document.querySelectorAll("#compare-dialog *")].filter((one) => {
  if (one.closest(".hidden, svg")) return false;
  const box = one.getBoundingClientRect(), around = document.querySelector("#compare-dialog").getBoundingClientRect();
  return box.width && (box.left < around.left - 1 || box.right > around.right + 1);
}).map((one) => one.className + ": " + one.textContent.slice(0, 60))"""
COLUMNS = (
    """() => new Set([...document.querySelectorAll(".compared article")].map((one) => Math.round(one.getBoundingClientRect().left))).size"""
)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def compared(opens: Opens) -> AsyncIterator[Page]:
    """The page with four hits side by side; tests restore its size and scheme."""
    async with opens() as tab:
        await tab.evaluate(COMPARE, [HITS, "api/search/x"])
        yield tab


async def test_up_to_four_hits_are_compared_side_by_side(results_page: Page) -> None:
    boxes = results_page.locator("#hits .compare input")
    for at in range(4):
        await boxes.nth(at).check()
    await boxes.nth(4).click()
    assert not await boxes.nth(4).is_checked()
    assert "4 hits are compared at most" in await results_page.locator("#compare-said").inner_text()
    await results_page.locator("#compare-button").click()
    dialog = results_page.get_by_role("dialog", name="Side by side")
    await dialog.wait_for()
    assert await dialog.get_by_role("article").count() == 4
    facts = await dialog.locator("article").first.locator("dt").all_inner_texts()
    assert {"Authors", "Published", "Licence", "Version", "Last activity", "Score", "Why it is here"} <= set(facts)
    tool = dialog.locator("article", has_text="liver/tool")
    assert "Last activity\nlast push 2026-11-01" in await tool.inner_text()
    assert await dialog.get_by_role("heading", name="Sentences that answer").count() == 4
    await results_page.keyboard.press("Escape")
    assert not await dialog.is_visible()
    await results_page.get_by_role("button", name="Clear").click()
    assert not await results_page.locator("#compare-bar").is_visible()
    assert await results_page.locator("#hits .compare input:checked").count() == 0


async def test_columns_fit_or_stack_at_every_width(compared: Page) -> None:
    columns = {}
    for width in WIDTHS:
        await compared.set_viewport_size({"width": width, "height": 740 if width < 500 else 800})
        columns[width] = await compared.evaluate(COLUMNS)
        assert await compared.evaluate(OVERFLOWING) == [], width
        assert await compared.evaluate("() => document.querySelector('#compare-table').scrollWidth <= innerWidth"), width
    assert columns == {320: 1, 360: 1, 768: 2, 1280: 4, 1440: 4}
    await check(compared)


async def test_the_same_row_of_all_columns_stands_at_the_same_height(compared: Page) -> None:
    tops = await compared.locator(".compared dt", has_text="Score").evaluate_all(
        "all => all.map(one => Math.round(one.getBoundingClientRect().top))"
    )
    assert len(tops) == 4
    assert len(set(tops)) == 1


async def test_marks_and_unknown_values_are_in_words(compared: Page) -> None:
    articles = compared.locator(".compared article")
    assert [await article.locator(".alarming, .flag").all_inner_texts() for article in await articles.all()] == [
        [], [], ["Retracted", "Corrected"], ["Its text addresses a model instead of a reader. That was ignored."],
    ]  # fmt: skip
    texts = await articles.all_inner_texts()
    assert "Citations\nnot known" in texts[0]
    assert "Citations\n1,204" in texts[2]
    assert all("Licence\n" in text and "Last activity\n" in text for text in texts)
    assert "Licence\nApache-2.0" in texts[0]
    assert "Version\n9.1.2" in texts[0]
    assert "Licence\nnot known" in texts[1]
    assert "Last activity\narchived" in texts[1]
    assert "Score\n0.910 of 1, rank 1, by a model" in texts[0]
    assert "Score\n0.500 of 1, rank 3, by rules" in texts[2]
    assert "GitHub, your library" in texts[0]
    assert "lance" not in " ".join(texts)
    assert await articles.nth(3).get_by_role("link").count() == 0, "an address that runs is no link"
    assert "hit:4" in texts[3]
    assert await compared.title() == "Outrider: search papers, code and your library"


async def test_titles_and_quotes_are_clamped_and_a_quote_opens(compared: Page) -> None:
    title = compared.locator(".compared h3", has_text=LONG[:20])
    lines = "one => one.getBoundingClientRect().height / parseFloat(getComputedStyle(one).lineHeight)"
    assert await title.evaluate(lines) == pytest.approx(3, abs=0.1)
    quote = compared.locator(".compared article").first.locator(".quote").first
    assert await quote.locator("p").evaluate(lines) == pytest.approx(2, abs=0.1)
    assert (await quote.locator("p").inner_text()).startswith("Tenacity is a general-purpose")
    more = quote.get_by_role("button", name="Whole sentence")
    await more.focus()
    await compared.keyboard.press("Enter")
    assert await quote.locator("p").evaluate(lines) > 4
    await quote.get_by_role("button", name="Two lines", expanded=True).click()
    assert await quote.locator("p").evaluate(lines) == pytest.approx(2, abs=0.1)
    short = compared.locator(".compared article").first.locator(".quote").nth(1)
    assert await short.inner_text() == "Short end."


async def test_the_radar_has_a_scale_and_its_numbers_beside_it(compared: Page) -> None:
    radar = compared.locator("#compare-dialog .radar")
    assert await radar.locator(".scale").all_text_contents() == ["0", "2", "4", "6", "8", "10"]
    assert await radar.locator(".dot.none").count() == 4
    rows = await compared.locator(".numbers tbody tr").all_inner_texts()
    assert rows[0].split() == ["activity", "8.2", "unknown", "9.0"]
    heads = await compared.locator(".numbers thead th").all_text_contents()
    assert heads == ["A jd/tenacity", f"B {LONG}", "D hit:4"]
    boxes = [await compared.locator(name).bounding_box() for name in ("#compare-dialog .radar-figure", ".numbers")]
    figure, table = [box for box in boxes if box]
    assert table["x"] > figure["x"] + figure["width"] - 1, "beside it"
    corner = radar.locator(".corner").first
    await corner.focus()
    assert await compared.get_by_role("tooltip").inner_text() == "activity: A 8.2 of 10, B unknown, D 9.0 of 10"
    await compared.keyboard.press("Escape")
    assert await compared.get_by_role("tooltip").count() == 0
    assert await compared.locator("#compare-dialog").is_visible(), "only the figures are put away"


async def test_the_radar_is_saved_as_a_picture(results_page: Page) -> None:
    """From the server, which draws it for the ranks that are compared."""
    asked: list[str] = []

    async def note(route: object) -> None:
        asked.append(route.request.url)  # type: ignore[attr-defined]
        await route.continue_()  # type: ignore[attr-defined]

    await results_page.route("**/radar.svg*", note)
    for name in ("liver/tool", "liver/bare"):
        await results_page.locator("#hits .hit", has_text=name).first.locator(".compare input").check()
    assert await results_page.locator("#compare-said").inner_text() == "2 chosen (at most 4)"
    await results_page.keyboard.press("Tab")
    await results_page.keyboard.press("Enter")
    async with results_page.expect_download() as coming:
        await results_page.get_by_role("button", name="Save as picture").click()
    download = await coming.value
    assert download.suggested_filename == "outrider-radar.svg"
    _, text = read_svg((await download.path()).read_text(encoding="utf-8"))
    assert {"liver/tool", "liver/bare", "A", "B", "unknown"} <= set(text.splitlines())
    assert asked[0].count("rank=") == 2
    await results_page.unroute("**/radar.svg*")
    await results_page.keyboard.press("Escape")
    await results_page.get_by_role("button", name="Clear").click()


TEXTS = """async (hits) => {
  const { Comparison } = await import("/page/compare.js");
  const comparison = new Comparison(() => "", {}, "doses");
  for (const hit of hits) comparison.hits.set(hit.doc_id, hit);
  await comparison.show();
}"""
HOSTILE = '<img src=x onerror="document.title=1"> It streams measurements.'


async def test_texts_are_compared_by_the_server_and_quoted(opens: Opens) -> None:
    """Only works of one kind with identifiers are offered."""
    works = [{**hit, "identifiers": {"github": f"liver/{hit['rank']}"}} for hit in HITS if hit["kind"] == "repository"][:2]
    difference = {"key": "[1]", "statement": "", "quotes": [{"start": 3, "end": 40, "text": HOSTILE}], "unmentioned": ["streams"]}
    answer = {
        "works": [{"key": "[1]"}, {"key": "[2]"}],
        "differences": [difference],
        "failures": [{"node": "evidence", "message": "out of time"}],
        "notes": ["no model described the differences"],
    }
    async with opens() as tab:
        await tab.route("**/api/compare", lambda route: route.fulfill(json=answer))
        await tab.evaluate(TEXTS, works)
        async with tab.expect_request("**/api/compare") as request_info:
            await tab.get_by_role("button", name="Compare their texts").click()
        section = tab.get_by_role("region", name="Their texts")
        await section.get_by_text("Characters 3 to 40").wait_for()
        assert (await request_info.value).post_data_json == {"targets": ["liver/1", "liver/2"], "question": "doses"}
        assert HOSTILE in await section.inner_text()
        assert "evidence: out of time" in await section.inner_text()
        assert await section.locator("img").count() == 0
        await check(tab)
        await tab.get_by_role("button", name="Close").click()
        await tab.evaluate(TEXTS, [works[0], {**HITS[2], "identifiers": {"doi": "10.1000/x"}}])
        assert await tab.get_by_role("button", name="Compare their texts").count() == 0
