"""Links between related works: kind and direction."""

from __future__ import annotations

import pytest

from outrider.linkage.judge_pair import judge
from outrider.linkage.resolve import resolve
from outrider.state.records import Identifiers, Paper, Repository
from support.fakes import doi, paper

TITLE = "Aspirin and acute liver injury in adults"


def by_ann(doc_id: str = "a", title: str = TITLE, **fields: object) -> Paper:
    return paper(doc_id, title, **({"authors": ["Smith, Ann", "Bell, J.", "Cole, K."], "year": 2020} | fields))


def test_a_preprint_and_its_publication() -> None:
    preprint = by_ann("p", identifiers=doi("10.1101/2020.01.02.123456"))
    published = by_ann("j", identifiers=doi("10.1000/j.1"), year=2021, venue="J Hepatol", pages="1-9")
    resolution = resolve([published, preprint])
    assert resolution.groups == ((0,), (1,))
    assert [(link.one, link.other, link.relation.kind, link.relation.forward) for link in resolution.related] == [
        (0, 1, "preprint of", False)
    ]


def test_one_arxiv_number_is_one_work() -> None:
    """A service that gives both the number and the journal's DOI means both."""
    preprint = by_ann("p", identifiers=Identifiers(arxiv="2101.00001"))
    both = by_ann("b", identifiers=Identifiers(arxiv="2101.00001", doi="10.1000/j.1"))
    assert resolve([preprint, both]).groups == ((0, 1),)


MARKED = [
    "RETRACTED: {}", "RETRACTED ARTICLE: {}", "Retracted: {}", "[Retracted] {}", "{} (Retracted article. See vol. 375, pg 445, 2010)",
    "{} [Retracted]", "{} (Withdrawn Article. See vol 3, pg 4, 2011)", "{} (Publication with Expression of Concern. See vol. 12, 2013)",
]  # fmt: skip


@pytest.mark.parametrize("marked", MARKED)
def test_a_work_that_is_marked_as_retracted_is_the_work(marked: str) -> None:
    """With its number, or in its place."""
    place = {"venue": "Gut", "volume": "7", "pages": "12-19"}
    article, retracted = by_ann("a", identifiers=doi("10.1000/j.1"), **place), by_ann("r", marked.format(TITLE))
    assert judge(article, retracted.model_copy(update={"identifiers": doi("10.1000/j.1")})).verdict == "same"
    assert judge(article, retracted.model_copy(update=place)).verdict == "same"
    assert judge(by_ann("b", identifiers=doi("10.1000/j.1")), article).verdict == "same"


@pytest.mark.parametrize("marked", MARKED[:4])
def test_a_notice_that_is_marked_like_the_article_is_not_the_article(marked: str) -> None:
    """Some publishers call the notice `Retracted: ...`; it has another number, year and place."""
    article = by_ann("a", identifiers=doi("10.1000/j.1"), venue="Gut", volume="7", pages="12-19")
    for fields in ({"identifiers": doi("10.1000/n.1"), "volume": "9", "pages": "1"}, {"volume": "9"}, {}):
        notice = by_ann("n", marked.format(TITLE), year=2023, venue="Gut", **fields)
        assert judge(notice, article).verdict != "same", fields


@pytest.mark.parametrize(("ahead", "kind"), [("Erratum to: ", "corrects"), ("Retraction: ", "retracts"), ("Reply to: ", "comments on")])
def test_a_notice_is_not_its_article(ahead: str, kind: str) -> None:
    notice, article = by_ann("n", ahead + TITLE), by_ann("a")
    there, back = judge(notice, article), judge(article, notice)
    assert there.verdict == back.verdict == "different"
    assert there.relation is not None
    assert (there.relation.kind, there.relation.forward) == (kind, True)
    assert back.relation == there.relation.reverse()


def test_parts_of_a_series() -> None:
    one, two = (by_ann(part, f"Malaria chemoprophylaxis in the age of drug resistance. {part}. Drugs") for part in ("I", "II"))
    one = one.model_copy(update={"title": one.title.replace(" I. ", " Part I. ")})
    judgement = judge(one, two.model_copy(update={"title": two.title.replace(" II. ", " Part II. ")}))
    assert judgement.relation is not None
    assert judgement.relation.kind == "part beside"


def test_updates_that_crossref_names() -> None:
    notice = by_ann("n", "Notice", metadata={"update_to": [{"type": "retraction", "doi": "10.1000/J.1"}]}, authors=[])
    article = by_ann("a", identifiers=doi("10.1000/j.1"))
    for records, forward in (([notice, article], True), ([article, notice], False)):
        [link] = resolve(records).related
        assert (link.one, link.other, link.relation.kind, link.relation.forward) == (0, 1, "retracts", forward)


def test_a_paper_and_its_code() -> None:
    code = Repository(doc_id="r", title="liver", identifiers=Identifiers(github="ann/liver"))
    article = by_ann(abstract="Code is at https://github.com/Ann/Liver.")
    resolution = resolve([article, code])
    assert resolution.groups == ((0,), (1,))
    assert [(link.relation.kind, link.relation.forward) for link in resolution.related] == [("code of", False)]
