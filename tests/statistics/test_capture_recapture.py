"""Capture-recapture: bounds of simulated populations, refusals, and what the bound must not depend on."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.state.errors import BadRequest
from outrider.statistics.capture_recapture import MAX_ROUTES, bound_recall_of_routes

TOTAL = 120


def draw_routes(seed: int, chances: list[float], spread: float = 0.0) -> dict[str, set[str]]:
    """Routes that find each work with their chance; with a spread, some works are hard to find by all routes."""
    chance = random.Random(seed)
    odds = [2.718281828 ** chance.gauss(0, spread) for _ in range(TOTAL)]
    routes: dict[str, set[str]] = {f"route {at}": set() for at in range(len(chances))}
    for number, factor in enumerate(odds):
        for name, share in zip(routes, chances, strict=True):
            if chance.random() < share * factor / (1 - share + share * factor):
                routes[name].add(f"work {number}")
    return routes


@pytest.mark.parametrize(("chances", "spread"), [([0.4, 0.5], 0.0), ([0.3, 0.4, 0.5], 0.0), ([0.4, 0.5], 1.0), ([0.3, 0.4, 0.5], 1.2)])
def test_the_bound_covers_independent_and_heterogeneous_routes(chances: list[float], spread: float) -> None:
    """At least 93 % of 60 populations, without going to infinity."""
    bounds = [bound_recall_of_routes(draw_routes(seed, chances, spread)) for seed in range(60)]
    given_ = [one for one in bounds if one.most is not None]
    assert len(given_) >= 55
    assert sum((one.most or 0) >= TOTAL for one in given_) >= 0.93 * len(given_)
    assert sorted(one.most or 0 for one in given_)[30] < 12 * TOTAL


@pytest.mark.parametrize(
    ("routes", "reason"),
    [
        ({}, "fewer than two routes"),
        ({"a": "uvwxyz"}, "fewer than two routes"),
        ({"a": "uvwxyz", "b": ""}, "fewer than two routes"),
        ({"a": "uvwxyz", "b": "zyxwvu"}, "the same works"),
        ({"a": "uv", "b": "vw"}, "fewer than 5 works"),
        ({"a": "uvw", "b": "xyz"}, "no work was found by two routes"),
        ({"a": "uvwxyz", "b": "uvw"}, "works of their own"),
    ],
)
def test_routes_that_tell_nothing_are_refused(routes: dict[str, str], reason: str) -> None:
    """The reason stands in the sentence, and there is no number."""
    bound = bound_recall_of_routes(routes)
    assert reason in bound.refused
    assert bound.refused in bound.sentence
    assert (bound.most, bound.recall) == (None, None)


def test_a_bound_names_method_and_confidence() -> None:
    """Never a number alone, never two sides."""
    bound = bound_recall_of_routes(draw_routes(1, [0.5, 0.6, 0.7]))
    assert bound.recall is not None
    assert bound.most is not None
    assert bound.recall == pytest.approx(bound.found / bound.most)
    for part in ("at least", "one-sided", "confidence 95%", "capture-recapture", "at most"):
        assert part in bound.sentence


def test_many_routes_are_pooled_and_equal_ones_count_once() -> None:
    """The smallest are pooled, with their names."""
    routes = draw_routes(2, [0.6, 0.5, 0.4, 0.3, 0.2, 0.1])
    bound = bound_recall_of_routes({**routes, "twin": routes["route 0"]})
    assert len(bound.routes) == MAX_ROUTES
    assert "route 0 = twin" in bound.routes
    assert any("route 5" in name and " + " in name for name in bound.routes)


def test_a_confidence_outside_its_range_is_refused() -> None:
    """As bad input."""
    with pytest.raises(BadRequest):
        bound_recall_of_routes({}, 1.0)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.integers(2, 4), st.sampled_from([0.8, 0.9]))
def test_bounds_are_consistent(seed: int, number: int, lower: float) -> None:
    """At least the works found; wider with more confidence; the same whatever the names and the order of the routes."""
    chance = random.Random(seed)
    routes = draw_routes(seed, [chance.uniform(0.1, 0.9) for _ in range(number)], chance.uniform(0, 1.5))
    less, more = bound_recall_of_routes(routes, lower), bound_recall_of_routes(routes, 0.95)
    renamed = bound_recall_of_routes({f"z{name[::-1]}": works for name, works in reversed(routes.items())}, 0.95)
    assert (more.found, more.most) == (renamed.found, renamed.most)
    if less.most is not None and more.most is not None:
        assert less.found <= less.most <= more.most
        assert more.recall is not None
        assert 0 < more.recall <= 1


def test_more_overlap_tightens_the_bound() -> None:
    """Works that move from one route to both."""
    few, many = (
        bound_recall_of_routes({"a": {f"w{at}" for at in range(40)}, "b": {f"w{at}" for at in range(40 - shared, 60)}})
        for shared in (10, 30)
    )
    assert few.recall is not None
    assert many.recall is not None
    assert few.recall < many.recall
