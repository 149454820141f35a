"""Several servers of one chat model: calls are shared out, and a server that is no use is left out."""

from __future__ import annotations

import asyncio
import logging
import ssl
import threading
import time

import httpx2
import pytest
from pydantic import SecretStr

from outrider.models.chat import servers as module
from outrider.models.chat import transport
from outrider.models.chat.endpoint import EndpointChat, make_chat
from outrider.models.chat.provider import resolve_endpoint
from outrider.runtime import threads_and_loops
from outrider.settings.model import LlmSettings
from outrider.state.chat import Budget, ChatRequest
from outrider.state.errors import ChatError, KeyRejected
from outrider.state.model import Model
from support.chat_server import ChatServer, Reply
from support.patience import BUSY_S

KEY = "sk-very-secret"
REQUEST = ChatRequest(node="fine_scorer", system="Judge.", user="<data>\n[]\n</data>", max_output_tokens=50)
DEAD = "http://127.0.0.1:9/v1"


class Judged(Model):
    id: str


GOOD = Reply({"id": "a"})


def chat_over(*addresses: str, model: str = "scripted", timeout_s: float = 30.0) -> EndpointChat:
    settings = LlmSettings(model=model, base_url=", ".join(addresses), api_key=SecretStr(KEY), timeout_s=timeout_s, concurrency=4)
    endpoint, why = resolve_endpoint(settings)
    assert endpoint is not None, why
    return EndpointChat(endpoint, settings)


def ask(chat: EndpointChat, times: int = 1) -> list[Judged | BaseException]:
    async def all_of_them() -> list[Judged | BaseException]:
        await chat.warm_up()
        return await asyncio.gather(*(chat.answer(REQUEST, Judged, Budget()) for _ in range(times)), return_exceptions=True)

    return asyncio.run(all_of_them())


def test_calls_are_shared_out() -> None:
    with ChatServer(lambda _: Reply({"id": "a"}, delay_s=0.05)) as first, ChatServer(lambda _: Reply({"id": "b"}, delay_s=0.05)) as second:
        answers = ask(chat_over(first.base_url, second.base_url), 12)
        assert {answer.id for answer in answers if isinstance(answer, Judged)} == {"a", "b"}
        assert min(len(first.requests), len(second.requests)) >= 4


@pytest.mark.parametrize(
    "reply",
    [
        Reply("slow down", status=429, headers={"Retry-After": "20"}),
        Reply("no such model", status=404),
        Reply("Invalid API key", status=401),
    ],
    ids=["busy", "another model", "another key"],
)
def test_a_server_that_refuses_is_left_out(reply: Reply) -> None:
    with ChatServer(lambda _: reply) as first, ChatServer(lambda _: GOOD) as second:
        chat = chat_over(first.base_url, second.base_url)
        started = time.monotonic()
        assert ask(chat, 8) == [Judged(id="a")] * 8
        assert ask(chat, 8) == [Judged(id="a")] * 8
        assert time.monotonic() - started < BUSY_S
        assert len(first.requests) <= 4


def test_a_dead_server_is_left_out_by_name(caplog: pytest.LogCaptureFixture) -> None:
    with ChatServer(lambda _: GOOD) as server, caplog.at_level(logging.WARNING):
        assert ask(chat_over(DEAD, server.base_url), 8) == [Judged(id="a")] * 8
    assert "scripted at 127.0.0.1:9 cannot be reached" in caplog.text
    assert "its calls go to the other servers" in caplog.text
    assert KEY not in caplog.text


def test_a_server_that_hangs_is_left() -> None:
    delay_s = 0.0
    with ChatServer(lambda _: Reply({"id": "a"}, delay_s=delay_s)) as first, ChatServer(lambda _: GOOD) as second:
        chat = chat_over(first.base_url, second.base_url, timeout_s=4.0)
        assert ask(chat, 8) == [Judged(id="a")] * 8
        delay_s = 40.0
        assert ask(chat, 8) == [Judged(id="a")] * 8
        first.hang_up()


def test_a_long_answer_after_short_ones_is_no_hang(caplog: pytest.LogCaptureFixture) -> None:
    delay_s = 0.0
    with ChatServer(lambda _: Reply({"id": "a"}, delay_s=delay_s)) as first, ChatServer(lambda _: Reply({"id": "a"})) as second:
        chat = chat_over(first.base_url, second.base_url)
        assert ask(chat, 8) == [Judged(id="a")] * 8
        delay_s = 2.5
        assert ask(chat) == [Judged(id="a")]
        assert "did not answer" not in caplog.text
        assert len(second.requests) <= 4


