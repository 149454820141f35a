"""The simulated reviews of the benchmark of stopping."""

from __future__ import annotations

import numpy as np
import pytest

from bench.stopping import ORDERS, TARGET, read_to_stop, run_open, run_sealed

ORDER = [at % 4 == 0 for at in range(160)] + [False] * 640
"""40 relevant records of 800, the last at place 156."""


def test_orders_keep_their_records() -> None:
    """The hidden ones are the last, and just enough to miss the target, or a tenth and one more."""
    changed = {name: change(ORDER, 0) for name, change in ORDERS.items()}
    assert all(sorted(order) == sorted(ORDER) for order in changed.values())
    assert changed["just enough hidden"][-4:] == [False, True, True, True]
    assert changed["a tenth hidden"][-6:] == [False, *[True] * 5]


def test_the_ranked_test_misses_hidden_records() -> None:
    """The benchmark can fail: an order with a hidden tenth is stopped below the target."""
    order = ORDERS["a tenth hidden"](ORDER, 0)
    starts, stop = read_to_stop(order)
    assert starts[True] <= starts[False] <= stop < len(order)
    assert sum(order[:stop]) / 40 == pytest.approx(35 / 40)


@pytest.mark.parametrize("kind", ORDERS)
def test_sealed_samples_reach_the_target_and_save_work(kind: str) -> None:
    """In at least 91 % of 400 drawings, four standard errors below .95; on the model's order a fifth of the work is saved."""
    order = ORDERS[kind](ORDER, 0)
    chance = np.random.default_rng(0)
    runs = [run_sealed(order, 10, chance) for _ in range(400)]
    assert all(run.found <= run.screened <= len(order) for run in runs)
    assert np.mean([run.found >= TARGET * 40 for run in runs]) >= 0.91
    if kind == "model":
        assert np.mean([1 - run.screened / len(order) for run in runs]) > 0.2


def test_an_open_sample_proves_after_the_announced_number_of_draws() -> None:
    """With nothing left, the draws are those of the fixed-size test: 63 % of the rest for three hidden ones."""
    run = run_open(ORDER, 200, np.random.default_rng(0))
    assert run.found == 40
    assert run.screened == pytest.approx(200 + 0.63 * 600, abs=5)
