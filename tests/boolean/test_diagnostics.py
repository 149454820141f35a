"""Diagnostics of a query: errors and warnings with their places."""

from __future__ import annotations

import os
import time
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.boolean.diagnostics import BooleanSyntaxError, find_empty_terms, iter_leaves
from outrider.boolean.grammar import MAX_CHARS, MAX_DEPTH
from outrider.boolean.parser import ParsedQuery, SyntaxChoice, parse
from outrider.boolean.printer import format_history, format_tree, history, outline
from outrider.state.boolean import Or
from outrider.state.errors import BadRequest


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("ab[tiabs]",
         "line 1, column 4: [tiabs] is no field tag; did you mean 'tiab'?; expected a field tag such as [tiab]\n  ab[tiabs]\n     ^"),
        ("a AND (b OR\n  c[ti] d[ti]", "line 1, column 7: this parenthesis is never closed; expected “)”\n  a AND (b OR\n        ^"),
        ("a OR\nb) AND c", "line 2, column 2: this parenthesis was never opened\n  b) AND c\n   ^"),
        ("a AND OR b", "line 1, column 7: “OR” is not allowed here; expected NOT, a term or “(”\n  a AND OR b\n        ^"),
        ("a AND", "line 1, column 6: the query ends too early; expected NOT, a term or “(”\n  a AND\n       ^"),
        ("a[tit]", "line 1, column 3: [tit] is no field tag; did you mean 'titl'?; expected a field tag such as [tiab]\n  a[tit]\n    ^"),
    ],
)  # fmt: skip
def test_the_message_points_at_the_place_and_names_what_was_expected(query: str, message: str) -> None:
    with pytest.raises(BooleanSyntaxError) as error:
        parse(query)
    assert str(error.value) == message
    assert isinstance(error.value, BadRequest)
    assert error.value.exit_code == 2


@pytest.mark.parametrize(
    ("query", "message", "column"),
    [
        ("", "empty", 1),
        (" \n\t ", "empty", 1),
        ('""', "without a letter or digit", 1),
        ("*[ti]", "without a letter or digit", 1),
        ("a OR --[ti]", "without a letter or digit", 6),
        ("()", "is not allowed here", 2),
        ("(((", "never closed", 3),
        (")))", "never opened", 1),
        ("a[ti", "never closed", 2),
        ("a]", "never opened", 2),
        ("[ti]", "is not allowed here", 1),
        ("a[1au]", "not read here: the place of an author", 3),
        ("a[ti][ab]", "is not allowed here", 6),
        ("NOT NOT a", "is not allowed here", 5),
        ("a\x00b", "control character U\\+0000", 2),
        ("a\x1bb", "control character U\\+001B", 2),
        ("a\ud800", "control character U\\+D800", 2),
        ("2020/13[dp]", "no date of the calendar", 1),
        ("2021:2019[dp]", "after its end", 1),
        ("1:2:3[dp]", "two ends", 1),
        ('"last 5 years"[dp]', "name the dates", 1),
        ("a[ti] : b[ti]", "for dates", 1),
        ("smith[pmid]", "number", 1),
        ("a*b*c*d*e*f[ti]", "more than 4 truncation signs", 1),
        ("a[ti:~5000]", "no field tag", 3),
        ('"a b"[mh:~2]', "no field tag", 7),
        ('"a b"[au:~2]', "no running text", 1),
    ],
)
def test_bad_input(query: str, message: str, column: int) -> None:
    with pytest.raises(BooleanSyntaxError, match=message) as error:
        parse(query, "pubmed")
    assert error.value.column == column


@pytest.mark.parametrize(
    "query", ["(" * 5_000 + "a" + ")" * 5_000, "(" * 5_000, "NOT (" * 5_000 + "a" + ")" * 5_000, "((a OR " * 200 + "b" + "))" * 200]
)
@pytest.mark.parametrize("syntax", ["auto", "pubmed", "ovid"])
def test_parentheses_without_end(query: str, syntax: str) -> None:
    with pytest.raises(BooleanSyntaxError, match=f"more than {MAX_DEPTH} parentheses"):
        parse(query, syntax)  # type: ignore[arg-type]


