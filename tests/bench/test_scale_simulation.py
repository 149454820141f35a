"""The simulation against queueing theory, and the plan's arithmetic."""

from __future__ import annotations

import math
import random
from bisect import bisect_right
from dataclasses import replace
from statistics import fmean

import pytest

from bench.growth import extrapolate, predict
from bench.scale_simulation import (
    LAYOUTS,
    Assumptions,
    Layout,
    draw_arrivals,
    erlang_c,
    find_mean_wait,
    find_quantile_of_slowest,
    make_draw,
    plan,
    simulate,
)

RATE, MEAN_S = 3.0, 1.0


def draw_exponential(chance: random.Random) -> float:
    return chance.expovariate(1 / MEAN_S)


@pytest.mark.parametrize(("servers", "offered", "known"), [(1, 0.5, 0.5), (2, 1.0, 1 / 3), (4, 3.0, 0.5094), (10, 8.0, 0.4092)])
def test_erlangs_formula_has_its_tabulated_values(servers: int, offered: float, known: float) -> None:
    assert erlang_c(servers, offered) == pytest.approx(known, abs=1e-4)


@pytest.mark.parametrize(("cores", "rate"), [(1, 0.6), (4, 3.0), (8, 6.0)])
def test_waits_of_a_single_queue_are_those_of_theory(cores: int, rate: float) -> None:
    """M/M/c: the mean wait of 60,000 queries is within an eighth of Erlang's."""
    simulated = simulate(draw_arrivals(rate, 60_000, seed=1), draw_exponential, 1, cores, seed=2)
    wait = fmean(simulated.latencies) - MEAN_S
    assert wait == pytest.approx(find_mean_wait(cores, rate, MEAN_S), rel=0.12)
    assert simulated.busy == pytest.approx(rate * MEAN_S / cores, rel=0.03)


@pytest.mark.parametrize(("replicas", "hedge_s"), [(1, None), (3, None), (3, 2.0)])
def test_littles_law_holds(replicas: int, hedge_s: float | None) -> None:
    """As many queries are in the system as arrive in the time that one stays, counted at moments, not from the same sum."""
    arrivals = draw_arrivals(RATE * replicas, 10_000, seed=3)
    simulated = simulate(arrivals, draw_exponential, replicas, 4, hedge_s, seed=4)
    ends = sorted(at + takes for at, takes in zip(arrivals, simulated.latencies, strict=True))
    chance = random.Random(5)
    moments = [chance.uniform(arrivals[0], arrivals[-1]) for _ in range(2_000)]
    counted = fmean(bisect_right(arrivals, moment) - bisect_right(ends, moment) for moment in moments)
    rate = len(arrivals) / (arrivals[-1] - arrivals[0])
    assert counted == pytest.approx(rate * fmean(simulated.latencies), rel=0.05)
    assert simulated.in_system == pytest.approx(rate * fmean(simulated.latencies), rel=0.02)


def test_two_choices_wait_less_than_one_queue_each_and_more_than_one_queue_for_all() -> None:
    arrivals = draw_arrivals(14.0, 12_000, seed=6)
    pooled = fmean(simulate(arrivals, draw_exponential, 1, 16, seed=7).latencies)
    chosen = fmean(simulate(arrivals, draw_exponential, 4, 4, seed=7).latencies)
    alone = MEAN_S + find_mean_wait(4, 3.5, MEAN_S)
    assert pooled < chosen < alone


def test_hedging_cuts_the_tail_and_costs_some_load() -> None:
    given = replace(Assumptions(), stragglers=0.01)
    draw = make_draw(1.0, given)
    arrivals = draw_arrivals(8.0, 20_000, seed=8)
    plain, hedged = simulate(arrivals, draw, 4, 4, seed=9), simulate(arrivals, draw, 4, 4, 3.0, seed=9)
    assert find_quantile_of_slowest(hedged.latencies, 100, 0.5) < 0.7 * find_quantile_of_slowest(plain.latencies, 100, 0.5)
    assert plain.busy < hedged.busy < 1.1 * plain.busy


