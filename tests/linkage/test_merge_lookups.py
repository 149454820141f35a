"""One work that is looked up by several identifiers keeps what each service gave."""

from __future__ import annotations

from typing import Any

import pytest

from outrider.ingest.targets import make_library_record
from outrider.linkage.merge import fill_missing
from outrider.state.notices import list_notices
from outrider.state.records import Edge, Identifiers, Paper, Repository

IDS = Identifiers(doi="10.1000/x", pmid="1")


def openalex(**fields: Any) -> Paper:
    given: dict[str, Any] = {"citations": 7, "year": 2020, "edges": (Edge(relation="cites", target="openalex:W2"),)}
    given |= {"metadata": {"type": "article", "retracted": False}} | fields
    return Paper(doc_id="openalex:W1", source="openalex", title="Livers", identifiers=Identifiers(doi="10.1000/x"), **given)


def pubmed(**fields: Any) -> Paper:
    given: dict[str, Any] = {"abstract": "Of livers.", "mesh": ("Liver",), "year": 2021, "volume": "3"}
    given |= {"metadata": {"issn": "1", "retracted": True, "notices": [{"kind": "retraction_in", "pmid": "9"}]}} | fields
    return Paper(doc_id="pubmed:1", source="pubmed", title="Livers", identifiers=IDS, **given)


def look_up(*records: Paper) -> Paper:
    """The library's record after these lookups."""
    stored = None
    for record in records:
        stored = make_library_record(record, stored)
    assert isinstance(stored, Paper)
    return stored


@pytest.mark.parametrize("order", [(openalex, pubmed), (pubmed, openalex)])
def test_nothing_is_lost_either_way_round(order: Any) -> None:
    """The first service leads where both have a value."""
    first, second = order
    merged = look_up(first(), second())
    assert (merged.citations, merged.abstract, merged.mesh, merged.volume) == (7, "Of livers.", ("Liver",), "3")
    assert merged.year == first().year
    assert merged.identifiers == IDS
    assert merged.edges == openalex().edges
    assert merged.metadata["retracted"] is True
    assert merged.metadata["notices"] == pubmed().metadata["notices"]
    assert (merged.metadata["type"], merged.metadata["issn"]) == ("article", "1")
    assert merged.metadata["record"] == first().doc_id
    assert merged.metadata["records"] == [first().doc_id, second().doc_id]
    assert (merged.doc_id, merged.source) == ("", "library")
    for again in ((first(),), (second(),), (second(), first(), second())):
        assert look_up(first(), second(), *again) == merged


def test_a_new_answer_replaces_what_its_service_gave() -> None:
    """And nothing of the other service's."""
    both = (openalex(), pubmed())
    assert look_up(*both, openalex(citations=8)).citations == 8
    assert look_up(*both, pubmed(abstract="New.")).abstract == "New."
    assert look_up(*both, pubmed(mesh=("Lung",))).mesh == ("Lung",)
    assert look_up(*both, pubmed(year=1999)).year == 2020
    assert look_up(*both, openalex(citations=None)).citations is None


def test_one_service_alone_is_replaced() -> None:
    """As before: a value that the service no longer has goes."""
    after = look_up(openalex(), openalex(citations=None, metadata={}))
    assert (after.citations, after.metadata) == (None, {"record": "openalex:W1"})


def test_a_record_of_another_kind_is_replaced() -> None:
    """Their fields differ."""
    repository = Repository(doc_id="github:a/b", source="github", title="Livers")
    assert make_library_record(repository, look_up(openalex())).metadata == {"record": "github:a/b"}


@pytest.mark.parametrize(
    "fields",
    [
        {"metadata": {"publication_types": ["Retracted Publication"]}},
        {"title": "RETRACTED: Livers"},
        {"metadata": {"notice_checks": [{"services": ["crossref"], "notices": [{"kind": "retracted", "doi": "10.1000/r"}]}]}},
    ],
)
def test_a_mark_of_a_duplicate_stays(fields: dict[str, Any]) -> None:
    """Whatever its evidence, and whichever record leads."""
    marked = Paper(doc_id="x", **{"title": "Livers", "identifiers": IDS, **fields})
    merged = fill_missing(openalex(), [pubmed(metadata={}), marked])
    assert [notice.kind for notice in list_notices(merged)] == ["retracted"]
    assert fill_missing(openalex(), [pubmed(metadata={})]).metadata == openalex().metadata | {"filled_from": merged.metadata["filled_from"]}
