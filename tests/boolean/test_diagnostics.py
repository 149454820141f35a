"""Syntax errors of Boolean queries: one clear message with the place of the error."""

from __future__ import annotations

import os
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.boolean.diagnostics import BooleanSyntaxError
from outrider.boolean.grammar import MAX_CHARS, MAX_DEPTH
from outrider.boolean.parser import ParsedQuery, parse
from outrider.boolean.printer import format_tree
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
