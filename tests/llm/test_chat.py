"""The chat through the real client, against a server that does what servers do."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
from chat_server import Asked as Request
from chat_server import ChatServer, Reply
from chatting import KEY, chat_over
from langchain_core.callbacks import AsyncCallbackHandler
from langchain_core.runnables import RunnableLambda
from pydantic import Field, SecretStr

from outrider.llm.chat import EndpointChat, chat_of
from outrider.settings.model import LlmSettings
from outrider.state.chat import Asked, Budget
from outrider.state.errors import BadAnswer, BudgetSpent, ChatError, ChatUnavailable, KeyRejected
from outrider.state.model import Model

ASKED = Asked(node="fine_scorer", system="Judge.", user="<data>\n[]\n</data>", max_output_tokens=50)
GOOD = {"id": "a", "score": 0.7}
SHORT_S = 0.4
BUSY = Reply("slow down", status=429)


class Judged(Model):
    id: str
    score: float = Field(ge=0, le=1)


def ask(chat: EndpointChat, budget: Budget | None = None, times: int = 1) -> list[Judged | ChatError]:
    """So many questions at once; what each came to."""

    async def one() -> Judged | ChatError:
        try:
            return await chat.answer(ASKED, Judged, budget or Budget())
        except ChatError as error:
            return error

    async def all_of_them() -> list[Judged | ChatError]:
        await chat.ready()
        return await asyncio.gather(*(one() for _ in range(times)))

    return asyncio.run(all_of_them())


def refusal(reply: Reply | Callable[[Request], Reply], budget: Budget | None = None, **settings: Any) -> ChatError:
    """The one error that such a server leads to. It never holds the key."""
    with ChatServer(reply if callable(reply) else lambda _: reply) as server:
        (error,) = ask(chat_over(server, **settings), budget)
    assert isinstance(error, ChatError), error
    assert KEY not in str(error) + repr(error)
    return error


def modes(server: ChatServer) -> list[str]:
    return [request.mode for request in server.requests]


def only(*accepted: str, status: int = 400) -> Callable[[Request], Reply]:
    """A server that takes some ways of asking, and says of the others that it does not."""
    return lambda asked: Reply(GOOD) if asked.mode in accepted else Reply("unsupported request", status=status)


def test_the_answer_is_of_the_shape_and_costs_what_the_provider_counts() -> None:
    budget = Budget()
    with ChatServer(lambda _: Reply(GOOD, usage=(1_000, 50))) as server:
        assert ask(chat_over(server, prices={"scripted": "0.1/0.4"}), budget) == [Judged(id="a", score=0.7)]
    assert modes(server) == ["json_schema"]
    used = budget.spent.by_node["fine_scorer"]
    assert (used.calls, used.input_tokens, used.output_tokens) == (1, 1_000, 50)
    assert used.cost_usd == pytest.approx(0.00012, rel=1e-12)
    assert budget.spent.untold_calls == 0


def test_an_unknown_price_is_unknown() -> None:
    budget = Budget()
    with ChatServer(lambda _: Reply(GOOD)) as server:
        ask(chat_over(server, prices={}), budget)
    assert budget.spent.cost_usd is None
    assert budget.spent.input_tokens == 100


def test_usage_that_is_not_told_counts_with_the_most_that_it_can_be() -> None:
    budget = Budget()
    with ChatServer(lambda _: Reply(GOOD, usage=None)) as server:
        ask(chat_over(server), budget)
        size = len(json.dumps(server.requests[0].body))
    assert (budget.spent.untold_calls, budget.spent.cost_usd) == (1, 0.0)
    assert 0.0005 < budget.spent.untold_usd <= 0.0005 + size / 1e6  # 50 tokens of output at $10, bytes of input at $1


@pytest.mark.parametrize("status", [400, 422, 500, 501])
@pytest.mark.parametrize("accepted", ["function_calling", "json_mode", "text"])
def test_ways_are_tried_in_their_order_and_what_works_is_remembered(accepted: str, status: int) -> None:
    """Also by another chat of the same endpoint. Where the schema goes no other way it stands in the prompt."""
    order = ["json_schema", "function_calling", "json_mode", "text"]
    tried = order[: order.index(accepted) + 1]
    with ChatServer(only(accepted, status=status)) as server:
        assert ask(chat_over(server)) == [Judged(id="a", score=0.7)]
        assert ask(chat_over(server)) == [Judged(id="a", score=0.7)]
        assert modes(server) == [*tried, accepted]
        assert ('"score"' in server.requests[-1].system) == (accepted in {"json_mode", "text"})


def test_a_404_about_the_way_moves_on_and_one_about_the_model_does_not() -> None:
    def answer(asked: Request) -> Reply:
        return (
            Reply(GOOD) if asked.mode == "json_mode" else Reply("No endpoints found that support tool use or response_format", status=404)
        )

    with ChatServer(answer) as server:
        assert ask(chat_over(server)) == [Judged(id="a", score=0.7)]
    error = refusal(Reply("The model `scripted` does not exist", status=404))
    assert isinstance(error, ChatUnavailable)
    assert "does not exist" in str(error)


@pytest.mark.parametrize("ignored", ["I would say 0.7.", "", {"verdict": "good"}])
def test_a_server_that_ignores_a_way_is_asked_in_another(ignored: Any) -> None:
    with ChatServer(lambda asked: Reply(GOOD if asked.mode == "json_mode" else ignored)) as server:
        assert ask(chat_over(server)) == [Judged(id="a", score=0.7)]
        assert modes(server)[-1] == "json_mode"


def test_an_unusable_answer_is_asked_for_once_more_with_its_error() -> None:
    replies = [Reply({"id": "a", "score": 7}), Reply(GOOD)]
    with ChatServer(lambda _: replies.pop(0)) as server:
        assert ask(chat_over(server)) == [Judged(id="a", score=0.7)]
        assert modes(server) == ["json_schema", "json_schema"]
        last = server.requests[-1].body["messages"]
    assert json.loads(last[-2]["content"]) == {"id": "a", "score": 7}
    assert "score: Input should be less than or equal to 1" in last[-1]["content"]


def test_an_answer_that_stays_unusable_is_a_bad_answer_and_the_next_question_tries_two_calls_only() -> None:
    budget = Budget()
    with ChatServer(lambda _: Reply("no idea")) as server:
        chat = chat_over(server)
        for _ in range(2):
            (error,) = ask(chat, budget)
            assert isinstance(error, BadAnswer)
            assert "holds no JSON object" in str(error)
    assert modes(server) == ["json_schema", "function_calling", "json_mode", "text", "text", "text", "text"]
    assert budget.spent.calls == 7


def test_prose_around_json_is_read_and_wrong_types_are_not_made_right() -> None:
    said = 'Here it is:\n```json\n{"id": "a", "score": 0.7,}\n```\nHope it helps!'
    with ChatServer(lambda _: Reply(said)) as server:
        assert ask(chat_over(server)) == [Judged(id="a", score=0.7)]
    assert isinstance(refusal(Reply('{"id": "a", "score": "rather good"}')), BadAnswer)


@pytest.mark.parametrize("usage", [(0, 0), (-5, 3), (5, -3)])
def test_usage_that_cannot_be_counts_as_untold(usage: tuple[int, int]) -> None:
    budget = Budget()
    with ChatServer(lambda _: Reply(GOOD, usage=usage)) as server:
        ask(chat_over(server), budget)
    assert (budget.spent.calls, budget.spent.untold_calls) == (1, 1)


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (Reply("", refusal="I can't judge that."), "I can't judge that."),
        (Reply(GOOD, finish="content_filter"), "content filter"),
        (Reply(GOOD, finish="length"), "within 50 tokens"),
        (Reply(raw=b" " * 10_000_000), "more than 1,048,576 bytes"),
        (Reply(raw=b"<html>hello</html>"), "llm.base_url"),
        (Reply(raw=b'{"choices": []}'), "llm.base_url"),
        (Reply(raw=b'{"choices": [{"message": null}]}'), "llm.base_url"),
        (Reply(raw=b'{"choices": [{"message": {"role": "assistant", "content": 5}}]}'), "llm.base_url"),
        (Reply(raw=b'{"choices": [{"message": {"role": "assistant"}}], "usage": {"prompt_tokens": "many"}}'), "llm.base_url"),
        (Reply(raw=b"x", headers={"Content-Encoding": "gzip"}), "packed with gzip"),
    ],
)
def test_an_answer_that_no_other_way_would_change_is_a_bad_answer_after_one_call(reply: Reply, words: str) -> None:
    budget = Budget()
    error = refusal(reply, budget)
    assert isinstance(error, BadAnswer)
    assert words in str(error)
    assert budget.spent.calls == 1


@pytest.mark.parametrize("reply", [Reply(GOOD, delay_s=3.0), Reply(GOOD, drip_s=0.05)], ids=["late", "dripping"])
def test_a_call_takes_no_longer_than_it_may(reply: Reply) -> None:
    """Also where each byte comes in time."""
    budget, begun = Budget(), time.monotonic()
    error = refusal(reply, budget, timeout_s=SHORT_S)
    assert isinstance(error, ChatUnavailable)
    assert "did not answer within 0.4 s" in str(error)
    assert "llm.timeout_s" in str(error)
    assert time.monotonic() - begun < 2.9
    assert (budget.spent.calls, budget.spent.untold_calls) == (1, 1)


@pytest.mark.parametrize("status", [401, 403])
def test_a_rejected_key_is_never_tried_again(status: int) -> None:
    """By no call after the answer, and what the server echoes of the key is hidden."""
    with ChatServer(lambda _: Reply(f"Incorrect API key provided: {KEY}", status=status)) as server:
        chat = chat_over(server, concurrency=1)
        found = [*ask(chat, times=3), *ask(chat)]
        assert len(server.requests) == 1
    assert all(isinstance(error, KeyRejected) and error.exit_code == 4 for error in found)
    assert KEY not in str(found)
    assert "llm.api_key" in str(found[0])


@pytest.mark.parametrize("header", ["0.2", "date"])
def test_a_busy_server_is_asked_again_when_it_says(header: str) -> None:
    """In seconds, or as a date; no other call of the process is made before."""
    replies, begun = [BUSY], time.monotonic()

    def answer(_: Request) -> Reply:
        until = format_datetime(datetime.now(UTC) + timedelta(seconds=2), usegmt=True) if header == "date" else header
        return Reply("slow down", status=429, headers={"Retry-After": until}) if replies and replies.pop() else Reply(GOOD)

    budget = Budget()
    with ChatServer(answer) as server:
        chat = chat_over(server, timeout_s=5.0, concurrency=1)
        assert ask(chat, budget, times=2) == [Judged(id="a", score=0.7)] * 2
        assert len(server.requests) == 3
    assert time.monotonic() - begun >= 0.2
    assert (budget.spent.calls, budget.spent.untold_calls) == (3, 0)
    assert budget.spent.cost_usd == pytest.approx(0.0006)


def test_a_wait_that_does_not_fit_is_not_waited_and_nobody_else_asks_meanwhile() -> None:
    with ChatServer(lambda _: Reply("quota", status=429, headers={"Retry-After": "7200"})) as server:
        found = [*ask(chat_over(server)), *ask(chat_over(server))]
        assert len(server.requests) == 1
    until = datetime.now(UTC) + timedelta(hours=2)
    for error in found:
        assert isinstance(error, ChatUnavailable)
        assert f"until {until:%Y-%m-%d %H:}" in str(error) or f"until {until - timedelta(minutes=1):%Y-%m-%d %H:}" in str(error)


def test_spent_credit_is_said_and_not_waited_for() -> None:
    body = json.dumps({"error": {"message": "You exceeded your current quota", "code": "insufficient_quota"}}).encode()
    budget = Budget()
    assert "no credit" in str(refusal(Reply(raw=body, status=429), budget))
    assert budget.spent.calls == 1


@pytest.mark.parametrize("status", [500, 502, 503])
def test_a_server_that_fails_once_is_asked_again_and_keeps_its_way(status: int) -> None:
    replies = [Reply(GOOD), Reply("oops", status=status), Reply(GOOD), Reply(GOOD)]
    with ChatServer(lambda _: replies.pop(0)) as server:
        chat = chat_over(server)
        assert [ask(chat) for _ in range(3)] == [[Judged(id="a", score=0.7)]] * 3
        assert modes(server) == ["json_schema"] * 4


def test_a_server_that_fails_over_one_schema_is_asked_for_it_in_another_way() -> None:
    """Also in a way that has worked before."""
    failing: list[str] = []
    with ChatServer(lambda asked: Reply("grammar", status=500) if asked.mode in failing else Reply(GOOD)) as server:
        chat = chat_over(server)
        ask(chat)
        failing.append("json_schema")
        assert ask(chat) == [Judged(id="a", score=0.7)]
        assert modes(server) == ["json_schema"] * 3 + ["function_calling"]


@pytest.mark.parametrize(("status", "calls"), [(500, 4), (503, 3), (504, 3)])
def test_a_server_that_always_fails_is_unavailable(status: int, calls: int) -> None:
    budget = Budget()
    error = refusal(Reply("oops", status=status), budget)
    assert isinstance(error, ChatUnavailable)
    assert str(status) in str(error)
    assert budget.spent.calls == budget.spent.untold_calls == calls


def test_a_cut_answer_is_asked_for_again() -> None:
    replies = [Reply(GOOD, cut=True), Reply(GOOD)]
    with ChatServer(lambda _: replies.pop(0)) as server:
        assert ask(chat_over(server)) == [Judged(id="a", score=0.7)]
    error = refusal(Reply(GOOD, cut=True))
    assert isinstance(error, ChatUnavailable)
    assert "broke the connection" in str(error)


def test_where_nobody_listens_the_address_is_named() -> None:
    with ChatServer(lambda _: Reply(GOOD)) as server:
        chat, budget = chat_over(server), Budget()
    (error,) = ask(chat, budget)
    assert isinstance(error, ChatUnavailable)
    assert server.base_url.split("/")[2] in str(error)
    assert "is it running" in str(error)
    assert (budget.spent.calls, budget.spent.untold_calls) == (1, 0)


def test_an_option_that_is_refused_is_left_out_from_then_on() -> None:
    """Also where ten calls learn it at once."""

    def answer(asked: Request) -> Reply:
        for option in ("temperature", "max_tokens"):
            if option in asked.body:
                return Reply(f"Unsupported parameter: '{option}' is not supported with this model.", status=400)
        return Reply(GOOD)

    with ChatServer(answer) as server:
        chat = chat_over(server)
        assert ask(chat, times=10) == [Judged(id="a", score=0.7)] * 10
        assert ask(chat) == [Judged(id="a", score=0.7)]
        assert server.requests[-1].body["max_completion_tokens"] == 50
        assert set(modes(server)) == {"json_schema"}


def test_an_error_with_status_200_is_an_error() -> None:
    error = refusal(Reply(raw=b'{"error": {"code": 401, "message": "No auth credentials found"}}'))
    assert isinstance(error, KeyRejected)


def test_a_request_that_is_too_long_is_said() -> None:
    budget = Budget()
    error = refusal(Reply("This model's maximum context length is 512 tokens", status=400), budget)
    assert isinstance(error, ChatUnavailable)
    assert "512 tokens" in str(error)
    assert budget.spent.calls == 1


def test_the_limit_on_calls_under_way_holds_for_all_services_together() -> None:
    with ChatServer(lambda _: Reply(GOOD, delay_s=0.05)) as server:
        first, second = chat_over(server, concurrency=3), chat_over(server, concurrency=3)

        async def both() -> None:
            await asyncio.gather(first.ready(), second.ready())
            await asyncio.gather(*(chat.answer(ASKED, Judged, Budget()) for chat in (first, second) for _ in range(8)))

        asyncio.run(both())
        assert server.most == 3
        assert len(server.requests) == 16


def test_a_caller_that_has_gone_leaves_its_place_to_another() -> None:
    with ChatServer(lambda _: Reply(GOOD, delay_s=0.3)) as server:
        chat = chat_over(server, concurrency=1)

        async def leave() -> None:
            await chat.ready()
            gone = [asyncio.create_task(chat.answer(ASKED, Judged, Budget())) for _ in range(5)]
            await asyncio.sleep(0.1)
            for task in gone:
                task.cancel()
            await asyncio.gather(*gone, return_exceptions=True)
            async with asyncio.timeout(2):
                assert await chat.answer(ASKED, Judged, Budget()) == Judged(id="a", score=0.7)

        asyncio.run(leave())
        assert len(server.requests) == 2


def test_no_call_is_made_beyond_the_budget_also_at_once() -> None:
    budget = Budget(max_calls=7)
    with ChatServer(lambda _: Reply(GOOD, delay_s=0.02)) as server:
        found = ask(chat_over(server), budget, times=20)
        assert len(server.requests) == budget.spent.calls == 7
    assert sum(isinstance(one, BudgetSpent) for one in found) == 13


def test_the_bound_on_cost_counts_what_is_under_way() -> None:
    with ChatServer(lambda _: Reply(GOOD, delay_s=0.02)) as server:
        chat = chat_over(server)
        probe = Budget(max_cost_usd=1.0)
        ask(chat, probe)
        most = 0.0005 + len(json.dumps(server.requests[0].body)) / 1e6
        budget = Budget(max_cost_usd=3.5 * most)
        found = ask(chat, budget, times=10)
        assert 3 <= sum(isinstance(one, Judged) for one in found) < 10
    assert budget.spent.cost_usd is not None
    assert budget.spent.cost_usd <= 3.5 * most


def test_event_loops_one_after_another_share_a_chat() -> None:
    with ChatServer(lambda _: Reply(GOOD)) as server:
        chat = chat_over(server)
        assert [ask(chat) for _ in range(3)] == [[Judged(id="a", score=0.7)]] * 3


def test_callbacks_of_the_caller_see_the_call_and_no_key() -> None:
    class Seen(AsyncCallbackHandler):
        def __init__(self) -> None:
            self.events: list[str] = []

        async def on_chat_model_start(self, *args: Any, **kwargs: Any) -> None:
            self.events.append(f"start {args} {kwargs}")

        async def on_llm_end(self, *args: Any, **kwargs: Any) -> None:
            self.events.append(f"end {args} {kwargs}")

    seen = Seen()
    with ChatServer(lambda _: Reply(GOOD)) as server:
        chat = chat_over(server)

        async def node(_: object) -> None:
            await chat.answer(ASKED, Judged, Budget())

        asyncio.run(RunnableLambda(node).ainvoke({}, config={"callbacks": [seen]}))
    assert [event.split()[0] for event in seen.events] == ["start", "end"]
    assert "Judge." in seen.events[0]
    assert KEY not in "".join(seen.events)


def test_no_key_goes_where_none_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the key nor the account of another service, which the client would read from the environment."""
    for name in ("OPENAI_API_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"):
        monkeypatch.setenv(name, "of-openai")
    with ChatServer(lambda _: Reply(GOOD)) as server:
        ask(chat_over(server, api_key=SecretStr("")))
        assert server.requests[0].headers["authorization"] == "Bearer none"
        assert "of-openai" not in str(server.requests[0].headers)


def test_the_key_is_shown_nowhere(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with ChatServer(lambda _: Reply(GOOD)) as server:
        chat = chat_over(server)
        ask(chat)
        assert KEY not in repr(chat) + repr(vars(chat)) + chat.name + caplog.text


def test_the_chat_of_the_settings_says_what_it_is_or_why_there_is_none() -> None:
    assert chat_of(LlmSettings())[0] is None
    chat, says = chat_of(LlmSettings(model="llama3", base_url="http://localhost:11434/v1"))
    assert chat is not None
    assert chat.name == "llama3 at localhost:11434"
    assert "price is unknown" in says
