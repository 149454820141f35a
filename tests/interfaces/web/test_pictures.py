"""Pictures as Chromium draws them: in both schemes, and with the longest and strangest texts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from outrider.pictures.citation_map import draw_citation_map
from outrider.pictures.radar import Corner, Shape, draw_radar
from outrider.pictures.svg import COLOURS
from outrider.pictures.timeline import draw_timeline
from outrider.state.citations import CitationMap, MapWork
from outrider.state.hits import Hit
from outrider.state.response import SearchResponse
from outrider.systematic_search.prisma import Flow, flow_diagram
from support.compared_hits import LONG, NAMES, RTL
from support.page_site import QUERY, Opens
from support.svg import read_svg

if TYPE_CHECKING:
    from playwright.async_api import Page

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]

WORST = ("W" * 400, RTL * 6, LONG, '"><img src=x onerror="document.title=1">' * 10, "深度学习用于医学图像诊断" * 34, "🧪" * 400)
OUTSIDE = """() => [...document.querySelectorAll("svg text")].filter((one) => {
  const [a, b] = [one.getBoundingClientRect(), one.ownerSVGElement.getBoundingClientRect()];
  return a.left < b.left - 1 || a.right > b.right + 1 || a.top < b.top - 1 || a.bottom > b.bottom + 1;
}).map((one) => one.textContent.slice(0, 40))"""
SMALL = """() => [...document.querySelectorAll("svg text")].map((one) => {
  const svg = one.ownerSVGElement;
  return parseFloat(getComputedStyle(one).fontSize) * 600 / svg.viewBox.baseVal.width;
}).reduce((least, size) => Math.min(least, size), 99)"""


def draw(text: str) -> list[str]:
    """Each kind of picture, with the text wherever a text from outside may stand."""
    years = (1887, 2001, 2020, None)
    hits = tuple(Hit(rank=rank, doc_id="d", kind="paper", title=text, score=0.5, year=year) for rank, year in enumerate(years, 1))
    answer = SearchResponse(query=text, mode="discovery", hits=hits, total_found=12_345)
    corners = tuple(Corner(name, score) for name, score in zip(NAMES, (None, 0, 10, 3.3, 7, None), strict=True))
    flow = Flow(((text, 1_234_567), ("pubmed", 3)), 1_000, "rules", 4, 12_353, False, (text, text))
    rows = [
        (role, year, number)
        for number, role in ((12, "included"), (1, "excluded"), (0, "candidate"))
        for year in (*range(1990, 2012), None)
    ]
    works = tuple(MapWork(key=f"{at}", title=text, year=year, role=role, round=number) for at, (role, year, number) in enumerate(rows))
    chart = draw_citation_map(CitationMap(target=text, works=works, links=(("0", "9"), ("1", "50")), left_out=12_345))
    radars = [draw_radar([Shape(text, corners)] * number) for number in (1, 4)]
    return [draw_timeline(answer), *radars, flow_diagram(flow), chart]


async def test_no_text_leaves_a_picture_and_none_is_too_small_at_600_pixels(opens: Opens) -> None:
    async with opens() as tab:
        await tab.goto("about:blank")
        for text in WORST:
            for number, svg in enumerate(draw(text)):
                await tab.set_content(svg)
                assert await tab.evaluate(OUTSIDE) == [], (number, text[:20])
                assert await tab.evaluate(SMALL) >= 10, number
        assert await tab.title() != "1"
        assert await tab.locator("img").count() == 0


async def test_a_picture_of_the_server_follows_the_scheme_of_its_reader(opens: Opens) -> None:
    """Opened alone, under its own policy."""
    async with opens() as tab:
        place = await tab.evaluate(
            """async (query) => {
              const headers = { "Content-Type": "application/json", Prefer: "respond-async" };
              const body = JSON.stringify({ query, top_k: 30 });
              const { id } = await (await fetch("/api/search", { method: "POST", headers, body })).json();
              await (await fetch(`/api/search/${id}/events`)).text();
              return `/api/search/${id}`;
            }""",
            QUERY,
        )
        site = tab.url.split("/#")[0].rstrip("/")
        for name in ("timeline", "radar"):
            await tab.goto(f"{site}{place}/{name}.svg")
            for scheme, colour in zip(("light", "dark"), COLOURS["back"], strict=True):
                await tab.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
                fill = await tab.evaluate("() => getComputedStyle(document.querySelector('rect')).fill")
                assert fill == f"rgb({', '.join(str(int(colour[at : at + 2], 16)) for at in (1, 3, 5))})"
            assert await tab.evaluate(OUTSIDE) == []


async def test_the_hits_by_year_are_saved_as_a_picture(results_page: Page) -> None:
    await results_page.locator("#export summary").click()
    async with results_page.expect_download() as coming:
        await results_page.get_by_role("button", name="Picture by year").click()
    download = await coming.value
    assert download.suggested_filename == "outrider-timeline.svg"
    _, text = read_svg((await download.path()).read_text(encoding="utf-8"))
    assert {"Hits by year", QUERY} <= set(text.splitlines())
    await results_page.locator("#saved", has_text="by year saved").wait_for()
    assert await results_page.locator("#export").get_attribute("open") is None
