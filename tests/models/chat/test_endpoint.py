"""The chat through the real client, against a server that does what servers do."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from threading import Event
from typing import Any

import pytest
from langchain_core.callbacks import AsyncCallbackHandler
from langchain_core.runnables import RunnableLambda
from pydantic import Field, SecretStr

from outrider.models.chat.endpoint import EndpointChat, make_chat
from outrider.settings.model import LlmSettings
from outrider.state.chat import Budget, ChatRequest
from outrider.state.errors import BadAnswer, BudgetSpent, ChatError, ChatUnavailable, KeyRejected
from outrider.state.model import Model
from support.chat_client import KEY, chat_over
from support.chat_server import ChatServer, Reply, Request
from support.patience import BUSY_S

REQUEST = ChatRequest(node="fine_scorer", system="Judge.", user="<data>\n[]\n</data>", max_output_tokens=50)
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
            return await chat.answer(REQUEST, Judged, budget or Budget())
        except ChatError as error:
            return error

    async def all_of_them() -> list[Judged | ChatError]:
        await chat.warm_up()
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
    """A server that accepts some modes, and rejects the others."""
    return lambda request: Reply(GOOD) if request.mode in accepted else Reply("unsupported request", status=status)


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


@pytest.mark.parametrize(
    "reply", [Reply(GOOD, usage=None), Reply(GOOD, delay_s=1.0), Reply(GOOD, cut=True)], ids=["no usage", "late", "cut"]
)
def test_of_an_unknown_price_an_untold_call_is_unknown_too(reply: Reply) -> None:
    budget = Budget()
    with ChatServer(lambda _: reply) as server:
        ask(chat_over(server, prices={}, timeout_s=SHORT_S), budget)
    assert (budget.spent.cost_usd, budget.spent.by_node["fine_scorer"].cost_usd) == (None, None)
    assert budget.spent.untold_calls == budget.spent.calls


def test_a_call_that_has_certainly_used_nothing_costs_nothing_at_any_price() -> None:
    budget = Budget()
    refusal(Reply("Incorrect API key provided", status=401), budget, prices={})
    assert (budget.spent.calls, budget.spent.untold_calls, budget.spent.cost_usd) == (1, 0, 0.0)


def test_usage_that_is_not_reported_counts_as_the_most_that_it_can_be() -> None:
    budget = Budget()
    with ChatServer(lambda _: Reply(GOOD, usage=None)) as server:
        ask(chat_over(server), budget)
        size = len(json.dumps(server.requests[0].body))
    assert (budget.spent.untold_calls, budget.spent.cost_usd) == (1, 0.0)
    assert 0.0005 < budget.spent.untold_usd <= 0.0005 + size / 1e6  # 50 tokens of output at $10, bytes of input at $1


@pytest.mark.parametrize("status", [400, 422, 501])
@pytest.mark.parametrize("accepted", ["function_calling", "json_mode", "text"])
def test_modes_are_tried_in_their_order_and_what_works_is_remembered(accepted: str, status: int) -> None:
    """Also by another chat of the same endpoint. Where no mode carries the schema, the prompt does."""
    order = ["json_schema", "function_calling", "json_mode", "text"]
    tried = order[: order.index(accepted) + 1]
    with ChatServer(only(accepted, status=status)) as server:
        assert ask(chat_over(server)) == [Judged(id="a", score=0.7)]
        assert ask(chat_over(server)) == [Judged(id="a", score=0.7)]
        assert modes(server) == [*tried, accepted]
        assert ('"score"' in server.requests[-1].system) == (accepted in {"json_mode", "text"})


def test_a_server_that_reports_a_failure_of_the_mode_is_believed() -> None:
    """As llama.cpp does: "tools param requires --jinja flag", status 500."""

    def answer(request: Request) -> Reply:
        return Reply(GOOD) if request.mode == "text" else Reply(f"{request.mode}: tools, schema or grammar not enabled", status=500)

    with ChatServer(answer) as server:
        chat = chat_over(server)
        assert ask(chat) + ask(chat) == [Judged(id="a", score=0.7)] * 2
        assert modes(server) == ["json_schema", "function_calling", "json_mode", "text", "text"]


def test_what_is_reached_only_because_the_rest_failed_is_not_what_works() -> None:
    """Neither at a new endpoint, nor where another mode has worked, nor where the answer is unusable."""
    failing = ["json_schema"]
    with ChatServer(lambda request: Reply("oops", status=500) if request.mode in failing else Reply(GOOD)) as server:
        chat = chat_over(server)
        assert ask(chat) == [Judged(id="a", score=0.7)]
        failing.clear()
        assert ask(chat) == [Judged(id="a", score=0.7)]
        assert modes(server) == ["json_schema", "function_calling", "json_schema"]
        failing.append("json_schema")
        ask(chat)
        failing.clear()
        ask(chat)
        assert modes(server)[3:] == ["json_schema", "json_schema", "function_calling", "json_schema"]
    unusable = {"text": "no idea"}
    with ChatServer(lambda request: Reply(unusable[request.mode]) if request.mode in unusable else Reply("oops", status=500)) as server:
        chat = chat_over(server)
        assert isinstance(ask(chat)[0], BadAnswer)
        unusable["json_schema"] = json.dumps(GOOD)
        assert ask(chat) == [Judged(id="a", score=0.7)]


def test_a_server_that_is_down_is_called_in_one_other_mode_at_most() -> None:
    down: list[bool] = []
    with ChatServer(lambda _: Reply("oops", status=500) if down else Reply(GOOD)) as server:
        chat = chat_over(server)
        ask(chat)
        down.append(True)
        results = ask(chat, times=10)
        assert len(server.requests) == 1 + 10 * 3
        down.clear()
        assert ask(chat) == [Judged(id="a", score=0.7)]
        assert modes(server)[-1] == "json_schema"
    assert all(isinstance(error, ChatUnavailable) and "500: oops" in str(error) and server_named(error, server) for error in results)


def server_named(error: object, server: ChatServer) -> bool:
    return server.base_url.split("/")[2] in str(error)


def test_the_first_question_finds_the_mode_while_the_others_wait() -> None:
    """Also those of other event loops."""
    budget = Budget()
    with ChatServer(lambda request: replace(only("json_mode")(request), delay_s=0.03)) as server, ThreadPoolExecutor(5) as pool:
        chat = chat_over(server)
        results = [one for many in pool.map(lambda _: ask(chat, budget, times=2), range(5)) for one in many]
        assert len(server.requests) == budget.spent.calls == 12
    assert results == [Judged(id="a", score=0.7)] * 10


@pytest.mark.parametrize("ends", ["cancelled", "refused"])
def test_where_the_first_question_ends_without_a_mode_the_next_looks_for_it(ends: str) -> None:
    """However it ends, no call waits for ever, and the third one uses the mode that the second one finds."""
    release = Event()
    first = Reply("", refusal="I can't judge that.", release=release) if ends == "refused" else Reply(GOOD, release=release)
    replies = [first]

    def answer(request: Request) -> Reply:
        return replies.pop() if replies else only("json_mode")(request)

    async def three() -> list[Any]:
        tasks = [asyncio.create_task(chat.answer(REQUEST, Judged, Budget())) for _ in range(3)]
        while not server.requests:  # noqa: ASYNC110 - filled in a thread
            await asyncio.sleep(0.01)
        if ends == "cancelled":
            tasks[0].cancel()
        release.set()
        async with asyncio.timeout(60):
            return await asyncio.gather(*tasks, return_exceptions=True)

    with ChatServer(answer) as server:
        chat = chat_over(server)
        asyncio.run(chat.warm_up())
        results = asyncio.run(three())
        assert modes(server) == ["json_schema"] * 2 + ["function_calling"] + ["json_mode"] * 2
    assert isinstance(results[0], asyncio.CancelledError if ends == "cancelled" else BadAnswer)
    assert results[1:] == [Judged(id="a", score=0.7)] * 2


def test_no_call_waits_longer_for_a_mode_than_a_call_may_take() -> None:
    """Else ten questions to a server that hangs would take ten times as long as one."""
    never, begun = Event(), time.monotonic()
    with ChatServer(lambda _: Reply(GOOD, release=never)) as server:
        chat = chat_over(server, timeout_s=SHORT_S)
        results = ask(chat, times=6)
        never.set()
        assert len(server.requests) == 6
    assert all(isinstance(error, ChatUnavailable) for error in results)
    assert time.monotonic() - begun < SHORT_S + BUSY_S


def test_a_404_about_the_mode_tries_the_next_and_one_about_the_model_does_not() -> None:
    def answer(request: Request) -> Reply:
        return (
            Reply(GOOD) if request.mode == "json_mode" else Reply("No endpoints found that support tool use or response_format", status=404)
        )

    with ChatServer(answer) as server:
        assert ask(chat_over(server)) == [Judged(id="a", score=0.7)]
    error = refusal(Reply("The model `scripted` does not exist", status=404))
    assert isinstance(error, ChatUnavailable)
    assert "does not exist" in str(error)


@pytest.mark.parametrize("ignored", ["I would say 0.7.", "", {"verdict": "good"}])
def test_a_server_that_ignores_a_mode_is_called_in_another(ignored: Any) -> None:
    with ChatServer(lambda request: Reply(GOOD if request.mode == "json_mode" else ignored)) as server:
        assert ask(chat_over(server)) == [Judged(id="a", score=0.7)]
        assert modes(server)[-1] == "json_mode"


def test_an_unusable_answer_is_requested_once_more_with_its_error() -> None:
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
    answer_text = 'Here it is:\n```json\n{"id": "a", "score": 0.7,}\n```\nHope it helps!'
    with ChatServer(lambda _: Reply(answer_text)) as server:
        assert ask(chat_over(server)) == [Judged(id="a", score=0.7)]
    assert isinstance(refusal(Reply('{"id": "a", "score": "rather good"}')), BadAnswer)


@pytest.mark.parametrize("usage", [(0, 0), (-5, 3), (5, -3), (10, 0), (10, None), (None, 5)])
def test_usage_that_cannot_be_counts_as_untold(usage: tuple[int | None, int | None]) -> None:
    """An answer has at least one token; a client may turn an unreported count into 0."""
    budget = Budget()
    with ChatServer(lambda _: Reply(GOOD, usage=usage)) as server:
        ask(chat_over(server), budget)
    assert (budget.spent.calls, budget.spent.untold_calls, budget.spent.output_tokens) == (1, 1, 0)
    assert budget.spent.untold_usd > 0.0005


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (Reply("", refusal="I can't judge that."), "I can't judge that."),
        (Reply(GOOD, finish_reason="content_filter"), "content filter"),
        (Reply(GOOD, finish_reason="length"), "within 50 tokens"),
        (Reply(raw=b" " * 10_000_000), "more than 1,048,576 bytes"),
        (Reply(raw=b"<html>hello</html>"), "llm.base_url"),
        (Reply(raw=b'{"choices": []}'), "llm.base_url"),
        (Reply(raw=b'{"choices": [{"message": null}]}'), "llm.base_url"),
        (Reply(raw=b'{"choices": [{"message": {"role": "assistant", "content": 5}}]}'), "llm.base_url"),
        (Reply(raw=b'{"choices": [{"message": {"role": "assistant"}}], "usage": {"prompt_tokens": "many"}}'), "llm.base_url"),
        (Reply(raw=b"x", headers={"Content-Encoding": "gzip"}), "packed with gzip"),
    ],
)
def test_an_answer_that_no_other_mode_would_change_is_a_bad_answer_after_one_call(reply: Reply, words: str) -> None:
    budget = Budget()
    error = refusal(reply, budget)
    assert isinstance(error, BadAnswer)
    assert words in str(error)
    assert budget.spent.calls == 1


@pytest.mark.parametrize("late", [True, False], ids=["late", "dripping"])
def test_a_call_takes_no_longer_than_it_may(late: bool) -> None:
    """Also where each byte comes in time."""
    never = Event()
    reply = Reply(GOOD, release=never) if late else Reply(GOOD, drip_s=0.05)
    budget, begun = Budget(), time.monotonic()
    error = refusal(reply, budget, timeout_s=SHORT_S)
    never.set()
    assert isinstance(error, ChatUnavailable)
    assert "did not answer within 0.4 s" in str(error)
    assert "llm.timeout_s" in str(error)
    assert time.monotonic() - begun < SHORT_S + BUSY_S
    assert (budget.spent.calls, budget.spent.untold_calls) == (1, 1)


@pytest.mark.parametrize("status", [401, 403])
def test_a_rejected_key_is_never_tried_again(status: int) -> None:
    """By no call after the answer, and what the server echoes of the key is hidden."""
    with ChatServer(lambda _: Reply(f"Incorrect API key provided: {KEY}", status=status)) as server:
        chat = chat_over(server, concurrency=1)
        results = [*ask(chat, times=3), *ask(chat)]
        assert len(server.requests) == 1
    assert all(isinstance(error, KeyRejected) and error.exit_code == 4 for error in results)
    assert KEY not in str(results)
    assert "llm.api_key" in str(results[0])


INVALID_KEYS = {
    "Gemini": [{"error": {"code": 400, "message": "API key not valid. Please pass a valid API key.", "status": "INVALID_ARGUMENT"}}],
    "Gemini, expired": [{"error": {"code": 400, "message": "API key expired. Please renew the API key."}}],
    "xAI": {"code": "Client specified an invalid argument", "error": "Incorrect API key provided: xa***. You can obtain one elsewhere."},
    "by its code": {"error": {"code": "invalid_api_key", "message": "Look at your account."}},
}


@pytest.mark.parametrize("body", INVALID_KEYS.values(), ids=INVALID_KEYS)
def test_a_key_that_is_rejected_with_400_is_rejected(body: Any) -> None:
    with ChatServer(lambda _: Reply(raw=json.dumps(body).encode(), status=400)) as server:
        chat = chat_over(server, concurrency=1)
        results = [*ask(chat, times=3), *ask(chat)]
        assert len(server.requests) == 1
    assert all(isinstance(error, KeyRejected) for error in results)


OF_ONE_CALL = (
    "Your chosen model requires moderation and your input was flagged for 'violence'",
    "<html><title>Attention Required! | Cloudflare</title>Sorry, you have been blocked</html>",
    "Project `proj_1` does not have access to model `scripted`",
    "Country, region, or territory not supported",
)


@pytest.mark.parametrize("message", OF_ONE_CALL)
@pytest.mark.parametrize("before", [0, 1])
def test_a_403_about_one_call_costs_that_call_only(message: str, before: int) -> None:
    """Whether a call went well before or not: one hostile text must not take the model from all others."""
    replies = [*[Reply(GOOD)] * before, Reply(message, status=403), Reply(GOOD)]
    with ChatServer(lambda _: replies.pop(0)) as server:
        chat = chat_over(server)
        results = [one for _ in range(before + 2) for one in ask(chat)]
        assert modes(server) == ["json_schema"] * (before + 2)
    assert [type(one) for one in results] == [*[Judged] * before, ChatUnavailable, Judged]
    assert "answers 403" in str(results[before])


@pytest.mark.parametrize("before", [0, 1])
def test_a_403_without_a_reason_rejects_the_key_while_none_was_ever_accepted(before: int) -> None:
    replies = [*[Reply(GOOD)] * before, Reply("Forbidden", status=403), Reply(GOOD)]
    with ChatServer(lambda _: replies.pop(0)) as server:
        chat = chat_over(server)
        results = [one for _ in range(before + 2) for one in ask(chat)][before:]
    assert [type(one) for one in results] == ([ChatUnavailable, Judged] if before else [KeyRejected, KeyRejected])


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (401, "Sorry"),
        (403, "Your API key was reported as leaked. Please use another API key."),
        (403, "Permission denied"),
        (403, "Your API key does not have permission to use this model"),
        (400, "API key expired. Please renew the API key."),
    ],
)
def test_a_key_can_be_withdrawn(status: int, message: str) -> None:
    replies = [Reply(GOOD), Reply(message, status=status)]
    with ChatServer(lambda _: replies.pop(0)) as server:
        chat = chat_over(server)
        results = [*ask(chat), *ask(chat), *ask(chat)]
    assert [type(one) for one in results] == [Judged, KeyRejected, KeyRejected]


@pytest.mark.parametrize("status", [400, 403])
def test_what_a_server_quotes_of_a_question_does_not_reject_the_key(status: int) -> None:
    quoted = "1 validation error for ChatRequest: the value of messages[1].content cannot be taken, it was 'Incorrect API key provided'"
    replies = [Reply(GOOD), Reply(quoted, status=status), Reply(GOOD)]
    with ChatServer(lambda _: replies.pop(0)) as server:
        chat = chat_over(server)
        results = [*ask(chat), *ask(chat), *ask(chat)]
    assert [type(one) for one in results] == [Judged, ChatUnavailable, Judged]


@pytest.mark.parametrize("header", ["0.2", "date"])
def test_a_busy_server_is_called_again_when_it_allows(header: str) -> None:
    """In seconds, or as a date; no other call of the process is made before."""
    replies, begun = [BUSY], time.monotonic()

    def answer(_: Request) -> Reply:
        until = format_datetime(datetime.now(UTC) + timedelta(seconds=2), usegmt=True) if header == "date" else header
        return Reply("slow down", status=429, headers={"Retry-After": until}) if replies and replies.pop() else Reply(GOOD)

    budget = Budget()
    with ChatServer(answer) as server:
        chat = chat_over(server, timeout_s=60.0, concurrency=1)
        assert ask(chat, budget, times=2) == [Judged(id="a", score=0.7)] * 2
        assert len(server.requests) == 3
    assert time.monotonic() - begun >= 0.2
    assert (budget.spent.calls, budget.spent.untold_calls) == (3, 0)
    assert budget.spent.cost_usd == pytest.approx(0.0006)


def test_a_wait_that_does_not_fit_is_skipped_and_no_other_call_is_made_meanwhile() -> None:
    with ChatServer(lambda _: Reply("quota", status=429, headers={"Retry-After": "7200"})) as server:
        results = [*ask(chat_over(server)), *ask(chat_over(server))]
        assert len(server.requests) == 1
    until = datetime.now(UTC) + timedelta(hours=2)
    for error in results:
        assert isinstance(error, ChatUnavailable)
        assert f"until {until:%Y-%m-%d %H:}" in str(error) or f"until {until - timedelta(minutes=1):%Y-%m-%d %H:}" in str(error)


def test_spent_credit_is_reported_and_not_waited_for() -> None:
    body = json.dumps({"error": {"message": "You exceeded your current quota", "code": "insufficient_quota"}}).encode()
    budget = Budget()
    assert "no credit" in str(refusal(Reply(raw=body, status=429), budget))
    assert budget.spent.calls == 1


@pytest.mark.parametrize("status", [500, 502, 503])
def test_a_server_that_fails_once_is_called_again_and_keeps_its_mode(status: int) -> None:
    replies = [Reply(GOOD), Reply("oops", status=status), Reply(GOOD), Reply(GOOD)]
    with ChatServer(lambda _: replies.pop(0)) as server:
        chat = chat_over(server)
        assert [ask(chat) for _ in range(3)] == [[Judged(id="a", score=0.7)]] * 3
        assert modes(server) == ["json_schema"] * 4


def test_a_server_that_fails_over_one_schema_is_called_in_another_mode() -> None:
    """Also in a way that has worked before, and that stays what works."""
    failing: list[str] = []
    with ChatServer(lambda request: Reply("grammar", status=500) if request.mode in failing else Reply(GOOD)) as server:
        chat = chat_over(server)
        ask(chat)
        failing.append("json_schema")
        assert ask(chat) == [Judged(id="a", score=0.7)]
        assert modes(server) == ["json_schema"] * 3 + ["function_calling"]
        assert ask(chat) == [Judged(id="a", score=0.7)]
        assert modes(server)[4:] == ["json_schema"] * 2 + ["function_calling"]


@pytest.mark.parametrize(("status", "calls"), [(500, 4), (503, 3), (504, 3)])
def test_a_server_that_always_fails_is_unavailable(status: int, calls: int) -> None:
    budget = Budget()
    error = refusal(Reply("oops", status=status), budget)
    assert isinstance(error, ChatUnavailable)
    assert str(status) in str(error)
    assert budget.spent.calls == budget.spent.untold_calls == calls


def test_a_cut_answer_is_requested_again() -> None:
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

    def answer(request: Request) -> Reply:
        for option in ("temperature", "max_tokens"):
            if option in request.body:
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


def test_a_request_that_is_too_long_is_reported() -> None:
    budget = Budget()
    error = refusal(Reply("This model's maximum context length is 512 tokens", status=400), budget)
    assert isinstance(error, ChatUnavailable)
    assert "512 tokens" in str(error)
    assert budget.spent.calls == 1


def test_the_limit_on_calls_under_way_holds_for_all_services_together() -> None:
    with ChatServer(lambda _: Reply(GOOD, delay_s=0.05)) as server:
        first, second = chat_over(server, concurrency=3), chat_over(server, concurrency=3)

        async def both() -> None:
            await asyncio.gather(first.warm_up(), second.warm_up())
            await asyncio.gather(*(chat.answer(REQUEST, Judged, Budget()) for chat in (first, second) for _ in range(8)))

        asyncio.run(both())
        assert server.most == 3
        assert len(server.requests) == 16


def test_a_caller_that_has_gone_leaves_its_place_to_another() -> None:
    release = Event()
    with ChatServer(lambda _: Reply(GOOD, release=release)) as server:
        chat = chat_over(server, concurrency=1)

        async def leave() -> None:
            await chat.warm_up()
            gone = [asyncio.create_task(chat.answer(REQUEST, Judged, Budget())) for _ in range(5)]
            while not server.requests:  # noqa: ASYNC110 - filled in a thread
                await asyncio.sleep(0.01)
            for waiting_first in (gone[1:], gone[:1]):  # else a place that becomes free may reach one that is about to leave
                for task in waiting_first:
                    task.cancel()
                await asyncio.gather(*waiting_first, return_exceptions=True)
            release.set()
            async with asyncio.timeout(60):
                assert await chat.answer(REQUEST, Judged, Budget()) == Judged(id="a", score=0.7)

        asyncio.run(leave())
        assert len(server.requests) == 2


def test_no_call_is_made_beyond_the_budget_also_at_once() -> None:
    budget = Budget(max_calls=7)
    with ChatServer(lambda _: Reply(GOOD, delay_s=0.02)) as server:
        results = ask(chat_over(server), budget, times=20)
        assert len(server.requests) == budget.spent.calls == 7
    assert sum(isinstance(one, BudgetSpent) for one in results) == 13


def test_the_bound_on_cost_counts_running_calls() -> None:
    with ChatServer(lambda _: Reply(GOOD, delay_s=0.02)) as server:
        chat = chat_over(server)
        probe = Budget(max_cost_usd=1.0)
        ask(chat, probe)
        most = 0.0005 + len(json.dumps(server.requests[0].body)) / 1e6
        budget = Budget(max_cost_usd=3.5 * most)
        results = ask(chat, budget, times=10)
        assert 3 <= sum(isinstance(one, Judged) for one in results) < 10
    assert budget.spent.cost_usd is not None
    assert budget.spent.cost_usd <= 3.5 * most


def test_event_loops_one_after_another_share_a_chat() -> None:
    with ChatServer(lambda _: Reply(GOOD)) as server:
        chat = chat_over(server)
        assert [ask(chat) for _ in range(3)] == [[Judged(id="a", score=0.7)]] * 3


def test_callbacks_of_the_caller_see_the_call_and_no_key() -> None:
    class CallRecorder(AsyncCallbackHandler):
        def __init__(self) -> None:
            self.events: list[str] = []

        async def on_chat_model_start(self, *args: Any, **kwargs: Any) -> None:
            self.events.append(f"start {args} {kwargs}")

        async def on_llm_end(self, *args: Any, **kwargs: Any) -> None:
            self.events.append(f"end {args} {kwargs}")

    recorder = CallRecorder()
    with ChatServer(lambda _: Reply(GOOD)) as server:
        chat = chat_over(server)

        async def node(_: object) -> None:
            await chat.answer(REQUEST, Judged, Budget())

        asyncio.run(RunnableLambda(node).ainvoke({}, config={"callbacks": [recorder]}))
    assert [event.split()[0] for event in recorder.events] == ["start", "end"]
    assert "Judge." in recorder.events[0]
    assert KEY not in "".join(recorder.events)


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


def test_the_chat_of_the_settings_describes_itself_or_gives_the_reason_for_none() -> None:
    assert make_chat(LlmSettings())[0] is None
    chat, description = make_chat(LlmSettings(model="llama3", base_url="http://localhost:11434/v1"))
    assert chat is not None
    assert chat.name == "llama3 at localhost:11434"
    assert "price is unknown" in description
