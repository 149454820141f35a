"""Fusion against its definition, and properties of every fusion."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.library.fusion import build_fusion, fuse_sources, fuse_with_feedback, interleave, min_max, reciprocal_rank_fusion
from outrider.settings.model import RankingSettings
from outrider.state.hits import Ranked, RankedList
from outrider.state.ports import CompareAgain, Fusion
from outrider.state.request import RetrieverType

STRATEGIES = tuple(RetrieverType)
WEIGHTS = dict(zip(STRATEGIES, (0.5, 0.5, 0.15), strict=True))
ABSENT = 99


def make_list(places: Mapping[str, float], strategy: str = STRATEGIES[0]) -> RankedList:
    results = tuple(Ranked(doc_id=doc_id, score=score) for doc_id, score in places.items())
    return RankedList(source="s", strategy=strategy, query="q", results=results)


def make_ranking(*doc_ids: str, strategy: str = STRATEGIES[0]) -> RankedList:
    return make_list(dict.fromkeys(doc_ids, 0.0), strategy)


def order(scores: Mapping[str, float]) -> list[str]:
    return sorted(scores, key=lambda doc_id: (-scores[doc_id], doc_id))


any_score = st.floats(allow_nan=True, allow_infinity=True) | st.integers(-3, 3).map(float)
any_list = st.builds(
    lambda doc_ids, scores, strategy: make_list(dict(zip(doc_ids, scores, strict=False)), strategy),
    st.lists(st.sampled_from("abcdef"), unique=True, max_size=6),
    st.lists(any_score, min_size=6, max_size=6),
    st.sampled_from(STRATEGIES),
)
any_lists = st.lists(any_list, max_size=4)
"""Also lists whose scores are equal, rise, or are no numbers at all."""
fusions = pytest.mark.parametrize(
    "fuse", [build_fusion(RankingSettings(fusion=name)) for name in ("rrf", "min_max")], ids=["rrf", "min_max"]
)


@given(any_lists, st.integers(1, 100))
def test_rrf_equals_its_definition(lists: list[RankedList], k: int) -> None:
    """`sum of weight / (k + rank)`, written out once more."""
    expected: dict[str, float] = {}
    for one in lists:
        for rank, place in enumerate(one.results, start=1):
            expected[place.doc_id] = expected.get(place.doc_id, 0.0) + WEIGHTS[RetrieverType(one.strategy)] / (k + rank)
    assert reciprocal_rank_fusion(lists, k, WEIGHTS) == pytest.approx(expected)


def test_rrf_by_hand() -> None:
    fused = reciprocal_rank_fusion([make_ranking("a", "b"), make_ranking("b", "c")], k=60)
    assert fused == pytest.approx({"a": 1 / 61, "b": 1 / 62 + 1 / 61, "c": 1 / 62})


def test_min_max_by_hand() -> None:
    """Nine tenths of the score's place between best and last, one tenth of 61 / (60 + rank)."""
    dense = make_list({"a": 0.8, "b": 0.7, "c": 0.4}, "lance_dense")
    sparse = make_list({"c": 12.0, "d": 2.0}, "lance_fts")
    expected = {
        "a": 0.5 * (0.9 + 0.1),
        "b": 0.5 * (0.9 * 0.75 + 0.1 * 61 / 62),
        "c": 0.5 * (0.1 * 61 / 63) + 2 * (0.9 + 0.1),
        "d": 2 * (0.1 * 61 / 62),
    }
    assert min_max([dense, sparse], {"lance_dense": 0.5, "lance_fts": 2.0}) == pytest.approx(expected)


@fusions
@given(any_lists, st.randoms(use_true_random=False))
def test_the_order_of_the_lists_does_not_matter(fuse: Fusion, lists: list[RankedList], random: Random) -> None:
    """To the last bit, so that no tie is broken by who answered first."""
    shuffled = list(lists)
    random.shuffle(shuffled)
    assert fuse(shuffled) == fuse(lists)


@fusions
@given(any_lists)
def test_a_dominated_work_never_comes_above_its_dominator(fuse: Fusion, lists: list[RankedList]) -> None:
    """A work that no list ranks worse and one ranks better, or alone has, scores higher, whatever the scores are."""
    places = [{place.doc_id: rank for rank, place in enumerate(one.results)} for one in lists]
    fused = fuse(lists)
    for one in fused:
        for other in fused:
            if one != other and all(place.get(one, ABSENT) <= place.get(other, ABSENT) for place in places):
                assert fused[one] > fused[other]


@fusions
@given(any_lists)
def test_every_work_is_listed_once_with_a_finite_positive_score(fuse: Fusion, lists: list[RankedList]) -> None:
    fused = fuse(lists)
    assert set(fused) == {place.doc_id for one in lists for place in one.results}
    assert all(math.isfinite(score) and score > 0 for score in fused.values())


falling = st.lists(st.integers(-1_000, 1_000), min_size=1, max_size=6, unique=True).map(lambda scores: sorted(scores, reverse=True))


