from __future__ import annotations

from fakes import candidate, doi, found, paper
from hypothesis import given
from hypothesis import strategies as st

from outrider.nodes.dedup import deduplicated, richness
from outrider.state.hits import Candidate
from outrider.state.records import Identifiers


def test_one_identifier_and_agreeing_titles_are_one_work() -> None:
    one = candidate(paper("a", "Aspirin and the Liver", identifiers=doi("10.1000/x")), found_by=[found(1)], scores={"fused": 0.5})
    other = candidate(
        paper("b", "Aspirin and the liver.", identifiers=doi("10.1000/x"), abstract="Long.", year=2020),
        found_by=[found(2, source="shelf")],
        scores={"fused": 0.25},
    )
    (work,) = deduplicated([one, other])
    assert work.record.doc_id == "b"  # the richer record leads
    assert [(folded.doc_id, folded.why) for folded in work.duplicates] == [("a", "same doi 10.1000/x and agreeing titles")]
    assert work.found_by == (found(1), found(2, source="shelf"))
    assert work.scores["fused"] == 0.75


def test_copies_in_one_list_do_not_add_up() -> None:
    """Otherwise a work that stands in three files would rank above a better one that stands in one."""
    copies = [
        candidate(paper(name, "Aspirin", identifiers=doi("10.1000/x")), found_by=[found(rank)], scores={"fused": fused})
        for name, rank, fused in (("a", 2, 0.6), ("b", 3, 0.5))
    ]
    (work,) = deduplicated(copies)
    assert work.scores["fused"] == 0.6


def test_supplements_that_share_a_doi_stay_apart() -> None:
    works = deduplicated(
        [
            candidate(paper("a", "Abstract P1: statins", identifiers=doi("10.1/s"))),
            candidate(paper("b", "Renal outcomes in mice", identifiers=doi("10.1/s"))),
        ]
    )
    assert [work.record.doc_id for work in works] == ["a", "b"]


def test_an_identifier_that_contradicts_keeps_records_apart() -> None:
    """Packages of one repository share its address and nearly their names."""
    both = [Identifiers(github="o/telemetry", pypi=f"telemetry-exporter-{part}") for part in ("common", "commons")]
    works = deduplicated([candidate(paper(known.pypi, known.pypi, identifiers=known)) for known in both])
    assert len(works) == 2


def test_the_order_of_leaders() -> None:
    """Most filled fields, then a DOI, a longer abstract, more citations, the smaller id."""
    filled = paper("z", "t", abstract="a", year=2020, venue="v")
    with_doi = paper("y", "t", identifiers=doi("10.1/x"))
    with_pmid = paper("a", "t", identifiers=Identifiers(pmid="1"))
    assert sorted([with_pmid, with_doi, filled], key=richness) == [filled, with_doi, with_pmid]


works = st.builds(
    lambda number, title, mark: candidate(paper(f"d{number}", title, identifiers=doi(f"10.1000/{mark}")), scores={"fused": 0.1}),
    st.integers(0, 10_000),
    st.sampled_from(["Aspirin and the liver", "Aspirin and the liver.", "Statins", ""]),
    st.sampled_from("abc"),
)


@given(st.lists(works, max_size=12, unique_by=lambda one: one.record.doc_id), st.randoms(use_true_random=False))
def test_nothing_is_lost_and_order_does_not_change_the_groups(many: list[Candidate], random: object) -> None:
    def groups(candidates: list[Candidate]) -> set[frozenset[str]]:
        return {frozenset([work.record.doc_id, *(folded.doc_id for folded in work.duplicates)]) for work in deduplicated(candidates)}

    before = groups(many)
    assert sorted(doc_id for group in before for doc_id in group) == sorted(one.record.doc_id for one in many)
    shuffled = list(many)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert groups(shuffled) == before
    once = deduplicated(many)
    assert deduplicated(once) == once
