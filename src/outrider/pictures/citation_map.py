"""A citation map: the works around a target in columns of years, one band for each role.

A role has a band and a shape of its own; a round has a colour and its number at the mark. A number in a mark leads to the list below.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

from outrider.pictures.svg import LINE, MAX_DESCRIPTION, WIDTH, Colour, Picture, fit, measure
from outrider.pictures.timeline import round_numbers

if TYPE_CHECKING:
    from outrider.state.citations import CitationMap, MapWork

MOST_WORKS = 60
ROLES: Mapping[str, tuple[str, str]] = {
    "target": ("target work", "target works"),
    "included": ("included", "included"),
    "candidate": ("candidate", "candidates"),
    "excluded": ("excluded", "excluded"),
}
"""In the order of their bands, from above; each for one work and for several."""
ROUND_COLOURS: tuple[Colour, ...] = ("orange", "green", "purple", "blue")
"""Of the first rounds; later ones begin again, and their numbers differ."""
EDGE, RADIUS, SLOT, ROW = 16, 11, 46, 32
"""Pixels: margins, half a mark, room for a mark with the number of its round, height of a row of marks."""
SHIFT = 5
"""Every second row and column is moved by so much, so that fewer lines run through marks."""
SMALL = 11
MAX_COLUMNS = 11
MAX_TITLE = 120
"""Characters of a title in the text alternative."""
Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Column:
    """Years that share a column, from the first one on; None for works without a year."""

    first: int | None
    span: int = 1

    @property
    def label(self) -> str:
        return "no year" if self.first is None else str(self.first)


def draw_citation_map(citations: CitationMap) -> str:
    """A whole SVG document. Beyond `MOST_WORKS` works, those of the first roles are drawn and the others are counted."""
    works = sort_works(citations.works)[:MOST_WORKS]
    left_out = citations.left_out + len(citations.works) - len(works)
    numbers = {work.key: number for number, work in enumerate(works, 1)}
    links = sorted({link for link in citations.links if link[0] != link[1] and all(key in numbers for key in link)})
    picture = Picture(f"Citations around {citations.target}"[:300])
    picture.text(EDGE, 26, "Citation map", font_size=16, font_weight="bold")
    y = picture.lines(EDGE, 48, fit(citations.target, WIDTH - 2 * EDGE, 2), "soft")
    if works:
        y = _draw_rounds(picture, y + 2, works)
        y = _draw_columns(picture, y, works, links, numbers)
        y = _draw_list(picture, y + 8, works)
    notes = [_count_links(len(links)) if works else "The target has no works yet."]
    if (span := max((column.span for column in make_columns(works)), default=1)) > 1:
        notes.append(f"Each column holds {span:,} years, from the year below it on; only those with works are citations.")
    if left_out:
        notes.append(f"{left_out:,} more {'work is' if left_out == 1 else 'works are'} not drawn.")
    y = picture.lines(EDGE, y + 4, (line for note in notes for line in fit(note, WIDTH - 2 * EDGE, 2)), "soft")
    return picture.render(y - LINE + 16, " ".join([*_describe(works), *notes]))


def sort_works(works: Sequence[MapWork]) -> list[MapWork]:
    """In the order of their numbers: by role, then by round or rank."""
    roles = list(ROLES)
    return sorted(works, key=lambda work: (roles.index(work.role), work.round, work.rank or 0, work.year or 0, work.key))


def make_columns(works: Sequence[MapWork]) -> dict[Column, list[MapWork]]:
    """Works by years, a column for as few of 1, 2, 5, 10, ... years as make `MAX_COLUMNS` at most. None is empty."""
    years = sorted({work.year for work in works if work.year is not None})
    span = next(span for span in round_numbers() if len({year // span for year in years}) <= MAX_COLUMNS)
    columns: dict[Column, list[MapWork]] = {}
    for start in sorted({year // span * span for year in years}):
        columns[Column(start, span)] = [work for work in works if work.year is not None and work.year // span * span == start]
    if undated := [work for work in works if work.year is None]:
        columns[Column(None)] = undated
    return columns


def _share_slots(columns: Mapping[Column, Sequence[MapWork]]) -> dict[Column, int]:
    """How many marks stand side by side in each column: the highest one becomes wider first."""
    highest = {column: max(Counter(work.role for work in works).values()) for column, works in columns.items()}
    slots = dict.fromkeys(columns, 1)
    for _ in range(int((WIDTH - 2 * EDGE) // SLOT) - len(columns)):
        widest = max(columns, key=lambda column: highest[column] / slots[column])
        slots[widest] += slots[widest] < highest[widest]
    return slots


def _draw_columns(
    picture: Picture, top: float, works: Sequence[MapWork], links: Sequence[tuple[str, str]], numbers: Mapping[str, int]
) -> float:
    """Lines, bands, marks and years; returns the baseline after the years."""
    columns = make_columns(works)
    slots = _share_slots(columns)
    width = (WIDTH - 2 * EDGE) / sum(slots.values())
    places: dict[str, Point] = {}
    bands: dict[str, float] = {}
    y = top
    for role in ROLES:
        if cells := _place_role(columns, slots, role):
            bands[role] = y
            for key, (slot, row) in cells.items():
                shift = SHIFT * (row % 2), SHIFT * (slot % 2)
                places[key] = EDGE + (slot + 0.5) * width - 6 + shift[0], y + 20 + RADIUS + ROW * row + shift[1]
            y += 24 + ROW * (1 + max(row for _, row in cells.values())) + SHIFT + 14
    for citing, cited in links:
        picture.line(*places[citing], *places[cited], "soft", stroke_opacity=0.5)
    for role, at in bands.items():
        number = sum(work.role == role for work in works)
        picture.line(EDGE, at - 12, WIDTH - EDGE, at - 12)
        _draw_mark(picture, (EDGE + 7, at + 3), role, "ink", 7)
        picture.text(EDGE + 20, at + 8, f"{number:,} {ROLES[role][number != 1]}", "ink", halo=True, font_weight="bold")
    for work in works:
        _draw_work(picture, places[work.key], work, numbers[work.key])
    picture.line(EDGE, y - 12, WIDTH - EDGE, y - 12, "soft")
    x = float(EDGE)
    for column in columns:
        middle = x + slots[column] * width / 2
        picture.line(middle, y - 12, middle, y - 8, "soft")
        picture.text(middle, y + 5, column.label, "soft", "middle", font_size=SMALL)
        x += slots[column] * width
    return y + 5 + LINE


def _place_role(columns: Mapping[Column, Sequence[MapWork]], slots: Mapping[Column, int], role: str) -> dict[str, tuple[int, int]]:
    """Slot and row of each work of a role."""
    cells: dict[str, tuple[int, int]] = {}
    first = 0
    for column, works in columns.items():
        for place, work in enumerate(work for work in works if work.role == role):
            row, side = divmod(place, slots[column])
            cells[work.key] = first + side, row
        first += slots[column]
    return cells


def _draw_work(picture: Picture, place: Point, work: MapWork, number: int) -> None:
    colour = find_colour(work)
    _draw_mark(picture, place, work.role, colour, RADIUS)
    is_filled = work.role in ("target", "included")
    picture.text(place[0], place[1] + 4, str(number), "back" if is_filled else "ink", "middle", font_size=SMALL)
    if work.round:
        picture.text(place[0] + RADIUS + 1, place[1] - 4, f"r{work.round}"[:4], colour, halo=True, font_size=SMALL)


def find_colour(work: MapWork) -> Colour:
    if work.round:
        return ROUND_COLOURS[(work.round - 1) % len(ROUND_COLOURS)]
    return "ink" if work.role == "target" else "soft"


def _draw_mark(picture: Picture, place: Point, role: str, colour: Colour, radius: float) -> None:
    """A filled square, a filled circle, a hollow diamond, or a hollow circle that is struck through."""
    x, y = place
    if role == "target":
        picture.add("rect", colour, colour, x=x - radius + 1, y=y - radius + 1, width=2 * radius - 2, height=2 * radius - 2)
    elif role == "included":
        picture.add("circle", colour, colour, cx=x, cy=y, r=radius)
    elif role == "candidate":
        reach = radius * 1.25
        picture.polygon([(x, y - reach), (x + reach, y), (x, y + reach), (x - reach, y)], "back", colour, stroke_width=1.5)
    else:
        picture.add("circle", "back", colour, cx=x, cy=y, r=radius, stroke_width=1.5, stroke_dasharray="3 2")
        picture.line(x - radius * 0.7, y + radius * 0.7, x + radius * 0.7, y - radius * 0.7, colour, stroke_opacity=0.6)


def _draw_rounds(picture: Picture, y: float, works: Sequence[MapWork]) -> float:
    """What each round decided, in its colour; returns the baseline for the bands."""
    decided: defaultdict[int, Counter[str]] = defaultdict(Counter)
    for work in works:
        if work.round:
            decided[work.round][work.role] += 1
    x: float = EDGE
    for number, roles in sorted(decided.items()):
        label = f"r{number} "
        text = ", ".join(f"{roles[role]:,} {role}" for role in ROLES if roles[role])
        width = measure(label) + measure(text) + 20
        if x > EDGE and x + width > WIDTH - EDGE:
            x, y = EDGE, y + LINE
        picture.text(x, y, label.strip(), ROUND_COLOURS[(number - 1) % len(ROUND_COLOURS)], font_weight="bold")
        picture.text(x + measure(label), y, text)
        x += width
    return y + (LINE if decided else 0) + 14


def _draw_list(picture: Picture, y: float, works: Sequence[MapWork]) -> float:
    """Numbers and titles in two columns; returns the baseline after the last row."""
    half = (len(works) + 1) // 2
    width = (WIDTH - 3 * EDGE) / 2
    for number, work in enumerate(works):
        column, row = divmod(number, half)
        x = EDGE + column * (width + EDGE)
        picture.text(x + 20, y + row * LINE, str(number + 1), find_colour(work), "end", font_weight="bold", font_size=SMALL + 1)
        year = f"{work.year} " if work.year is not None else ""
        picture.text(x + 26, y + row * LINE, year, "soft")
        start = x + 26 + (measure(year) + 4 if year else 0)
        if work.retracted:
            picture.text(start, y + row * LINE, "retracted", "red", font_weight="bold")
            start += measure("retracted") + 8
        lines = fit(work.title or work.key, x + width - start, 1)
        picture.text(start, y + row * LINE, lines[0] if lines else "")
    return y + half * LINE


def _count_links(number: int) -> str:
    return f"{number:,} {'citation' if number == 1 else 'citations'} among these works; a line joins a work and one that it cites."


def _describe(works: Sequence[MapWork]) -> Iterator[str]:
    """The list in words, as long as a text alternative may be."""
    room = min(MAX_TITLE, (MAX_DESCRIPTION - 400) // max(1, len(works)) - 20)
    numbers = count(1)
    for role, names in ROLES.items():
        members = [work for work in works if work.role == role]
        if members:
            yield f"{len(members):,} {names[len(members) != 1]}:"
        for work in members:
            title = " ".join((work.title or work.key).split())
            cut = title if len(title) <= room else f"{title[: room - 1].rstrip()}…"
            about = ", ".join(
                [str(work.year)] * (work.year is not None) + [f"round {work.round}"] * bool(work.round) + ["retracted"] * work.retracted
            )
            yield f"{next(numbers)}. {cut}{f' ({about})' if about else ''};"
