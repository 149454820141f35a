"""Deduplication in any order of records, with missing fields and with nonsense."""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.linkage.judge_pair import judge, judge_keys
from outrider.linkage.normalized_record import make_keys
from outrider.linkage.resolve import Resolution, resolve
from outrider.state.records import Identifiers, Paper, Record, Repository
from support.fakes import doi, paper

TITLE = "Aspirin and acute liver injury in adults"
OTHER = "Statins and chronic kidney disease in children"


def by_ann(doc_id: str = "a", title: str = TITLE, **fields: object) -> Paper:
    values = {"authors": ["Smith, Ann", "Bell, J.", "Cole, K."], "year": 2020, "venue": "J Hepatol"}
    return paper(doc_id, title, **(values | fields))


def group_ids(records: Sequence[Record], resolution: Resolution) -> set[frozenset[str]]:
    return {frozenset(records[at].doc_id for at in members) for members in resolution.groups}


def test_copies_in_different_dress_are_one_work() -> None:
    records = [
        by_ann("crossref", identifiers=doi("https://doi.org/10.1000/J.1"), volume="12", pages="123-129"),
        by_ann("pubmed", TITLE.upper() + ".", identifiers=Identifiers(pmid="17"), authors=["Smith A", "Bell J", "Cole K"], pages="123-9"),
        by_ann("ris", "<i>Aspirin</i> and acute liver injury in adults", authors=["Ann Smith", "J. Bell"], venue="Journal of Hepatology"),
        by_ann("else", OTHER, identifiers=doi("10.1000/j.2"), pages="7-9"),
    ]
    resolution = resolve(records)
    assert group_ids(records, resolution) == {frozenset({"crossref", "pubmed", "ris"}), frozenset({"else"})}
    assert [len(why) for why in resolution.reasons] == [2, 0]
    assert all("title equal" in line for line in resolution.reasons[0])


def test_no_chain_through_a_record_with_few_fields() -> None:
    """B could be either; A and C stand in different places of print."""
    first = by_ann("a", identifiers=doi("10.1000/1"), volume="1", issue="1", pages="10-19")
    third = by_ann("c", identifiers=doi("10.1000/2"), volume="9", issue="2", pages="200-210", year=2023)
    between = by_ann("b", year=None, venue=None)
    for order in ([first, between, third], [third, between, first], [between, third, first]):
        groups = group_ids(order, resolve(order))
        assert not any({"a", "c"} <= group for group in groups)
        assert groups == group_ids([first, between, third], resolve([first, between, third]))


def test_supplements_share_a_doi_and_are_several_works() -> None:
    shared = doi("10.1007/s00125-014-3355-0")
    records = [by_ann("a", identifiers=shared, pages="S354"), by_ann("b", OTHER, identifiers=shared, pages="S12", authors=["Roe, R."])]
    assert len(resolve(records).groups) == 2


@pytest.mark.parametrize("title", ["Editorial", "Discussion", "Book reviews", "Letter to the editor", ""])
def test_a_title_that_many_works_have_joins_nothing(title: str) -> None:
    """Not even a copy: there is no telling it from the next editorial by the same people."""
    records = [paper(str(at), title, year=2020) for at in range(4)]
    assert len(resolve(records).groups) == 4


def test_each_issue_may_have_its_editorial_on_the_first_pages() -> None:
    team = {"authors": ["Smith, John", "Lee, Mary"], "year": 2015, "venue": "Lung", "volume": "12", "pages": "1-2"}
    records = [paper("a", "Editorial", issue="1", **team), paper("b", "Editorial", issue="2", **team)]
    assert len(resolve(records).groups) == 2


def test_what_is_missing_does_not_agree() -> None:
    assert judge(paper("a"), paper("b")).verdict != "same"
    assert judge(paper("a", identifiers=doi("10.1000/x")), paper("b", identifiers=doi("10.1000/x"))).verdict == "unsure"
    assert judge(paper("a", TITLE), paper("b", TITLE)).verdict == "unsure"
    assert resolve([paper("a", TITLE), paper("b", TITLE)]).groups == ((0,), (1,))


@pytest.mark.parametrize(
    ("title", "same"),
    [
        ("Aspirin and Acute Liver Injury in Adults.", True), ("Aspirin and acute liver injury in adults: a cohort study", True),
        ("Aspirin and acute liver injury in adults (preprint)", True), ("Aspirine and acute liver injury in adults", True),
        ("Aspirin and acute liver injury in mice", False), ("Aspirin and acute liver injury in adults, part 2", False),
        ("Aspirin and acute liver injury in adults II", False), ("Erratum: Aspirin and acute liver injury in adults", False),
        ("Aspirin and acute liver injury in adults: study protocol", False), ("Aspirin without acute liver injury in adults", False),
        ("Reply to: Aspirin and acute liver injury in adults", False), ("Statins", False),
    ],
)  # fmt: skip
def test_titles_that_are_one_and_titles_that_are_not(title: str, same: bool) -> None:
    assert (judge(by_ann(), by_ann("b", title)).verdict == "same") is same


