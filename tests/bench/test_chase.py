"""`bench chase`: what is read, what is counted, and the targets that are met."""

from __future__ import annotations

import statistics
from itertools import pairwise

import pytest

from bench.chase import SHARE, Review, Walks, chase_exhaustively, chase_review, load_review
from outrider.state.citations import CitationNetwork
from outrider.state.records import Paper
from support.shared_data import DATA


def review() -> Review:
    """Six included works in a chain, each with two others that cite it."""
    works = [f"i{number}" for number in range(6)]
    links = [*pairwise(works)] + [(f"o{number}", works[number // 2]) for number in range(12)]
    papers = {key: Paper(doc_id=key, title="hair cortisol" if key[0] == "i" else "galaxies") for pair in links for key in pair}
    linked = {key: frozenset(end for pair in links if key in pair for end in pair if end != key) for key in papers}
    return Review(CitationNetwork(papers, dict.fromkeys(links, ("x",))), frozenset(works), linked)


def test_the_exhaustive_chase_reads_each_link_of_an_included_work_once() -> None:
    """The start is not read; a work that is not included leads nowhere."""
    read = chase_exhaustively(review(), ["i0"])
    assert len(read) == len(set(read)) == 17
    assert "i0" not in read


def test_a_chase_is_measured_against_the_exhaustive_one() -> None:
    """Text tells the included works from the others, so that they come first."""
    draw = chase_review(review(), seed=0, hops=1)
    assert draw.exhaustive_recall == 1.0
    assert draw.needed is not None
    assert draw.needed <= SHARE + 0.1
    assert draw.stop_recall == 1.0


def test_walks_count_paths_and_spread_ranks() -> None:
    """A chain of three works: one path to the next, one to the one after."""
    network = CitationNetwork({key: Paper(doc_id=key) for key in "abcd"}, dict.fromkeys([("a", "b"), ("b", "c")], ("x",)))
    walks = Walks(network)
    counts, ranks = walks.count_two_steps(["a"]), walks.walk(["a"])
    assert (counts["b"], counts["c"], counts["d"]) == (1, 1, 0)
    assert ranks["b"] > ranks["c"] > ranks["d"] == 0


@pytest.mark.skipif(not (DATA / "synergy").is_dir(), reason="the shared data are not there")
def test_the_chase_of_donners_finds_all_with_less_than_the_reading() -> None:
    """The published recall is 1.00."""
    draws = [chase_review(load_review("Donners_2021"), seed, hops=1) for seed in range(3)]
    assert statistics.mean(draw.recall for draw in draws) == 1.0
