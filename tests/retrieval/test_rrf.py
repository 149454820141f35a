from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.retrieval.rrf import interleaved, reciprocal_rank_fusion
from outrider.state.hits import Ranked, RankedList


def ranked(*doc_ids: str) -> RankedList:
    return RankedList(source="s", strategy="t", query="q", results=tuple(Ranked(doc_id=doc_id, score=0.0) for doc_id in doc_ids))


def test_it_equals_its_definition() -> None:
    fused = reciprocal_rank_fusion([ranked("a", "b"), ranked("b", "c")], k=60)
    assert fused == pytest.approx({"a": 1 / 61, "b": 1 / 62 + 1 / 61, "c": 1 / 62})


lists = st.lists(st.lists(st.sampled_from("abcdef"), unique=True, max_size=6).map(lambda ids: ranked(*ids)), max_size=4)


@given(lists, st.randoms(use_true_random=False))
def test_the_order_of_the_lists_does_not_matter(many: list[RankedList], random: object) -> None:
    shuffled = list(many)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert reciprocal_rank_fusion(shuffled) == pytest.approx(reciprocal_rank_fusion(many))


@given(lists)
def test_a_dominated_work_never_ranks_above_its_dominator(many: list[RankedList]) -> None:
    """A work that every list ranks better, or alone has, scores at least as high."""
    places = [{place.doc_id: rank for rank, place in enumerate(listed.results)} for listed in many]
    fused = reciprocal_rank_fusion(many)
    for one in fused:
        for other in fused:
            if all(place.get(one, 99) <= place.get(other, 99) for place in places):
                assert fused[one] >= fused[other] - 1e-12


@given(lists)
def test_interleaving_keeps_each_lists_own_order_and_names_a_work_once(many: list[RankedList]) -> None:
    scores = interleaved(many)
    order = sorted(scores, key=lambda doc_id: -scores[doc_id])
    assert sorted(order) == sorted({place.doc_id for listed in many for place in listed.results})
    if many and many[0].results:
        assert order[0] == many[0].results[0].doc_id


def test_interleaving_by_rank() -> None:
    scores = interleaved([ranked("a", "b", "c"), ranked("x", "a", "y")])
    assert sorted(scores, key=lambda doc_id: -scores[doc_id]) == ["a", "x", "b", "c", "y"]
