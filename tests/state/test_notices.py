"""The one view of the notices about a work, over the metadata of every service and file."""

from __future__ import annotations

import time
from typing import Any

import pytest

from outrider.state.hits import Hit, Related
from outrider.state.notices import KINDS, MAX_A_KIND, MAX_CHARS, describe_notices, is_retracted, list_notices
from outrider.state.records import Identifiers, Paper


def paper(title: str = "Aspirin and the liver", **fields: Any) -> Paper:
    return Paper(doc_id="x", title=title, **fields)


def kinds(work: Paper) -> list[str]:
    return [notice.kind for notice in list_notices(work)]


def crossref(kind: str, name: str = "updated_by", doi: str = "10.1000/n") -> dict[str, Any]:
    return {name: [{"type": kind, "doi": doi, "date": "2020-01-31", "source": "retraction-watch"}]}


def pubmed(kind: str) -> dict[str, Any]:
    return {"notices": [{"kind": kind, "pmid": "123", "source": "J Foo. 2020;1:2"}]}


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        (crossref("retraction"), ["retracted"]),
        (crossref("withdrawal"), ["withdrawn"]),
        (crossref("removal"), ["withdrawn"]),
        (crossref("partial_retraction"), ["partly retracted"]),
        (crossref("expression_of_concern"), ["expression of concern"]),
        (crossref("Expression of concern"), ["expression of concern"]),
        (crossref("erratum"), ["corrected"]),
        (crossref("new_version"), []),
        (crossref("retraction", "update_to"), ["retraction notice"]),
        (crossref("withdrawal", "update_to"), ["withdrawal notice"]),
        (crossref("expression_of_concern", "update_to"), ["expression of concern notice"]),
        (crossref("corrigendum", "update_to"), ["correction notice"]),
        (crossref("reinstatement", "update_to"), []),
        (pubmed("retraction_in"), ["retracted"]),
        (pubmed("retraction_of"), ["retraction notice"]),
        (pubmed("expression_of_concern_in"), ["expression of concern"]),
        (pubmed("expression_of_concern_for"), ["expression of concern notice"]),
        (pubmed("erratum_in"), ["corrected"]),
        (pubmed("erratum_for"), ["correction notice"]),
        (pubmed("retracted_and_republished_from"), []),
        (pubmed("update_in"), []),
        ({"publication_types": ["Journal Article", "Retracted Publication"]}, ["retracted"]),
        ({"publication_types": ["Article; Retracted Publication"]}, ["retracted"]),
        ({"publication_types": ["Retraction of Publication"]}, ["retraction notice"]),
        ({"publication_types": ["Published Erratum"]}, ["correction notice"]),
        ({"article_type": "retraction"}, ["retraction notice"]),
        ({"type": "erratum"}, ["correction notice"]),
        ({"retracted": True}, ["retracted"]),
        ({"retracted": False}, []),
        ({"is_retracted": "True"}, ["retracted"]),
        ({"is_retracted": "0"}, []),
        ({}, []),
    ],
)
def test_metadata_of_every_service(metadata: dict[str, Any], expected: list[str]) -> None:
    """Each form is read as the same few kinds, from a record and from a hit of a saved answer."""
    assert kinds(paper(metadata=metadata)) == expected
    saved = Hit.model_validate({"rank": 1, "doc_id": "x", "kind": "paper", "title": "x", "score": 1.0, "metadata": metadata})
    assert [notice.kind for notice in saved.notices] == expected


