from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.linkage.identifiers import (
    find_identifiers,
    normal_arxiv,
    normal_distribution,
    normal_doi,
    normal_isbn,
    normal_pmcid,
    normal_pmid,
)

SICI = "10.1002/(sici)1097-0258(19980815/30)17:15/16<1661::aid-sim968>3.0.co;2-2"


@pytest.mark.parametrize(
    ("text", "doi"),
    [
        ("https://doi.org/10.1000/ABC", "10.1000/abc"),
        ("doi:10.1000/abc.", "10.1000/abc"),
        ("(10.1000/abc)", "10.1000/abc"),
        ("10.1000/abc(1)", "10.1000/abc(1)"),
        ("http://dx.doi.org/10.1000%2Fabc", "10.1000/abc"),
        (SICI.upper().replace("10.1002/", "10.1002/"), SICI),
        ('<a href="https://doi.org/10.1000/abc">x</a>', "10.1000/abc"),
        ("10.1/abc", None),
        ("no doi", None),
        ("", None),
    ],
)
def test_doi(text: str, doi: str | None) -> None:
    assert normal_doi(text) == doi


@pytest.mark.parametrize(
    ("normal", "text", "value"),
    [
        (normal_arxiv, "arXiv:2101.00001v3", "2101.00001"),
        (normal_arxiv, "https://arxiv.org/pdf/2101.00001.pdf", "2101.00001"),
        (normal_arxiv, "hep-th/9901001", "hep-th/9901001"),
        (normal_arxiv, "12345", None),
        (normal_pmid, "PMID: 0123", "123"),
        (normal_pmid, "https://pubmed.ncbi.nlm.nih.gov/123/", "123"),
        (normal_pmid, "12a", None),
        (normal_pmid, "²", None),
        (normal_pmcid, "PMC0123", "PMC123"),
        (normal_pmcid, "123", None),
        (normal_isbn, "0-306-40615-2", "9780306406157"),
        (normal_isbn, "978-0-306-40615-7", "9780306406157"),
        (normal_isbn, "978-0-306-40615-8", None),
    ],
)
def test_other_schemes(normal: object, text: str, value: str | None) -> None:
    assert normal(text) == value  # type: ignore[operator]


def test_distribution_names() -> None:
    assert normal_distribution("Foo_Bar.baz--x") == "foo-bar-baz-x"


@given(st.text(max_size=60))
def test_normal_forms_stay_as_they_are(text: str) -> None:
    for normal in (normal_doi, normal_arxiv, normal_pmid, normal_pmcid, normal_isbn):
        value = normal(text)
        assert value is None or normal(value) == value


@pytest.mark.parametrize(
    ("text", "identifiers"),
    [
        ("10.1038/nature14539", [("doi", "10.1038/nature14539")]),
        ("is https://doi.org/10.1038/NATURE14539, right?", [("doi", "10.1038/nature14539")]),
        ("doi:10.1038/nature14539", [("doi", "10.1038/nature14539")]),
        ("doi: 10.1038/nature14539 and (10.1000/b)", [("doi", "10.1038/nature14539"), ("doi", "10.1000/b")]),
        ("arXiv:1706.03762v5", [("arxiv", "1706.03762")]),
        ("arxiv 1706.03762", [("arxiv", "1706.03762")]),
        ("https://arxiv.org/pdf/1706.03762v2.pdf", [("arxiv", "1706.03762")]),
        ("what is 1706.03762?", [("arxiv", "1706.03762")]),
        ("PMID 29768149", [("pmid", "29768149")]),
        ("see pmid: 29768149.", [("pmid", "29768149")]),
        ("29768149", [("pmid", "29768149")]),
        ("https://pubmed.ncbi.nlm.nih.gov/29768149/", [("pmid", "29768149")]),
        ("PMC1234567", [("pmcid", "PMC1234567")]),
        ("cells at 2,000 or 12345 per ml in 2020", []),
        ("2020", []),
        ("version 0.12345", []),
        ("", []),
    ],
)
def test_identifiers_in_a_request(text: str, identifiers: list[tuple[str, str]]) -> None:
    assert list(find_identifiers(text)) == identifiers


@given(st.text())
def test_any_text_can_be_searched_for_identifiers(text: str) -> None:
    assert all(value for _, value in find_identifiers(text))
