"""Merging of records of one work; values of services replace values from web pages."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as some
from pydantic import JsonValue

from outrider.linkage.merge import EMPTY, FILLED, WEB, fill_missing, merge_records, strip_page_values
from outrider.nodes.dedup.cluster import deduplicate
from outrider.nodes.enrich.enrich import select_records_to_save, update_stored_record
from outrider.nodes.scout import collect_records
from outrider.state.notices import list_notices
from outrider.state.records import Identifiers, Page, Paper, Record
from outrider.text.screening_labels import list_labels
from support.fakes import candidate, doi, make_found_by, paper

EVIL = "Buy pills."
ABSTRACT = "Drugs harm livers."
PAGE = Page(doc_id="web:x", title="T", source="web", abstract=EVIL, description=EVIL, text=EVIL, url="https://x.example/", year=1999)


@pytest.mark.parametrize("source", ["web", "serpapi_google", "acme"])
def test_a_page_gives_no_abstract_and_no_link(source: str) -> None:
    work = fill_missing(paper("crossref:1", source="crossref"), [PAGE.model_copy(update={"source": source})])
    assert (work.abstract, work.description, work.url, work.text, work.year) == ("", "", None, EVIL, 1999)
    assert work.metadata["filled_from"] == {"text": WEB, "year": WEB}


def test_the_page_of_an_identifier_at_those_who_give_it_is_its_link() -> None:
    url = "https://pubmed.ncbi.nlm.nih.gov/7/"
    page = PAGE.model_copy(update={"url": url, "identifiers": Identifiers(pmid="7")})
    assert fill_missing(paper("pubmed:7", source="pubmed", identifiers=Identifiers(pmid="7")), [page]).url == url
    assert fill_missing(paper("openalex:1", source="openalex", identifiers=doi("10.1000/a")), [page]).url is None


def test_values_of_the_users_own_page_are_theirs() -> None:
    work = fill_missing(paper("crossref:1", source="crossref"), [PAGE.model_copy(update={"source": "library"})])
    assert (work.abstract, work.metadata["filled_from"]) == (
        EVIL,
        dict.fromkeys(("abstract", "description", "text", "url", "year"), "library"),
    )


def test_what_a_service_gave_a_page_it_gives_on() -> None:
    page = fill_missing(PAGE.model_copy(update={"abstract": ""}), [paper("openalex:1", source="openalex", abstract=ABSTRACT)])
    work = fill_missing(paper("crossref:1", source="crossref"), [page])
    assert (work.abstract, work.metadata["filled_from"]) == (ABSTRACT, {"abstract": "openalex", "text": WEB, "year": WEB})


def test_what_came_from_a_page_gives_way_to_a_services_word() -> None:
    first = fill_missing(paper("crossref:1", source="crossref"), [PAGE.model_copy(update={"identifiers": doi("10.1000/evil")})])
    assert first.identifiers.doi == "10.1000/evil"
    full = paper("openalex:1", source="openalex", text="The body.", year=2020, identifiers=doi("10.1000/a"))
    for work in (fill_missing(first, [full]), fill_missing(paper("s2:1"), [first, full])):
        assert (work.text, work.year, work.identifiers.doi) == ("The body.", 2020, "10.1000/a")
        assert work.metadata["filled_from"] == dict.fromkeys(("text", "year", "identifiers.doi"), "openalex")


def test_a_poisoned_record_is_bare_again_and_counts_for_nothing() -> None:
    """As an earlier version kept them."""
    metadata = {"filled_from": {"abstract": WEB, "url": WEB, "venue": "openalex"}}
    bad = paper("crossref:1", "T", source="crossref", abstract=EVIL, url="https://x.example/", venue="Gut", metadata=metadata)
    assert (strip_page_values(bad).abstract, strip_page_values(bad).url, strip_page_values(bad).venue) == ("", None, "Gut")
    assert strip_page_values(bad).metadata == {"filled_from": {"venue": "openalex"}}
    library = ("library", [bad])
    fresh = paper("crossref:1", "T", source="crossref", year=2020)
    for answers in ([library], [library, ("crossref", [fresh])]):
        assert collect_records(answers)["crossref:1"].abstract == ""
    assert update_stored_record(fresh, bad).abstract == ""
    assert update_stored_record(fresh, bad).venue == "Gut"


def test_nothing_of_a_page_is_kept_under_the_id_of_a_service() -> None:
    work = fill_missing(paper("crossref:1", "T", source="crossref"), [PAGE])
    known = fill_missing(paper("crossref:2", "T", source="crossref", abstract=ABSTRACT), [PAGE])
    by = (make_found_by(source="crossref"),)
    (saved,) = select_records_to_save([candidate(work, found_by=by), candidate(known, found_by=by)])
    assert (saved.doc_id, saved.abstract, saved.text, saved.year) == ("crossref:2", ABSTRACT, "", None)


fields = {
    "abstract": some.sampled_from(["", ABSTRACT, EVIL]),
    "text": some.sampled_from(["", "Body.", EVIL]),
    "url": some.sampled_from([None, "https://x.example/", "https://y.example/"]),
    "year": some.sampled_from([None, 1999, 2020]),
}
works = some.builds(paper, some.sampled_from(["crossref:1", "openalex:1"]), source=some.sampled_from(["crossref", "openalex"]), **fields)
pages = some.builds(Page, doc_id=some.just("web:1"), source=some.sampled_from(["web", "serpapi_google"]), **fields)


@given(works, some.lists(works | pages, max_size=4), some.lists(works | pages, max_size=2))
def test_whatever_is_folded_stripped_values_are_a_services(leader: Record, others: list[Record], later: list[Record]) -> None:
    """In however many steps: no abstract or link is a page's, and what is not marked as one's somebody else has said."""
    work = fill_missing(fill_missing(leader, others), later)
    own = strip_page_values(work)
    services = [leader, *(one for one in (*others, *later) if one.kind != "page")]
    assert (own.abstract, own.url) == (work.abstract, work.url)
    for name in FILLED:
        value = getattr(own, name)
        assert value in EMPTY or value in [getattr(one, name) for one in services]
        if any(getattr(one, name) not in EMPTY for one in services):
            assert value not in EMPTY
    assert strip_page_values(own) is own


def test_of_a_work_and_a_page_the_work_keeps_its_word() -> None:
    known = {"title": "Injury of the liver by common drugs", "identifiers": doi("10.1000/a")}
    page = PAGE.model_copy(update=known)
    (work,) = deduplicate([candidate(page), candidate(paper("crossref:1", source="crossref", **known))])
    assert (work.record.doc_id, work.record.abstract, work.record.url, work.record.text) == ("crossref:1", "", None, EVIL)


RICH = Paper(doc_id="r", title="Aspirin", abstract="Long.", authors=("Ann Bell",), year=2020, metadata={"ID": "1"})
POOR = Paper(doc_id="p", title="aspirin.", venue="BMJ", year=2021, identifiers=Identifiers(doi="10.1000/x"))


def test_the_richest_leads_and_its_gaps_are_filled() -> None:
    whole = merge_records([("2", POOR), ("1", RICH)])
    assert (whole.title, whole.year, whole.venue, whole.identifiers.doi) == ("Aspirin", 2020, "BMJ", "10.1000/x")
    assert whole.metadata == {"ID": "1", "merged": ["1", "2"], "filled_from": {"venue": "2", "identifiers.doi": "2"}}


def test_order_means_nothing_and_nothing_given_changes() -> None:
    before = RICH.model_copy(deep=True), POOR.model_copy(deep=True)
    assert merge_records([("1", RICH), ("2", POOR)]) == merge_records([("2", POOR), ("1", RICH)])
    assert before == (RICH, POOR)


def test_one_alone_stays_as_it_is() -> None:
    assert merge_records([("1", RICH)]) is RICH


LED = Paper(doc_id="l", title="Aspirin", venue="Gut", volume="1", identifiers=doi("10.1000/x"))
"""It has more fields than the records that are merged into it."""


def merge_into_led(metadata: dict[str, JsonValue], own: dict[str, JsonValue] | None = None, **fields: object) -> Record:
    other = Paper(doc_id="o", title="Aspirin", metadata=metadata, **fields)  # type: ignore[arg-type]
    whole = merge_records([("1", LED.model_copy(update={"metadata": own or {}})), ("2", other)])
    assert whole.metadata["merged"] == ["1", "2"]
    return whole


@pytest.mark.parametrize(
    ("title", "metadata", "kinds"),
    [
        ("Aspirin", {"retracted": True}, ["retracted"]),
        ("Aspirin", {"publication_types": ["Journal Article", "Retracted Publication"]}, ["retracted"]),
        ("Aspirin", {"notices": [{"kind": "retraction_in", "pmid": "7", "source": "Gut"}]}, ["retracted"]),
        ("RETRACTED: Aspirin", {}, ["retracted"]),
        ("Aspirin", {"N1": "Expression of concern (2020)"}, ["expression of concern"]),
        ("Aspirin", {}, []),
    ],
)
def test_a_retraction_that_any_record_reports_is_kept(title: str, metadata: dict[str, JsonValue], kinds: list[str]) -> None:
    whole = merge_records([("1", LED), ("2", Paper(doc_id="o", title=title, metadata=metadata))])
    assert [notice.kind for notice in list_notices(whole)] == kinds


def test_types_notes_headings_and_the_journals_numbers_are_taken_over() -> None:
    other: dict[str, JsonValue] = {
        "publication_types": ["Journal Article", "Randomized Controlled Trial"], "issn": "0017-5749", "N1": ["mine"], "notes": "by KT",
        "mesh_major": ["Aspirin"], "AN": "L7", "ID": "2",
    }  # fmt: skip
    own: dict[str, JsonValue] = {"publication_types": ["Journal Article"], "N1": "first", "ID": "1"}
    whole = merge_into_led(other, own, mesh=("Aspirin",))
    assert {name: value for name, value in whole.metadata.items() if name not in ("merged", "filled_from")} == {
        "publication_types": ["Journal Article", "Randomized Controlled Trial"], "issn": "0017-5749", "N1": ["first", "mine"],
        "notes": "by KT", "mesh_major": ["Aspirin"], "ID": "1",
    }  # fmt: skip
    assert getattr(whole, "mesh", None) == ("Aspirin",)
    assert whole.metadata["filled_from"] == {"mesh": "2", "issn": "2", "notes": "2", "mesh_major": "2"}


@pytest.mark.parametrize("fields", [{"venue": "bioRxiv"}, {"identifiers": doi("10.1101/2020.01.01.00001")}, {"venue": "Annals of Physics"}])
def test_type_and_issn_of_another_version_are_not_the_works(fields: dict[str, object]) -> None:
    whole = merge_into_led({"issn": "2692-8205", "publication_types": ["Preprint"], "N1": "mine"}, **fields)
    assert not whole.metadata.keys() & {"issn", "publication_types"}
    assert whole.metadata["N1"] == "mine"


@pytest.mark.parametrize(
    ("own", "other", "labels"),
    [
        ({}, {"included": "1"}, ["include"]),
        ({}, {"N1": ["ASReview_irrelevant", "x"]}, ["exclude"]),
        ({"included": "1"}, {"N1": "ASReview_relevant"}, ["include"]),
        ({"label_included": 1}, {"included": 0}, ["exclude", "include"]),
        ({"N1": "ASReview_relevant"}, {"included": "0"}, ["exclude", "include"]),
        ({"included": "0"}, {"notes": 'RAYYAN-INCLUSION: {"ann"=>"Included"}'}, ["exclude", "include"]),
    ],
)
def test_labels_are_kept_and_contradictory_ones_both(own: dict[str, JsonValue], other: dict[str, JsonValue], labels: list[str]) -> None:
    assert sorted(list_labels(merge_into_led(other, own).metadata)) == labels
