"""A server whose model the settings do not name is asked for its models; the only one is used."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

import pytest
from pydantic import SecretStr

from outrider.models.chat.endpoint import EndpointChat, make_chat
from outrider.settings.model import LlmSettings
from outrider.state.chat import Budget, ChatRequest
from outrider.state.errors import ChatUnavailable, KeyRejected
from outrider.state.model import Model
from outrider.state.response import Usage
from outrider.text.sanitize import is_loopback
from support.chat_client import KEY
from support.chat_server import ChatServer, Reply
from support.http_server import PROXY_VARIABLES


class Word(Model):
    word: str


QUESTION = ChatRequest("translator", "Answer with a word.", "Which word?", 100)


def settings(server: ChatServer, **fields: Any) -> LlmSettings:
    return LlmSettings(base_url=server.base_url, api_key=SecretStr(KEY), timeout_s=5.0, **fields)


def chat_of(llm: LlmSettings) -> EndpointChat:
    chat, description = make_chat(llm)
    assert isinstance(chat, EndpointChat)
    assert chat.description == description
    return chat


async def ask(chat: EndpointChat) -> Word:
    return await chat.answer(QUESTION, Word, Budget(10, None, Usage()))


async def test_the_only_model_answers_and_is_named_from_then_on() -> None:
    with ChatServer(lambda _: Reply({"word": "yes"}), models=Reply(["qwen3:8b"])) as server:
        chat = chat_of(settings(server, prices={"qwen3:8b": "1/2"}))
        assert "the only model at 127.0.0.1" in chat.description
        await chat.warm_up()
        assert chat.name.startswith("qwen3:8b at 127.0.0.1")
        assert "$1 in, $2 out" in chat.description
        assert (await ask(chat)).word == "yes"
        assert [request.body["model"] for request in server.requests] == ["qwen3:8b"]
        assert [headers["authorization"] for headers in server.listings] == [f"Bearer {KEY}"]


async def test_concurrent_first_calls_ask_for_the_models_once() -> None:
    with ChatServer(lambda _: Reply({"word": "yes"}), models=Reply(["m"], delay_s=0.1)) as server:
        chat = chat_of(settings(server))
        assert [answer.word for answer in await asyncio.gather(*(ask(chat) for _ in range(5)))] == ["yes"] * 5
        assert len(server.listings) == 1


@pytest.mark.parametrize(
    ("models", "error", "message"),
    [
        (Reply(["a", "b"]), ChatUnavailable, "serves 2 models (a, b), and no model is named; set llm.model (OUTRIDER_LLM__MODEL)"),
        (Reply([f"m{n}" for n in range(400)]), ChatUnavailable, "serves 400 models (m0, m1, m2, m3, m4, ...)"),
        (Reply([]), ChatUnavailable, "serves no model; start one there"),
        (None, ChatUnavailable, "has no list of models, and no model is named; set llm.model"),
        (Reply("boom", status=500), ChatUnavailable, "does not list its models (500: boom)"),
        (Reply("invalid api key", status=401), KeyRejected, "rejects the key (401: invalid api key)"),
        (Reply(raw=b"<html>Welcome</html>"), ChatUnavailable, "answered with something else instead of a list of its models"),
        (Reply(raw=b'{"data": [{"name": "m"}]}'), ChatUnavailable, "something else instead of a list"),
        (Reply(raw=b"[" * 2_000_000), ChatUnavailable, "more than 1,048,576 bytes instead of a list"),
    ],
)
async def test_what_is_missing_is_said_in_the_error_and_once_in_the_log(
    models: Reply | None, error: type[Exception], message: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    with ChatServer(lambda _: Reply(), models=models) as server:
        chat = chat_of(settings(server))
        for _ in range(2):
            with pytest.raises(error) as raised:
                await ask(chat)
            assert message in str(raised.value)
            assert KEY not in str(raised.value)
        assert server.requests == []
        assert len(server.listings) == 1  # not asked again at once
    assert [record.getMessage() for record in caplog.records] == [f"no chat model is used: {raised.value}"]


async def test_a_server_that_does_not_answer_costs_its_time_limit() -> None:
    with ChatServer(lambda _: Reply(), models=Reply(["m"], delay_s=30.0)) as server:
        with pytest.raises(ChatUnavailable, match=r"did not list its models within 0\.3 s"):
            await chat_of(LlmSettings(base_url=server.base_url, timeout_s=0.3)).warm_up()
        address = server.base_url
    with pytest.raises(ChatUnavailable, match="cannot be reached"):
        await chat_of(LlmSettings(base_url=address)).warm_up()


@pytest.mark.parametrize(
    "listed",
    [{"object": "list", "data": [{"id": "m"}, {"id": "m"}]}, [{"id": "m", "type": "chat"}], {"data": [{"id": "m", "created": None}]}],
)
async def test_lists_as_servers_write_them(listed: object) -> None:
    with ChatServer(lambda _: Reply({"word": "yes"}), models=Reply(raw=json.dumps(listed).encode())) as server:
        chat = chat_of(settings(server))
        await chat.warm_up()
        assert chat.name.startswith("m at ")


@pytest.mark.parametrize(
    ("address", "here"),
    [
        ("http://localhost:11434/v1", True),
        ("http://127.0.0.1/v1", True),
        ("http://127.8.9.10:1/", True),
        ("https://[::1]:8080/v1", True),
        ("http://[::ffff:127.0.0.1]/", True),
        ("http://LOCALHOST/", True),
        ("redis://user:secret@localhost/0", True),
        ("http://127.1/", False),  # has to be looked up
        ("http://2130706433/", False),
        ("http://localhost.example.org/", False),
        ("http://127.0.0.1.example.org/", False),
        ("http://localhost@example.org/", False),
        ("http://192.168.0.2/", False),
        ("http://0.0.0.0/", False),
        ("https://api.openai.com/v1", False),
        ("localhost", False),
        ("", False),
        ("http://[", False),
    ],
)
def test_offline_only_a_model_on_this_machine_is_used(address: str, here: bool) -> None:
    assert is_loopback(address) is here
    if address.startswith(("http://", "https://")) and address != "http://[":
        chat, why = make_chat(LlmSettings(model="m", base_url=address, api_key=SecretStr(KEY)), offline=True)
        assert (chat is not None) is here
        assert ("is not on this machine" in why) is not here


@pytest.mark.parametrize("proxy", ["http://127.0.0.1:9", "socks5://127.0.0.1:9", "foo://127.0.0.1:9"])
async def test_a_model_on_this_machine_is_not_asked_through_a_proxy(proxy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The proxy would send key and question elsewhere, also offline."""
    for name in PROXY_VARIABLES:
        monkeypatch.setenv(name, proxy)
    with ChatServer(lambda _: Reply({"word": "yes"}), models=Reply(["m"])) as server:
        assert (await ask(chat_of(settings(server)))).word == "yes"
        assert len(server.listings) == len(server.requests) == 1


@pytest.mark.parametrize("model", ["auto", "m"])
async def test_an_unusable_proxy_is_named(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in PROXY_VARIABLES:
        monkeypatch.setenv(name, "foo://user:secret@proxy.example")
    chat = chat_of(LlmSettings(model=model, base_url="http://192.0.2.1/v1", api_key=SecretStr(KEY)))
    with pytest.raises(
        ChatUnavailable, match=r"_proxy in the environment, 'foo://.*@proxy.example', is no proxy; write for example"
    ) as caught:
        await ask(chat)
    assert "secret" not in str(caught.value)
