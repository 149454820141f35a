"""What a link names by its address alone."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.linkage.identifiers import normal_doi
from outrider.sources.http.ssrf_guard import MOST_CHARS
from outrider.sources.web.link_identifiers import VIEW, find_doi, find_identifiers
from outrider.state.records import Identifiers

SICI = "10.1002/(sici)1097-4571(1986)37:1<4::aid-asi>3.0.co;2-u"


@pytest.mark.parametrize(
    ("url", "doi"),
    [
        ("https://doi.org/10.1000/ABC.1", "10.1000/abc.1"),
        ("http://dx.doi.org/10.1002/(SICI)1097-4571(1986)37%3A1%3C4%3A%3AAID-ASI%3E3.0.CO%3B2-U", SICI),
        ("https://doi.org/10.1016%2Fj.cell.2020.01.001?via=ihub", "10.1016/j.cell.2020.01.001"),
        ("https://onlinelibrary.wiley.com/doi/full/10.1002/asi.24750", "10.1002/asi.24750"),
        ("https://onlinelibrary.wiley.com/doi/10.1111/j.1365-2966.2005.09975.x/full", "10.1111/j.1365-2966.2005.09975.x"),
        ("https://dl.acm.org/doi/abs/10.1145/3292500.3330701#sec-ref", "10.1145/3292500.3330701"),
        ("https://journals.plos.org/plosone/article?id=10.1371/journal.pone.0000001&type=printable", "10.1371/journal.pone.0000001"),
        ("https://link.springer.com/content/pdf/10.1007/s00122-013-2123-6.pdf", "10.1007/s00122-013-2123-6"),
        ("https://www.frontiersin.org/articles/10.3389/fpsyg.2020.00001/full", "10.3389/fpsyg.2020.00001"),
        ("https://iopscience.iop.org/article/10.1088/1742-6596/1/1/001/meta", "10.1088/1742-6596/1/1/001"),
        ("https://www.biorxiv.org/content/10.1101/2020.01.30.927871v2.full.pdf", "10.1101/2020.01.30.927871"),
        ("https://www.science.org/doi/10.1126/science.abc;jsessionid=1F", "10.1126/science.abc"),
        ("https://example.com/?url=https%3A%2F%2Fdoi.org%2F10.1000%2Fxyz", "10.1000/xyz"),
        ("https://example.com/viewer#/doi/10.1000/xyz/", "10.1000/xyz"),
        ("https://example.com/doi/10.1000/pdf", "10.1000/pdf"),
        ("https://example.com/doi/10.1000/pdf/pdf.html", "10.1000/pdf"),
        ("https://example.com/doi/10.1000/x" + "/pdf" * 900, "10.1000/x"),
        ("https://example.com/doi/10.1000/x" + "/pdf" * 1_000, None),
        ("https://example.com/release-10.2000/build", None),
        ("https://example.com/10.12/x", None),
        ("https://example.com/articles/s41586-020-2649-2", None),
        ("http://[broken/10.1000/x", None),
        ("", None),
    ],
)
def test_the_doi_in_an_address(url: str, doi: str | None) -> None:
    assert find_doi(url) == doi


@pytest.mark.parametrize(
    ("url", "named"),
    [
        ("https://arxiv.org/abs/2101.00001v2", Identifiers(arxiv="2101.00001")),
        ("http://www.arxiv.org/pdf/hep-th/9901001.pdf", Identifiers(arxiv="hep-th/9901001")),
        ("https://arxiv.org/html/2401.12345v1#S1", Identifiers(arxiv="2401.12345")),
        ("https://arxiv.org/list/cs.CL/recent", Identifiers()),
        ("https://pubmed.ncbi.nlm.nih.gov/32015507/?from=x", Identifiers(pmid="32015507")),
        ("https://www.ncbi.nlm.nih.gov/pubmed/32015507", Identifiers(pmid="32015507")),
        ("https://pubmed.ncbi.nlm.nih.gov/?term=aspirin", Identifiers()),
        ("https://pmc.ncbi.nlm.nih.gov/articles/PMC7095418/", Identifiers(pmcid="PMC7095418")),
        ("https://www.ncbi.nlm.nih.gov/pmc/articles/PMC7095418/figure/F1", Identifiers(pmcid="PMC7095418")),
        ("https://example.com/PMC7095418", Identifiers()),
        ("https://github.com/Owner-1/Some.Name", Identifiers(github="owner-1/some.name")),
        ("http://www.github.com/owner/name/?tab=readme-ov-file#use", Identifiers(github="owner/name")),
        ("https://github.com/owner/name.git", Identifiers(github="owner/name")),
        ("https://github.com/owner/name/issues/1", Identifiers()),
        ("https://github.com/owner", Identifiers()),
        ("https://github.com/owner/..", Identifiers()),
        ("https://github.com/owner/a%20b", Identifiers()),
        ("https://github.com/Topics/search", Identifiers()),
        ("https://github.com/orgs/owner", Identifiers()),
        ("https://github.com/features/actions", Identifiers()),
        ("https://github.com/marketplace/name", Identifiers()),
        ("https://github.com/sponsors/owner", Identifiers()),
        ("https://gist.github.com/owner/name", Identifiers()),
        ("https://example.com/?u=https://github.com/owner/name", Identifiers()),
        ("12345678", Identifiers()),
        ("2101.00001", Identifiers()),
    ],
)
def test_what_an_address_names(url: str, named: Identifiers) -> None:
    assert find_identifiers(url) == named


@pytest.mark.parametrize(
    "part", ["/pdf", ".full", "10.1000/x</", ";jsessionid=", "(", "[)", "&a=10.1", "%31", "v1", "/10.1000/", "#", "?10.", "%2f10.1101/v1"]
)
@pytest.mark.parametrize("end", ["", "x", "\n", "/"])
def test_no_address_takes_long(part: str, end: str) -> None:
    """Neither the longest that is read, nor one that no guard would let through."""
    for start in ("https://x.org/10.1000/x", "https://github.com/a/", "https://arxiv.org/abs/"):
        for length in (MOST_CHARS, 100_000):
            url = start + part * ((length - len(start) - len(end)) // len(part)) + end
            began = time.process_time()
            named = find_identifiers(url)
            assert time.process_time() - began < 0.05
            assert len(url) <= MOST_CHARS or named == Identifiers()


@given(
    st.text("x/.", min_size=1, max_size=6),
    st.lists(st.sampled_from(["/pdf", "/full", "/abs", ".pdf", ".html", ".full", "/meta"]), max_size=9),
)
def test_views_are_taken_off_one_after_another(name: str, views: list[str]) -> None:
    doi = normal_doi(f"10.1000/{name}{''.join(views)}".rstrip("/"))
    while doi and (shorter := VIEW.sub("", doi)) != doi and normal_doi(shorter):
        doi = shorter
    assert find_doi(f"https://x.org/10.1000/{name}{''.join(views)}") == doi


@given(st.text(max_size=60))
def test_any_text_is_read(text: str) -> None:
    find_identifiers(text)
    find_identifiers(f"https://doi.org/{text}")
