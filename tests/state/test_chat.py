"""What a run may spend: no call goes beyond it, and what was spent is what the provider said."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.state.chat import Budget
from outrider.state.errors import BudgetSpent
from outrider.state.response import NodeUsage


def spend(
    budget: Budget, node: str = "translator", most_usd: float | None = 0.01, cost_usd: float | None = 0.004, reported: bool = True
) -> None:
    with budget.call(node, most_usd) as call:
        if reported:
            call.input_tokens, call.output_tokens, call.cost_usd = 100, 20, cost_usd


def test_usage_is_reported_by_node() -> None:
    budget = Budget()
    spend(budget)
    spend(budget, "fine_scorer")
    spend(budget, "fine_scorer", reported=False)
    assert budget.spent.model_dump(exclude={"by_node"}) == {
        "calls": 3, "input_tokens": 200, "output_tokens": 40, "cost_usd": 0.008, "untold_calls": 1, "untold_usd": 0.01,
    }  # fmt: skip
    assert budget.spent.by_node["fine_scorer"] == NodeUsage(
        calls=2, input_tokens=100, output_tokens=20, cost_usd=0.004, untold_calls=1, untold_usd=0.01
    )


def test_an_unknown_price_is_unknown_not_nothing() -> None:
    budget = Budget()
    spend(budget, most_usd=None, cost_usd=None)
    spend(budget)
    assert budget.spent.cost_usd is None


def test_an_untold_call_at_an_unknown_price_is_unknown_unless_it_has_certainly_used_nothing() -> None:
    budget = Budget()
    with budget.call("translator", None) as refused:
        refused.input_tokens, refused.output_tokens, refused.cost_usd = 0, 0, 0.0
    assert budget.spent.cost_usd == 0.0
    spend(budget, most_usd=None, reported=False)
    assert (budget.spent.cost_usd, budget.spent.untold_calls, budget.spent.untold_usd) == (None, 1, 0.0)
    assert budget.spent.by_node["translator"].cost_usd is None


def test_calls_are_bounded_over_the_nodes_of_a_run() -> None:
    first = Budget(max_calls=2)
    spend(first)
    later = Budget(max_calls=2, spent=first.spent)
    spend(later, "dedup")
    with pytest.raises(BudgetSpent, match="2 model calls"):
        spend(later, "dedup")
    assert later.spent.calls == 2


def test_a_call_that_was_lost_counts_with_the_most_it_may_have_cost() -> None:
    budget = Budget(max_cost_usd=0.023)
    with pytest.raises(KeyError), budget.call("translator", 0.01):
        raise KeyError
    spend(budget)
    with pytest.raises(BudgetSpent, match=r"\$0.023"):
        spend(budget)
    assert budget.spent.cost_usd == 0.004


def test_a_bound_on_cost_needs_a_price() -> None:
    with pytest.raises(BudgetSpent, match=r"llm\.prices"):
        spend(Budget(max_cost_usd=1.0), most_usd=None)


@given(st.lists(st.tuples(st.floats(0, 0.02), st.floats(0, 1), st.booleans()), max_size=40), st.floats(0, 0.1))
def test_no_run_goes_beyond_its_bound(calls: list[tuple[float, float, bool]], bound: float) -> None:
    """Where a provider charges no more than the most that was reckoned with."""
    budget, charged = Budget(max_cost_usd=bound), 0.0
    for most_usd, share, reported in calls:
        try:
            spend(budget, most_usd=most_usd, cost_usd=most_usd * share, reported=reported)
        except BudgetSpent:
            continue
        charged += most_usd * share
    assert charged <= bound + 1e-9


def test_calls_at_once_share_one_bound() -> None:
    budget = Budget(max_calls=10)

    def one(_: int) -> bool:
        try:
            spend(budget)
        except BudgetSpent:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(one, range(50))) == 10
    assert budget.spent.calls == 10
