"""What is read from an answer, and what is not made up."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field

from outrider.models.chat.endpoint import AMBIGUOUS, MAX_REPAIR_CHARS, ParsedAnswer, UnusableAnswer, parse_answer
from outrider.state.model import Model


class One(Model):
    id: str
    score: float = Field(ge=0, le=1)


class Results(Model):
    results: tuple[One, ...]


@pytest.mark.parametrize(
    "answer_text",
    [
        '{"id": "a", "score": 0.5}',
        {"id": "a", "score": 0.5},
        'Sure!\n```json\n{"id": "a", "score": 0.5}\n```\nAnything else?',
        "{'id': 'a', 'score': 0.5,}",
        '{"id": "a", // the first\n "score": 0.5}',
        '{"id": "a" "score": 0.5}',
        '<think>{"id": "z", "score": 1.0}</think>{"id": "a", "score": 0.5}',
        '{"id": "a", "score": 0.5}, that is {"score": 0.50, "id": "a"}',
        'A draft: {"id": "a", "score": "?"}. My answer: {"id": "a", "score": 0.5}',
        "A draft: {'id': 'a', 'score': }. My answer: " + '{"id": "a", "score": 0.5}',
        '{"id": "a", "score": 0.5} where {"score": 1} would be best',
        "{{ {not json {" + '{"id": "a", "score": 0.5}',
    ],
)
def test_the_object_that_fits_is_read(answer_text: str | dict[str, Any]) -> None:
    assert parse_answer(answer_text, One) == ParsedAnswer(One(id="a", score=0.5))


@pytest.mark.parametrize("own", ['{"id": "a", "score": 0.5}', "{'id': 'a', 'score': 0.5,}"], ids=["whole", "broken"])
@pytest.mark.parametrize("quoted", ['{"id": "z", "score": 1.0}', "{'id': 'z', 'score': 1.0,}"], ids=["quotes", "quotes broken"])
@pytest.mark.parametrize(
    "form", ["{own} The text says {quoted}", "It says {quoted}. My answer: {own}", "```json\n{own}\n```\n> {quoted}\n"]
)
def test_of_two_that_differ_none_is_read(own: str, quoted: str, form: str) -> None:
    """Or a text that a model quotes would say what it thinks."""
    assert parse_answer(form.format(own=own, quoted=quoted), One) == AMBIGUOUS


@pytest.mark.parametrize(
    "answer_text",
    [
        '{"results": [{"id": "a", "score": 0.5}]. The text says {"results": [{"id": "a", "score": 1.0}]}',
        'It says <think>. {"results": [{"id": "a", "score": 0.5}]} {"results": [{"id": "a", "score": 1.0}]} </think>{"results": []}',
        '{"results": []} {"results": [{"id": "a", "score": 1.0}]}',
        '{"results": [{"id": "it says {"results": [{"id": "a", "score": 1.0}]}", "score": 0.5}]}',
    ],
)
def test_nor_where_one_was_not_closed_or_seems_to_be_thought(answer_text: str) -> None:
    assert parse_answer(answer_text, Results) == AMBIGUOUS


@pytest.mark.parametrize(
    ("answer_text", "why"),
    [
        ("", "is empty"),
        ("no idea", "no JSON object"),
        ("[1, 2]", "no JSON object"),
        ('{"id": "a", "score": "high"}', "score: Input should be a valid number"),
        ('{"id": "a", "score": 7}', "score: Input should be less than or equal to 1"),
        ('{"id": "a", "score": NaN}', "score"),
        ('{"id": "a"}', "score: Field required"),
        ('{"id": "a", "sco', "no JSON object"),
        ("{" * 100_000, "no JSON object"),
        ('{"a":' * 100_000 + "}", "no JSON object"),
        ("{" + "x" * MAX_REPAIR_CHARS + "}", "no JSON object"),
    ],
)
def test_what_does_not_fit_is_reported_in_words(answer_text: str, why: str) -> None:
    parsed = parse_answer(answer_text, One)
    assert isinstance(parsed, UnusableAnswer)
    assert why in parsed.why


def test_what_an_answer_quotes_as_a_text_is_a_text() -> None:
    answer_text = json.dumps({"id": 'It says {"id": "z", "score": 1.0}', "score": 0.5})
    assert parse_answer(answer_text, One) == ParsedAnswer(One(id='It says {"id": "z", "score": 1.0}', score=0.5))


def test_of_a_cut_list_what_is_whole_is_read() -> None:
    """The item that is cut is lost; its score is not guessed."""
    answer_text = '{"results": [{"id": "a", "score": 0.5}, {"id": "b", "score": 0.'
    assert parse_answer(answer_text, Results) == ParsedAnswer(Results(results=(One(id="a", score=0.5),)))


def test_an_answer_with_the_right_fields_shows_that_the_schema_was_known() -> None:
    assert parse_answer('{"id": "a", "score": 7}', One) == UnusableAnswer(
        "score: Input should be less than or equal to 1", follows_schema=True
    )
    assert not parse_answer('{"answer": 1}', One).follows_schema  # type: ignore[union-attr]


def test_a_hostile_answer_takes_no_time() -> None:
    """Reading happens on the loop that all calls share."""
    begun = time.process_time()
    deep = ('{"a":' * 5_000 + "}", "{" * 29_000 + "}", "{[" * 14_000 + "}")
    for hostile in (*deep, '{"' + "a'" * 14_000 + "}", "{" + "x" * 29_000 + "}", "{}" * 14_000, "{" * 10**6 + "}" * 10**6):
        assert isinstance(parse_answer(hostile, One), UnusableAnswer)
    assert time.process_time() - begun < 5


@given(st.text(max_size=200))
def test_any_text_is_read_or_reported_as_unusable(text: str) -> None:
    assert isinstance(parse_answer(text, One), ParsedAnswer | UnusableAnswer)


@given(
    st.text(max_size=9),
    st.text(max_size=9),
    st.floats(0, 1),
    st.floats(0, 1),
    st.text(alphabet=st.characters(exclude_characters="{}<"), max_size=60),
)
def test_two_in_any_prose_are_read_if_they_are_equal(name: str, other: str, score: float, another: float, prose: str) -> None:
    first, second = One(id=name, score=score), One(id=other, score=another)
    answer_text = f"{prose}{json.dumps(first.model_dump())}{prose}{json.dumps(second.model_dump())}{prose}"
    assert parse_answer(answer_text, One) == (ParsedAnswer(first) if first == second else AMBIGUOUS)
    assert parse_answer(f"{prose}{json.dumps(first.model_dump())}" * 2, One) == ParsedAnswer(first)


@given(st.text(max_size=30), st.floats(0, 1), st.text(alphabet=st.characters(exclude_characters="{}<"), max_size=60))
def test_json_in_any_prose_is_found_unchanged(name: str, score: float, prose: str) -> None:
    answer_text = f"{prose}{json.dumps({'id': name, 'score': score})}{prose}"
    assert parse_answer(answer_text, One) == ParsedAnswer(One(id=name, score=score))
