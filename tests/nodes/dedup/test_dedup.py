from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from outrider.linkage.merge import FILLED, richness
from outrider.nodes.dedup.cluster import deduplicate, merge_pairs
from outrider.state.hits import Candidate
from outrider.state.records import Identifiers, Page, Paper, Record, Repository
from support.fakes import candidate, doi, make_found_by, paper


def test_one_identifier_and_agreeing_titles_are_one_work() -> None:
    one = candidate(paper("a", "Aspirin and the Liver", identifiers=doi("10.1000/x")), found_by=[make_found_by(1)], scores={"fused": 0.5})
    other = candidate(
        paper("b", "Aspirin and the liver.", identifiers=doi("10.1000/x"), abstract="Long.", year=2020),
        found_by=[make_found_by(2, source="shelf")],
        scores={"fused": 0.25},
    )
    (work,) = deduplicate([one, other])
    assert work.record.doc_id == "b"  # the richer record leads
    assert [(folded.doc_id, folded.why) for folded in work.duplicates] == [
        ("a", "same doi 10.1000/x; title equal, short (+5.4), doi equal, titles too (+3.0)")
    ]
    assert work.found_by == (make_found_by(1), make_found_by(2, source="shelf"))
    assert work.scores["fused"] == 0.75


def test_copies_in_one_list_do_not_add_up() -> None:
    """Otherwise a work in three files would rank above a better one in a single file."""
    copies = [
        candidate(paper(name, "Aspirin", identifiers=doi("10.1000/x")), found_by=[make_found_by(rank)], scores={"fused": fused})
        for name, rank, fused in (("a", 2, 0.6), ("b", 3, 0.5))
    ]
    (work,) = deduplicate(copies)
    assert work.scores["fused"] == 0.6


def test_a_work_is_ranked_by_its_merged_score() -> None:
    """The filter behind cuts in this order: what four sources have at rank 31 would stand at 120."""
    alone = [candidate(paper(f"d{at:03}", f"Work {at}"), scores={"fused": 1 - at / 200}) for at in range(120)]
    shared = [
        candidate(paper(name, "Aspirin", identifiers=doi("10.1000/x")), scores={"fused": 0.3}, found_by=[make_found_by(31, source=name)])
        for name in ("openalex", "crossref", "pubmed")
    ]
    works = deduplicate([*alone, *shared])
    assert [work.record.doc_id for work in works[:22]][-3:] == ["d019", "d020", "crossref"]
    split = [candidate(one.record, scores=one.scores, found_by=one.found_by) for one in (*alone, *shared)]
    pairs = {(120, 121): "why", (121, 122): "why"}
    assert [work.record.doc_id for work in merge_pairs(split, pairs)] == [work.record.doc_id for work in works]


def test_well_confirmed_works_do_not_tie() -> None:
    copies = [
        candidate(
            paper(f"{mark}{source}", "Aspirin", identifiers=doi(f"10.1000/{mark}")),
            found_by=[make_found_by(1, source=source)],
            scores={"fused": fused},
            score=fused,
        )
        for mark, fused in (("b", 1.0), ("a", 0.8))
        for source in ("one", "two")
    ]
    alone = candidate(paper("z", "Statins"), found_by=[make_found_by(5)], scores={"fused": 0.5}, score=0.5)
    assert [(work.record.doc_id, work.scores["fused"], work.score) for work in deduplicate([*copies, alone])] == [
        ("bone", 1.0, 1.0),
        ("aone", 0.8, 0.8),
        ("z", 0.25, 0.25),
    ]


def test_candidates_that_were_not_fused_keep_their_order_and_score() -> None:
    same = doi("10.1000/x")
    many = [paper("z", "Statins"), paper("y", "Aspirin", identifiers=same), paper("a", "Heart"), paper("b", "Aspirin", identifiers=same)]
    works = deduplicate([candidate(one, score=0.5 + at / 10) for at, one in enumerate(many)])
    assert [(work.record.doc_id, work.score, work.scores) for work in works] == [("z", 0.5, {}), ("b", 0.8, {}), ("a", 0.7, {})]


