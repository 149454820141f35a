"""The ranked test: its p-values, those of buscarpy, and exact probabilities."""

from __future__ import annotations

import random
from fractions import Fraction
from math import comb

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.statistics.ranked_stop import compute_hypergeometric_cdf, compute_ranked_p_value, count_least_total

RECORDED = [
    (1, 1000, 400, 0.95, 0.5351559010095596),
    (2, 500, 450, 0.95, 0.029435793925413303),
    (3, 2000, 1200, 0.9, 0.0700669760390729),
    (4, 300, 250, 0.8, 0.046371080751924906),
]
"""Seed, records, read, target, and the p-value of `buscarpy.calculate_h0` 0.0.2 with scipy 1.17.1."""


@pytest.mark.parametrize(("seed", "total", "read", "target", "p_value"), RECORDED)
def test_p_values_are_those_of_buscarpy(seed: int, total: int, read: int, target: float, p_value: float) -> None:
    """On orders of which the first records are the most relevant."""
    chance = random.Random(seed)
    labels = [chance.random() < 0.15 * (1 - at / read) ** 3 for at in range(read)]
    assert compute_ranked_p_value(labels, total, target) == pytest.approx(p_value, abs=1e-10)


@given(st.lists(st.booleans(), max_size=25), st.integers(0, 20), st.sampled_from([0.5, 0.8, 0.9, 0.95]))
def test_the_longest_run_of_each_number_of_relevant_records_is_enough(labels: list[bool], left: int, target: float) -> None:
    """The p-value is the least one over all runs of last records."""
    total = len(labels) + left
    least = count_least_total(sum(labels), target)
    values = [1.0]
    for start in range(len(labels) + 1):
        inside = sum(labels[start:])
        hidden = least - sum(labels) + inside
        values.append(0.0 if hidden > total - start else _cdf(inside, total - start, hidden, len(labels) - start))
    assert compute_ranked_p_value(labels, total, target) == pytest.approx(min(values), abs=1e-9)


@given(st.integers(0, 30), st.integers(0, 30), st.integers(0, 30), st.integers(0, 30))
def test_hypergeometric_probabilities_are_exact(at_most: int, population: int, marked: int, drawn: int) -> None:
    """Against whole numbers."""
    marked, drawn = min(marked, population), min(drawn, population)
    assert compute_hypergeometric_cdf(at_most, population, marked, drawn) == pytest.approx(_cdf(at_most, population, marked, drawn))


def test_a_share_is_read_as_it_is_written() -> None:
    """19 of 20 are 95 %, so that the least total of which 19 are less is 21; and 1 of 1 is enough."""
    assert [count_least_total(found, 0.95) for found in (0, 1, 18, 19, 38)] == [1, 2, 19, 21, 41]


def test_a_hidden_end_deceives_the_test() -> None:
    """Why it is advice: 40 relevant records first, 5 at the end, and the test suggests to stop at a recall of .889."""
    order = [True] * 40 + [False] * 1655 + [True] * 5
    stop = next(read for read in range(40, 1700, 5) if compute_ranked_p_value(order[:read], 1700, 0.95) < 0.05)
    assert stop < 1695
    assert sum(order[:stop]) / sum(order) == pytest.approx(0.889, abs=0.001)


def _cdf(at_most: int, population: int, marked: int, drawn: int) -> float:
    ways = sum(comb(marked, count) * comb(population - marked, drawn - count) for count in range(min(at_most, drawn) + 1))
    return float(Fraction(ways, comb(population, drawn)))
