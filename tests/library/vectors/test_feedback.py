"""The second comparison with a query that moved towards the first works."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.library.vectors.feedback import SHARE, compare_again

QUERY = np.array([1.0, 0.0, 0.0], dtype=np.float32)


def test_what_is_like_the_first_works_comes_closer() -> None:
    """By hand: the query moves a fifth of its length towards `first`, whatever the lengths of the vectors are."""
    vectors = {"first": np.array([0.6, 0.8, 0.0]) * 7, "like it": np.array([0.6, 0.8, 0.0]), "other": np.array([0.61, 0.0, 0.79])}
    before = compare_again(QUERY, {"other": vectors["other"], "like it": vectors["like it"]}, ["other"])
    assert [place.doc_id for place in before] == ["other", "like it"]
    after = compare_again(QUERY, vectors, ["first", "found by words"])
    assert [place.doc_id for place in after] == ["first", "like it", "other"]
    moved = np.array([1 + SHARE * 0.6, SHARE * 0.8, 0.0])
    assert after[0].score == pytest.approx(float(moved @ [0.6, 0.8, 0.0] / np.linalg.norm(moved)), abs=1e-6)


def test_without_a_vector_of_the_first_works_nothing_is_compared() -> None:
    assert compare_again(QUERY, {"a": QUERY}, ["b"]) == compare_again(QUERY, {}, ["b"]) == compare_again(QUERY, {"a": QUERY}, []) == ()


values = st.lists(st.floats(-1, 1, width=32), min_size=3, max_size=3).map(np.array)


@given(st.dictionaries(st.sampled_from("abcdef"), values, min_size=1), st.sets(st.sampled_from("abcdefgh"), max_size=3))
def test_every_work_stays_with_a_cosine(vectors: dict[str, np.ndarray], first: set[str]) -> None:
    """Also where a vector, or the mean of some, has no length."""
    compared = compare_again(QUERY, vectors, sorted(first))
    assert {place.doc_id for place in compared} == (set(vectors) if first & set(vectors) else set())
    assert all(-1.001 <= place.score <= 1.001 for place in compared)
    assert [place.score for place in compared] == sorted((place.score for place in compared), reverse=True)
