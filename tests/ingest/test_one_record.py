"""Records of one work as one."""

from __future__ import annotations

from outrider.ingest.one_record import one_record
from outrider.state.records import Identifiers, Paper

RICH = Paper(doc_id="r", title="Aspirin", abstract="Long.", authors=("Ann Bell",), year=2020, metadata={"ID": "1"})
POOR = Paper(doc_id="p", title="aspirin.", venue="BMJ", year=2021, identifiers=Identifiers(doi="10.1000/x"))


def test_the_richest_leads_and_its_gaps_are_filled() -> None:
    whole = one_record([("2", POOR), ("1", RICH)])
    assert (whole.title, whole.year, whole.venue, whole.identifiers.doi) == ("Aspirin", 2020, "BMJ", "10.1000/x")
    assert whole.metadata == {"ID": "1", "merged": ["1", "2"], "filled_from": {"venue": "2", "identifiers.doi": "2"}}


def test_order_means_nothing_and_nothing_given_changes() -> None:
    before = RICH.model_copy(deep=True), POOR.model_copy(deep=True)
    assert one_record([("1", RICH), ("2", POOR)]) == one_record([("2", POOR), ("1", RICH)])
    assert before == (RICH, POOR)


def test_one_alone_stays_as_it_is() -> None:
    assert one_record([("1", RICH)]) is RICH
