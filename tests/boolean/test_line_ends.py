"""Histories as platforms print them: full stops, counts of hits, numbers such as `S1`, and unclear numbers, which are refused."""

from __future__ import annotations

import pytest

from outrider.boolean.diagnostics import BooleanSyntaxError
from outrider.boolean.parser import SyntaxChoice, parse
from outrider.state.boolean import And, Field, Node, Not, Or, Text, Words

HEART, FAILURE = (Text(Words((word,)), (Field.TITLE,)) for word in ("heart", "failure"))
AND, OR, NOT = And((HEART, FAILURE)), Or((HEART, FAILURE)), And((HEART, Not(FAILURE)))
TITLES = {
    "pubmed": ("heart[ti]", "failure[ti]"), "ovid": ("heart.ti.", "failure.ti."), "wos": ("TI=heart", "TI=failure"),
    "scopus": ("TITLE(heart)", "TITLE(failure)"), "embase": ("heart:ti", "failure:ti"), "ebsco": ("TI heart", "TI failure"),
    "proquest": ("ti(heart)", "ti(failure)"), "cochrane": ("heart:ti", "failure:ti"),
}  # fmt: skip


def history(syntax: str, last: str, number: str = "{}. ", end: str = "") -> str:
    lines = [*TITLES[syntax], last]
    return "\n".join(number.format(place) + line + end for place, line in enumerate(lines, 1))


@pytest.mark.parametrize("stop", [".", ";", ",", " .", ";  "])
@pytest.mark.parametrize(
    ("last", "tree"),
    [("1 not 2", NOT), ("1 or 2", OR), ("1 and 2", AND), ("(1 AND 2)", AND), ("#1 AND #2", AND), ("or/1-2", OR), ("1 & 2", AND)],
)
def test_a_stop_ends_a_line_of_references_and_is_no_part_of_it(last: str, tree: Node, stop: str) -> None:
    """A combining line that ends as a sentence combines the lines; the stop of Ovid's field stays."""
    assert parse(history("ovid", last + stop), "ovid").tree == tree


@pytest.mark.parametrize("syntax", [key for key in TITLES if key not in ("ovid", "ebsco")])
@pytest.mark.parametrize("last", ["#1 AND #2.", "#1 AND #2;", "1 AND 2;", "#1 & #2"])
def test_a_stop_behind_references_of_every_platform(syntax: SyntaxChoice, last: str) -> None:
    """A full stop or semicolon after a combination does not make its number a word."""
    assert parse(history(syntax, last, "#{} "), syntax).tree == AND


def test_a_stop_behind_headings_parentheses_and_limits() -> None:
    """Stops after other lines are left out, too, and an entity keeps its semicolon."""
    parsed = parse("1. (heart or failure).ti.;\n2. exp Heart/.\n3. 1 and 2.\n4. limit 3 to english.\n", "ovid")
    assert [line.text for line in parsed.lines] == ["(heart or failure).ti.", "exp Heart/", "1 and 2", "limit 3 to english"]
    assert parse("1. R&amp;\n2. heart[ti]\n3. #2").lines[0].text == "R&amp;"


@pytest.mark.parametrize("last", ["1 + 2", "(1 or 2.) and 2", "1 and 2: 50", "1 and heart[ti]", "S1 OR S2"])
def test_a_number_that_may_be_a_line_or_a_word_is_refused(last: str) -> None:
    """A number of a line above, without a field, is a reference where that is certain, else an error."""
    with pytest.raises(BooleanSyntaxError, match="may be the number of a line or a word"):
        parse(history("pubmed", last))


def test_a_number_with_a_field_or_in_quotes_is_a_word() -> None:
    """A field or quotation says that the number is a word."""
    for last in ("(1 OR #2)[ti]", "1[ti] AND #2", '"1" AND #2'):
        assert "1" in str(parse(history("pubmed", last)).tree)
    assert parse(history("wos", "TI=(1 OR heart)")).lines[2].tree == Or((Text(Words(("1",)), (Field.TITLE,)), HEART))


@pytest.mark.parametrize("syntax", TITLES)
def test_lines_numbered_with_s_are_referred_to_with_s(syntax: SyntaxChoice) -> None:
    """`S1 OR S2` names lines on every platform if the lines are written so."""
    assert parse(history(syntax, "S1 OR S2", "S{} "), syntax).tree == OR
    assert parse(history(syntax, "(S1 OR S2) AND S2.", "S{} "), syntax).tree == And((OR, FAILURE))
    with pytest.raises(BooleanSyntaxError, match="there is no line"):
        parse(history(syntax, "S1 OR S9", "S{} "), syntax)


@pytest.mark.parametrize("syntax", ["proquest", "wos", "scopus", "ebsco"])
def test_numbers_with_s_need_lines(syntax: SyntaxChoice) -> None:
    """A query of nothing but `S1 OR S2` is no query of words."""
    with pytest.raises(BooleanSyntaxError, match="lines"):
        parse("S1 OR S2", syntax)


@pytest.mark.parametrize("syntax", TITLES)
@pytest.mark.parametrize(
    "count", ["\t5", "  5  4 May 2023", "\t5\t04 May 2023", " 1,234 10:02:03", " 1,100", "   70", " 12 document results"]
)
def test_counts_of_hits_are_left_out(syntax: SyntaxChoice, count: str) -> None:
    """A count at the end of every line, with a date, a time, a tab or only blanks before it, is no word."""
    number = "S{} " if syntax == "ebsco" else "#{} "
    last = "S1 AND S2" if syntax == "ebsco" else "#1 AND #2"
    parsed = parse(history(syntax, last, number, count), syntax)
    assert parsed.tree == AND
    is_bare = count in (" 1,100", "   70")
    assert any("count of hits" in warning.message for warning in parsed.warnings) == is_bare


@pytest.mark.parametrize(
    "text",
    [
        "S1 TI heart 1,100\nS2 TI failure\nS3 S1 AND S2",
        "1 heart.ti. 1234\n2 failure.ti. 567\n3 1 and 2",
        "#1 heart[ti]\n#2 failure[ti]\n#3 #1 AND #2 16000",
    ],
)
def test_a_count_on_some_lines_is_refused(text: str) -> None:
    """A number at the end of some lines may be a count or a word."""
    with pytest.raises(BooleanSyntaxError, match="count of hits or a word"):
        parse(text)


def test_numbers_at_the_ends_of_terms_stay_words() -> None:
    """Lines that end with numbers are terms, unless a line shows that the numbers are counts."""
    parsed = parse("1. type 2\n2. phase 3\n3. 1 and 2", "ovid")
    assert [line.text for line in parsed.lines] == ["type 2", "phase 3", "1 and 2"]


@pytest.mark.parametrize("syntax", [key for key in TITLES if key != "ebsco"])
@pytest.mark.parametrize(("number", "last"), [("Set {}: ", "Set 1 AND Set 2"), ("Line {}. ", "1 AND 2"), ("Search #{}: ", "#1 AND #2.")])
def test_a_word_before_the_numbers(syntax: SyntaxChoice, number: str, last: str) -> None:
    """`Set 1:` is the number of a line."""
    assert parse(history(syntax, last, number), syntax).tree == AND


@pytest.mark.parametrize("syntax", [key for key in TITLES if key != "ebsco"])
@pytest.mark.parametrize("mark", [".", ")", ":", ""])
def test_roman_numbers(syntax: SyntaxChoice, mark: str) -> None:
    """Roman numbers are labels of lines."""
    first, second = TITLES[syntax]
    assert parse(f"I{mark} {first}\nII{mark} {second}\nIII{mark} I AND II.", syntax).tree == AND