@pytest.mark.parametrize(
    ("title", "expected"),
    [
        ("RETRACTED: Ileal hyperplasia in children", ["retracted"]),
        ("RETRACTED ARTICLE: Ileal hyperplasia", ["retracted"]),
        ("[Retracted] Ileal hyperplasia", ["retracted"]),
        ("Ileal hyperplasia (Retracted article. See vol. 375, pg. 445, 2010)", ["retracted"]),
        ("WITHDRAWN: The association of hair cortisol", ["withdrawn"]),
        ("Ileal hyperplasia (Withdrawn Article. See vol 12, pg 3, 2011)", ["withdrawn"]),
        ("Ileal hyperplasia (Withdrawn article)", ["withdrawn"]),
        ("Ileal hyperplasia (Publication with Expression of Concern. See vol. 40, 2015)", ["expression of concern"]),
        ("Ileal hyperplasia. [Retraction in: Lancet. 2010 Feb 6;375(9713):445; PMID: 20137807]", ["retracted"]),
        ("Ileal hyperplasia (Retraction of Vol 44, Pg 12, 2008)", ["retraction notice"]),
        ("Ileal hyperplasia [Retraction of: Lancet. 1998;351:637]", ["retraction notice"]),
        ("Activity of neurons (withdrawn rats and controls)", []),
        ("Ptosis surgery (retraction of the upper lid)", []),
        ("Retraction: Ileal hyperplasia", ["retraction notice"]),
        ("Retraction notice to “Ileal hyperplasia” [J. Foo 12 (2010) 3]", ["retraction notice"]),
        ("Retraction Note to: Ileal hyperplasia", ["retraction notice"]),
        ("Notice of retraction", ["retraction notice"]),
        ("Retraction for Smith et al., Ileal hyperplasia", ["retraction notice"]),
        ("Expression of Concern: Ileal hyperplasia", ["expression of concern notice"]),
        ("Correction to: Ileal hyperplasia", ["correction notice"]),
        ("Erratum: Ileal hyperplasia", ["correction notice"]),
        ("Retraction of the lung after thoracotomy", []),
        ("Retracted papers and their citations", []),
        ("Withdrawal: symptoms and management", []),
        ("Correction of myopia by lenses", []),
        ("Why articles are withdrawn from databases", []),
    ],
)
def test_titles(title: str, expected: list[str]) -> None:
    """Prefixes of publishers are read; words of the field in an ordinary title are not."""
    assert kinds(paper(title)) == expected


@pytest.mark.parametrize("evidence", ["Retraction: Aspirin and the liver", "type", "update_to", "retraction_of"])
def test_a_flag_on_a_notice_is_not_a_retraction_of_it(evidence: str) -> None:
    """Services put the flag of the article on its notice, too."""
    metadata: dict[str, Any] = {"retracted": True}
    metadata |= {
        "type": {"type": "retraction"}, "update_to": crossref("retraction", "update_to"), "retraction_of": pubmed("retraction_of")
    }.get(evidence, {})  # fmt: skip
    work = paper(evidence if ":" in evidence else "RETRACTED: Aspirin", metadata=metadata)
    assert kinds(work) == ["retraction notice"]
    assert not is_retracted(list_notices(work))


def test_a_retracted_erratum_is_both() -> None:
    """Evidence about the notice itself counts."""
    metadata = {**crossref("retraction"), "publication_types": ["Published Erratum"]}
    assert kinds(paper(metadata=metadata)) == ["retracted", "correction notice"]


def test_an_update_of_a_work_by_its_own_doi_is_about_the_work() -> None:
    """Some publishers register the notice under the DOI of the article."""
    work = paper(identifiers=Identifiers(doi="10.1000/n"), metadata=crossref("expression_of_concern", "update_to"))
    assert kinds(work) == ["expression of concern"]


@pytest.mark.parametrize(
    ("comment", "abstract", "expected"),
    [
        ("This paper has been withdrawn by the author due to an error in Lemma 2", "", ["withdrawn"]),
        ("", "This paper has been withdrawn by the authors.", ["withdrawn"]),
        ("12 pages; not withdrawn", "", []),
        ("We withdraw nothing", "Troops were withdrawn from the region.", []),
    ],
)
def test_withdrawn_preprints(comment: str, abstract: str, expected: list[str]) -> None:
    """arXiv has no field for a withdrawal."""
    work = paper(abstract=abstract, identifiers=Identifiers(arxiv="2101.00001"), metadata={"comment": comment})
    assert kinds(work) == expected
    assert kinds(work.model_copy(update={"identifiers": Identifiers()})) == []


