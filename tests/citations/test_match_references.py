"""References without a usable identifier: 57 that are made to mislead, and four forms of real ones."""

from __future__ import annotations

from typing import Any

import pytest

from outrider.citations.match_references import ReferenceMatcher, make_reference
from outrider.state.records import Identifiers, Paper


def work(title: str, authors: str, year: int, venue: str, volume: str = "", pages: str = "", **identifiers: str) -> Paper:
    names = tuple(authors.split("; "))
    own = Identifiers(**identifiers)
    return Paper(
        doc_id=title, title=title, authors=names, year=year, venue=venue, volume=volume or None, pages=pages or None, identifiers=own
    )


WORKS = {
    "attention": work("Attention is all you need", "Vaswani, A; Shazeer, N; Parmar, N", 2017, "arXiv", arxiv="1706.03762"),
    "bert": work("BERT: Pre-training of deep bidirectional transformers", "Devlin, J; Chang, MW; Lee, K", 2019, "NAACL", "1", "4171-4186"),
    "aspirin": work("Aspirin and the liver", "Doe, J; Roe, R", 2004, "Hepatology", "40", "12-19", doi="10.1002/hep.1"),
    "aspirin 2": work("Aspirin and the liver: a second look", "Doe, J; Roe, R", 2006, "Hepatology", "44", "101-109", doi="10.1002/hep.2"),
    "aspirin suppl": work(
        "Aspirin and the liver (supplement)", "Doe, J; Roe, R", 2004, "Hepatology", "40", "S12-S19", doi="10.1002/hep.1s"
    ),
    "erratum": work("Erratum: Statins in primary prevention", "Poe, E", 2010, "Lancet", "375", "2000", doi="10.1016/l.2"),
    "statins": work("Statins in primary prevention", "Poe, E; Coe, F", 2010, "The Lancet", "375", "735-742", doi="10.1016/l.1"),
    "report 2001": work("Annual report of the otter survey", "River Trust", 2001, "River Reports", "1", "1-40"),
    "report 2002": work("Annual report of the otter survey", "River Trust", 2002, "River Reports", "2", "1-44"),
    "part 1": work("The kinetics of enzymes. Part I. Theory", "Smith, A", 1980, "J Biol Chem", "255", "100-110"),
    "part 2": work("The kinetics of enzymes. Part II. Experiments", "Smith, A", 1980, "J Biol Chem", "255", "111-120"),
    "mice": work("Effects of caffeine on sleep in mice", "Lee, K; Park, S", 2012, "Sleep", "35", "55-61"),
    "rats": work("Effects of caffeine on sleep in rats", "Lee, K; Park, S", 2012, "Sleep", "35", "62-70"),
    "gene": work("What is a gene?", "Pearson, H", 2006, "Nature", "441", "398-401"),
    "editorial": work("Editorial", "Adams, D", 2015, "Nature", "520", "1"),
    "preprint": work("Otters learn to juggle stones", "Allison, M; Bandini, E", 2019, "bioRxiv", doi="10.1101/868943"),
    "noise": work("Stochasticity and cell fate", "Losick, R; Desplan, C", 2008, "Science", "320", "65-68", pmid="18388284"),
    "section": work("Levels of excited helium", "Berg, B", 1971, "Physical Review A", "4", "1006-1012"),
    "thesis": work(
        "Learning with noise",
        "Kim, B",
        1999,
        "MIT",
    ),
    "article": work("Learning with noise", "Kim, B; Chan, T", 2001, "Machine Learning", "42", "5-30"),
}

