from __future__ import annotations

import hashlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.models.rerank import token_blocks
from outrider.models.rerank.late_interaction import max_sim
from outrider.models.rerank.token_blocks import LEVELS, MAX_BYTES, compress, count_bytes, max_sims, pool_alike, rotate

DIMENSIONS = st.sampled_from([1, 7, 16, 50, 384, 1_024])


def unit_vectors(count: int, dimension: int, seed: int = 0) -> np.ndarray:
    vectors = np.random.default_rng(seed).standard_normal((count, dimension), np.float32)
    normalized: np.ndarray = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return normalized


@given(st.integers(1, 30), DIMENSIONS)
def test_a_rotation_keeps_products(count: int, dimension: int) -> None:
    vectors = unit_vectors(count, dimension)
    rotated = rotate(vectors)
    np.testing.assert_allclose(rotated @ rotated.T, vectors @ vectors.T, atol=1e-5)


def test_a_rotation_spreads_what_a_model_keeps_in_one_value() -> None:
    vectors = unit_vectors(100, 384)
    vectors[:, 7] = 5
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    assert np.abs(rotate(vectors)).max() < 0.4 < vectors[:, 7].min()


@given(st.integers(0, 40), DIMENSIONS)
def test_a_block_takes_two_bits_a_value(count: int, dimension: int) -> None:
    assert len(compress(unit_vectors(count, dimension))) == count * count_bytes(dimension) <= MAX_BYTES


@pytest.mark.parametrize("dimension", [384, 4_096])
def test_a_block_of_a_long_text_is_as_large_as_it_may_be(dimension: int) -> None:
    assert MAX_BYTES - count_bytes(dimension) < len(compress(unit_vectors(400, dimension))) <= MAX_BYTES


def test_scores_are_close_to_those_of_the_vectors_themselves() -> None:
    query = unit_vectors(8, 384)
    texts = []
    for seed, share in enumerate(np.linspace(0, 3, 20, dtype=np.float32), start=1):
        text = unit_vectors(60, 384, seed)
        text[:8] += share * query
        texts.append(text / np.linalg.norm(text, axis=1, keepdims=True))
    exact = [max_sim(query, text) for text in texts]
    compressed = max_sims(query, [*map(compress, texts)])
    assert np.corrcoef(exact, compressed)[0, 1] > 0.995
    assert np.abs(np.subtract(exact, compressed)).max() < 0.08


def test_nothing_matches_a_text_or_a_query_without_tokens() -> None:
    vectors, none = unit_vectors(3, 16), np.zeros((0, 16), np.float32)
    empty = compress(none)
    assert empty == b""
    assert max_sims(vectors, [empty, compress(vectors), empty])[::2] == [-1.0, -1.0]
    assert max_sims(none, [compress(vectors)]) == [-1.0]
    assert max_sims(vectors, []) == []


@given(st.integers(1, 60), st.integers(1, 60))
def test_pooling_leaves_unit_vectors_and_no_more_than_allowed(count: int, most: int) -> None:
    vectors = unit_vectors(count, 16)
    pooled = pool_alike(vectors, most)
    assert len(pooled) == min(count, most)
    np.testing.assert_allclose(np.linalg.norm(pooled, axis=1), 1, atol=1e-5)


def test_the_tokens_that_are_most_alike_are_pooled() -> None:
    a, b, c = np.eye(3, dtype=np.float32)
    pooled = pool_alike(np.stack([a, b, c, b + c / 8, a]), 3)
    np.testing.assert_allclose(pooled, np.stack([a, (b + c / 16) / np.hypot(1, 1 / 16), c]), atol=1e-6)


def test_stored_blocks_can_be_read_by_every_version() -> None:
    """A failure here means that the meaning of stored bytes has changed: give `FORMAT` another name."""
    digest = hashlib.sha256()
    for signs, order, _ in token_blocks._rotation(384):
        digest.update(bytes(int(sign) & 255 for sign in signs) + np.asarray(order, "<i8").tobytes())
    assert digest.hexdigest() == "79bc3641274673c3f2e3193c016587ade22640ea7e67ed870e1117ba5d633a6a"
    assert token_blocks._decoding().values[0b11_10_01_00].tolist() == pytest.approx(LEVELS)
