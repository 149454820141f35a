"""Synthetic records and vectors: deterministic by seed, and similar to the texts they are fitted to."""

from __future__ import annotations

from collections import Counter

import numpy as np

from bench.synthetic import CLUSTERS, Cloud, Vocabulary

TEXTS = ("a wing, a tail and a wing", "soil", "flutter of wings")


def test_papers_are_the_same_for_the_same_numbers_and_seed() -> None:
    """Other numbers or seeds give other papers: no two batches repeat each other."""
    vocabulary = Vocabulary.fitted(TEXTS)
    papers = vocabulary.papers(0, 50)
    assert Vocabulary.fitted(TEXTS).papers(0, 50) == papers
    assert [one.doc_id for one in papers] == [f"{number:08}" for number in range(50)]
    texts = [
        [(one.title, one.abstract) for one in batch] for batch in (papers, vocabulary.papers(50, 100), vocabulary.papers(0, 50, seed=1))
    ]
    assert texts[0] != texts[1]
    assert texts[0] != texts[2]


def test_words_are_as_frequent_and_texts_as_long_as_in_the_collection() -> None:
    """Three of eleven words are "a"; a third of the texts has one word."""
    texts = [f"{one.title} {one.abstract}".split() for one in Vocabulary.fitted(TEXTS).papers(0, 3_000)]
    counts = Counter(word for text in texts for word in text)
    assert set(counts) == {"a", "wing", "tail", "and", "soil", "flutter", "of", "wings"}
    assert abs(counts["a"] / counts.total() - 3 / 11) < 0.02
    lengths = Counter(map(len, texts))
    assert set(lengths) == {7, 1, 3}
    assert abs(lengths[1] / 3_000 - 1 / 3) < 0.04


def test_records_cite_earlier_ones_and_authors_write_several() -> None:
    """Never themselves or a later one; more records have more authors."""
    papers = Vocabulary.fitted(TEXTS).papers(0, 10_000)
    assert papers[0].edges == ()
    assert all(edge.target < f"doc:{one.doc_id}" for one in papers for edge in one.edges)
    written = Counter(name for one in papers for name in one.authors)
    assert 5 < written.total() / len(written) < 15


def test_a_text_has_one_vector_in_any_batch() -> None:
    """Like a model; queries and documents lie in the same cloud."""
    cloud, again = Cloud(48), Cloud(48)
    both = cloud.embed(["wing", "tail"])
    assert both.shape == (2, 48)
    assert both.dtype == np.float32
    assert np.array_equal(both[0], again.embed("wing", "query")[0])
    assert np.allclose(np.linalg.norm(both, axis=1), 1, atol=1e-6)
    assert not np.array_equal(both[0], both[1])
    each = cloud.embed_each(["tail"])[0].vector
    assert each is not None
    assert np.array_equal(each, both[1])
    assert Cloud(48, seed=1).space.id != cloud.space.id


def test_the_cloud_has_clusters_that_overlap() -> None:
    """Near neighbours are much nearer than random pairs, yet distinct: neither trivial nor hopeless for an index."""
    vectors = Cloud(96).vectors(np.random.default_rng(0), 3 * CLUSTERS)
    cosines = vectors @ vectors[:100].T
    cosines[np.arange(100), np.arange(100)] = -1
    closest = cosines.max(axis=0)
    assert 0.6 < float(np.median(closest)) < 0.95
    assert abs(float(np.median(cosines))) < 0.1
