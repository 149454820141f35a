"""A flow chart in two columns: what goes on, and beside it what is left out (PRISMA 2020)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from outrider.pictures.svg import Picture, fit, measure

WIDTH, SIZE = 860, 18
"""Wider than other pictures, with letters as much larger: two boxes stand side by side."""
LEFT, RIGHT, BOX = 60, 474, 372
STEP, PAD, GAP = 24, 14, 34
"""Pixels: height of a line, space inside a box, space between boxes."""
INDENT = 14
MAX_LINES = 4
"""Of one text in a box."""
MAX_WARNING = 12


@dataclass(frozen=True, slots=True)
class Row:
    stage: str
    included: Sequence[str]
    excluded: Sequence[str]
    dashed: bool = False
    """For a step that is not done yet."""


def draw_flow_chart(title: str, heading: str, rows: Sequence[Row], warning: str = "") -> str:
    """A whole SVG document. Lines of a box that begin with blanks are indented."""
    picture = Picture(title, WIDTH, SIZE)
    picture.text(LEFT, 28, heading, font_weight="bold")
    y = 46.0
    for number, row in enumerate(rows):
        left, right = _fit_lines(row.included), _fit_lines(row.excluded)
        height = max(max(len(left), len(right)) * STEP + 2 * PAD, measure(row.stage, 15) + 12 if row.stage else 0)
        if row.stage:
            middle = round(y + height / 2, 1)
            picture.add("rect", None, "blue", x=12, y=y, width=32, height=height, rx=6)
            picture.text(34, middle, row.stage, "blue", "middle", font_size=15, transform=f"rotate(-90 34 {middle:g})")
        _draw_box(picture, LEFT, y, height, left, dashed=row.dashed)
        if right:
            _draw_box(picture, RIGHT, y, height, right, dashed=row.dashed)
            _draw_arrow(picture, LEFT + BOX, y + height / 2, RIGHT, y + height / 2)
        if number < len(rows) - 1:
            _draw_arrow(picture, LEFT + BOX / 2, y + height, LEFT + BOX / 2, y + height + GAP)
        y += height + GAP
    y = picture.lines(LEFT, y - 4, fit(warning, WIDTH - LEFT - 16, MAX_WARNING, SIZE), "red") if warning else y - GAP / 2
    boxes = (" ".join(" ".join(lines).split()) for row in rows for lines in (row.included, row.excluded) if lines)
    return picture.render(y, ". ".join([heading, *boxes, *([warning] if warning else [])]))


def _fit_lines(texts: Sequence[str]) -> list[tuple[int, str]]:
    """Lines of a box, each with its indentation in pixels."""
    lines = []
    for text in texts:
        indent = INDENT * (text[:1] == " ")
        fitted = fit(text.replace("(n = ", "(n\u00a0=\u00a0"), BOX - 2 * PAD - indent, MAX_LINES, SIZE)  # a count stays on one line
        lines += [(indent, line.replace("\u00a0", " ")) for line in fitted]
    return lines


def _draw_box(picture: Picture, x: float, y: float, height: float, lines: Sequence[tuple[int, str]], *, dashed: bool) -> None:
    dash = {"stroke_dasharray": "5 4"} if dashed else {}
    picture.add("rect", None, "ink", x=x, y=y, width=BOX, height=height, **dash)
    for number, (indent, line) in enumerate(lines):
        picture.text(x + PAD + indent, y + PAD + STEP * number + 17, line)


def _draw_arrow(picture: Picture, x1: float, y1: float, x2: float, y2: float) -> None:
    picture.line(x1, y1, x2, y2, "ink")
    back = (x2 - 8, y2 - 4), (x2 - 8, y2 + 4)
    if x1 == x2:
        back = (x2 - 4, y2 - 8), (x2 + 4, y2 - 8)
    picture.polygon([(x2, y2), *back], "ink", None)
