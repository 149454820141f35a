"""Warnings: their subjects and places; a clean query has none."""

from __future__ import annotations

import pytest

from outrider.boolean.diagnostics import find_empty_terms, iter_leaves
from outrider.boolean.parser import parse
from outrider.boolean.printer import format_history, history, outline


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
