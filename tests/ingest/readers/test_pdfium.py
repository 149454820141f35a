from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.ingest.readers.pdfium import order_for_reading, repair

HEBREW = "אבגדהוזחטיכלמנסעפצקרשת"


def read(line: list[tuple[str, float]]) -> str:
    return "".join(char for _, char in order_for_reading(line))


def lay_out(visual: str) -> list[tuple[str, float]]:
    """Characters from left to right, ten points apart."""
    return [(char, 10.0 * place) for place, char in enumerate(visual)]


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ("modi\x1ced \x1ductuation, coe\x1ecient", "modified fluctuation, coefficient"),
        ("\x0cnite e\x0bect", "finite effect"),
        ("\x10dating\x11 of 1\x152", "“dating” of 1\x152"),
        ("Universit¨at M¨unchen, Ciˆencias, Polit´ecnico, fac¸ade", "Universität München, Ciências, Politécnico, fac¸ade"),
        ("´Elie and ˇCech", "Élie and Čech"),
        ("a ` b `c` 5´7 ^n x ˜ y", "a ` b `c` 5´7 ^n x ˜ y"),
        ("\x12 \x14 x", "\x12 \x14 x"),
    ],
)
def test_characters_of_tex_are_put_in_place(raw: str, text: str) -> None:
    """Ligatures, quotes and accents next to letters; anything else stays as it is."""
    assert repair(raw) == text


@pytest.mark.parametrize(
    ("visual", "text"),
    [
        ("םולש", "שלום"),
        ("סרכ of two םולש", "שלום of two כרס"),
        ("(3 הלבט ואר) 12.5", "12.5 (ראו טבלה 3)"),
        ("The word םולש is old", "The word שלום is old"),
        ("ملاع", "عالم"),
    ],
)
def test_a_line_is_read_from_where_it_stands(visual: str, text: str) -> None:
    """Words from right to left, foreign words and numbers in it from left to right, whatever the order of drawing."""
    line = lay_out(visual)
    mirrored = [({"(": ")", ")": "("}.get(char, char), x) for char, x in line] if "הלבט" in visual else line
    assert read(mirrored) == text
    assert read(mirrored[::-1]) == text


def test_a_line_without_hebrew_or_arabic_is_left_alone() -> None:
    assert read([("b", 10.0), ("a", 0.0)]) == "ba"


def test_letters_of_one_glyph_and_marks_stay_together() -> None:
    assert read([("ا", 30.0), ("ل", 30.0), ("س", 20.0)]) == "لاس"
    assert read([("ل", 30.0), ("ا", 30.0), ("س", 20.0)]) == "لاس"
    assert read([("ש", 30.0), ("\u05b8", 30.0), ("ל", 20.0)]) == "ש\u05b8ל"
    assert read([("ש", 30.0), ("\u05b8", 33.0), ("ל", 20.0)]) == "ש\u05b8ל"


@given(st.text(HEBREW, min_size=1, max_size=20), st.randoms())
def test_the_order_of_drawing_does_not_matter(word: str, random: st.DataObject) -> None:
    line = lay_out(word[::-1])
    random.shuffle(line)  # type: ignore[attr-defined]
    assert read(line) == word


@given(st.lists(st.tuples(st.characters(codec="utf-8"), st.floats(0, 600)), max_size=30))
def test_no_character_is_lost(line: list[tuple[str, float]]) -> None:
    assert sorted(place for place, _ in order_for_reading(line)) == list(range(len(line)))


def test_a_very_long_line_takes_linear_time() -> None:
    """A page may be one line of all its characters."""
    started = time.process_time()
    read([(char, float(place)) for place, char in enumerate("ש\u05b8 . " * 10_000)])
    assert time.process_time() - started < 5


@given(st.text(max_size=40))
def test_repair_keeps_the_letters(text: str) -> None:
    assert [char for char in repair(text) if char.isascii() and char.isdigit()] == [
        char for char in text if char.isascii() and char.isdigit()
    ]
