"""How we score: the examples and curves, compared with the code, and the page in a real browser."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("fastapi", reason="the extra `serve` is not installed")

from outrider.interfaces.web.explain_scoring import MEANINGS, explain_scoring
from outrider.nodes import rule_ranker
from outrider.nodes.fine_scorer import dimensions
from outrider.services import Services
from outrider.settings.model import Settings
from support.page_site import Opens, check

if TYPE_CHECKING:
    from playwright.async_api import Page

NAMES = {**vars(math), "DAY_S": dimensions.DAY_S, "YEAR_S": dimensions.YEAR_S, "min": min, "max": max}
UNUSUAL = {
    "ranking": {"text_weight": 0.5, "fused_weight": 0.3, "recency_half_life_years": 4},
    "repository": {"relevance": 0.2, "maturity": 0.7, "community": 0},
}
WIDTHS = (320, 360, 768, 1280, 1440)


def compute(calculation: str) -> float:
    return float(eval(calculation, dict(NAMES)))


@pytest.mark.parametrize("settings", [{}, UNUSUAL], ids=["default", "unusual"])
def test_each_calculation_that_is_shown_gives_the_number_beside_it(settings: dict[str, Any]) -> None:
    """The numbers are those of the functions; the texts are evaluated."""
    for worked in explain_scoring(Services(Settings.model_validate(settings))).worked:
        assert compute(worked.calculation) == pytest.approx(worked.score, abs=0.001)
        assert sum(step.share for step in worked.steps) == pytest.approx(worked.score, abs=1e-6)
        for step in worked.steps:
            if step.calculation:
                assert compute(step.calculation) == pytest.approx(step.value, abs=1e-6), step
            for figure in step.figures:
                assert (compute(figure.calculation) == pytest.approx(figure.value, abs=1e-6)) if figure.is_known else not figure.calculation
            if step.figures:
                assert sum(one.value for one in step.figures) / len(step.figures) == pytest.approx(step.value)


def test_the_examples_follow_the_settings_of_the_server() -> None:
    usual, unusual = (explain_scoring(Services(Settings.model_validate(one))).worked for one in ({}, UNUSUAL))
    assert [one.by for one in usual] == ["rules", "model"]
    for one, other in zip(usual, unusual, strict=True):
        assert one.score != other.score
    recency = next(step for step in unusual[0].steps if step.name == "recency")
    assert recency.calculation == "0.5 ** (max(0, 2026 - 2019) / 4)"
    assert any(not figure.is_known for step in usual[1].steps for figure in step.figures), "an example of what is unknown"


def test_every_number_has_a_meaning_and_no_meaning_is_left_over() -> None:
    scoring = explain_scoring(Services(Settings()))
    shown = {"score", "subject", scoring.relevance.name, *(one.name for one in (*scoring.dimensions, *scoring.rules))}
    assert shown == MEANINGS.keys()
    assert all(text.endswith(".") and len(text) < 130 for text in MEANINGS.values())


def test_curves_pass_through_the_examples() -> None:
    scoring = explain_scoring(Services(Settings()))
    parts = [part for dimension in scoring.dimensions for part in dimension.parts] + list(scoring.rule_parts)
    assert len(parts) == 15
    for part in parts:
        inputs, values = zip(*part.curve.points, strict=True)
        assert list(inputs) == sorted(inputs)
        assert all(0 <= value <= 1 for value in values)
        for example in (one for one in part.examples if inputs[0] <= one.given <= inputs[-1]):
            later = next(at for at, number in enumerate(inputs) if number >= example.given)
            around = values[max(0, later - 1)], values[later]
            assert min(around) - 0.02 <= example.value <= max(around) + 0.02, (part.name, example)
    assert {part.name: part.typical for part in scoring.rule_parts} == {"recency": 0.5, "renown": 0.0}
    assert scoring.rule_parts[0].examples[4].value == pytest.approx(rule_ranker.recency(2016, 2026, 10))


@pytest.mark.slow
@pytest.mark.asyncio(loop_scope="session")
async def test_the_page_explains_an_example_and_draws_curves_at_every_width(page: Page) -> None:
    await page.get_by_role("link", name="How we score").click()
    await page.get_by_role("heading", name="An example, step by step").wait_for()
    examples = page.locator(".worked")
    assert await examples.locator("h3").all_inner_texts() == ["A repository, with a model", "A paper, by rules"], "this server has a model"
    steps = await examples.nth(1).locator(".steps > li").all_inner_texts()
    assert len(steps) == 4
    assert "0.5 ^ (max(0, 2026 - 2019) / 10) = 0.616 × 0.05 = 0.031" in " ".join(steps[2].split())
    await examples.first.get_by_text("Show the figures").nth(1).click()
    assert "closed in 90 days (unknown): unknown, counts as 0.279" in await examples.first.inner_text()
    bar = examples.nth(1).get_by_role("img")
    name = await bar.get_attribute("aria-label") or ""
    assert "merged lists 0.602, recency 0.031, citations or stars 0.026; together 0.7" in name
    drawn = await bar.locator(".part").evaluate_all("all => all.map(one => one.offsetWidth / one.parentElement.clientWidth)")
    assert drawn[1] == pytest.approx(0.602, abs=0.01)
    await page.get_by_text("min(1.0, log1p(stars) / log1p(10000))").first.wait_for(state="attached")
    assert await page.locator(".dimension h3").all_inner_texts() == ["Maturity", "Activity", "Community", "Maintenance"]
    text = await page.locator("#scoring").inner_text()
    assert "exp2(-age_s(updated_at) / (90 * DAY_S))" in text
    assert "[object" not in text
    charts = page.locator("svg.chart[role=img]")
    assert await charts.count() == 15
    alternatives = await charts.evaluate_all(
        "all => all.map(one => [one.querySelector('title').textContent, one.querySelector('desc').textContent])"
    )
    assert alternatives[0] == [
        "What recency counts",
        "From 0 to 1 by age of the work in years. 0: 1.00, 1: 0.93, 2: 0.87, 5: 0.71, 10: 0.50, 20: 0.25, 40: 0.06.",
    ]
    assert len({title for title, _ in alternatives}) == 13, "stars and last push count twice"
    for width in WIDTHS:
        await page.set_viewport_size({"width": width, "height": 800})
        cut = await charts.locator("text").evaluate_all(
            """all => all.filter(one => { const a = one.getBoundingClientRect(), b = one.ownerSVGElement.getBoundingClientRect();
               return a.left < b.left - 1 || a.right > b.right + 1 || a.bottom > b.bottom + 1; }).map(one => one.textContent)"""
        )
        assert cut == [], width
        assert await page.locator(".bar-axis").first.evaluate("one => one.offsetHeight") < 30, "its numbers stand on one line"
    await check(page)


@pytest.mark.slow
@pytest.mark.asyncio(loop_scope="session")
async def test_without_a_model_rules_come_first(opens: Opens) -> None:
    async def without_model(route: Any) -> None:
        response = await route.fetch()
        await route.fulfill(response=response, json={**await response.json(), "has_model": False})

    async with opens() as tab:
        await tab.route("**/api/scoring", without_model)
        await tab.get_by_role("link", name="How we score").click()
        await tab.get_by_text("On this server rules score every work").wait_for()
        assert await tab.locator(".worked h3").first.inner_text() == "A paper, by rules"