@given(falling, falling, st.sampled_from([0.25, 0.5, 2.0, 1_024.0]), st.integers(-10_000, 10_000))
def test_min_max_minds_neither_scale_nor_shift(one: list[int], other: list[int], scale: float, shift: int) -> None:
    """Each list's scores may be on a scale of their own."""

    def fuse_with(scores: Sequence[float]) -> Mapping[str, float]:
        moved = make_list(dict(zip("abcdef", scores, strict=False)))
        return min_max([moved, make_list(dict(zip("defabc", map(float, other), strict=False)))])

    assert fuse_with([score * scale + shift for score in one]) == fuse_with([float(score) for score in one])


@pytest.mark.parametrize(
    "scores",
    [
        (5.0, 5.0, 5.0),
        (-1.0, -2.0, -3.0),
        (math.nan, math.nan, math.nan),
        (2.0, math.nan, 1.0),
        (math.inf, 1.0, -math.inf),
        (1.0, 2.0, 3.0),
        (1.7e308, 0.0, -1.7e308),
        (5e-324, 0.0, -5e-324),
    ],
    ids=["equal", "negative", "no numbers", "one no number", "endless", "rising", "huge", "tiny"],
)
def test_one_list_keeps_its_order_whatever_its_scores(scores: tuple[float, ...]) -> None:
    """Scores give the distance between places, never their order."""
    fused = min_max([make_list(dict(zip("cab", scores, strict=True)))])
    assert order(fused) == ["c", "a", "b"]
    assert fused["c"] == pytest.approx(1.0)


def test_a_single_hit_is_the_best_of_its_list() -> None:
    assert min_max([make_list({"a": -7.0})]) == pytest.approx({"a": 1.0})


@fusions
def test_nothing_found_is_nothing_fused(fuse: Fusion) -> None:
    assert fuse([]) == fuse([make_ranking(), make_ranking()]) == {}


@fusions
def test_a_work_that_one_list_names_twice_counts_once(fuse: Fusion) -> None:
    """At its better place; the others move up as if it stood there alone."""
    twice = RankedList(source="s", strategy="t", query="q", results=tuple(Ranked(doc_id=name, score=0.0) for name in "abac"))
    assert fuse([twice]) == fuse([make_ranking("a", "b", "c", strategy="t")])


@given(any_lists, st.integers(1, 100))
def test_the_setting_rrf_is_the_plain_formula(lists: list[RankedList], k: int) -> None:
    """`sum of 1 / (k + rank)`, with the default weights and with any other: they belong to the fusion by scores."""
    expected: dict[str, float] = {}
    for one in lists:
        for rank, place in enumerate(one.results, start=1):
            expected[place.doc_id] = expected.get(place.doc_id, 0.0) + 1 / (k + rank)
    assert build_fusion(RankingSettings(fusion="rrf", rrf_k=k))(lists) == pytest.approx(expected)
    assert build_fusion(RankingSettings(fusion="rrf", rrf_k=k, dense_weight=0.9, sparse_weight=0.1))(lists) == pytest.approx(expected)


def test_the_settings_choose_method_weights_and_k() -> None:
    lists = [
        make_ranking("a", strategy="lance_dense"),
        make_ranking("b", strategy="lance_fts"),
        make_ranking("c", strategy="graph_neighbor"),
    ]
    weights = {"dense_weight": 0.3, "sparse_weight": 0.2, "graph_weight": 0.1}
    by_rank = build_fusion(RankingSettings(fusion="rrf", rrf_k=9, **weights))
    assert by_rank(lists) == pytest.approx({"a": 0.1, "b": 0.1, "c": 0.1})
    assert build_fusion(RankingSettings(fusion="min_max", **weights))(lists) == pytest.approx({"a": 0.3, "b": 0.2, "c": 0.1})


@given(any_lists)
def test_interleaving_keeps_each_lists_own_order_and_names_a_work_once(many: list[RankedList]) -> None:
    """Works of one list alone keep the order of that list."""
    interleaved = order(interleave(many))
    assert sorted(interleaved) == sorted({place.doc_id for one in many for place in one.results})
    for one in many:
        others = {place.doc_id for other in many if other is not one for place in other.results}
        alone = [place.doc_id for place in one.results if place.doc_id not in others]
        assert [doc_id for doc_id in interleaved if doc_id in alone] == alone
    if many and many[0].results:
        assert interleaved[0] == many[0].results[0].doc_id


def test_interleaving_by_rank() -> None:
    assert order(interleave([make_ranking("a", "b", "c"), make_ranking("x", "a", "y")])) == ["a", "x", "b", "c", "y"]


def make_answer(source: str, *doc_ids: str, strategy: str = "relevance", score: float | None = None) -> RankedList:
    results = tuple(Ranked(doc_id, 1 / rank if score is None else score) for rank, doc_id in enumerate(doc_ids, start=1))
    return RankedList(source=source, strategy=strategy, query="q", results=results)