def test_as_many_parentheses_as_are_allowed() -> None:
    query = "(a[ti] OR " * MAX_DEPTH + "b[ti]" + ")" * MAX_DEPTH
    tree = parse(query).tree
    assert parse(format_tree(tree)).tree == tree


@pytest.mark.parametrize(
    ("query", "syntax"),
    [
        ("#1 " + " " * 60_000, "ovid"),
        ("3" + " " * 60_000 + "\n2 a[ti]\n1 b[ti]", "pubmed"),
        ("“" * 60_000, "embase"),
        ("‘a’" * 20_000, "embase"),
        ("MeSH descriptor " * 4_000, "cochrane"),
        ("a" + " " * 60_000 + "x", "cochrane"),
        ("1. a\n2. limit 1 to yr=" + " " * 60_000 + "x", "ovid"),
        ("LIMIT-TO(A," + " " * 60_000 + "x", "scopus"),
        ("MeSH descriptor" + " " * 60_000 + "x", "cochrane"),
        ("a in Trials," + " " * 60_000 + "(", "cochrane"),
        ("DOCTYPE(" + " " * 60_000 + "(", "scopus"),
        ("[mh a" + " " * 60_000 + '"', "cochrane"),
        ("[mh a/" + " " * 60_000 + '"', "cochrane"),
    ],
)
def test_signs_of_a_platform_that_lead_nowhere_take_linear_time(query: str, syntax: SyntaxChoice) -> None:
    """Each once took from ten seconds to hours."""
    began = time.process_time()
    with suppress(BooleanSyntaxError):
        parse(query, syntax)
    assert time.process_time() - began < 8


@pytest.mark.parametrize(
    "query",
    [
        "\n" * 190_000 + "a",
        " " * 190_000,
        "a" + "\t" * 190_000 + "b",
        "a[" + " " * 190_000 + "x]",
        "\n".join(f"{number}. heart{number}.ti,ab." for number in range(1, 5_000)),
        "\n".join(f"#{number} heart{number}[ti]" for number in range(1, 5_000)),
    ],
    ids=["empty lines", "blanks", "tabs", "blanks in a tag", "an Ovid history", "a PubMed history"],
)
def test_time_grows_with_the_length_of_a_query(query: str) -> None:
    began = time.process_time()
    with suppress(BooleanSyntaxError):
        parse(query)
    assert time.process_time() - began < 10


def test_a_query_of_a_hundred_thousand_characters_is_read_and_a_longer_one_refused() -> None:
    query = " OR ".join(f"term{number}[tiab]" for number in range(100_000))[:100_000].rpartition(" OR ")[0]
    began = time.process_time()
    tree = parse(query).tree
    assert time.process_time() - began < 20
    assert isinstance(tree, Or)
    assert len(tree.parts) == query.count(" OR ") + 1
    with pytest.raises(BooleanSyntaxError, match=f"at most {MAX_CHARS:,}"):
        parse("a" * (MAX_CHARS + 1))
    with pytest.raises(BooleanSyntaxError, match=r"at most 20,000 are|more than 20,000 terms"):
        parse("a " * 50_000)


PIECES = ["a", "b*", '"', "“", "(", ")", "[ti]", "[", "]", "AND", "OR", "NOT", "[tiab:~2]", ":", "2019[dp]", "exp Liver/",
          "/", ".ti.", "adj3", "1", "or/1-2", "\n", "{?}", "#1", "*", "limit 1 to", "[mh]", "ADJ", "东", "-", "1."]  # fmt: skip


@settings(max_examples=int(os.environ.get("OUTRIDER_TREES", "200")), deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=14), st.sampled_from([" ", ""]), st.sampled_from(["auto", "pubmed", "ovid"]))
def test_any_text_is_read_or_refused_with_a_place_in_it(pieces: list[str], gap: str, syntax: str) -> None:
    """Nothing else is ever raised, and what is read prints back."""
    query = gap.join(pieces)
    read = _read(query, syntax)
    if isinstance(read, BooleanSyntaxError):
        assert 1 <= read.line <= query.count("\n") + 1
        assert 1 <= read.column <= len(query) + 1
        assert str(read).endswith("^")
    else:
        assert parse(format_tree(read.tree), "pubmed").tree == read.tree


