from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ir_measures import calc_aggregate, nDCG

from outrider.training.ranking_measures import ndcg


@given(st.lists(st.integers(0, 3), max_size=30), st.lists(st.integers(0, 3), max_size=5))
@settings(deadline=None)
def test_ndcg_is_that_of_the_field(ranked: list[int], missed: list[int]) -> None:
    every = [*ranked, *missed]
    qrels = {"q": {str(at): value for at, value in enumerate(every)} or {"0": 0}}
    run = {"q": {str(at): float(-at) for at in range(len(ranked))} or {"none": 1.0}}
    assert ndcg(ranked, every) == pytest.approx(calc_aggregate([nDCG @ 10], qrels, run)[nDCG @ 10])


def test_one_right_record() -> None:
    found = [round(ndcg([at == place for at in range(20)], [1]), 3) for place in (0, 1, 2, 9, 10, 99)]
    assert found == [1.0, 0.631, 0.5, 0.289, 0.0, 0.0]