OWN = build_fusion(RankingSettings())


def test_the_fusion_of_a_single_source_is_kept() -> None:
    lists = [make_answer("library", *"abc", strategy=STRATEGIES[0]), make_answer("library", *"cd", strategy=STRATEGIES[1])]
    assert fuse_sources(lists, OWN) == OWN(lists)
    assert fuse_sources([], OWN) == {}


def test_no_source_crowds_another_out() -> None:
    """Whatever their scores, and however many lists each gave, each has its share of the first hundred."""
    lists = [
        *(make_answer("library", *(f"l{way}-{at}" for at in range(100)), strategy=kind, score=20.0) for way, kind in enumerate(STRATEGIES)),
        *(make_answer("pubmed", *(f"p{query}-{at}" for at in range(100))) for query in range(4)),
        make_answer("openalex", *(f"o{at}" for at in range(100)), score=500.0),
        make_answer("arxiv", *(f"a{at}" for at in range(100))),
    ]
    first = order(fuse_sources(lists, OWN))[:100]
    assert {name: sum(doc_id.startswith(name) for doc_id in first) for name in "lpoa"} == dict.fromkeys("lpoa", 25)


def test_no_strategy_of_a_source_crowds_another_out() -> None:
    """Of 25 repositories, of which most are in the library, GitHub's three strategies have four or five each, too."""
    lists = [
        make_answer("library", *(f"l{at}" for at in range(100)), strategy=STRATEGIES[1], score=9.0),
        *(make_answer("github", *(f"{kind[0]}{at}" for at in range(30)), strategy=kind) for kind in ("stars", "updated", "expanded")),
    ]
    first = order(fuse_sources(lists, OWN))[:25]
    assert {name: sum(doc_id.startswith(name) for doc_id in first) for name in "sue"} == {"s": 4, "u": 4, "e": 4}


def test_the_first_works_order_a_list_again() -> None:
    """What orders the list gets the three best works of all lists; the result is fused from its order."""
    dense = make_answer("library", *"abcd", strategy=STRATEGIES[0])
    sparse = make_answer("library", *"cbef", strategy=STRATEGIES[1])
    asked: list[list[str]] = []

    def compare_again(first: Sequence[str]) -> tuple[Ranked, ...]:
        asked.append(list(first))
        return tuple(Ranked(doc_id, score) for doc_id, score in zip("dcbax", (0.9, 0.8, 0.7, 0.1, 0.05), strict=True))

    fused = fuse_with_feedback([dense, sparse], [compare_again, None], OWN)
    assert asked == [order(OWN([dense, sparse]))[:3]]
    again = make_list(dict(zip("dcba", (0.9, 0.8, 0.7, 0.1), strict=True)), STRATEGIES[0]).model_copy(
        update={"source": "library", "query": "q"}
    )
    assert fused == OWN([again, sparse])


@given(any_lists, st.randoms(use_true_random=False))
def test_feedback_adds_and_loses_no_work(lists: list[RankedList], random: Random) -> None:
    """Whatever order it gives, and where it gives none or forgets works."""
    own = [one.model_copy(update={"source": "library"}) for one in lists]

    def order_again(ranked_list: RankedList) -> CompareAgain | None:
        results = random.sample(ranked_list.results, random.choice([0, len(ranked_list.results)]))
        return random.choice([None, lambda _: tuple(results)])

    fused = fuse_with_feedback(own, [order_again(one) for one in own], OWN)
    assert set(fused) == {place.doc_id for one in lists for place in one.results}
    assert all(math.isfinite(score) and score > 0 for score in fused.values())


def test_a_single_list_of_vectors_keeps_its_order() -> None:
    """Without words beside it there is no second opinion; nor do works of a service order the library's list."""
    dense = make_answer("library", *"abc", strategy=STRATEGIES[0])

    def fail(first: Sequence[str]) -> tuple[Ranked, ...]:
        raise AssertionError(first)

    lists = [dense, make_answer("library", strategy=STRATEGIES[1]), make_answer("pubmed", "x", "y")]
    fuse = partial(fuse_sources, own=OWN)
    assert fuse_with_feedback(lists, [fail, None, None], fuse) == fuse(lists)


any_sources = st.lists(
    st.builds(
        lambda source, doc_ids: make_answer(source, *(f"{source}:{doc_id}" for doc_id in doc_ids)),
        st.sampled_from(["library", "arxiv", "github"]),
        st.lists(st.integers(0, 9), unique=True, max_size=6),
    ),
    max_size=6,
)


@given(any_sources)
def test_every_work_is_fused_and_the_order_of_sources_does_not_matter(lists: list[RankedList]) -> None:
    fused = fuse_sources(lists, OWN)
    assert set(fused) == {place.doc_id for one in lists for place in one.results}
    shuffled = sorted(lists, key=lambda one: one.source)
    assert fuse_sources(shuffled, OWN) == fused