def _read(query: str, syntax: str) -> ParsedQuery | BooleanSyntaxError:
    try:
        return parse(query, syntax)  # type: ignore[arg-type]
    except BooleanSyntaxError as error:
        return error


@pytest.mark.parametrize(
    ("query", "codes"),
    [
        ('"heart failure"[tiab] AND (diet[ti] OR drug[ti]) NOT rats[ti]', []),
        ("a[ti] OR b[ti] AND c[ti]", ["mixed operators"]),
        ("a[ti] AND b[ti] NOT c[ti]", []),
        ("a[ti] and b[ti]", ["operator in lower case"]),
        ("heart failure", ["mapped by PubMed"]),
        ('"heart failure"', ["mapped by PubMed"]),
        ("a[ti] b[ti]", ["missing operator"]),
        ('"heart failure[ti]', ["quotes"]),
        ("COVID-19[ti]", ["hyphen"]),
        ("hep*[ti]", ["short truncation"]),
        ("hepa*[ti]", []),
        ("*itis[ti]", ["unsupported"]),
        ('"hepa* drug"[ti:~2]', ["unsupported"]),
        ("aspirin[ti:~2]", ["unsupported"]),
        ("Liver[mh]", ["explosion"]),
        ("Liver[mh:noexp]", []),
        ("Liver[majr:noexp]", ["major topic"]),
        ("aspirin[nm]", ["not in a library"]),
        ("2019/06:2020[dp]", ["only years"]),
        ("2019:2020[dp]", []),
        ("2019[edat]", ["not in a library"]),
    ],
)
def test_what_is_remarked(query: str, codes: list[str]) -> None:
    assert [remark.code for remark in parse(query, "pubmed").warnings] == codes


def test_a_warning_has_its_first_place_and_its_count() -> None:
    remarks = parse("aspirin[ti]\nAND Liver[mh] AND Kidney[mh] AND COVID-19[ti]").warnings
    assert [(remark.code, remark.line, remark.column, remark.times) for remark in remarks] == [("explosion", 2, 5, 2), ("hyphen", 2, 34, 1)]
    assert str(remarks[0]).startswith("line 2, column 5: ")
    assert str(remarks[0]).endswith("(2 times)")


def test_terms_without_hits_are_reported_if_hits_are_counted() -> None:
    query = "aspirin[ti] OR aspirine[ti] OR unknown[ti]"
    tree = parse(query).tree
    counts = dict(zip(iter_leaves(tree), [12, 0, None], strict=True))
    (remark,) = find_empty_terms(tree, counts.get, query)
    assert (remark.code, remark.column) == ("empty", 16)


def test_the_tree_as_indented_text() -> None:
    tree = parse('("heart failure"[ti] OR hepat*[tiab]) AND 2019:2021[dp] NOT Letter[pt]').tree
    assert outline(tree) == (
        "AND\n"
        "  OR\n"
        '    "heart failure"[Title]\n'
        '    "hepat*"[Title/Abstract]\n'
        "  2019:2021[Date - Publication]\n"
        "  NOT\n"
        '    "Letter"[Publication Type]'
    )


def test_a_history_has_each_part_once_with_its_hits() -> None:
    """As Ovid and PubMed show it: operands first, then what joins them by number."""
    tree = parse("(a[ti] OR b[ti]) AND c[ti] NOT (a[ti] AND d[ti])").tree
    counted: list[object] = []
    rows = history(tree, lambda node: counted.append(node) or 1_000 * len(counted))  # type: ignore[func-returns-value]
    assert [row.expression for row in rows] == [
        '"a"[Title]',
        '"b"[Title]',
        "#1 OR #2",
        '"c"[Title]',
        '"d"[Title]',
        "#1 AND #5",
        "NOT #6",
        "#3 AND #4 AND #7",
    ]
    assert rows[-1].node == tree
    assert format_history(rows).splitlines()[0] == '1  1,000  "a"[Title]'
    assert format_history(rows).splitlines()[2] == "3  3,000  #1 OR #2"
    assert format_history(history(tree)).splitlines()[2] == "3  #1 OR #2"
