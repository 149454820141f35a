"""A radar of one to four repositories on axes from 0 to 10, and its numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from outrider.pictures.svg import LINE, SERIES, WIDTH, Anchor, Colour, Picture, fit, measure

if TYPE_CHECKING:
    from outrider.state.analysis import Analysis
    from outrider.state.hits import Hit

MAX_SHAPES = 4
LETTERS = "ABCD"
RINGS = (2, 4, 6, 8, 10)
RADIUS, LABEL = 104, 110
"""Pixels: of the axes, and the room of a label beside them."""
COLUMN = 96
"""Width of one work's numbers in pixels."""
DASHES = ("none", "7 3", "2 3", "9 3 2 3")
"""Lines of the works: colours alone do not distinguish them for everybody."""
UNKNOWN = "unknown"

Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Corner:
    dimension: str
    score: float | None
    """0 to 10; None if nothing is known."""
    counted: float | None = None
    """What an unknown score counts."""

    @property
    def height(self) -> float:
        value = self.score if self.score is not None else self.counted or 0.0
        return min(10.0, max(0.0, value))


@dataclass(frozen=True, slots=True)
class Shape:
    """One work."""

    name: str
    corners: tuple[Corner, ...]


def make_hit_shape(hit: Hit) -> Shape | None:
    """None for a hit without dimensions."""
    corners = tuple(_make_corner(row) for row in hit.radar)
    return Shape(hit.title or hit.doc_id, corners) if corners else None


def make_analysis_shape(analysis: Analysis) -> Shape | None:
    """None for an analysis without ratings."""
    corners = tuple(Corner(rating.dimension, rating.score) for rating in analysis.ratings)
    return Shape(analysis.title or analysis.doc_id, corners) if corners else None


def _make_corner(row: Mapping[str, Any]) -> Corner:
    def read(name: str) -> float | None:
        value = row.get(name)
        return float(value) if isinstance(value, int | float) else None

    return Corner(str(row.get("dimension", "")), read("score"), read("counted"))


def draw_radar(shapes: Sequence[Shape]) -> str:
    """A whole SVG document. The first work names the corners; at most `MAX_SHAPES` works."""
    names = [corner.dimension for corner in shapes[0].corners]
    by_name = [{corner.dimension: corner for corner in shape.corners} for shape in shapes]
    works = [[known.get(name, Corner(name, None)) for name in names] for known in by_name]
    title = " and ".join(shape.name[:100] for shape in shapes)
    picture = Picture(f"Dimensions of {title}")
    picture.text(16, 26, "Dimensions, 0 to 10", font_size=16, font_weight="bold")
    y: float = 50
    for number, shape in enumerate(shapes):
        y = _draw_name(picture, y, number, shape.name, alone=len(shapes) == 1)
    alone = len(works) == 1
    centre = (16 + LABEL + RADIUS * 0.87 if alone else WIDTH / 2, y + RADIUS + 26)
    _draw_rings(picture, centre, names)
    for number, corners in enumerate(works):
        _draw_shape(picture, centre, number, corners)
    _draw_scale(picture, centre)
    if alone:  # the numbers stand beside the axes, those of several works below
        _draw_numbers(picture, 2 * centre[0] + 4, y + 32, names, works)
        y = centre[1] + RADIUS + 52
    else:
        y = _draw_numbers(picture, 16, centre[1] + RADIUS + 58, names, works) + 6
    if any(corner.score is None for corners in works for corner in corners):
        counted = any(corner.counted is not None for corners in works for corner in corners)
        note = "A hollow mark is unknown; it stands at " + ("the estimate that counts in the score." if counted else "0.")
        y = picture.lines(16, y, fit(note, WIDTH - 32, 2), "soft")
    sentences = [f"{shape.name}: {', '.join(map(_describe, corners))}." for shape, corners in zip(shapes, works, strict=True)]
    return picture.render(y, " ".join(sentences))


