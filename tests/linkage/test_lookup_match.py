from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.linkage.lookup_match import identifiers_contradict, preprint_server, same_work, shared_identifier, titles_agree
from outrider.state.records import Identifiers, Page, Paper, Record
from support.fakes import doi, paper

TITLE = "Aspirin and acute liver injury in adults"
ARXIV, BIORXIV, SSRN, JOURNAL = "10.48550/arxiv.2101.00001", "10.1101/2020.01.02.123456", "10.2139/ssrn.123", "10.1000/j.1"


def by_ann(doc_id: str = "a", title: str = TITLE, **fields: object) -> Paper:
    return paper(doc_id, title, **({"authors": ["Smith, Ann", "Bell, J."], "year": 2020} | fields))


def test_equal_titles_alone_are_not_enough() -> None:
    assert same_work(paper("a", "Editorial"), paper("b", "Editorial")) is None


def test_a_missing_title_is_not_agreement() -> None:
    assert not titles_agree("", "")
    assert same_work(paper("a", "", identifiers=doi("10.1/x")), paper("b", "", identifiers=doi("10.1/x"))) is None


@pytest.mark.parametrize(
    ("one", "other", "contradict"),
    [
        ({"doi": JOURNAL}, {"doi": "10.1000/j.2"}, True),
        ({"doi": JOURNAL}, {"doi": ARXIV}, False),
        ({"doi": JOURNAL}, {"doi": BIORXIV}, False),
        ({"doi": JOURNAL}, {"doi": "10.1101/gr.123.4"}, True),  # Genome Research, of bioRxiv's publisher
        ({"doi": ARXIV}, {"doi": BIORXIV}, False),
        ({"doi": SSRN}, {"doi": "10.2139/ssrn.124"}, True),
        ({"doi": "10.21203/rs.3.rs-1/v1"}, {"doi": "10.21203/rs.3.rs-1/v2"}, False),
        ({"doi": JOURNAL, "pmid": "1"}, {"doi": BIORXIV, "pmid": "2"}, False),
        ({"doi": JOURNAL, "pmid": "1"}, {"doi": JOURNAL, "pmid": "2"}, True),
        ({"arxiv": "2101.00001"}, {"arxiv": "2101.00002"}, True),
        ({"arxiv": "2101.00001"}, {"doi": JOURNAL}, False),
        ({"arxiv": "2101.00001", "doi": JOURNAL}, {"doi": "10.1000/j.2"}, True),
        ({"isbn": "9780306406157"}, {"isbn": "9783161484100"}, True),
        ({"isbn": "9780306406157", "doi": JOURNAL}, {"isbn": "9783161484100", "doi": SSRN}, True),
        ({}, {"doi": JOURNAL}, False),
    ],
)  # fmt: skip
def test_identifiers_that_contradict(one: dict[str, str], other: dict[str, str], contradict: bool) -> None:
    records = by_ann(identifiers=Identifiers(**one)), by_ann("b", identifiers=Identifiers(**other))
    assert identifiers_contradict(*records) == contradict


def test_a_preprint_may_have_another_doi_with_the_same_arxiv_number() -> None:
    """OpenAlex gives arXiv's own DOI, arXiv the journal's; two journals' DOIs still show two works."""
    openalex = by_ann(identifiers=Identifiers(doi=ARXIV, arxiv="2101.00001", openalex="W1"))
    arxiv = by_ann("b", identifiers=Identifiers(doi=JOURNAL, arxiv="2101.00001"))
    assert shared_identifier(openalex, arxiv) == shared_identifier(arxiv, openalex) == ("arxiv", "2101.00001")
    assert shared_identifier(arxiv, by_ann("c", identifiers=Identifiers(doi="10.1000/j.2", arxiv="2101.00001"))) is None
    assert shared_identifier(openalex, by_ann("c", identifiers=Identifiers(doi=JOURNAL, arxiv="2101.00002"))) is None
    assert shared_identifier(openalex, by_ann("c", identifiers=doi(JOURNAL))) is None