def test_where_some_were_not_fused_the_order_stays_and_no_score_is_above_one() -> None:
    copies = [
        candidate(paper(name, "Aspirin", identifiers=doi("10.1000/x")), found_by=[make_found_by(1, source=name)], scores={"fused": 0.9})
        for name in "ab"
    ]
    works = deduplicate([candidate(paper("z", "Statins"), score=0.5), *copies])
    assert [(work.record.doc_id, work.score) for work in works] == [("z", 0.5), ("a", 1.0)]


SAME: dict[str, Any] = {"title": "Aspirin and the liver", "identifiers": doi("10.1000/x")}


def merged(*records: Record) -> Candidate:
    (work,) = deduplicate(list(map(candidate, records)))
    return work


def test_what_the_leader_lacks_comes_from_the_others() -> None:
    crossref = paper("c", **SAME, volume="1", issue="2", pages="3-4", year=2020, venue="Gut", authors=["Bell, J"], source="crossref")
    known = Identifiers(doi="10.1000/x", pmid="7")
    openalex = paper("o", title="Aspirin and the liver", identifiers=known, abstract="Long.", citations=0, source="openalex")
    work = merged(openalex, crossref).record
    assert work.doc_id == "c"
    assert (work.abstract, work.citations, work.identifiers) == ("Long.", 0, known)
    assert work.metadata["filled_from"] == {"abstract": "openalex", "citations": "openalex", "identifiers.pmid": "openalex"}


@pytest.mark.parametrize("own", [{"text": "x" * 11_000}, {"abstract": "Mine."}])
def test_the_users_own_text_leads(own: dict[str, str]) -> None:
    mine = paper("m", **SAME, **own)
    live = paper("o", **SAME, abstract="A longer abstract.", text="cut", year=2020, venue="Gut", citations=9, source="openalex")
    work = merged(live, mine).record
    assert work.doc_id == "m"
    assert {name: getattr(work, name) for name in own} == own
    assert (work.year, work.venue, work.citations) == (2020, "Gut", 9)


def test_retractions_of_all_are_the_leaders() -> None:
    update: dict[str, Any] = {"type": "retraction", "doi": "10.1000/r"}
    leader = paper("o", **SAME, abstract="a", year=2020, source="openalex", metadata={"retracted": False, "updated_by": [update]})
    crossref = paper("c", **SAME, source="crossref", metadata={"updated_by": [update, {"type": "erratum"}], "update_to": "odd"})
    pubmed = paper("p", **SAME, source="pubmed", metadata={"retracted": True, "notices": [{"kind": "retraction_in"}], "issn": "1"})
    assert merged(pubmed, crossref, leader).record.metadata == {
        "retracted": True,
        "updated_by": [update, {"type": "erratum"}],
        "notices": [{"kind": "retraction_in"}],
        "retracted_reported_by": "pubmed",
    }


def test_the_language_of_a_page_about_it_is_not_that_of_a_repository() -> None:
    known, url = Identifiers(github="o/n"), "https://github.com/o/n"
    code = Repository(doc_id="r", title="o/n", identifiers=known, source="github", stars=3)
    page = Page(doc_id="p", title="GitHub - o/n: it does", url=url, identifiers=known, language="en", text="Read me.", source="web")
    work = merged(page, code).record
    assert (work.doc_id, work.language, work.text, work.url) == ("r", None, "Read me.", url)


def test_versions_that_a_model_links_keep_their_own_fields() -> None:
    preprint = paper("a", "Aspirin", identifiers=Identifiers(arxiv="2001.00001"), year=2019)
    published = paper("b", "Aspirin", identifiers=doi("10.1000/x"), venue="Gut", abstract="Long.")
    unnamed = paper("c", "Aspirin", citations=3, source="s2")
    (work,) = merge_pairs([candidate(one) for one in (preprint, published, unnamed)], {(0, 1): "why", (1, 2): "why"})
    assert (work.record.doc_id, work.record.year, work.record.citations) == ("b", None, 3)