def _draw_name(picture: Picture, y: float, number: int, name: str, *, alone: bool) -> float:
    _draw_mark(picture, 23, y - 4, number, hollow=False)
    letter = "" if alone else f"{LETTERS[number]}  "
    picture.text(36, y, letter.strip(), SERIES[number], font_weight="bold") if letter else None
    return picture.lines(36 + measure(letter), y, fit(name, WIDTH - 52 - measure(letter), 2))


def _at(centre: Point, corner: int, corners: int, score: float) -> tuple[float, float]:
    angle = 2 * math.pi * corner / corners - math.pi / 2
    return centre[0] + RADIUS * score / 10 * math.cos(angle), centre[1] + RADIUS * score / 10 * math.sin(angle)


def _draw_rings(picture: Picture, centre: Point, names: Sequence[str]) -> None:
    for ring in RINGS:
        picture.polygon([_at(centre, place, len(names), ring) for place in range(len(names))], None, "grid")
    for place, name in enumerate(names):
        picture.line(*centre, *_at(centre, place, len(names), 10))
        x, y = _at(centre, place, len(names), 11.2)
        across = round(x - centre[0])
        label = fit(name.replace("_", " "), LABEL, 1)[0]
        anchor: Anchor = "middle" if not across else "start" if across > 0 else "end"
        picture.text(x, y + (10 if y > centre[1] + 1 else 2), label, "ink", anchor)


def _draw_scale(picture: Picture, centre: Point) -> None:
    """The numbers of the rings, over the shapes: without them the picture has no scale."""
    for ring in (0, *RINGS):
        y = centre[1] - RADIUS * ring / 10
        picture.text(centre[0] - 7, y + 4, str(ring), "soft", "end", halo=True, font_size=11)


def _draw_shape(picture: Picture, centre: Point, number: int, corners: Sequence[Corner]) -> None:
    colour = SERIES[number]
    points = [_at(centre, place, len(corners), corner.height) for place, corner in enumerate(corners)]
    picture.polygon(points, colour, colour, fill_opacity=0.12, stroke_width=2, stroke_dasharray=DASHES[number])
    for (x, y), corner in zip(points, corners, strict=True):
        _draw_mark(picture, x, y, number, hollow=corner.score is None)


def _draw_mark(picture: Picture, x: float, y: float, number: int, *, hollow: bool) -> None:
    """A circle, square, triangle or diamond."""
    colour = SERIES[number]
    fill: Colour = "back" if hollow else colour
    if number == 0:
        picture.add("circle", fill, colour, cx=x, cy=y, r=4.5, stroke_width=1.5)
        return
    outlines = (((-4, -4), (4, -4), (4, 4), (-4, 4)), ((0, -5), (5, 4), (-5, 4)), ((0, -6), (5, 0), (0, 6), (-5, 0)))
    picture.polygon([(x + dx, y + dy) for dx, dy in outlines[number - 1]], fill, colour, stroke_width=1.5)


def _draw_numbers(picture: Picture, x: float, y: float, names: Sequence[str], works: Sequence[Sequence[Corner]]) -> float:
    """A row for each dimension, a column for each work; returns the baseline after the last row."""
    edges = [WIDTH - 16 - COLUMN * (len(works) - 1 - number) for number in range(len(works))]
    if len(works) > 1:
        for number, edge in enumerate(edges):
            picture.text(edge, y, LETTERS[number], SERIES[number], "end", font_weight="bold")
        y += LINE + 4
    for place, name in enumerate(names):
        picture.line(x, y + 8, WIDTH - 16, y + 8)
        picture.text(x, y, fit(name.replace("_", " "), edges[0] - 60 - x, 1)[0])
        for corners, edge in zip(works, edges, strict=True):
            score = corners[place].score
            picture.text(edge, y, UNKNOWN if score is None else f"{score:.1f}", "soft" if score is None else "ink", "end")
        y += LINE + 8
    return y


def _describe(corner: Corner) -> str:
    name = corner.dimension.replace("_", " ")
    if corner.score is not None:
        return f"{name} {corner.score:.1f} of 10"
    return f"{name} unknown" + (f" (counts as {corner.counted:.1f})" if corner.counted is not None else "")
