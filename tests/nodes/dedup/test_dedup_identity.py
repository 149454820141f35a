"""Groups that hold no contradiction, versions that fold, relations that link, decisions that stand, and merging that can be undone."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, permutations
from random import Random
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from outrider.linkage.judge_pair import judge
from outrider.linkage.lookup_match import page_identifier
from outrider.linkage.prefilter import prefilter
from outrider.linkage.resolve import resolve
from outrider.nodes.dedup.cluster import deduplicate
from outrider.nodes.dedup.group import VERSIONS
from outrider.nodes.dedup.merge import list_records
from outrider.nodes.organizer import to_hit
from outrider.state.duplicate_decisions import Decisions
from outrider.state.hits import Candidate
from outrider.state.records import Identifiers, Page, Paper, Record, Repository
from support.duplicate_records import LIVER, LOGS, MANY, by_ann, candidates, make_decisions
from support.fakes import candidate, doi, paper

BIORXIV = doi("10.1101/2020.01.02.123456")


PREPRINT = by_ann("pre", identifiers=BIORXIV, year=2019)
FIRST = by_ann("one", identifiers=doi("10.1000/one"), venue="J Hepatol", volume="1", pages="1-9")
SECOND = by_ann("two", identifiers=doi("10.2000/two"), venue="Acta Medica", year=2021, volume="7", pages="200-210")


def works(*records: Record, decisions: Decisions | None = None, **settings: Any) -> tuple[Candidate, ...]:
    return deduplicate([candidate(one) for one in records], decisions or Decisions(), **settings)


def groups(candidates: Sequence[Candidate]) -> set[frozenset[str]]:
    return {frozenset(one.doc_id for one in list_records(work)) for work in candidates}


# versions


def test_a_preprint_and_its_publication_are_one_hit_with_a_link() -> None:
    (work,) = works(PREPRINT, FIRST)
    assert (work.record.doc_id, work.record.year) == ("one", 2020)  # linked, not merged: neither fills the other
    assert [(one.doc_id, one.why.split(":")[0]) for one in work.duplicates] == [("pre", "versions of one work")]
    assert [(one.relation, one.doc_id, one.title) for one in work.related] == [("has preprint", "pre", LIVER)]
    assert to_hit(work, 1).related == work.related


def test_a_setting_keeps_versions_separate_and_linked() -> None:
    separate = works(PREPRINT, FIRST, fold_versions=False)
    assert groups(separate) == {frozenset({"pre"}), frozenset({"one"})}
    assert {(work.record.doc_id, one.relation, one.doc_id) for work in separate for one in work.related} == {
        ("pre", "preprint of", "one"),
        ("one", "has preprint", "pre"),
    }


@pytest.mark.parametrize("seed", range(6))
def test_two_publications_do_not_chain_through_a_preprint(seed: int) -> None:
    records = [FIRST, PREPRINT, SECOND]
    Random(seed).shuffle(records)
    merged = works(*records)
    assert groups(merged) == {frozenset({"pre", "one"}), frozenset({"two"})}
    links = {(work.record.doc_id, one.relation, one.doc_id) for work in merged for one in work.related}
    assert {("two", "has preprint", "one"), ("one", "has preprint", "pre")} <= links


def test_a_title_in_other_words_is_no_version() -> None:
    assert len(works(PREPRINT, by_ann("mice", LIVER.replace("adults", "mice"), identifiers=doi("10.1000/mice")))) == 2


# pages

GOOGLES = Page(doc_id="google", title="Aspirin - Wikip...", source="serpapi_google", url="https://en.wiki.example/Aspirin?utm_source=g")
BINGS = Page(doc_id="bing", title="Aspirin", source="web", url="http://www.en.wiki.example/Aspirin/#Uses")


@pytest.mark.parametrize("fields", [{}, {"title": "Just a moment"}, {"title": ""}])
def test_a_web_page_that_two_engines_found_is_one_hit(fields: dict[str, str]) -> None:
    """Whatever title each shows."""
    (work,) = works(GOOGLES, BINGS.model_copy(update=fields))
    assert {one.doc_id for one in list_records(work)} == {"google", "bing"}
    assert "address equal" in work.duplicates[0].why


def test_pages_of_two_addresses_or_with_two_identifiers_stay_two() -> None:
    assert len(works(GOOGLES, BINGS.model_copy(update={"url": "https://en.wiki.example/Aspirin_2"}))) == 2
    identified = [one.model_copy(update={"identifiers": doi(f"10.1000/{one.doc_id}")}) for one in (GOOGLES, BINGS)]
    assert len(works(*identified)) == 2


def test_a_work_and_the_page_that_its_link_leads_to_are_one() -> None:
    """Where the title is long enough to say which work it is."""
    page = Page(doc_id="page", title=LIVER, source="web", url="https://lab.example/liver")
    assert len(works(paper("scholar", LIVER, source="serpapi_scholar", url=page.url), page)) == 1
    assert len(works(paper("scholar", LIVER, source="serpapi_scholar", url="https://lab.example/other"), page)) == 2
    reports = [paper(f"in {year}", LIVER, source="serpapi_scholar", url=page.url, year=year) for year in (2019, 2020)]
    assert len(works(*reports)) == 2


# relations


@pytest.mark.parametrize(
    ("other", "here", "there"),
    [
        (by_ann("x", f"Erratum to: {LIVER}"), "corrected by", "corrects"),
        (by_ann("x", f"Retraction: {LIVER}"), "retracted by", "retracts"),
        (by_ann("x", f"Reply to: {LIVER}"), "commented on by", "comments on"),
        (
            by_ann("x", "Notice", authors=[], metadata={"update_to": [{"type": "erratum", "doi": "10.1000/one"}]}),
            "corrected by",
            "corrects",
        ),
    ],
    ids=["erratum", "retraction", "reply", "crossref"],
)
def test_a_notice_and_its_article_are_linked(other: Record, here: str, there: str) -> None:
    by_id = {work.record.doc_id: work for work in works(FIRST, other)}
    assert [(one.relation, one.doc_id) for one in by_id["one"].related] == [(here, "x")]
    assert [(one.relation, one.doc_id, bool(one.why)) for one in by_id["x"].related] == [(there, "one", True)]


def test_a_paper_its_code_and_parts_of_a_series() -> None:
    code = Repository(doc_id="code", title="ann/liver", identifiers=Identifiers(github="ann/liver"), source="github")
    parts = [by_ann(f"part {at}", f"Malaria in the age of drug resistance. Part {at}. {of}") for at, of in ((1, "Drugs"), (2, "Nets"))]
    linked = works(FIRST.model_copy(update={"abstract": "See https://github.com/Ann/Liver."}), code, *parts)
    assert {(work.record.doc_id, one.relation, one.doc_id) for work in linked for one in work.related} == {
        ("one", "has code", "code"),
        ("code", "code of", "one"),
        ("part 1", "part beside", "part 2"),
        ("part 2", "part beside", "part 1"),
    }


def test_links_name_the_leader_of_what_was_merged_since() -> None:
    erratum = by_ann("x", f"Erratum to: {LIVER}")
    first = works(FIRST, erratum)
    richer = candidate(FIRST.model_copy(update={"doc_id": "rich", "abstract": "Long.", "citations": 3, "source": "openalex"}))
    by_id = {work.record.doc_id: work for work in deduplicate([*first, richer])}
    assert [(one.relation, one.doc_id) for one in by_id["x"].related] == [("corrects", "rich")]


# who found it


def test_where_a_work_was_seen() -> None:
    known = {"title": LIVER, "identifiers": doi("10.1000/one")}
    page = Page(doc_id="web:1", source="web", url="https://doi.org/10.1000/one", **known)
    mine = paper("mine", **known)
    for records, expected in (((FIRST, page), "both"), ((FIRST, mine), "api-only"), ((page,), "web-only"), ((mine,), "library-only")):
        (work,) = works(*records)
        assert to_hit(work, 1).seen_in == expected


# decisions


def test_what_was_split_stays_separate_and_what_was_merged_stays_merged() -> None:
    copy = FIRST.model_copy(update={"doc_id": "copy"})
    far = by_ann("far", "Statins and kidneys of children", authors=["Roe, R."])
    assert groups(works(FIRST, copy, decisions=make_decisions(("split", "copy")))) == {frozenset({"one"}), frozenset({"copy"})}
    assert len(works(FIRST, copy, decisions=make_decisions(("split", "copy"), ("forget", "copy")))) == 1
    (work,) = works(FIRST, far, decisions=make_decisions(("merge", "one", "far")))
    assert work.duplicates[0].why == "merged by ann on 2026-01-02"
    assert len(works(FIRST, far, decisions=make_decisions(("merge", "one", "far"), ("split", "one", "far")))) == 2
    assert len(works(PREPRINT, FIRST, decisions=make_decisions(("split", "pre", "one")))) == 2
    assert groups(works(FIRST, copy, far, decisions=make_decisions(("split", "one"), ("merge", "one", "far")))) == {
        frozenset({"one", "far"}),
        frozenset({"copy"}),
    }


@pytest.mark.parametrize(
    "log",
    [
        [("merge", "a", "b"), ("split", "a")],
        [("split", "a", "b"), ("forget", "b")],
        [("merge", "a", "b"), ("merge", "b", "c"), ("forget", "b")],
        [("split", "a"), ("split", "a", "b"), ("forget", "a")],
    ],
)
def test_later_decisions_go_before_earlier_ones(log: list[tuple[str, ...]]) -> None:
    stands = make_decisions(*log)
    assert (stands.same, stands.different) == ({}, {})


def test_a_merge_that_goes_against_a_split_is_reported() -> None:
    assert make_decisions(("split", "a", "c"), ("merge", "a", "b"), ("merge", "b", "c")).conflicts()
    assert not make_decisions(("split", "a", "c"), ("merge", "a", "b"), ("merge", "a", "c")).conflicts()  # it takes the split back


# properties


def test_a_page_that_is_with_a_work_by_hand_joins_no_other_when_it_is_done_again() -> None:
    address = "https://doi.org/10.1000/one"
    page = Page(doc_id="d0", title=LIVER, source="web", url=address, identifiers=Identifiers(doi="10.1000/one"))
    mirror = Page(doc_id="d1", title=LIVER, source="web", url=address, identifiers=Identifiers(arxiv="2001.00001"))
    erratum = paper("d2", f"Erratum to: {LIVER}", identifiers=Identifiers(doi="10.1000/one"))
    stands = make_decisions(("merge", "d0", "d1"))
    once = deduplicate(candidates([page, mirror, erratum]), stands)
    assert groups(once) == groups(deduplicate(once, stands)) == {frozenset({"d0", "d1"}), frozenset({"d2"})}


def _undated(doc_id: str, title: str = LIVER, authors: tuple[str, ...] = (), **identifiers: str) -> Record:
    return by_ann(doc_id, title, authors=authors, year=None, identifiers=Identifiers(**identifiers))


ANN, BELL = ("Smith, Ann",), ("Bell, J.", "Smith A")
RELATED_IN_TWO_WAYS = [
    _undated("d0", authors=BELL, pmid="1", arxiv="2001.00001"),
    _undated("d1", authors=ANN),
    _undated("d2", pmid="1"),
    _undated("d3", authors=BELL, doi="10.1101/2020.01.02.123456"),
    _undated("d4"),
]
"""d1 and d3 fold into one hit: d0 is a preprint of d1, and another version of d3."""
MERGED_WITH_ITS_ERRATUM = [
    _undated("d0", authors=BELL),
    _undated("d1"),
    _undated("d2", authors=ANN, arxiv="2001.00001"),
    _undated("d3", authors=BELL),
    _undated("d4", f"Erratum to: {LIVER}"),
]
"""d4 corrects d2, which is a preprint of d3: with d3 and d4 merged by hand, that are two relations of two works."""


PAGE_OF_TWO_VERSIONS = [
    _undated("d0", authors=ANN, pmid="1"),
    _undated("d1", pmid="1", arxiv="2001.00001"),
    _undated("d2", authors=BELL, arxiv="2001.00001"),
    Page(doc_id="d3", title="Home", source="web", url="https://arxiv.org/abs/2001.00001", identifiers=Identifiers(arxiv="2001.00001")),
]
"""d0 and d1 are one work, d2 its preprint; both have the number of the page."""


def test_the_page_of_a_number_that_two_versions_share_joins_them_once_they_are_folded() -> None:
    (work,) = works(*PAGE_OF_TWO_VERSIONS)
    assert {one.doc_id: one.why.split(";")[0] for one in work.duplicates}["d3"] == "the page of arxiv 2001.00001"
    assert frozenset({"d3"}) in groups(works(*PAGE_OF_TWO_VERSIONS, fold_versions=False))


@pytest.mark.parametrize(
    ("many", "log", "relation"),
    [(RELATED_IN_TWO_WAYS, [], ("d0", "preprint of", "d3")), (MERGED_WITH_ITS_ERRATUM, [("merge", "d3", "d4")], ("d3", "corrects", "d2"))],
    ids=["a preprint and a version", "a preprint and a correction"],
)
def test_of_two_relations_between_two_works_the_order_of_the_records_chooses_none(
    many: list[Record], log: list[tuple[str, ...]], relation: tuple[str, str, str]
) -> None:
    before, stands = candidates(many), make_decisions(*log)
    once = deduplicate(before, stands)
    assert relation in {(work.record.doc_id, link.relation, link.doc_id) for work in once for link in work.related}
    assert all(deduplicate(order, stands) == once for order in permutations(before))


@example([_undated("d0"), _undated("d1"), _undated("d2", f"Erratum to: {LIVER}")], [], False, Random(1))  # which one is corrected?
@example(RELATED_IN_TWO_WAYS, [], True, Random(1))
@example(MERGED_WITH_ITS_ERRATUM, [("merge", "d3", "d4")], True, Random(1))
@example(PAGE_OF_TWO_VERSIONS, [], True, Random(1))
@given(MANY, LOGS, st.booleans(), st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_order_changes_nothing_twice_is_once_and_undoing_restores(
    many: list[Record], log: list[tuple[str, ...]], fold: bool, random: Random
) -> None:
    before, stands = candidates(many), make_decisions(*log)
    once = deduplicate(before, stands, fold_versions=fold)
    shuffled = list(before)
    random.shuffle(shuffled)
    assert deduplicate(shuffled, stands, fold_versions=fold) == once
    assert deduplicate(once, stands, fold_versions=fold) == once
    back = sorted((one for work in once for one in list_records(work)), key=lambda one: one.doc_id)
    assert back == many  # exactly as they came
    assert groups(deduplicate(candidates(back), stands, fold_versions=fold)) == groups(once)
    assert {place for work in once for place in work.found_by} == {place for one in before for place in one.found_by}


@given(MANY, LOGS)
@settings(max_examples=60, deadline=None)
def test_no_work_holds_a_contradiction_without_a_stated_reason(many: list[Record], log: list[tuple[str, ...]]) -> None:
    stands = make_decisions(*log)
    for work in works(*many, decisions=stands):
        assert len(work.duplicates) == len(list_records(work)) - 1
        assert all(one.why for one in work.duplicates)
        for one, other in combinations(list_records(work), 2):
            judgement = judge(one, other)
            version = judgement.relation and judgement.relation.kind in VERSIONS
            by_hand = {one.doc_id, other.doc_id} & set(stands.merged)
            assert not stands.are_apart(one.doc_id, other.doc_id)
            assert not judgement.contradicts or version or by_hand or page_identifier(one) or page_identifier(other)


@example([paper("a", f"{LIVER}: a cohort study", authors=["Smith, A"]), paper("b", f"Erratum to: {LIVER}", authors=["Roe, R."])])
@given(MANY)
@settings(max_examples=40, deadline=None)
def test_the_prefilter_loses_nothing(many: list[Record]) -> None:
    near = [set(members) for members in prefilter(many, range(len(many)))]
    whole = resolve(many)
    assert all(any(set(group) <= members for members in near) for group in whole.groups if len(group) > 1)
    assert all(any({link.one, link.other} <= members for members in near) for link in whole.related)


@pytest.mark.parametrize(
    "records",
    [
        [paper("a"), paper("b")],
        [paper("a", LIVER), paper("b", "x" * 10_000), paper("c", "x" * 10_000, identifiers=doi("10.1/ x y"))],
        [paper("a", "Ασπιρίνη и печень 肝臓"), paper("b", "<b>Ασπιρίνη</b> и печень 肝臓", year=20244)],
        [paper("a", LIVER, year=0, identifiers=doi("see https://x.org/?q=10.1000/one")), paper("b", LIVER, year=-1)],
        [paper(str(at), LIVER, authors=["Smith, A"]) for at in range(1_000)],
    ],
    ids=["nothing", "endless", "scripts", "years", "thousand"],
)
def test_bad_input_loses_nothing(records: list[Paper]) -> None:
    merged = works(*records)
    assert sorted(one.doc_id for work in merged for one in list_records(work)) == sorted(one.doc_id for one in records)
    assert deduplicate(merged) == merged