def test_a_page_of_the_identifier_is_the_work_where_there_is_but_one() -> None:
    known = Identifiers(arxiv="1706.03762")
    page = Page(doc_id="p", title="[1706.03762] Attention - arXiv.org", url="https://arxiv.org/abs/1706.03762", identifiers=known)
    assert merged(page, paper("a", "Attention Is All You Need", identifiers=known, source="arxiv")).record.doc_id == "a"


def test_a_work_with_the_identifiers_of_two_meets_a_third() -> None:
    arxiv = "10.48550/arxiv.2001.00001"
    page = Page(doc_id="p", title="Home", url=f"https://doi.org/{arxiv}", identifiers=Identifiers(doi=arxiv, arxiv="2001.00001"))
    known = [
        paper("a", "Aspirin and the liver", identifiers=doi(arxiv)),
        paper("b", "Aspirin and the liver", identifiers=Identifiers(arxiv="2001.00001")),
    ]
    assert {fold.doc_id for fold in merged(page, *known).duplicates} == {"b", "p"}


def test_pages_of_one_identifier_are_one() -> None:
    known = {"url": "https://arxiv.org/abs/1706.03762", "identifiers": Identifiers(arxiv="1706.03762")}
    titles = ("[1706.03762] Attention - arXiv.org", "Just a moment...", "")
    pages = [candidate(Page.model_validate({"doc_id": f"p{at}", "title": title, **known})) for at, title in enumerate(titles)]
    assert len(deduplicate(pages)) == 1


def test_the_page_of_a_shared_doi_joins_no_supplements() -> None:
    titles = ("Abstract P1: statins", "Renal outcomes in mice")
    supplements = [paper(f"s{at}", title, identifiers=doi("10.1000/s")) for at, title in enumerate(titles)]
    page = Page(doc_id="p", title="Supplement", url="https://doi.org/10.1000/s", identifiers=doi("10.1000/s"))
    assert len(deduplicate([candidate(page), *map(candidate, supplements)])) == 3


def test_supplements_that_share_a_doi_stay_separate() -> None:
    works = deduplicate(
        [
            candidate(paper("a", "Abstract P1: statins", identifiers=doi("10.1/s"))),
            candidate(paper("b", "Renal outcomes in mice", identifiers=doi("10.1/s"))),
        ]
    )
    assert [work.record.doc_id for work in works] == ["a", "b"]


def test_an_identifier_that_contradicts_keeps_records_separate() -> None:
    """Packages of one repository share its address and nearly their names."""
    both = [Identifiers(github="o/telemetry", pypi=f"telemetry-exporter-{part}") for part in ("common", "commons")]
    works = deduplicate([candidate(paper(str(known.pypi), str(known.pypi), identifiers=known)) for known in both])
    assert len(works) == 2


def test_the_order_of_leaders() -> None:
    """Most filled fields, then a DOI, a longer abstract, more citations, the smaller id."""
    filled = paper("z", "t", abstract="a", year=2020, venue="v")
    with_doi = paper("y", "t", identifiers=doi("10.1/x"))
    with_pmid = paper("a", "t", identifiers=Identifiers(pmid="1"))
    assert sorted([with_pmid, with_doi, filled], key=richness) == [filled, with_doi, with_pmid]


def known_as(number: int, title: str, page: bool, **known: str | None) -> Candidate:
    values = {"doc_id": f"d{number}", "title": title, "identifiers": known, "url": f"https://doi.org/{known['doi']}"}
    return candidate((Page if page else Paper).model_validate(values), scores={"fused": 0.1}, score=0.1)


works = st.builds(
    known_as,
    st.integers(0, 10_000),
    st.sampled_from(["Aspirin and the liver", "Aspirin and the liver.", "Statins", ""]),
    st.booleans(),
    doi=st.none() | st.sampled_from(["10.1000/a", "10.1000/b", "10.48550/arxiv.2001.00001"]),
    arxiv=st.none() | st.just("2001.00001"),
    pmid=st.none() | st.just("1"),
)


