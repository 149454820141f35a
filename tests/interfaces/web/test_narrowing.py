"""Facets and radar in a real browser; the comparison is in `test_compare.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.async_api import Page

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]


async def test_facets_match_any_within_a_group_and_all_between_groups(results_page: Page) -> None:
    facets = results_page.get_by_role("complementary")
    hits = results_page.locator("#hits .hit")
    before = await hits.count()
    repository = facets.get_by_role("checkbox", name="repository")
    await repository.check()
    repositories = await hits.count()
    assert 0 < repositories < before
    assert f"{repositories} of {before} results fit the filters" in await results_page.locator("#hits-title").inner_text()
    await repository.uncheck()
    rust = facets.get_by_role("checkbox", name="Rust")
    await rust.check()
    assert await hits.count() == 1
    assert await facets.get_by_role("checkbox", name="paper").count() == 0  # no shown hit has it
    await rust.uncheck()
    years = [facets.get_by_role("checkbox", name=year) for year in ("2019", "2021")]
    counts = []
    for year in years:
        await year.check()
        counts.append(await hits.count())
    assert 0 < counts[0] < counts[1]
    for year in years:
        await year.uncheck()
    assert await hits.count() == before


async def test_a_radar_has_six_corners_with_figure_and_reason(results_page: Page) -> None:
    tool = results_page.locator(".hit", has_text="liver/tool").first
    await tool.get_by_role("button", name="Why this?").click()
    corners = tool.locator(".corner")
    names = [await corner.get_attribute("aria-label") or "" for corner in await corners.all()]
    assert len(names) == 6
    assert any(name.startswith("ease of use: 8.0 of 10. one command") for name in names)
    assert any(name.startswith("maturity: ") and "unknown: releases" in name for name in names)
    tip = tool.get_by_role("tooltip")
    assert await tip.count() == 0
    await corners.nth(0).hover()
    assert await tip.inner_text() == names[0]
    await corners.nth(1).focus()
    assert await tip.inner_text() == names[1]
    await results_page.keyboard.press("Escape")
    assert await tip.count() == 0
    cut = await tool.locator(".radar text").evaluate_all(
        """all => all.filter(one => { const a = one.getBoundingClientRect(), b = one.ownerSVGElement.getBoundingClientRect();
           return a.left < b.left - 1 || a.right > b.right + 1 || a.top < b.top - 1 || a.bottom > b.bottom + 1; }).length"""
    )
    assert cut == 0
    await tool.get_by_role("button", name="Why this?").click()


async def test_a_repository_without_facts_shows_them_as_unknown_behind_one_with_stars(results_page: Page) -> None:
    """The model gives both the same; nothing is known of the second, and its corners say so in sight, not only to a pointer."""
    titles = await results_page.locator("#hits .hit").evaluate_all("all => all.map(one => one.innerText)")
    places = [next(at for at, text in enumerate(titles) if name in text) for name in ("liver/tool", "liver/bare")]
    assert places == sorted(places)
    bare = results_page.locator(".hit", has_text="liver/bare").first
    await bare.get_by_role("button", name="Why this?").click()
    assert await bare.locator(".radar text.unknown").all_text_contents() == ["unknown"] * 4
    names = [await corner.get_attribute("aria-label") or "" for corner in await bare.locator(".corner").all()]
    assert any(name.startswith("activity: unknown. unknown: updated at, commits 90d, closed 90d. counts as 3.") for name in names)
    assert await bare.locator(".dot.none").count() == 4
    await bare.get_by_role("button", name="Why this?").click()