def test_evidence_names_field_level_and_side() -> None:
    judgement = judge(by_ann(identifiers=doi("10.1000/1")), by_ann("b", year=2021, identifiers=doi("10.1000/2")))
    sides = {evidence.field: evidence.speaks for evidence in judgement.evidence if evidence.weight}
    assert sides["title"] == "for"
    assert sides["year"] == sides["doi"] == "against"
    assert 0 < judgement.chance < 1


def test_ambiguous_pairs_are_named() -> None:
    resolution = resolve([paper("a", TITLE), paper("b", TITLE)])
    assert [(pair.one, pair.other, pair.judgement.verdict) for pair in resolution.ambiguous_pairs] == [(0, 1, "unsure")]


def test_two_numbers_of_one_registry_keep_two_works_separate() -> None:
    records = [by_ann("a", identifiers=Identifiers(pmid="1")), by_ann("b", identifiers=Identifiers(pmid="2"))]
    assert len(resolve(records).groups) == 2


def test_repositories_are_one_by_owner_and_name_alone() -> None:
    def repository(doc_id: str, name: str, title: str = "httpx") -> Repository:
        return Repository(doc_id=doc_id, title=title, identifiers=Identifiers(github=name))

    records = [repository("a", "encode/httpx"), repository("b", "Encode/HTTPX", "HTTPX"), repository("c", "fork/httpx")]
    assert resolve(records).groups == ((0, 1), (2,))


WORDS = ["aspirin", "liver", "injury", "adults", "statins", "kidney", "trial", "II", "not", "中文", "Ελλάς", "<b>x</b>", "K<sub>2</sub>"]
NAMES = ["Smith, Ann", "A. Smith", "Bell J", "王伟", "van Beethoven, L.", "", "et al", "O'Neil, P."]
IDENTIFIERS = st.builds(
    Identifiers,
    doi=st.none() | st.sampled_from(["10.1000/1", "10.1000/2", " doi:10.1000/1 ", "see https://x.org", "10.48550/arxiv.2101.1"]),
    pmid=st.none() | st.sampled_from(["1", "2", "x"]),
    arxiv=st.none() | st.sampled_from(["2101.00001v2", "2101.00002"]),
)  # fmt: skip
RECORDS: st.SearchStrategy[Record] = st.builds(
    Paper,
    doc_id=st.just("x"),
    title=st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join) | st.text(max_size=30),
    authors=st.lists(st.sampled_from(NAMES), max_size=4).map(tuple),
    year=st.none() | st.sampled_from([0, 2019, 2020, 20244, -3]),
    volume=st.none() | st.sampled_from(["1", "2", "1)", "Suppl 1"]),
    pages=st.none() | st.sampled_from(["1-9", "1", "10-Jun", "e12", "S5-S6", "no pagination"]),
    abstract=st.sampled_from(["", "a b c d", "four words here then more words that make some text with long enough sentences to hash"]),
    venue=st.none() | st.sampled_from(["J Hepatol", "Journal of Hepatology", "Nature"]),
    identifiers=IDENTIFIERS,
)
MANY = st.lists(RECORDS, max_size=9).map(lambda records: [one.model_copy(update={"doc_id": str(at)}) for at, one in enumerate(records)])


