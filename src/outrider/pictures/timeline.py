"""A timeline: the hits of a search by year, their kinds stacked."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING

from outrider.pictures.svg import LINE, SERIES, WIDTH, Colour, Picture, fit, measure

if TYPE_CHECKING:
    from outrider.state.response import SearchResponse

KINDS = {"paper": "papers", "repository": "repositories", "page": "pages", "document": "documents"}
"""In the order of their parts in a bar, from below; each with its plural."""
KIND_COLOURS: Mapping[str, Colour] = dict(zip(KINDS, SERIES, strict=True))
LEFT, RIGHT, PLOT = 48, 20, 220
"""Pixels: both margins, and the height of the axes."""
MAX_BARS = 24
MAX_BAR = 44
"""Width of a bar in pixels."""

Bars = Mapping[int, Counter[str]]
"""The first year of a bar -> works by kind."""


def draw_timeline(answer: SearchResponse) -> str:
    """A whole SVG document. Hits without a year are counted below the axes."""
    dated = [(hit.year, hit.kind) for hit in answer.hits if hit.year is not None]
    undated = len(answer.hits) - len(dated)
    query = answer.query if isinstance(answer.query, str) else ", ".join(f"{name}: {text}" for name, text in answer.query.items())
    bars, span = make_bars(dated)
    picture = Picture(f"Hits by year: {query}"[:300])
    picture.text(LEFT - 32, 26, "Hits by year", font_size=16, font_weight="bold")
    y = picture.lines(LEFT - 32, 48, fit(query, WIDTH - 2 * RIGHT, 2), "soft")
    notes = []
    if bars:
        y = _draw_legend(picture, y + 4, Counter(kind for _, kind in dated))
        y = _draw_axes(picture, y + 14, bars, span)
        notes.append(f"Each bar is {span:,} years, from the year below its left edge on." if span > 1 else "")
    else:
        notes.append("No hit has a year." if answer.hits else "The search has no hits.")
    if undated and bars:
        notes.append(f"{_number(undated, 'hit')} without a year {'is' if undated == 1 else 'are'} not in the bars.")
    hits = _number(len(answer.hits), "hit")
    notes.append(f"{hits} of {answer.total_found:,} works found." if answer.total_found > len(answer.hits) else f"{hits}.")
    shown = [note for note in notes if note]
    y = picture.lines(LEFT - 32, y + 8, shown, "soft")
    return picture.render(y - LINE + 16, " ".join([*_describe(bars, span), *shown]))


def make_bars(dated: Sequence[tuple[int, str]]) -> tuple[Bars, int]:
    """Works by kind in each bar, without gaps, and the years of a bar: as few of 1, 2, 5, 10, ... as make `MAX_BARS` at most."""
    if not dated:
        return {}, 1
    first, last = min(year for year, _ in dated), max(year for year, _ in dated)
    span = next(years for years in round_numbers() if last // years - first // years < MAX_BARS)
    bars: dict[int, Counter[str]] = {start * span: Counter() for start in range(first // span, last // span + 1)}
    for year, kind in dated:
        bars[year // span * span][kind] += 1
    return bars, span


def round_numbers() -> Iterator[int]:
    """1, 2, 5, 10, 20, 50, ..."""
    return (factor * 10**power for power in count() for factor in (1, 2, 5))


def _draw_legend(picture: Picture, y: float, totals: Counter[str]) -> float:
    x: float = LEFT - 32
    for kind, plural in KINDS.items():
        if totals[kind]:
            picture.add("rect", KIND_COLOURS[kind], x=x, y=y - 11, width=12, height=12, rx=2)
            label = f"{totals[kind]:,} {kind if totals[kind] == 1 else plural}"
            picture.text(x + 18, y, label)
            x += 18 + measure(label) + 18
    return y + LINE


def _draw_axes(picture: Picture, top: float, bars: Bars, span: int) -> float:
    """Axes, grid and bars; returns the baseline after the last label."""
    bottom, right = top + PLOT, WIDTH - RIGHT
    highest = max(sum(bar.values()) for bar in bars.values())
    step = next(number for number in round_numbers() if highest <= 5 * number)
    ceiling = step * math.ceil(highest / step)
    for value in range(0, ceiling + 1, step):
        y = bottom - PLOT * value / ceiling
        picture.line(LEFT, y, right, y, "soft" if value == 0 else "grid")
        picture.text(LEFT - 6, y + 4, f"{value:,}", "soft", "end")
    picture.text(LEFT - 32, top + PLOT / 2, "hits", "soft", "middle", transform=f"rotate(-90 {LEFT - 32} {top + PLOT / 2:g})")
    slot = (right - LEFT) / len(bars)
    width = min(MAX_BAR, slot * 0.76)
    every = math.ceil((measure(str(max(bars, key=lambda year: len(str(year))))) + 8) / slot)
    for place, (year, bar) in enumerate(bars.items()):
        middle = LEFT + (place + 0.5) * slot
        tick = middle if span == 1 else LEFT + place * slot
        y = bottom
        for kind in KINDS:
            if bar[kind]:
                height = PLOT * bar[kind] / ceiling
                y -= height
                picture.add("rect", KIND_COLOURS[kind], "back", x=middle - width / 2, y=y, width=width, height=height)
        if slot >= measure(f"{highest:,}") and (total := sum(bar.values())):
            picture.text(middle, y - 4, f"{total:,}", "ink", "middle")
        if place % every == 0:
            picture.line(tick, bottom, tick, bottom + 4, "soft")
            picture.text(tick, bottom + 18, str(year), "soft", "middle")
    picture.text((LEFT + right) / 2, bottom + 38, "year", "soft", "middle")
    return bottom + 56


def _describe(bars: Bars, span: int) -> Iterator[str]:
    """A sentence for each bar with works."""
    for year, bar in bars.items():
        if bar:
            parts = ", ".join(f"{bar[kind]:,} {kind if bar[kind] == 1 else KINDS[kind]}" for kind in KINDS if bar[kind])
            yield f"{year if span == 1 else f'{year} to {year + span - 1}'}: {parts}."


def _number(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' * (number != 1)}"