def test_the_drawn_times_have_the_mean_that_was_asked_for() -> None:
    given = replace(Assumptions(), stragglers=0.0)
    chance, draw = random.Random(10), make_draw(0.2, given)
    assert fmean(draw(chance) for _ in range(40_000)) == pytest.approx(0.2, rel=0.02)


def test_the_slowest_of_many_is_a_higher_quantile() -> None:
    """Of 0..9999: all of 100 are below the 0.99^(1/100) quantile with a chance of .99."""
    values = [float(value) for value in range(10_000)]
    assert find_quantile_of_slowest(values, 1, 0.5) == 5_000
    assert find_quantile_of_slowest(values, 100, 0.99) == math.floor(10_000 * 0.99**0.01)


SMALL = {
    "records": 1e4, "cpu ms: words, warm": 10.0, "cpu ms: vectors, warm": 10.0, "cpu ms: graph, warm": 10.0,
    "reads: words, warm": 10.0, "reads: vectors, warm": 10.0, "reads: graph, warm": 10.0, "bytes: all": 4e7,
    "bytes: records, rows": 2e7, "bytes: records, index of rank_text": 1e7, "bytes: vectors, index of vector": 1e6,
    "bytes: edges, rows": 1e6, "bytes: edges, index of name": 1e6, "bytes: edges, index of doc_id": 1e6,
}  # fmt: skip
LARGE = {name: value * (10 if name.startswith(("bytes", "records")) else 1) for name, value in SMALL.items()}


def test_forms_of_growth_are_met_by_both_sizes_and_lead_on() -> None:
    """A line stays a line, a constant power stays constant, and the total is that of its parts."""
    assert predict(SMALL, LARGE, 1e4) == pytest.approx(
        {name: value for name, value in {**SMALL, "bytes: all": 3.4e7}.items() if name != "records"} | {"cpu s: all indexes": 0}
    )
    predicted = predict(SMALL, LARGE, 1e6)
    assert predicted["bytes: records, rows"] == pytest.approx(2e9)
    assert predicted["cpu ms: graph, warm"] == pytest.approx(10)


def test_a_quantity_that_the_largest_size_lacks_is_led_on_from_the_smaller_ones() -> None:
    largest = {"records": 1e6, "bytes: records, rows": 4e9}
    one = extrapolate((SMALL, LARGE, largest), 1e7)
    assert one["bytes: records, rows"] == pytest.approx(4.2e10)
    assert one["bytes: edges, rows"] == pytest.approx(1e9)
    assert one["bytes: all"] == pytest.approx(
        sum(size for name, size in one.items() if name.startswith("bytes: ") and name != "bytes: all")
    )


def test_a_plan_adds_up() -> None:
    """100 partitions, 30 ms each, no cache: 1,000 queries a second take 3,000 cores at full load, 6,000 at half."""
    given = replace(Assumptions(), records=1e8, cached=0.0, memory_gib=1e6)
    cluster = plan((SMALL, LARGE), LAYOUTS[0], 1e6, given)
    assert (cluster.partitions, cluster.asked) == (100, 100)
    assert cluster.cpu_s == pytest.approx(3.0)
    assert cluster.nodes == 375
    assert cluster.stored_tb == pytest.approx(0.34)
    assert cluster.hot_gib == pytest.approx(1.4e9 / 2**30), "more nodes than copies: each holds one partition"
    assert cluster.dollars == pytest.approx(375 * 0.6528 * 730 + 375 * 3.4 * 0.08 + 340 * 0.023)
    fewer = plan((SMALL, LARGE), Layout("", graph=0.0, graph_partitions=2.0, vectors=0.1), 1e6, given)
    assert fewer.cpu_s == pytest.approx((100 + 10 + 2) * 0.01)
    assert fewer.gets == pytest.approx(1_000 * 730 * 3_600 * 0.01 * 10 * 112)
    tight = plan((SMALL, LARGE), LAYOUTS[0], 1e6, replace(given, queries_s=0.001, memory_gib=4.0))
    assert tight.nodes == math.ceil(2 * 1.4e11 / (3 * 2**30)), "the memory of two copies decides"