@given(MANY, st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_the_order_of_input_changes_nothing(records: list[Record], random: object) -> None:
    shuffled = list(records)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert group_ids(records, resolve(records)) == group_ids(shuffled, resolve(shuffled))


@given(MANY)
@settings(max_examples=60, deadline=None)
def test_every_record_is_in_exactly_one_group(records: list[Record]) -> None:
    resolution = resolve(records)
    assert sorted(at for members in resolution.groups for at in members) == list(range(len(records)))
    assert len(resolution.reasons) == len(resolution.groups)
    assert all(bool(why) == (len(members) > 1) for members, why in zip(resolution.groups, resolution.reasons, strict=True))
    assert list(resolution.groups) == sorted(resolution.groups)


@given(MANY)
@settings(max_examples=60, deadline=None)
def test_a_group_alone_stays_one(records: list[Record]) -> None:
    """Resolving is idempotent: merged records are not split again."""
    for members in resolve(records).groups:
        assert len(resolve([records[at] for at in members]).groups) == 1


@given(MANY)
@settings(max_examples=60, deadline=None)
def test_no_group_holds_two_that_contradict(records: list[Record]) -> None:
    for members in resolve(records).groups:
        for one, other in combinations(members, 2):
            assert not judge(records[one], records[other]).contradicts


@given(RECORDS, RECORDS)
@settings(max_examples=150, deadline=None)
def test_judging_is_symmetric(one: Record, other: Record) -> None:
    here, there = judge(one, other), judge(other, one)
    assert (here.verdict, here.evidence) == (there.verdict, there.evidence)
    assert (here.relation is None) == (there.relation is None)
    assert here.relation is None or there.relation is None or here.relation.kind == there.relation.kind


@pytest.mark.parametrize(
    "records",
    [
        [by_ann(str(at)) for at in range(1_000)],
        [paper(str(at), "Discussion") for at in range(1_000)],
        [paper(str(at), "many words " * 1_000 + str(at)) for at in range(100)],
        [paper(str(at), "(" * 10_000) for at in range(20)],
        [by_ann(str(at), year=1900 + at % 100, pages=str(at)) for at in range(300)],
        [by_ann(str(at), identifiers=doi("10.1000/shared"), pages=str(at)) for at in range(300)],
    ],
    ids=["copies", "generic", "long titles", "brackets", "one title", "one doi"],
)
def test_bad_input_is_fast(records: list[Record]) -> None:
    began = time.process_time()
    resolve(records)
    assert time.process_time() - began < 10


def test_a_thousand_identical_records_are_one() -> None:
    assert resolve([by_ann(str(at)) for at in range(1_000)]).groups == (tuple(range(1_000)),)


def test_keys_are_the_same_for_indistinguishable_records() -> None:
    assert make_keys(by_ann("a")) == make_keys(by_ann("b"))
    assert judge_keys(make_keys(by_ann()), make_keys(by_ann())).verdict == "same"


@pytest.mark.parametrize(
    ("change", "verdict"),
    [
        ({"title": "Vitamin E and bone density in an urban cohort"}, "unsure"),
        ({"identifiers": Identifiers(doi="10.1000/other"), "pages": None}, "unsure"),
        ({"pages": "201-209"}, "unsure"),
        ({"pages": None, "issue": "7"}, "unsure"),
        ({"year": 2019, "pages": None, "authors": ("World Health Organization",)}, "unsure"),
        ({"title": "Vitamin D and bone density in an urban cohrt"}, "same"),
        ({"title": "Vitamin D and bone density in an urban cohort [Erratum appears in Lancet 2001;1:1]"}, "same"),
        ({"pages": "101-9"}, "same"),
    ],
)
def test_what_tells_two_works_apart_is_reported_and_not_merged(change: dict[str, object], verdict: str) -> None:
    """One team, one year, one journal: whatever else differs with meaning speaks against a merge."""
    one = Paper(
        doc_id="", source="library", title="Vitamin D and bone density in an urban cohort", authors=("Roe, Ann", "Poe, B."), year=2020,
        venue="J Hepatol", volume="3", issue="2", pages="101-109",
    )  # fmt: skip
    if "identifiers" in change:
        one = one.model_copy(update={"identifiers": Identifiers(doi="10.1000/one"), "pages": None})
    if "authors" in change:
        one = one.model_copy(update={"authors": change["authors"], "pages": None, "volume": None})
    assert judge(one, one.model_copy(update=change)).verdict == verdict


@pytest.mark.parametrize("title", ["针灸治疗慢性失眠的临床研究", "Klinische Studie der Akupunktur bei chronischer Schlaflosigkeit"])
def test_one_doi_with_titles_in_two_languages_is_one_work(title: str) -> None:
    """If authors, year or pages agree; a title in the same language is another work of a supplement."""
    one = Paper(
        doc_id="", source="library", title="Clinical study of acupuncture for insomnia", year=2020, identifiers=Identifiers(doi="10.1000/x")
    )  # fmt: skip
    assert judge(one, one.model_copy(update={"title": title})).verdict == "same"
    assert judge(one, one.model_copy(update={"title": title, "year": None})).verdict != "same"
    venues = one.model_copy(update={"venue": "Acupuncture Research"}), one.model_copy(update={"title": title, "venue": "中国针灸"})
    assert not [evidence for evidence in judge(*venues).evidence if evidence.field == "venue"]
    assert judge(one, one.model_copy(update={"title": "Needle lengths of the eighteenth century"})).verdict != "same"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"venue": "Proceedings of the 32nd International Conference on Machine Learning"}, {"venue": "ICML '15"}),
        ({"pages": "1201-1208", "volume": "5"}, {"pages": "e1201-e1208", "volume": "5"}),
    ],
)
def test_notations_of_one_place_are_no_difference(one: dict[str, object], other: dict[str, object]) -> None:
    judgement = judge(by_ann("a", **one), by_ann("b", **other))
    assert judgement.verdict == "same"
    assert not {("venue", "other"), ("pages", "differ")} & {(evidence.field, evidence.what) for evidence in judgement.evidence}
