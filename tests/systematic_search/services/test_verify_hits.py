"""Verification of a service's records: verified, as the source says, or dropped."""

from __future__ import annotations

import pytest

from outrider.boolean.parser import parse
from outrider.state.records import Paper, Record, Repository
from outrider.systematic_search.services import github, openalex, pubmed, semantic_scholar
from outrider.systematic_search.services.verify_hits import HitVerifier, ViewRecord

LIVER = Paper(doc_id="x:1", title="Liver injury", abstract="By aspirin.", year=2020, tags=("heart",), mesh=("Liver",))
BARE = LIVER.model_copy(update={"abstract": "", "mesh": ()})
REPOSITORY = Repository(doc_id="github:heart/liver", title="heart/liver", description="Of livers.")


@pytest.mark.parametrize(
    ("look", "query", "record", "proof"),
    [
        (openalex.view_record, "liver[ti] AND aspirin[tiab]", LIVER, "verified"),
        (openalex.view_record, "liver[ti] AND kidney[tiab]", LIVER, None),
        (openalex.view_record, "liver[ti] AND kidney[tiab]", BARE, "as the source says"),
        (openalex.view_record, "liver[ti] NOT kidney[tiab]", LIVER, "verified"),
        (openalex.view_record, "liver[ti] NOT kidney[tiab]", BARE, "as the source says"),
        (openalex.view_record, "heart[tiab]", LIVER, None),
        (openalex.view_record, "aspirin[ab] AND Liver[mh]", LIVER, "verified"),
        (openalex.view_record, "aspirin[ab] AND Heart[mh]", LIVER, None),
        (openalex.view_record, "liver[ti] AND Heart[mh]", BARE, "as the source says"),
        (openalex.view_record, "liver[ti] AND review[pt]", LIVER, "as the source says"),
        (semantic_scholar.view_record, "liver[ti] AND Liver[mh]", BARE, "as the source says"),
        (semantic_scholar.view_record, "kidney[ti] AND Liver[mh]", BARE, None),
        (semantic_scholar.view_record, "liver[ti] AND 2019[dp]", LIVER, None),
        (semantic_scholar.view_record, "liver[ti] AND 2019[dp]", LIVER.model_copy(update={"year": None}), "as the source says"),
        (pubmed.view_record, "Digestive System[mh] AND liver[ti]", LIVER, "as the source says"),
        (pubmed.view_record, "liver[ti] AND kidney[tiab]", LIVER, None),
        (github.view_record, "heart[ti]", REPOSITORY, None),
        (github.view_record, "liver AND livers[tiab]", REPOSITORY, "verified"),
        (github.view_record, "liver[ti] AND 2020[dp]", REPOSITORY, "as the source says"),
    ],
)  # fmt: skip
def test_a_record_is_verified_only_by_its_own_text(look: ViewRecord, query: str, record: Record, proof: str | None) -> None:
    assert HitVerifier(parse(query).tree, look).find_proof(record) == proof


def test_results_of_an_unchanged_pubmed_query_are_all_kept() -> None:
    verifier = HitVerifier(parse("kidney[tiab]").tree, pubmed.view_record, keeps_all=True)
    assert [proof for _, proof in verifier.verify([LIVER])] == ["as the source says"]
