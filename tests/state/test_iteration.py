from __future__ import annotations

import json

import pytest

from outrider.state.errors import BadRequest
from outrider.state.intent import PlannedQuery, SearchStrategy
from outrider.state.iteration import MAX_EARLIER_CHARS, MAX_FEEDBACK_CHARS, MAX_ROUNDS, rounds
from outrider.state.request import checked


def strategy(text: str, *before: SearchStrategy, feedback: str = "") -> SearchStrategy:
    query = PlannedQuery(text=text, keywords=(text,), boolean_query=text)
    return SearchStrategy(queries=(query,), sources=("library",), strategies=(), earlier=rounds(before), user_feedback=feedback)


def test_a_strategy_and_its_json_tell_the_same() -> None:
    one = strategy("liver", feedback="newer")
    as_json = json.loads(one.model_dump_json())
    assert rounds([one]) == rounds([as_json]) == checked({"query": "x", "previous_strategies": [as_json]}).previous_strategies
    assert (rounds([one])[0].queries[0].text, rounds([one])[0].user_feedback) == ("liver", "newer")


def test_the_last_strategy_tells_of_all_before_it() -> None:
    first = strategy("a")
    second = strategy("b", first)
    third = strategy("c", second)
    assert [one.queries[0].text for one in rounds([third])] == ["a", "b", "c"]
    assert rounds([first, second, third]) == rounds([third])


def test_the_last_rounds_are_kept_and_long_queries_cut() -> None:
    last = strategy("w0")
    for number in range(1, 30):
        last = strategy(f"w{number}", last)
    assert [one.queries[0].text for one in rounds([last])] == [f"w{number}" for number in range(30 - MAX_ROUNDS, 30)]
    assert len(rounds([strategy("x" * 20_000)])[0].queries[0].text) == MAX_EARLIER_CHARS


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("liver", "takes a list of strategies"),
        ({"queries": []}, "takes a list of strategies"),
        (5, "takes a list"),
        ([5], "strategy 1 is none"),
        ([{"queries": [{"text": "a"}]}, {"quries": []}], "strategy 2 is none"),
        ([{"queries": [{"text": 5}]}], "strategy 1 is none"),
        ([{"queries": [], "earlier": {"a": 1}}], "strategy 1 is none"),
        ([{"queries": []}] * (MAX_ROUNDS + 1), "holds 21 strategies; at most 20"),
    ],
)
def test_what_is_no_strategy_is_refused(given: object, says: str) -> None:
    with pytest.raises(BadRequest, match=rf"previous_strategies: .*{says}"):
        checked({"query": "x", "previous_strategies": given})


def test_feedback_is_bounded() -> None:
    assert checked({"query": "x", "user_feedback": "x" * MAX_FEEDBACK_CHARS}).user_feedback
    with pytest.raises(BadRequest, match=r"user_feedback: .*2000"):
        checked({"query": "x", "user_feedback": "x" * (MAX_FEEDBACK_CHARS + 1)})