def test_reports_of_one_retraction_are_one_notice() -> None:
    """A flag and a type name no notice, so they join the one that is named."""
    metadata = {"retracted": True, "record": "openalex:W1", "publication_types": ["Retracted Publication"], **crossref("retraction")}
    metadata["updated_by"].append({"type": "retraction", "doi": "10.1000/N", "source": "publisher"})
    (notice,) = list_notices(paper(metadata=metadata))
    assert (notice.doi, notice.date) == ("10.1000/n", "2020-01-31")
    assert notice.reported_by == ("retraction-watch", "publisher", "type", "openalex")
    assert notice.describe() == (
        "Retracted (2020-01-31, doi:10.1000/n, reported by Retraction Watch, the publisher, its type of publication, OpenAlex)"
    )


def test_a_reinstated_work_is_not_retracted() -> None:
    """The later notice counts."""
    updates = [{"type": kind, "doi": f"10.1000/{kind}", "date": date} for kind, date in (("retraction", "2019"), ("reinstatement", "2021"))]
    assert kinds(paper(metadata={"updated_by": updates})) == ["retracted", "reinstated"]
    assert not is_retracted(list_notices(paper(metadata={"updated_by": updates})))
    updates[0]["date"] = "2022"
    assert is_retracted(list_notices(paper(metadata={"updated_by": updates})))


def test_linked_notices_of_a_hit() -> None:
    """A notice among the records of a search marks its article, and the article its notice."""
    for relation, kind in (("retracted by", "retracted"), ("corrects", "correction notice"), ("has preprint", None)):
        related = (Related(relation=relation, doc_id="crossref:10.1000/r", title="Retraction: x"),)
        hit = Hit(rank=1, doc_id="x", kind="paper", title="x", score=1.0, related=related)
        assert [(one.kind, one.doi) for one in hit.notices] == ([(kind, "10.1000/r")] if kind else [])


HOSTILE: list[Any] = [
    None, "x", 7, True, {"a": 1}, [None], ["retraction"], [{}], [{"type": 5, "doi": []}], [[[]]], [{"type": "retraction", "doi": {}}],
    [{"kind": "retraction_in", "pmid": ["1"], "source": {"x": 1}}], float("inf"),
]  # fmt: skip


@pytest.mark.parametrize(
    "name", ["updated_by", "update_to", "notices", "retracted", "type", "publication_types", "comment", "filled_from", "record"]
)
def test_values_of_any_shape(name: str) -> None:
    """Metadata may hold any JSON: nothing raises, and only known kinds come out."""
    for value in HOSTILE:
        work = paper(metadata={name: value}, identifiers=Identifiers(arxiv="2101.00001"))
        assert set(kinds(work)) <= set(KINDS)


def test_texts_of_others_are_plain_and_short() -> None:
    """No control characters, no marks of direction, one line, limited length; a DOI with a script is none."""
    source = "J <script>alert(1)</script>\x1b[31m\n\u202egnp.exe\x00" + "x" * 10_000
    metadata: dict[str, Any] = {"notices": [{"kind": "retraction_in", "pmid": "1 OR 1=1", "source": source}]}
    metadata["updated_by"] = [{"type": "retraction", "doi": "javascript:alert(1)", "date": "<b>2020</b>", "source": "<img>"}]
    (notice,) = list_notices(paper(metadata=metadata))
    assert notice.citation.startswith("J <script>alert(1)</script> [31m gnp.exe x")
    assert len(notice.citation) == MAX_CHARS
    assert (notice.doi, notice.pmid, notice.date) == ("", "", "")
    assert notice.citation.isprintable()


def test_a_retraction_behind_100_000_errata() -> None:
    """All are read, few are listed, in linear time."""
    errata = [{"type": "erratum", "doi": f"10.1000/{number}"} for number in range(100_000)]
    started = time.process_time()
    notices = list_notices(paper(metadata={"updated_by": [*errata, {"type": "retraction", "doi": "10.1000/r"}]}))
    assert notices[0].kind == "retracted"
    assert len(notices) == 1 + MAX_A_KIND
    assert len(describe_notices(notices)) < 10_000
    assert time.process_time() - started < 10