CASES: tuple[tuple[str, dict[str, Any], str], ...] = (
    # no DOI
    ("all fields", {
         "title": "Aspirin and the liver", "authors": ["Doe J", "Roe R"], "year": 2004, "venue": "Hepatology", "volume": "40",
         "pages": "12-19"
     }, "aspirin"),
    ("abbreviated", {
         "title": "Stochasticity and cell fate", "authors": ["Losick R"], "year": 2008, "venue": "Science", "volume": "320",
         "pages": "65"
     }, "noise"),
    ("no title", {"authors": ["Losick"], "year": 2008, "venue": "Science", "volume": "320", "pages": "65"}, "noise"),
    ("no title, other volume", {"authors": ["Losick"], "year": 2008, "venue": "Science", "volume": "321", "pages": "65"}, ""),
    ("no title, other journal", {"authors": ["Losick"], "year": 2008, "venue": "Cell", "volume": "320", "pages": "65"}, ""),
    ("no title, other author", {"authors": ["Marx"], "year": 2008, "venue": "Science", "volume": "320", "pages": "65"}, ""),
    ("no title, other year", {"authors": ["Losick"], "year": 1998, "venue": "Science", "volume": "320", "pages": "65"}, ""),
    ("a line", {"unstructured": "Losick R, Desplan C. Stochasticity and cell fate. Science 2008;320:65-8."}, "noise"),
    ("a line without year and place", {"unstructured": "Losick R, Desplan C. Stochasticity and cell fate."}, ""),
    ("a line without a title", {"unstructured": "Losick R, Desplan C., Science 320, 65 (2008)"}, "noise"),
    ("a line without a title, of one author", {"unstructured": "R. Losick et al., Science, vol. 320, pp. 65-68, 2008."}, "noise"),
    ("a line of a place alone", {"unstructured": "J. Biol. Chem. 255, 100 (1980)."}, "part 1"),
    ("a line of a place, last page and issue", {"unstructured": "J Biol Chem 1980;255(3):111-20"}, "part 2"),
    ("a line of a place, other author", {"unstructured": "K. Marx, Science 320, 65 (2008)"}, ""),
    ("a line of a place, other journal", {"unstructured": "J. Biol. Phys. 255, 100 (1980)."}, ""),
    ("a line of a place, other year", {"unstructured": "J. Biol. Chem. 255, 100 (1983)."}, ""),
    ("a line of a place, other page", {"unstructured": "J. Biol. Chem. 255, 105 (1980)."}, ""),
    ("a line of a place with another title", {"unstructured": "Losick R. Dice in cells. Science 320, 65 (2008)"}, ""),
    ("a line of a page and a volume", {"unstructured": "J. Biol. Chem. 100, 255 (1980)."}, ""),
    ("a line of a place, another work's last page", {"unstructured": "J. Biol. Chem. 255, 98–100 (1980)."}, ""),
    ("a line of a place, an issue for a page", {"unstructured": "J. Biol. Chem. 255(100), 90 (1980)."}, ""),
    ("a line of a place, an issue's name for a page", {"unstructured": "J. Biol. Chem. 255, no. 100, 90 (1980)."}, ""),
    ("a line of a place, an author's initial for a section", {"unstructured": "Phys. Rev. B 4, 1006 (1971)"}, ""),
    ("a line of a place with its section", {"unstructured": "B. Berg, Phys. Rev. A 4, 1006 (1971)"}, "section"),
    ("a line of a place, initials behind the name", {"unstructured": "Berg B 1971 Phys. Rev. A 4 1006"}, "section"),
    ("numbers alone", {"unstructured": "320, 65 (2008)"}, ""),
    ("a line of a short title", {"unstructured": "Pearson H (2006) What is a gene? Nature 441: 398-401."}, "gene"),
    ("a short title in another line", {"unstructured": "Gerstein M (2007) What is a gene, post-ENCODE? Genome Res 17: 669-681."}, ""),
    ("a title within a longer one", {
         "unstructured": "Doe J, Roe R (2006) Aspirin and the liver: a second look. Hepatology 44: 101-109."
     }, "aspirin 2"),
    ("a book", {"unstructured": "Murphy FA, Gibbs EPJ (1999) Veterinary Virology. USA: Elsevier. pp 469-475."}, ""),
    ("a title alone", {"title": "Aspirin and the liver"}, ""),
    # wrong year
    ("year one late", {
         "title": "Statins in primary prevention", "authors": ["Poe E"], "year": 2011, "venue": "Lancet", "volume": "375",
         "pages": "735"
     }, "statins"),
    ("year far off, same pages", {
         "title": "Stochasticity and cell fate", "authors": ["Losick R", "Desplan C"], "year": 2018, "venue": "Science",
         "volume": "320", "pages": "65-68"
     }, "noise"),
    ("year far off, no place", {"title": "Stochasticity and cell fate", "authors": ["Losick R"], "year": 1998}, ""),
    ("a report of another year", {
         "title": "Annual report of the otter survey", "authors": ["River Trust"], "year": 2003, "venue": "River Reports"
     }, ""),
    ("a report of its year", {
         "title": "Annual report of the otter survey", "authors": ["River Trust"], "year": 2002, "venue": "River Reports",
         "volume": "2", "pages": "1-44"
     }, "report 2002"),
    ("a report without place", {"title": "Annual report of the otter survey", "authors": ["River Trust"]}, ""),
    # arXiv, then a journal
    ("a preprint in proceedings", {
         "title": "Attention is all you need", "authors": ["Vaswani A", "Shazeer N", "Parmar N"], "year": 2017,
         "venue": "Advances in Neural Information Processing Systems", "pages": "5998-6008"
     }, "attention"),
    ("a preprint in a journal", {
         "title": "Otters learn to juggle stones", "authors": ["Allison M", "Bandini E"], "year": 2020,
         "venue": "Royal Society Open Science"
     }, "preprint"),
    ("another paper of that title's words", {
         "title": "Attention is not all you need", "authors": ["Dong Y", "Cordonnier JB"], "year": 2021, "venue": "ICML"
     }, ""),
    ("its title, other authors", {
         "title": "Attention is all you need", "authors": ["Xu L", "Ray P"], "year": 2021, "venue": "Medical Image Analysis"
     }, ""),
    ("a thesis or its article", {"title": "Learning with noise", "authors": ["Kim B"], "year": 2000}, ""),
    ("the article", {
         "title": "Learning with noise", "authors": ["Kim B", "Chan T"], "year": 2001, "venue": "Machine Learning", "volume": "42",
         "pages": "5-30"
     }, "article"),
    # a mistyped DOI
    ("a mistyped DOI", {
         "title": "Aspirin and the liver", "authors": ["Doe J", "Roe R"], "year": 2004, "venue": "Hepatology", "volume": "40",
         "pages": "12-19", "identifiers": {"doi": "10.1002/hep.l"}
     }, "aspirin"),
    ("the DOI of another work", {
         "title": "Aspirin and the liver", "authors": ["Doe J", "Roe R"], "year": 2004, "venue": "Hepatology", "volume": "40",
         "pages": "12-19", "identifiers": {"doi": "10.1016/l.1"}
     }, "aspirin"),
    ("another DOI and little else", {
         "title": "Aspirin and the liver", "authors": ["Doe J"], "year": 2004, "identifiers": {"doi": "10.9999/other"}
     }, ""),
    # supplements, notices, parts
    ("a supplement", {
         "title": "Aspirin and the liver (supplement)", "authors": ["Doe J", "Roe R"], "year": 2004, "venue": "Hepatology",
         "volume": "40", "pages": "S12-S19"
     }, "aspirin suppl"),
    ("a supplement that is unknown", {
         "title": "Statins in primary prevention: supplementary appendix", "authors": ["Poe E", "Coe F"], "year": 2010,
         "venue": "Lancet"
     }, ""),
    ("a correction of a known article", {
         "title": "Correction: Stochasticity and cell fate", "authors": ["Losick R", "Desplan C"], "year": 2008, "venue": "Science"
     }, ""),
    ("a comment", {"title": "Comment on: Aspirin and the liver", "authors": ["Doe J"], "year": 2005, "venue": "Hepatology"}, ""),
    ("an erratum", {
         "title": "Erratum: Statins in primary prevention", "authors": ["Poe E"], "year": 2010, "venue": "Lancet", "volume": "375",
         "pages": "2000"
     }, "erratum"),
    ("a retraction", {"unstructured": "Losick R, Desplan C. Retraction: Stochasticity and cell fate. Science 2008;320:65-8."}, ""),
    ("the other part", {
         "title": "The kinetics of enzymes. Part III. Applications", "authors": ["Smith A"], "year": 1980, "venue": "J Biol Chem",
         "volume": "255", "pages": "121-130"
     }, ""),
    ("its part", {
         "title": "The kinetics of enzymes. Part II. Experiments", "authors": ["Smith A"], "year": 1980, "venue": "J Biol Chem",
         "volume": "255", "pages": "111-120"
     }, "part 2"),
    ("another animal", {
         "title": "Effects of caffeine on sleep in cats", "authors": ["Lee K", "Park S"], "year": 2012, "venue": "Sleep",
         "volume": "35"
     }, ""),
    ("an editorial", {"title": "Editorial", "authors": ["Adams D"], "year": 2016, "venue": "Nature"}, ""),
    ("a generic line", {"unstructured": "Editorial. Nature 2015."}, ""),
)  # fmt: skip


@pytest.fixture(scope="module")
def matcher() -> ReferenceMatcher:
    return ReferenceMatcher(WORKS)


def test_there_are_fifty_seven() -> None:
    assert len(CASES) == 57


@pytest.mark.parametrize(("fields", "key"), [pytest.param(fields, key, id=name) for name, fields, key in CASES])
def test_no_reference_that_misleads_makes_a_false_edge(matcher: ReferenceMatcher, fields: dict[str, Any], key: str) -> None:
    match = matcher.match(make_reference(fields))
    assert (match.key if match else "") == key
