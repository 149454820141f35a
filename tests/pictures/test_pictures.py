"""Each picture is read as XML, with its text alternative. What a browser draws of it is in tests/interfaces/web."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from outrider.pictures.flow_chart import Row, draw_flow_chart
from outrider.pictures.radar import Corner, Shape, draw_radar, make_analysis_shape, make_hit_shape
from outrider.pictures.svg import COLOURS, DARK, Picture, fit, is_right_to_left, measure
from outrider.pictures.timeline import MAX_BARS, draw_timeline, make_bars
from outrider.state.analysis import Analysis, Rating
from outrider.state.hits import Hit
from outrider.state.records import Kind
from outrider.state.response import SearchResponse
from support.svg import count, describe, read_svg

HOSTILE = "</title><script>alert(1)</script>&\x00\x1b[31m\u202e\ud800\ufffe"
NAMES = ("activity", "community", "documentation", "ease_of_use", "maintenance", "maturity")


def make_answer(*works: tuple[int | None, Kind], query: str = "aspirin", found: int = 0) -> SearchResponse:
    hits = tuple(
        Hit(rank=rank, doc_id=f"d{rank}", kind=kind, title="t", score=0.5, year=year) for rank, (year, kind) in enumerate(works, 1)
    )
    return SearchResponse(query=query, mode="discovery", hits=hits, total_found=max(found, len(hits)))


def make_shape(name: str, *scores: float | None, counted: float | None = None) -> Shape:
    return Shape(name, tuple(Corner(dimension, score, counted) for dimension, score in zip(NAMES, scores, strict=True)))


def test_a_timeline_stacks_kinds_and_names_works_without_a_year() -> None:
    works: list[tuple[int | None, Kind]] = [(2019, "paper"), (2019, "paper"), (2019, "repository"), (2022, "page"), (None, "paper")]
    root, text = read_svg(draw_timeline(make_answer(*works, found=40)))
    for part in (
        "aspirin",
        "2 papers",
        "1 repository",
        "1 page",
        "1 hit without a year is not in the bars.",
        "5 hits of 40 works found.",
        "hits",
        "year",
    ):
        assert part in text
    assert "document" not in text
    assert describe(root).startswith("2019: 2 papers, 1 repository. 2022: 1 page. 1 hit without a year")
    heights = [float(one.get("height") or 0) for one in root.iter() if "stroke-back" in (one.get("class") or "")]
    assert heights[0] == pytest.approx(2 * heights[1], abs=0.2)
    years = [int(line) for line in text.splitlines() if re.fullmatch("20..", line)]
    assert years == [2019, 2020, 2021, 2022], "a year without works is no gap in the axis"


@pytest.mark.parametrize("works", [[], [(None, "paper")]])
def test_a_timeline_without_years_says_so(works: list[tuple[int | None, Kind]]) -> None:
    root, text = read_svg(draw_timeline(make_answer(*works)))
    expected = "No hit has a year." if works else "The search has no hits."
    assert expected in text
    assert expected in describe(root)


@given(st.lists(st.integers(-3_000, 9_999), min_size=1, max_size=60))
def test_a_range_of_years_is_binned_without_losing_a_work(years: list[int]) -> None:
    bars, span = make_bars([(year, "paper") for year in years])
    assert len(bars) <= MAX_BARS
    assert sum(bar.total() for bar in bars.values()) == len(years)
    assert all(second - first == span for first, second in zip(list(bars), list(bars)[1:], strict=False))
    for year in years:
        assert bars[year // span * span]["paper"] >= 1
    assert span == 1 or max(years) // (span // 2) - min(years) // (span // 2) >= MAX_BARS // 2, "no wider than needed"


def test_a_binned_timeline_says_what_a_bar_is() -> None:
    root, text = read_svg(draw_timeline(make_answer((1887, "paper"), (2020, "paper"))))
    assert "Each bar is 10 years, from the year below its left edge on." in text
    assert describe(root).startswith("1880 to 1889: 1 paper. 2020 to 2029: 1 paper.")


def test_a_radar_has_a_scale_numbers_and_unknown_in_words() -> None:
    root, text = read_svg(draw_radar([make_shape("a/b", 8.25, 9.1, 6, None, 7.3, 10.0, counted=2.6)]))
    lines = text.splitlines()
    assert [line for line in lines if line in ("0", "2", "4", "6", "8", "10")] == ["0", "2", "4", "6", "8", "10"]
    assert {"8.2", "9.1", "6.0", "7.3", "10.0", "unknown"} <= set(lines)
    assert "A hollow mark is unknown; it stands at the estimate that counts in the score." in text
    assert count(root, "circle", class_="fill-back stroke-blue") == 1
    assert "ease of use unknown (counts as 2.6), maintenance 7.3 of 10" in describe(root)


def test_four_works_differ_by_more_than_colour() -> None:
    scores: tuple[float | None, ...] = (1, 2, 3, 4, 5, 6)
    root, text = read_svg(draw_radar([make_shape(name, *scores) for name in ("a", "b", "c", "d")]))
    assert {"A", "B", "C", "D", "a", "b", "c", "d"} <= set(text.splitlines())
    dashes = [one.get("stroke-dasharray") for one in root.iter() if one.get("stroke-dasharray")]
    assert len(set(dashes)) == 4
    assert "hollow" not in text
    assert describe(root).count("activity 1.0 of 10") == 4


def test_shapes_of_hits_and_analyses() -> None:
    radar = ({"dimension": "activity", "score": None, "counted": 3.1, "missing": ["stars"]}, {"dimension": "community", "score": 4})
    hit = Hit(rank=1, doc_id="d", kind="repository", title="a/b", score=1, radar=radar)
    assert make_hit_shape(hit) == Shape("a/b", (Corner("activity", None, 3.1), Corner("community", 4.0)))
    assert make_hit_shape(hit.model_copy(update={"radar": ()})) is None
    analysis = Analysis(target="a/b", title="a/b", ratings=(Rating(dimension="activity", score=None),))
    shape = make_analysis_shape(analysis)
    assert shape == Shape("a/b", (Corner("activity", None),))
    assert "it stands at 0" in read_svg(draw_radar([shape]))[1]
    assert make_analysis_shape(Analysis(target="a/b")) is None


def test_hostile_texts_stay_texts_in_every_picture() -> None:
    chart = draw_flow_chart("t", HOSTILE, [Row("Screening", [HOSTILE], [f"  {HOSTILE}"])], HOSTILE)
    for svg in (draw_timeline(make_answer((2020, "paper"), query=HOSTILE)), draw_radar([make_shape(HOSTILE, *[None] * 6)]), chart):
        root, text = read_svg(svg)
        assert "<script>alert(1)</script>&" in " ".join(text.split()).replace("> ", ">")
        assert "\u202e" not in svg
        assert not list(root.iter("{http://www.w3.org/2000/svg}script"))


@example("\u00a0\u00c0", 20, 2)
@given(st.text(max_size=300), st.integers(20, 400), st.integers(1, 3))
def test_a_fitted_text_is_as_narrow_as_asked_and_cut_only_with_an_ellipsis(text: str, width: int, lines: int) -> None:
    fitted = fit(text, width, lines)
    assert len(fitted) <= lines
    assert all(measure(line) <= max(width, 20) + 20 for line in fitted), "one character may be wider than the line"
    whole = fit(text, 1_000_000, 1)
    if fitted and not fitted[-1].endswith("…"):
        assert "".join(fitted).replace(" ", "") == "".join(whole).replace(" ", "")


def test_a_count_is_not_torn_from_its_label() -> None:
    text = read_svg(draw_flow_chart("t", "h", [Row("", ["Records to be screened by two reviewers (n = 12,353)"], [])]))[1]
    assert any(line.endswith("(n = 12,353)") for line in text.splitlines())


def test_right_to_left_is_read_from_the_first_letter() -> None:
    assert [is_right_to_left(text) for text in ("هل يضر", "12 שלום", "aspirin هل", "2020")] == [True, True, False, False]
    picture = Picture("t")
    picture.text(10, 20, "هل يضر")
    assert 'direction="rtl"' in picture.render(30, "d")
    assert 'text-anchor="end"' in picture.render(30, "d")


def test_colours_have_enough_contrast_in_both_schemes() -> None:
    def luminance(colour: str) -> float:
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    for scheme in (0, 1):
        back = luminance(COLOURS["back"][scheme])
        for name, colours in COLOURS.items():
            lighter, darker = sorted((luminance(colours[scheme]), back), reverse=True)
            assert name in ("back", "grid") or (lighter + 0.05) / (darker + 0.05) >= 4.5, (name, scheme)
    assert DARK.startswith("@media (prefers-color-scheme: dark) {.fill-back{fill:#14171c}")
