"""Cohen's kappa by hand, and by scikit-learn."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.statistics.agreement import compute_kappa, count_agreed

VERDICTS = st.sampled_from(["include", "exclude", "maybe"])


def test_kappa_by_hand() -> None:
    """Alike on 35 of 50 records, where chance gives 25: (.7 - .5) / (1 - .5)."""
    pairs = [("include", "include")] * 20 + [("include", "exclude")] * 5 + [("exclude", "include")] * 10 + [("exclude", "exclude")] * 15
    assert count_agreed(pairs) == 35
    assert compute_kappa(pairs) == pytest.approx(0.4)


@pytest.mark.parametrize(
    ("pairs", "kappa"),
    [
        ([], None),
        ([("include", "include")] * 3, None),
        ([("include", "exclude")] * 3, 0.0),
        ([("include", "exclude"), ("exclude", "include")], -1.0),
        ([("include", "include"), ("exclude", "exclude")], 1.0),
        ([("include", "include"), ("exclude", "include")], 0.0),
    ],
)
def test_where_chance_explains_all_kappa_is_undefined(pairs: list[tuple[str, str]], kappa: float | None) -> None:
    assert compute_kappa(pairs) == kappa


@given(st.lists(st.tuples(VERDICTS, VERDICTS), min_size=1, max_size=40))
def test_kappa_is_that_of_scikit_learn(pairs: list[tuple[str, str]]) -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    ones, others = zip(*pairs, strict=True)
    if len({*ones, *others}) == 1:  # scikit-learn warns, and returns nan
        assert compute_kappa(pairs) is None
        return
    expected = metrics.cohen_kappa_score(ones, others)
    kappa = compute_kappa(pairs)
    assert kappa is not None
    assert math.isclose(kappa, expected, abs_tol=1e-12)
