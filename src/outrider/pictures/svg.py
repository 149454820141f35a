"""An SVG document: elements in light and dark colours, and texts that fit.

A picture stands alone: it names common fonts, loads nothing, and carries its colours as attributes, which every program reads. A style
sheet inside replaces them where the reader prefers a dark scheme; programs that know no such preference ignore it.

No font is known here, so the width of a text is an estimate: that of the wider of Arial and DejaVu Sans for most characters.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Literal
from xml.etree import ElementTree as ET

from outrider.text.sanitize import without_control

Colour = Literal["back", "ink", "soft", "grid", "blue", "orange", "green", "purple", "red"]
Anchor = Literal["start", "middle", "end"]

COLOURS: dict[Colour, tuple[str, str]] = {
    "back": ("#ffffff", "#14171c"),
    "ink": ("#1a1f26", "#e8ebef"),
    "soft": ("#4d5763", "#b3bcc7"),
    "grid": ("#c9d0d9", "#3a434f"),
    "blue": ("#1d4f91", "#8fbcf5"),
    "orange": ("#a8430a", "#f0a36b"),
    "green": ("#1b6b3a", "#79d49b"),
    "purple": ("#6b3fa0", "#c9a6f5"),
    "red": ("#a3161f", "#ff9a96"),
}
"""On a light and on a dark background. All but `grid` have a contrast of 4.5 to 1 with it."""
SERIES: tuple[Colour, ...] = ("blue", "orange", "green", "purple")
"""Of the parts of a bar, and of works that are compared."""
WIDTH = 640
"""Pixels; shown at 600, letters of `SIZE` are 12 pixels high."""
SIZE = 13
LINE = 18
FONT = "Helvetica, Arial, 'DejaVu Sans', sans-serif"
NARROW, WIDE = frozenset("ijlItfr.,:;|!'`()[]/\\\"-"), frozenset("mwMW%@&—…")
BLANKS = re.compile(r"[^\S\u00a0]+")
"""Where a line may end; not at a no-break space."""
MAX_DESCRIPTION = 4_000
"""Characters of a text alternative."""


def measure(text: str, size: float = SIZE) -> float:
    """The width of a text in pixels, rather too large than too small."""
    return size * sum(map(_width, text))


def _width(char: str) -> float:
    """In em."""
    if char.isascii():
        if char in NARROW:
            return 0.42
        return 1.02 if char in WIDE else 0.78 if char.isupper() else 0.33 if char == " " else 0.65
    category = unicodedata.category(char)
    if category in ("Mn", "Me", "Cf"):
        return 0.0
    if unicodedata.east_asian_width(char) in "WF":
        return 1.4 if category == "So" else 1.05
    return 0.85 if category == "Lu" else 1.3 if category == "So" else 0.75


def fit(text: str, width: float, lines: int, size: float = SIZE) -> list[str]:
    """At most so many lines that are no wider; an ellipsis ends a text that was cut. A word that fits no line is broken."""
    fitted: list[str] = []
    rest = BLANKS.sub(" ", clean(text)).strip(" ")
    while rest and len(fitted) < lines:
        line = _first_line(rest, width, size)
        rest = rest[len(line) :].lstrip(" ")
        fitted.append(line.rstrip(" "))
    if rest:
        fitted[-1] = _first_line(fitted[-1], width - measure("…", size), size, whole_words=False).rstrip() + "…"
    return fitted


def _first_line(text: str, width: float, size: float, *, whole_words: bool = True) -> str:
    room, end = width / size, 0
    for end, char in enumerate(text):  # noqa: B007 - the place of the first character without room
        room -= _width(char)
        if room < 0:
            break
    else:
        return text
    end = max(end, 1)
    while end < len(text) and not _width(text[end]):  # a mark stays with its letter
        end += 1
    blank = text.rfind(" ", 0, end + 1)
    return text[:blank] if whole_words and blank > 0 else text[:end]


def clean(text: str) -> str:
    """The text as XML may hold it: without controls, direction marks, lone surrogates and noncharacters."""
    return "".join(char for char in without_control(text.replace("\n", " ").replace("\t", " ")) if _is_xml(ord(char)))


def _is_xml(code: int) -> bool:
    return not (0xD800 <= code <= 0xDFFF or code in (0xFFFE, 0xFFFF))


def is_right_to_left(text: str) -> bool:
    """By the first letter that has a direction."""
    directions = (unicodedata.bidirectional(char) for char in text)
    return next((direction != "L" for direction in directions if direction in ("L", "R", "AL")), False)


class Picture:
    """Elements in the order of drawing; `render` gives the document."""

    def __init__(self, title: str, width: int = WIDTH, size: int = SIZE) -> None:
        self.title, self.width, self.size = title, width, size
        self._elements: list[ET.Element] = []

    def add(self, name: str, fill: Colour | None = None, stroke: Colour | None = None, **attributes: float | str) -> ET.Element:
        """An element. Underscores in names of attributes become hyphens."""
        classes = [f"fill-{fill}"] * bool(fill) + [f"stroke-{stroke}"] * bool(stroke)
        shown = {key.replace("_", "-"): _format(value) for key, value in attributes.items()}
        paint = {"fill": COLOURS[fill][0] if fill else "none", **({"stroke": COLOURS[stroke][0]} if stroke else {})}
        element = ET.Element(name, {"class": " ".join(classes), **paint, **shown} if classes else {**paint, **shown})
        self._elements.append(element)
        return element

    def text(
        self, x: float, y: float, text: str, colour: Colour = "ink", anchor: Anchor = "start", halo: bool = False, **attributes: float | str
    ) -> None:
        """One line; its baseline is at `y`. A halo keeps it readable over lines."""
        if is_right_to_left(text):  # there, a text starts at its right edge
            attributes["direction"] = "rtl"
            anchor = {"start": "end", "middle": "middle", "end": "start"}[anchor]  # type: ignore[assignment]
        shown = attributes if anchor == "start" else {**attributes, "text_anchor": anchor}
        around: dict[str, float | str] = {"stroke_width": 3, "paint_order": "stroke"} if halo else {}
        self.add("text", colour, "back" if halo else None, x=x, y=y, **around, **shown).text = clean(text)

    def lines(self, x: float, y: float, lines: Iterable[str], colour: Colour = "ink") -> float:
        """Lines from the baseline `y` on; returns the baseline after the last one."""
        for line in lines:
            self.text(x, y, line, colour)
            y += LINE * self.size / SIZE
        return y

    def line(self, x1: float, y1: float, x2: float, y2: float, colour: Colour = "grid", **attributes: float | str) -> None:
        self.add("line", None, colour, x1=x1, y1=y1, x2=x2, y2=y2, **attributes)

    def polygon(self, points: Sequence[tuple[float, float]], fill: Colour | None, stroke: Colour | None, **attributes: float | str) -> None:
        self.add("polygon", fill, stroke, points=" ".join(f"{_format(x)},{_format(y)}" for x, y in points), **attributes)

    def render(self, height: float, description: str) -> str:
        """The document. Title and description are its text alternative."""
        size = {"width": str(self.width), "height": _format(height), "viewBox": f"0 0 {self.width} {_format(height)}"}
        fonts = {"font-family": FONT, "font-size": str(self.size)}
        root = ET.Element("svg", {"xmlns": "http://www.w3.org/2000/svg", "role": "img", **size, **fonts})
        ET.SubElement(root, "title").text = clean(self.title)
        ET.SubElement(root, "desc").text = clean(description)[:MAX_DESCRIPTION]
        ET.SubElement(root, "style").text = DARK
        back = {"class": "fill-back", "width": "100%", "height": "100%", "fill": COLOURS["back"][0]}
        ET.SubElement(root, "rect", back)
        root.extend(self._elements)
        ET.indent(root, "")
        return ET.tostring(root, encoding="unicode") + "\n"


DARK = "@media (prefers-color-scheme: dark) {{{}}}".format(
    "".join(f".fill-{name}{{fill:{dark}}}.stroke-{name}{{stroke:{dark}}}" for name, (_, dark) in COLOURS.items())
)


def _format(value: float | str) -> str:
    return value if isinstance(value, str) else f"{round(value, 1):g}" if abs(value) < 100_000 else str(round(value))