PREVENTED = [
    known_as(0, "Statins", False, doi=None, arxiv=None, pmid="1"),
    known_as(1, "Aspirin and the liver", False, doi=None, arxiv="2001.00001", pmid=None),
    known_as(2, "Statins", False, doi=None, arxiv="2001.00001", pmid="1"),
    known_as(3, "Aspirin and the liver", False, doi=None, arxiv=None, pmid="1"),
]
"""1 matches 2, which is prevented at first, and only may match 3, with a higher score."""


@example(PREVENTED, Random(1))
@settings(max_examples=60, deadline=None)
@given(st.lists(works, max_size=12, unique_by=lambda one: one.record.doc_id), st.randoms(use_true_random=False))
def test_nothing_is_lost_and_order_does_not_change_the_groups(many: list[Candidate], random: object) -> None:
    def groups(candidates: list[Candidate]) -> set[frozenset[str]]:
        return {frozenset([work.record.doc_id, *(folded.doc_id for folded in work.duplicates)]) for work in deduplicate(candidates)}

    before = groups(many)
    assert sorted(doc_id for group in before for doc_id in group) == sorted(one.record.doc_id for one in many)
    shuffled = list(many)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert groups(shuffled) == before
    once = deduplicate(many)
    assert deduplicate(once) == once


def bare(record: Record) -> dict[str, Any]:
    values = record.model_dump(mode="json", include={*FILLED, "doc_id", "kind", "title", "source"})
    return values | {f"identifiers.{scheme}": value for scheme, value in record.identifiers.pairs()}


fields = st.fixed_dictionaries(
    {},
    optional={
        "abstract": st.sampled_from(["", "Short.", "A longer one."]),
        "text": st.sampled_from(["", "Body.", "Whole body."]),
        "year": st.none() | st.integers(2018, 2021),
        "venue": st.sampled_from(["Gut", "Liver"]),
        "citations": st.integers(0, 2),
        "language": st.sampled_from(["en", "de"]),
        "authors": st.sampled_from([(), ("Bell, J",), ("Bell, J", "Smith, A")]),
        "source": st.sampled_from(["library", "openalex", "crossref"]),
        "identifiers": st.builds(Identifiers, doi=st.just("10.1000/x"), pmid=st.none() | st.just("1"), s2=st.none() | st.just("2")),
        "metadata": st.fixed_dictionaries({}, optional={"retracted": st.booleans(), "notices": st.lists(st.sampled_from("xy"))}),
    },
)
copies = st.lists(fields, min_size=1, max_size=5).map(
    lambda many: [
        candidate(
            Paper.model_validate({"doc_id": f"d{at}", **SAME, **one}), found_by=(make_found_by(at + 1),), scores={"fused": 1 / (at + 1)}
        )
        for at, one in enumerate(many)
    ]
)


@settings(max_examples=60, deadline=None)
@given(copies, st.randoms(use_true_random=False))
def test_merging_changes_no_value_of_the_leader_and_loses_no_field(many: list[Candidate], random: Any) -> None:
    (work,) = deduplicate(many)
    leader = next(one.record for one in many if one.record.doc_id == work.record.doc_id)
    before, after = bare(leader), bare(work.record)
    assert all(after[name] == value for name, value in before.items() if name != "identifiers" and value not in (None, "", []))
    others = [one for one in many if one.record is not leader]
    for name in {name for one in many for name in bare(one.record)} - {"identifiers"}:
        assert (after.get(name) in (None, "", [])) == all(bare(one.record).get(name) in (None, "", []) for one in many)
    filled: dict[str, str] = dict(work.record.metadata.get("filled_from") or {})  # type: ignore[arg-type]
    assert set(filled) == {name for name in after if name != "identifiers" and after[name] != before.get(name)}
    for name, source in filled.items():
        assert any(one.record.source == source and bare(one.record).get(name) == after[name] for one in others)
    assert work.record.metadata.get("retracted") is True or all(one.record.metadata.get("retracted") is not True for one in many)
    assert type(work.record).model_validate(work.record.model_dump()) == work.record
    shuffled = list(many)
    random.shuffle(shuffled)
    assert deduplicate(shuffled) == (work,)
