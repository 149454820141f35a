"""Answers that were paid for are read again, each as often as it was given."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.models.chat.client import ConnectionBroken, Reply
from outrider.models.chat.journal import Journal, ask_or_replay, compute_key, run_with_journal
from outrider.models.chat.provider import TokenUsage
from outrider.state.errors import ThreadError


class Answers(dict[tuple[str, str, int], str]):
    """Kept in memory."""

    async def answer(self, run: str, key: str, number: int) -> str | None:
        return self.get((run, key, number))

    async def keep_answer(self, run: str, key: str, number: int, text: str) -> None:
        self[run, key, number] = text


class Full(Answers):
    async def keep_answer(self, run: str, key: str, number: int, text: str) -> None:
        raise ThreadError("the disk is full")


def replies(*answers: Reply | Exception) -> tuple[Callable[[], object], list[int]]:
    remaining, calls = iter(answers), [0]

    async def ask() -> Reply:
        calls[0] += 1
        one = next(remaining)
        if isinstance(one, Exception):
            raise one
        return one

    return ask, calls


FIRST = Reply("one", TokenUsage(10, 2, 3, 4), "stop", "")
SECOND = Reply({"two": [1, None]}, None, "length", "no")
REQUESTS = st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=5), max_size=3)


async def asked_for(journal: Journal, ask: object, times: int, node: str = "fine_scorer") -> list[Reply]:
    async def work() -> list[Reply]:
        return [await ask_or_replay(node, "model", {"q": 1}, ask) for _ in range(times)]  # type: ignore[arg-type]

    return await run_with_journal(journal, work())


async def test_the_same_question_twice_is_two_answers_in_their_order() -> None:
    answers_by_run = Answers()
    ask, calls = replies(FIRST, SECOND)
    assert await asked_for(Journal("run", answers_by_run), ask, 2) == [FIRST, SECOND]
    assert await asked_for(Journal("run", answers_by_run), ask, 2) == [FIRST, SECOND]
    assert calls == [2]


async def test_what_failed_was_not_paid_and_is_requested_again() -> None:
    answers_by_run = Answers()
    ask, calls = replies(ConnectionBroken("gone", reached=False), FIRST)
    journal = Journal("run", answers_by_run)
    with pytest.raises(ConnectionBroken):
        await asked_for(journal, ask, 1)
    assert await asked_for(journal, ask, 1) == [FIRST]
    assert await asked_for(Journal("run", answers_by_run), ask, 1) == [FIRST]
    assert calls == [2]


async def test_other_runs_and_nodes_have_answers_of_their_own() -> None:
    answers_by_run = Answers()
    ask, calls = replies(FIRST, SECOND, FIRST)
    assert await asked_for(Journal("run", answers_by_run), ask, 1) == [FIRST]
    assert await asked_for(Journal("other", answers_by_run), ask, 1) == [SECOND]
    assert await asked_for(Journal("run", answers_by_run), ask, 1, node="dedup") == [FIRST]
    assert calls == [3]


async def test_an_answer_that_cannot_be_stored_is_used_and_reported(caplog: pytest.LogCaptureFixture) -> None:
    ask, _ = replies(FIRST)
    with caplog.at_level(logging.WARNING):
        assert await asked_for(Journal("run", Full()), ask, 1) == [FIRST]
    assert "the disk is full" in caplog.text


async def test_outside_a_journalled_run_nothing_is_kept() -> None:
    ask, calls = replies(FIRST, SECOND)
    assert [await ask_or_replay("n", "m", {}, ask) for _ in range(2)] == [FIRST, SECOND]  # type: ignore[arg-type]
    assert calls == [2]


@settings(max_examples=50)
@given(REQUESTS, REQUESTS)
def test_keys_are_the_same_for_the_same_request_alone(one: dict[str, object], other: dict[str, object]) -> None:
    assert (compute_key("n", "m", one) == compute_key("n", "m", other)) == (one == other)
    assert compute_key("n", "m", one) == compute_key("n", "m", dict(reversed(one.items())))