@pytest.mark.parametrize(
    ("url", "known", "same"),
    [
        ("https://arxiv.org/abs/1706.03762v5", {"arxiv": "1706.03762"}, True),
        ("http://www.arxiv.org/pdf/1706.03762.pdf?download=1#page=2", {"arxiv": "1706.03762"}, True),
        ("https://doi.org/10.1000/j.1", {"doi": JOURNAL}, True),
        ("https://dx.doi.org/10.1000/J.1", {"doi": JOURNAL}, True),
        ("https://pubmed.ncbi.nlm.nih.gov/31452104/", {"pmid": "31452104"}, True),
        ("https://github.com/Owner/Name/", {"github": "owner/name"}, True),
        ("https://arxiv.org/abs/1706.03763", {"arxiv": "1706.03762"}, False),
        ("https://github.com/owner/name/issues/3", {"github": "owner/name"}, False),
        ("https://journal.org/doi/10.1000/j.1", {"doi": JOURNAL}, False),
        ("https://blog.org/arxiv.org/abs/1706.03762", {"arxiv": "1706.03762"}, False),
        ("https://[doi.org/10.1000/j.1", {"doi": JOURNAL}, False),
        (None, {"doi": JOURNAL}, False),
    ],
)
def test_the_page_of_an_identifier_need_not_have_the_title(url: str | None, known: dict[str, str], same: bool) -> None:
    identifiers = Identifiers(**known)
    page = Page(doc_id="p", title="[1706.03762] Attention - arXiv.org", url=url, identifiers=identifiers)
    work = by_ann(identifiers=identifiers, url=url)
    assert bool(same_work(page, work)) == bool(same_work(work, page)) == same
    assert same_work(work, work.model_copy(update={"doc_id": "b", "title": "Statins"})) is None  # a page, not what links to one


def test_preprint_servers() -> None:
    assert preprint_server(by_ann(identifiers=doi(SSRN))) == "10.2139"
    assert (
        preprint_server(by_ann(identifiers=doi(ARXIV))) == preprint_server(by_ann(identifiers=Identifiers(arxiv="2101.00001"))) == "arxiv"
    )
    assert preprint_server(by_ann(identifiers=doi(JOURNAL))) is None


@pytest.mark.parametrize(
    ("venue", "server"),
    [
        ("arXiv preprint arXiv:1706.03762", "arxiv"),
        ("ArXiv", "arxiv"),
        ("CoRR", "arxiv"),
        ("arXiv (Cornell University)", "arxiv"),
        ("medRxiv : the preprint server for health sciences", "10.1101"),
        ("bioRxiv preprint", "10.1101"),
        ("SSRN Electronic Journal", "10.2139"),
        ("Preprints", "10.20944"),
        ("Research Square", "10.21203"),
        ("Journal of Preprints", None),
        ("arXival Studies", None),
        ("Preprints of the IFAC Congress", None),
        ("arxiv " + "()" * 200 + "x", None),
    ],
)
def test_a_venue_that_is_a_preprint_server(venue: str, server: str | None) -> None:
    assert preprint_server(by_ann(venue=venue)) == server
    assert preprint_server(by_ann(venue=venue, identifiers=doi(JOURNAL))) is None


RECORDS: st.SearchStrategy[Record] = st.builds(
    by_ann,
    st.sampled_from("abc"),
    st.sampled_from([TITLE, f"{TITLE}: a study", f"{TITLE} (preprint)", TITLE.replace("in ", "In"), f"Erratum: {TITLE}", ""]) | st.text(),
    authors=st.lists(st.sampled_from(["Smith, Ann", "Bell J", "C. Jones", ""]) | st.text(max_size=8), max_size=3),
    year=st.none() | st.integers(2018, 2022),
    volume=st.none() | st.sampled_from(["1", "2"]),
    identifiers=st.builds(
        Identifiers, doi=st.none() | st.sampled_from([ARXIV, BIORXIV, SSRN, JOURNAL]), pmid=st.none() | st.sampled_from("12"),
        arxiv=st.none() | st.sampled_from("12"),
    ),
)  # fmt: skip


@given(RECORDS, RECORDS)
def test_the_guard_is_symmetric(one: Record, other: Record) -> None:
    assert bool(same_work(one, other)) == bool(same_work(other, one))
    assert identifiers_contradict(one, other) == identifiers_contradict(other, one)
