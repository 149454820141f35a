"""The citation map is read as XML. What a browser draws of it is in tests/interfaces/web/test_pictures.py."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.pictures.citation_map import MAX_COLUMNS, MOST_WORKS, draw_citation_map, make_columns
from outrider.pictures.svg import COLOURS, MAX_DESCRIPTION
from outrider.state.citations import CitationMap, MapWork
from support.svg import count, describe, read_svg

WORKS = (
    MapWork(key="t", title="Aspirin and the liver", year=2001, role="target"),
    MapWork(key="i1", title="Hepatitis by drugs", year=2010, role="included", round=1),
    MapWork(key="i2", title="Injury of the liver", year=2012, role="included", round=2),
    MapWork(key="c1", title="Rare cases", year=None, role="candidate", rank=1),
    MapWork(key="c2", title="", year=1999, role="candidate", rank=2),
    MapWork(key="e", title="Statins", year=2010, role="excluded", round=1),
)
LINKS = (("i1", "t"), ("i2", "i1"), ("i2", "i2"), ("i1", "beyond"))
HOSTILE = "</title><script>alert(1)</script>&\x00\x1b[31m\u202e\ud800\ufffe"


def make_map(*works: MapWork, left_out: int = 0, target: str = "label:review") -> CitationMap:
    return CitationMap(target=target, works=works or WORKS, links=LINKS, left_out=left_out)


def test_each_role_has_a_band_and_a_shape_and_each_round_a_colour_and_a_number() -> None:
    root, text = read_svg(draw_citation_map(make_map(left_out=1)))
    lines = text.splitlines()
    for part in ("1 target work", "2 included", "2 candidates", "1 excluded", "label:review", "1 included, 1 excluded", "no year", "c2"):
        assert part in lines
    assert [lines.count(part) for part in ("r1", "r2")] == [3, 2], "in the key, and at each mark"
    assert count(root, "rect", class_="fill-ink stroke-ink") == 2, "the target, and its band"
    assert count(root, "circle", class_="fill-orange stroke-orange") == count(root, "circle", class_="fill-green stroke-green") == 1
    assert count(root, "circle", class_="fill-back stroke-orange", **{"stroke-dasharray": "3 2"}) == 1
    assert count(root, "polygon", class_="fill-back stroke-soft") == 2
    assert count(root, "line", **{"stroke-opacity": "0.5"}) == 2, "no line from a work to itself, or to one that is not drawn"


def test_the_text_alternative_is_the_list() -> None:
    said = describe(read_svg(draw_citation_map(make_map(left_out=1)))[0])
    assert said == (
        "1 target work: 1. Aspirin and the liver (2001); 2 included: 2. Hepatitis by drugs (2010, round 1); "
        "3. Injury of the liver (2012, round 2); 2 candidates: 4. Rare cases; 5. c2 (1999); 1 excluded: 6. Statins (2010, round 1); "
        "2 citations among these works; a line joins a work and one that it cites. 1 more work is not drawn."
    )


def test_a_retracted_work_is_marked_in_the_list_and_in_its_text() -> None:
    works = tuple(work.model_copy(update={"retracted": work.key == "e"}) for work in WORKS)
    root, text = read_svg(draw_citation_map(make_map(*works)))
    assert text.splitlines().count("retracted") == count(root, "text", class_="fill-red") == 1
    assert "6. Statins (2010, round 1, retracted);" in describe(root)


def test_the_order_of_works_and_links_changes_nothing() -> None:
    drawn = {
        draw_citation_map(CitationMap(target="x", works=works, links=links))
        for works, links in itertools.product((WORKS, WORKS[::-1]), (LINKS, LINKS[::-1]))
    }
    assert len(drawn) == 1


@pytest.mark.parametrize("year", [None, 2020])
def test_no_more_works_are_drawn_than_have_room_and_the_others_are_counted(year: int | None) -> None:
    many = (*WORKS, *(MapWork(key=f"m{at:03}", title="W" * 500, year=year, role="candidate", rank=at) for at in range(3, 103)))
    root, text = read_svg(draw_citation_map(make_map(*many, left_out=4)))
    assert count(root, "polygon", class_="fill-back stroke-soft") == MOST_WORKS - 3
    assert "Statins" not in text, "candidates come before excluded works"
    assert f"{len(many) - MOST_WORKS + 4} more works are not drawn." in text
    assert len(describe(root)) < MAX_DESCRIPTION, "every work is in the text alternative"
    assert describe(root).endswith("are not drawn.")


def test_a_map_without_works_says_so() -> None:
    root, text = read_svg(draw_citation_map(CitationMap(target="label:new")))
    assert "The target has no works yet." in text
    assert describe(root) == "The target has no works yet."


@settings(max_examples=50, deadline=None)
@given(st.lists(st.one_of(st.none(), st.integers(-3_000, 9_999)), min_size=1, max_size=MOST_WORKS))
def test_years_share_columns_without_losing_a_work(years: list[int | None]) -> None:
    works = [MapWork(key=f"w{at}", title="t", year=year, role="candidate", rank=at + 1) for at, year in enumerate(years)]
    columns = make_columns(works)
    assert sum(map(len, columns.values())) == len(works)
    assert len(columns) <= MAX_COLUMNS + 1
    for column, members in columns.items():
        assert members
        assert all(column.first is None if work.year is None else 0 <= work.year - (column.first or 0) < column.span for work in members)
    root, _ = read_svg(draw_citation_map(make_map(*works)))
    assert count(root, "polygon", class_="fill-back stroke-soft") == len(works)


def test_hostile_titles_and_targets_stay_texts() -> None:
    works = tuple(work.model_copy(update={"title": HOSTILE}) for work in WORKS)
    svg = draw_citation_map(make_map(*works, target=HOSTILE))
    root, text = read_svg(svg)
    assert "</title><script>alert(1)</script>&" in text
    assert "\u202e" not in svg
    assert not list(root.iter("{http://www.w3.org/2000/svg}script"))
    assert {one.get("fill") for one in root.iter() if one.get("fill")} <= {light for light, _ in COLOURS.values()} | {"none"}
