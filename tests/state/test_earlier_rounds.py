from __future__ import annotations

import json

import pytest

from outrider.state.earlier_rounds import MAX_EARLIER_CHARS, MAX_FEEDBACK_CHARS, MAX_ROUNDS, parse_rounds
from outrider.state.errors import BadRequest
from outrider.state.intent import PlannedQuery, SearchStrategy
from outrider.state.request import check_request


def strategy(text: str, *before: SearchStrategy, feedback: str = "") -> SearchStrategy:
    query = PlannedQuery(text=text, keywords=(text,), boolean_query=text)
    return SearchStrategy(queries=(query,), sources=("library",), strategies=(), earlier=parse_rounds(before), user_feedback=feedback)


def test_a_strategy_and_its_json_hold_the_same() -> None:
    one = strategy("liver", feedback="newer")
    as_json = json.loads(one.model_dump_json())
    assert (
        parse_rounds([one])
        == parse_rounds([as_json])
        == check_request({"query": "x", "previous_strategies": [as_json]}).previous_strategies
    )
    assert (parse_rounds([one])[0].queries[0].text, parse_rounds([one])[0].user_feedback) == ("liver", "newer")


def test_the_last_strategy_lists_all_before_it() -> None:
    first = strategy("a")
    second = strategy("b", first)
    third = strategy("c", second)
    assert [one.queries[0].text for one in parse_rounds([third])] == ["a", "b", "c"]
    assert parse_rounds([first, second, third]) == parse_rounds([third])


def test_the_last_rounds_are_kept_and_long_queries_cut() -> None:
    last = strategy("w0")
    for number in range(1, 30):
        last = strategy(f"w{number}", last)
    assert [one.queries[0].text for one in parse_rounds([last])] == [f"w{number}" for number in range(30 - MAX_ROUNDS, 30)]
    assert len(parse_rounds([strategy("x" * 20_000)])[0].queries[0].text) == MAX_EARLIER_CHARS


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("liver", "takes a list of strategies"),
        ({"queries": []}, "takes a list of strategies"),
        (5, "takes a list"),
        ([5], "strategy 1 is not a strategy"),
        ([{"queries": [{"text": "a"}]}, {"quries": []}], "strategy 2 is not a strategy"),
        ([{"queries": [{"text": 5}]}], "strategy 1 is not a strategy"),
        ([{"queries": [], "earlier": {"a": 1}}], "strategy 1 is not a strategy"),
        ([{"queries": []}] * (MAX_ROUNDS + 1), "holds 21 strategies; at most 20"),
    ],
)
def test_what_is_no_strategy_is_refused(value: object, message: str) -> None:
    with pytest.raises(BadRequest, match=rf"previous_strategies: .*{message}"):
        check_request({"query": "x", "previous_strategies": value})


def test_feedback_is_bounded() -> None:
    assert check_request({"query": "x", "user_feedback": "x" * MAX_FEEDBACK_CHARS}).user_feedback
    with pytest.raises(BadRequest, match=r"user_feedback: .*2000"):
        check_request({"query": "x", "user_feedback": "x" * (MAX_FEEDBACK_CHARS + 1)})


def test_half_a_character_of_an_earlier_query_is_replaced() -> None:
    (earlier,) = parse_rounds([{"queries": [{"text": "lamp \ud800", "boolean_query": "\udc00"}]}])
    assert (earlier.queries[0].text, earlier.queries[0].boolean_query) == ("lamp ?", "?")
