"""Field values of files, and several authors in one string."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.ingest.column_mapping import parse_row
from outrider.ingest.entry import Entry
from outrider.ingest.field_values import (
    MAX_DEPTH,
    TooDeep,
    clean,
    parse_count,
    parse_issns,
    parse_list,
    parse_source,
    parse_year,
    split_authors,
    split_list,
)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (2019, (2019, True)),
        (2019.0, (2019, True)),
        ("2019", (2019, True)),
        (" 2019 ", (2019, True)),
        ("2019.0", (2019, True)),
        ("2019//", (2019, True)),
        ("2019/08/01", (2019, False)),
        ("c2019", (2019, False)),
        ("20190801", (2019, False)),
        ("Dec 1998", (1998, False)),
        ({"date-parts": [[2019, 8]]}, (2019, False)),
        ({"date-parts": [[2019]]}, (2019, True)),
        ("10 15", (None, False)),
        ("99999", (None, False)),
        (3, (None, False)),
        (True, (None, False)),
        ("in press", (None, False)),
        ({"date-parts": [[]]}, (None, False)),
        ({"date-parts": [[]], "literal": "Spring 2009"}, (2009, False)),
    ],
)
def test_a_year_is_what_the_value_states(value: object, expected: tuple[int | None, bool]) -> None:
    """A year comes out of the common ways to write a date; a value with more in it is marked so that it can be kept."""
    assert parse_year(value) == expected  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (["A, B", "C"], ("A, B", "C")),
        ("A, B; C", ("A, B", "C")),
        ("A, B;", ("A, B",)),
        ("['Marx, Karl', \"O'Neil, T\"]", ("Marx, Karl", "O'Neil, T")),
        ('["Marx, Karl", "b; c"]', ("Marx, Karl", "b; c")),
        ("[unfinished", ("[unfinished",)),
        ([{"family": "Curie", "given": "M"}, {"name": "WHO"}, {"LN": "Last", "FN": "F"}], ("Curie, M", "WHO", "Last, F")),
        ("Adeli K.Lewis G. F.", ("Adeli K.Lewis G. F.",)),
        ([None, "", {}, 7], ("7",)),
        ("[" * 200_000 + "]", ("[" * 200_000 + "]",)),
    ],
)
def test_lists_in_any_dress(value: object, expected: tuple[str, ...]) -> None:
    """Authors are a list, a string with semicolons, or a list spelled out in a string; a name is never split."""
    assert parse_list(value) == expected  # type: ignore[arg-type]


def test_keywords_split_at_commas_only_without_semicolons() -> None:
    """`Administration, Oral; Child` are two keywords, `a, b` are two as well."""
    assert parse_list("Administration, Oral; Child", commas=True) == ("Administration, Oral", "Child")
    assert parse_list("a, b", commas=True) == ("a", "b")


def test_counts_are_whole_numbers() -> None:
    """`12`, `12.0` count; `1,234`, `-3` and `many` are unchanged."""
    assert [parse_count(value) for value in ("12", 12, 12.0, "1,234", "-3", "many", True)] == [12, 12, 12, None, None, None, None]


def test_cleaning_drops_what_no_store_takes() -> None:
    """Null characters go, lone surrogates become U+FFFD, NaN becomes null, in keys too."""
    assert clean({"a\x00": ["\ud800x", float("nan"), 1.5, None, True]}) == {"a": ["\ufffdx", None, 1.5, None, True]}


def test_cleaning_refuses_deep_nesting() -> None:
    """A value nested deeper than the bound is refused instead of recursing."""
    value: object = "x"
    for _ in range(MAX_DEPTH + 1):
        value = [value]
    with pytest.raises(TooDeep, match="levels deep"):
        clean(value)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("blum, a., furst, m., & rudich, s.", ("blum, a.", "furst, m.", "rudich, s.")),
        ("A. Blum, M. Furst, and S. Rudich", ("A. Blum", "M. Furst", "S. Rudich")),
        ("Alfons Kemper, Ada Lovelace, Alan Turing", ("Alfons Kemper", "Ada Lovelace", "Alan Turing")),
        ("Ada Lovelace and Alan Turing", ("Ada Lovelace", "Alan Turing")),
        ("D. Scott Mackay, Yannis E. Ioannidis", ("D. Scott Mackay", "Yannis E. Ioannidis")),
        ("Adeli K.Lewis G. F.", ("Adeli K.", "Lewis G. F.")),
        ("Jonsson-Rylander A. C.El Hachmane M.", ("Jonsson-Rylander A. C.", "El Hachmane M.")),
    ],
)
def test_names_are_distinguished(text: str, names: tuple[str, ...]) -> None:
    assert split_authors(text) == names


@pytest.mark.parametrize(
    "text",
    [
        "Curie, Marie",
        "Garcia Marquez, Gabriel Jose",
        "van Gogh, Vincent",
        "J.K.Rowling",
        "World Health Organization",
        "Curie, M. S.",
        "Li, X",
        "李明",
    ],
)
def test_one_name_stays_one(text: str) -> None:
    assert split_authors(text) == (text,)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Liu R., Adler D.G.", ("Liu R.", "Adler D.G.")),
        ("Liu R, Adler DG", ("Liu R", "Adler DG")),
        ("LIU R., ADLER D.G.", ("LIU R.", "ADLER D.G.")),
        ("van der Berg A.-M., O'Brien K. Jr.", ("van der Berg A.-M.", "O'Brien K. Jr.")),
        ("Smith J., COVID-19 Study Group", ("Smith J.", "COVID-19 Study Group")),
        ("Smith J., Doe K., and Roe L.", ("Smith J.", "Doe K.", "Roe L.")),
        ("Smith J. and Doe K.", ("Smith J.", "Doe K.")),
        ("Smith J., Jr.", ("Smith J., Jr.",)),
        ("De La Cruz, Maria", ("De La Cruz, Maria",)),
        ("Ruiz Garcia, J. M.", ("Ruiz Garcia, J. M.",)),
        ("KIM AB, Maria", ("KIM AB, Maria",)),
    ],
)
def test_two_names_with_one_comma(text: str, names: tuple[str, ...]) -> None:
    """Scopus, Embase and PubMed put initials behind family names without a comma: their commas stand between names."""
    assert split_authors(text) == names


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ("cyst (diagnosis; surgery); colon", ("cyst (diagnosis; surgery)", "colon")),
        ("cyst (diagnosis, surgery), colon", ("cyst (diagnosis, surgery)", "colon")),
        ("a (b (c; d); e); f", ("a (b (c; d); e)", "f")),
        ("a (b; c", ("a (b", "c")),
        ("a) b; (c", ("a) b", "(c")),
        ("x [y; z]; w", ("x [y; z]", "w")),
        ("1,2-xylene, benzene", ("1,2-xylene", "benzene")),
        ("1,2,3", ("1", "2", "3")),
        ("护理；肿瘤（急性；慢性）", ("护理", "肿瘤（急性；慢性）")),
        ("a (b\nc); d", ("a (b", "c)", "d")),
    ],
)
def test_parentheses_keep_keywords_whole(text: str, items: tuple[str, ...]) -> None:
    assert parse_list(text, commas=True) == items


@given(st.lists(st.text("ab ()[];,1", max_size=12), min_size=1, max_size=4))
def test_cutting_loses_separators_only(words: list[str]) -> None:
    text = "; ".join(words)
    joined = "".join(map(str, split_list(text, commas=True)))
    assert [char for char in joined if char in "ab()[]1"] == [char for char in text if char in "ab()[]1"]


@pytest.mark.parametrize(
    ("text", "issns", "rest"),
    [
        ("1471-2105", ("1471-2105",), ""),
        ("14712105", ("1471-2105",), ""),
        ("1471-2105 (Electronic)\n0027-8424 (Linking)", ("1471-2105", "0027-8424"), ""),
        ("ISSN 1050-124x; EISSN-1471-2105", ("1050-124X", "1471-2105"), ""),
        ("1471-2106", (), "1471-2106"),
        ("978-0-8243-2732-3", (), "978-0-8243-2732-3"),
    ],
)
def test_issns_have_a_check_digit(text: str, issns: tuple[str, ...], rest: str) -> None:
    assert parse_issns(text) == (issns, rest)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("Lancet. 390(10095):697-708, 2017 Aug 12.", ("Lancet", "390", "10095", "697-708", "2017")),
        ("Lancet. 390 (10095) (pp 697-708), 2017. Date of Publication: 2017.", ("Lancet", "390", "10095", "697-708", "2017")),
        ("BMC Medicine. 105 (no pagination), 2019. Article Number: e123.", ("BMC Medicine", "105", None, "e123", "2019")),
        ("J. of Psychology. Vol.119(3), 2010, pp. 123-134.", ("J. of Psychology", "119", "3", "123-134", "2010")),
        ("Forest & Ecology. 201(2-3):327-334, November 15, 2004.", ("Forest & Ecology", "201", "2-3", "327-334", "2004")),
        ("Acta Chirurgica Belgica November/December 2010;6:611-613", ("Acta Chirurgica Belgica", "6", None, "611-613", "2010")),
        ("N Engl J Med. 2001 Feb 1;344(5):351-7. doi: 10.1000/x", ("N Engl J Med", "344", "5", "351-7", "2001")),
        ("Cancer (2004) 102:4 (253-258). Date of Publication: 25 Aug 2004", ("Cancer", "102", "4", "253-258", "2004")),
        ("Cochrane Database. 2012(3):CD001431, 2012.", ("Cochrane Database", "2012", "3", "CD001431", "2012")),
        ("J. Appl. Phys. 12:1203-1210, 1987.", ("J. Appl. Phys", "12", None, "1203-1210", "1987")),
        ("Hydrobiologia. 2007 15 June; 433-441.", (None,) * 5),
        ("library", (None,) * 5),
    ],
)  # fmt: skip
def test_the_source_in_one_line(text: str, parts: tuple[str | None, ...]) -> None:
    source = parse_source(text)
    assert tuple(source.get(name) for name in ("venue", "volume", "issue", "pages", "year")) == parts


@settings(max_examples=60)
@given(st.text(max_size=60))
def test_no_letter_is_lost(text: str) -> None:
    joined = "".join(split_authors(text))
    letters = [char for char in text if char.isalnum()]
    assert [char for char in joined if char.isalnum()] == letters or "and" in text.casefold()


def test_a_row_of_a_table() -> None:
    read = parse_row({"Title": "Loops", "Authors": "Michael B&#246;hlen, Linas Bukauskas, Curtis Dyreson", "Entity Id": "7"}, {}, "line 2")
    assert isinstance(read, Entry)
    assert read.record.authors == ("Michael Böhlen", "Linas Bukauskas", "Curtis Dyreson")
    assert read.own_id == "7"
