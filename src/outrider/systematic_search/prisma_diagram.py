"""The flow diagram of PRISMA 2020 for databases and registers, as SVG: the boxes that a search fills, and empty ones for the reviewers."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from outrider.systematic_search.prisma import Flow
from outrider.text.sanitize import without_control

WIDTH, LEFT, RIGHT, BOX = 860, 60, 470, 340
"""Pixels: of the picture, of the two columns' left edges, of a box."""
LINE, PAD, GAP = 18, 12, 34
LETTER = 6.5
"""Pixels of a stage's letter, which stand one above the other."""
CHARS = 46
"""Of a line in a box, at the font below."""
LATER = "(n = ____ )"
STYLE = "font-family:Helvetica,Arial,sans-serif;font-size:13px"


@dataclass(frozen=True, slots=True)
class _Row:
    stage: str
    left: Sequence[str]
    right: Sequence[str]
    dashed: bool = False


def diagram(flow: Flow) -> str:
    """A whole SVG document; every text in it is escaped."""
    parts: list[str] = []
    y = 40
    for number, row in enumerate(rows := _rows(flow)):
        left, right = _wrapped(row.left), _wrapped(row.right)
        height = max(max(len(left), len(right)) * LINE, round(len(row.stage) * LETTER)) + 2 * PAD
        parts += _stage(row.stage, y, height)
        parts += _box(LEFT, y, height, left, dashed=row.dashed)
        if right:
            parts += _box(RIGHT, y, height, right, dashed=row.dashed)
            parts.append(_arrow(LEFT + BOX, y + height // 2, RIGHT, y + height // 2))
        if number < len(rows) - 1:
            parts.append(_arrow(LEFT + BOX // 2, y + height, LEFT + BOX // 2, y + height + GAP))
        y += height + GAP
    if not flow.complete:
        for line in textwrap.wrap(f"This search is not complete: {'; '.join(flow.missing)}", 100):
            parts.append(f'<text x="{LEFT}" y="{y}" fill="#b00020" style="{STYLE}">{_safe(line)}</text>')
            y += LINE
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{y + 10}" viewBox="0 0 {WIDTH} {y + 10}" role="img">'
    marker = (
        '<defs><marker id="head" markerWidth="9" markerHeight="7" refX="8" refY="3.5" orient="auto">'
        '<polygon points="0 0, 9 3.5, 0 7"/></marker></defs>'
    )
    title = "<title>PRISMA 2020 flow diagram</title>"
    heading = f'<text x="{LEFT}" y="24" font-weight="bold" style="{STYLE}">Identification of studies via databases and registers</text>'
    background = f'<rect width="{WIDTH}" height="{y + 10}" fill="white"/>'
    return "\n".join([head, title, marker, background, heading, *parts, "</svg>", ""])


def _rows(flow: Flow) -> list[_Row]:
    identified = [f"Records identified (n = {flow.total:,}):", *(f"  {name} (n = {count:,})" for name, count in flow.identified)]
    removed = [
        "Records removed before screening:",
        f"  duplicates (n = {flow.duplicates:,})",
        f"  outside the query, as checked by automation (n = {flow.outside:,})",
    ]
    return [
        _Row("Identification", identified, removed),
        _Row("Screening", [f"Records to be screened (n = {flow.for_screening:,})"], [f"Records excluded {LATER}"]),
        _Row("", [f"Reports sought for retrieval {LATER}"], [f"Reports not retrieved {LATER}"], dashed=True),
        _Row("", [f"Reports assessed for eligibility {LATER}"], [f"Reports excluded, with reasons {LATER}"], dashed=True),
        _Row("Included", [f"Studies included in review {LATER}"], [], dashed=True),
    ]


def _wrapped(lines: Sequence[str]) -> list[str]:
    return [part for line in lines for part in textwrap.wrap(line, CHARS, subsequent_indent="    ", drop_whitespace=False) or [""]]


def _box(x: int, y: int, height: int, lines: Sequence[str], *, dashed: bool) -> list[str]:
    dash = ' stroke-dasharray="4 3"' if dashed else ""
    drawn = [f'<rect x="{x}" y="{y}" width="{BOX}" height="{height}" fill="white" stroke="black"{dash}/>']
    for number, line in enumerate(lines):
        indent = len(line) - len(line.lstrip())
        at = y + PAD + LINE * number + 13
        drawn.append(f'<text x="{x + PAD + 6 * indent}" y="{at}" style="{STYLE}">{_safe(line.strip())}</text>')
    return drawn


def _stage(name: str, y: int, height: int) -> list[str]:
    if not name:
        return []
    middle = y + height // 2
    return [
        f'<rect x="14" y="{y}" width="28" height="{height}" rx="6" fill="#9db7d5"/>',
        f'<text x="32" y="{middle}" text-anchor="middle" transform="rotate(-90 32 {middle})" style="{STYLE};font-size:11px">{name}</text>',
    ]


def _arrow(x1: int, y1: int, x2: int, y2: int) -> str:
    return f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="black" marker-end="url(#head)"/>'


def _safe(text: str) -> str:
    return escape(without_control(text))