def test_a_server_that_got_too_little_time_is_not_left_out(caplog: pytest.LogCaptureFixture) -> None:
    replies = iter([Reply("slow down", status=429, headers={"Retry-After": "0.5"})] * 2)
    with ChatServer(lambda _: next(replies, Reply({"id": "a"}, delay_s=2.0))) as first, ChatServer(lambda _: next(replies, GOOD)) as second:
        (error,) = ask(chat_over(first.base_url, second.base_url, timeout_s=1.0))
        assert "did not answer within 1 s" in str(error)
    assert "its calls go to the other servers" not in caplog.text


def test_a_dead_server_beside_a_busy_one_costs_a_pause_and_no_answer() -> None:
    replies = iter([Reply("slow down", status=429, headers={"Retry-After": "1"})])
    with ChatServer(lambda _: next(replies, GOOD)) as server:
        assert ask(chat_over(server.base_url, DEAD)) == [Judged(id="a")]


def test_calls_to_dead_servers_alone_fail_at_once_and_succeed_as_soon_as_one_is_back() -> None:
    with ChatServer(lambda _: GOOD) as server:
        chat = chat_over(DEAD, server.base_url)
        ask(chat)
        for one in chat._servers.servers:
            chat._servers.leave_out(one, f"{one.endpoint.name} cannot be reached")
        started = time.monotonic()
        assert ask(chat) == [Judged(id="a")]
        assert time.monotonic() - started < module.LEFT_OUT_S / 2


def test_without_any_server_the_error_names_each() -> None:
    with ChatServer(lambda _: Reply(f"no such model, {KEY}", status=404)) as server:
        (error,) = ask(chat_over(DEAD, server.base_url))
    assert isinstance(error, ChatError)
    assert "none of the 2 servers of scripted can be used" in str(error)
    assert "127.0.0.1:9 cannot be reached" in str(error)
    assert "404" in str(error)
    assert KEY not in str(error)


def test_a_key_that_all_servers_reject_is_not_sent_again() -> None:
    refused = Reply("Invalid API key", status=401)
    with ChatServer(lambda _: refused) as first, ChatServer(lambda _: refused) as second:
        chat = chat_over(first.base_url, second.base_url)
        errors = [*ask(chat), *ask(chat)]
        assert all(isinstance(error, KeyRejected) and "set llm.api_key" in str(error) for error in errors)
        assert [len(first.requests), len(second.requests)] == [1, 1]


def test_the_first_server_that_answers_names_the_model() -> None:
    with ChatServer(lambda _: GOOD, models=Reply(["only"])) as server:
        chat = chat_over(DEAD, server.base_url, model="auto")
        assert ask(chat) == [Judged(id="a")]
        assert chat.name.startswith("only at 127.0.0.1:9, 127.0.0.1:")


def test_offline_wants_all_servers_on_this_machine() -> None:
    settings = LlmSettings(model="m", base_url="http://127.0.0.1:1/v1, http://gpu.example/v1")
    assert make_chat(settings, offline=True)[0] is None
    assert make_chat(settings)[0] is not None


def test_the_report_reads_certificates_beside_the_loop_of_all_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    threads, read = [], httpx2.create_ssl_context

    def record_and_read() -> ssl.SSLContext:
        threads.append(threading.current_thread().name)
        return read()

    monkeypatch.setattr("outrider.models.chat.transport.httpx2.create_ssl_context", record_and_read)
    transport._make_http_client.cache_clear()
    with ChatServer(lambda _: GOOD, models=Reply(["scripted"])) as server:
        reports = asyncio.run(chat_over(server.base_url, DEAD).report_servers(BUSY_S))
    assert [bool(report.problem) for report in reports] == [False, True]
    assert threads
    assert threads_and_loops.BACKGROUND not in " ".join(threads)


def test_the_report_says_that_an_answer_is_no_list() -> None:
    with ChatServer(lambda _: GOOD, models=Reply(raw=b"<html>Welcome</html>")) as server:
        (report,) = asyncio.run(chat_over(server.base_url).report_servers(BUSY_S))
    assert report.problem.endswith("answered with something else instead of a list of its models")
