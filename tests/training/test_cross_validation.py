from __future__ import annotations

import random

from outrider.training.cross_validation import choose


def test_each_query_gets_the_setting_that_the_other_folds_chose() -> None:
    """A setting that is best for one query alone is chosen by the four folds that it helps to fill, and never for itself."""
    values = [[0.5] * 25, [0.5] * 24 + [1.0]]
    choice = choose(values, seed=3)
    assert choice.best == 1
    assert choice.by_query[24] == 0
    assert choice.by_query.count(0) == 5
    assert choice.held_out(values) == [0.5] * 25


def test_a_setting_that_is_better_everywhere_is_chosen_in_every_fold() -> None:
    values = [[0.1] * 12, [0.3] * 12, [0.2] * 12]
    assert choose(values).best == 1
    assert choose(values).held_out(values) == [0.3] * 12


def test_of_equal_settings_todays_stays() -> None:
    assert set(choose([[0.1, 0.2, 0.3]] * 4).by_query) == {0}
    assert choose([[0.1, 0.2, 0.3]] * 4).best == 0


def test_chance_gains_nothing_on_held_out_queries() -> None:
    """The best of 30 settings that differ by noise gains on its own queries, on average over 100 draws, and not on others."""
    own = held_out = 0.0
    for seed in range(100):
        draw = random.Random(seed)
        values = [[draw.gauss(0.5, 0.2) for _ in range(40)] for _ in range(30)]
        choice = choose(values, seed)
        own += sum(values[choice.best]) / 40 - 0.5
        held_out += sum(choice.held_out(values)) / 40 - 0.5
    assert own / 100 > 0.05
    assert abs(held_out / 100) < 0.01
