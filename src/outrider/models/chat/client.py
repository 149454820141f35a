"""One call of a chat model through langchain-openai: foreign errors as ours, and no secret in any of them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from pydantic import SecretStr

from outrider.models.chat.cost import TokenUsage
from outrider.models.chat.endpoint_errors import UnreadableResponse
from outrider.models.chat.provider import Endpoint
from outrider.state.errors import BadAnswer

if TYPE_CHECKING:
    from langchain_core.messages import AIMessage
    from langchain_openai import ChatOpenAI


class ConcurrencyLimiter:
    """First come, first served: who waits keeps those who came later waiting, whatever their limits. Used on one loop only."""

    def __init__(self) -> None:
        self._under_way = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    @asynccontextmanager
    async def slot(self, limit: int) -> AsyncIterator[None]:
        """Waits until fewer than `limit` are under way; services with different limits count each other's calls."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((limit, turn))
        self._let_in()
        try:
            await turn
            yield
        finally:
            if turn.done() and not turn.cancelled():
                self._under_way -= 1
            turn.cancel()  # who leaves while waiting is passed over
            self._let_in()

    def _let_in(self) -> None:
        """Gives a place to each in turn, as long as there is one; those who have left are passed over."""
        while self._waiting:
            limit, turn = self._waiting[0]
            if not turn.cancelled():
                if self._under_way >= limit:
                    return
                self._under_way += 1
                turn.set_result(None)
            self._waiting.popleft()


@cache
def get_concurrency_limiter() -> ConcurrencyLimiter:
    """The process's own."""
    return ConcurrencyLimiter()


PASSED_THROUGH = ("response_format", "thinking", "max_tokens")
"""Fields that go to the server as they are: the client would parse the first its own way, and rename the last."""

Messages = list[dict[str, str]]
"""`role` and `content` of each."""


class ConnectionBroken(Exception):
    """No answer came; `reached` where the request may have."""

    def __init__(self, why: str, *, reached: bool) -> None:
        super().__init__(why)
        self.reached = reached


class ClientTimeout(Exception):
    """The client's own limit on one read or write has passed."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What the model said: a text, or the arguments of the function that it called."""

    content: str | dict[str, Any]
    usage: TokenUsage | None
    finish_reason: str
    refusal: str


class ChatClient:
    """One model at one address. All its calls run on one loop."""

    def __init__(self, endpoint: Endpoint, timeout_s: float) -> None:
        self._endpoint = endpoint
        self._timeout_s = timeout_s
        self._client: ChatOpenAI | None = None

    async def warm_up(self) -> None:
        """Loads the client, which can take seconds, outside the time of any call."""
        if self._client is None:
            made = await asyncio.to_thread(_client, self._endpoint, self._timeout_s)
            self._client = self._client or made

    async def ask(self, messages: Messages, request: dict[str, Any]) -> Reply:
        """Raises `Refused` with what the server says, `Broken`, `Late`, `BadAnswer`."""
        await self.warm_up()
        assert self._client is not None  # noqa: S101 - it is ready
        import httpx2
        from openai import APITimeoutError, Omit, OpenAIError

        plain: dict[str, Any] = {name: value for name, value in request.items() if name not in PASSED_THROUGH}
        extra = {name: value for name, value in request.items() if name in PASSED_THROUGH}
        if not self._endpoint.is_openai:  # the account of another service, which the client would send to whoever is asked
            plain["extra_headers"] = {"OpenAI-Organization": Omit(), "OpenAI-Project": Omit()}
        try:
            return _reply(await self._client.ainvoke(messages, **plain, extra_body=extra))
        except UnreadableResponse as error:
            raise BadAnswer(f"{self._endpoint.name} answered with {error}; is llm.base_url its OpenAI address (.../v1)?") from None
        except APITimeoutError:
            raise ClientTimeout from None
        except OpenAIError as error:
            causes = list(_causes(error))
            reached = not any(isinstance(cause, httpx2.ConnectError) for cause in causes)
            raise ConnectionBroken(self._endpoint.redact(causes[-1]), reached=reached) from None  # the cause shows the request


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__


def _client(endpoint: Endpoint, timeout_s: float) -> ChatOpenAI:
    from langchain_openai import ChatOpenAI

    from outrider.models.chat.transport import get_http_client

    return ChatOpenAI(
        model=endpoint.model,
        base_url=endpoint.base_url,
        # never none: the client would send OPENAI_API_KEY to whoever is asked
        api_key=endpoint.key if endpoint.key.get_secret_value() else SecretStr("none"),
        timeout=timeout_s,
        max_retries=0,
        http_async_client=get_http_client(),
        openai_proxy=None,
        use_responses_api=False,
        disable_streaming=True,
        cache=False,
    )


def _reply(said: AIMessage) -> Reply:
    calls: list[str | dict[str, Any]] = [call["args"] for call in said.tool_calls]
    calls += [call["args"] or "" for call in said.invalid_tool_calls]
    return Reply(
        content=calls[0] if calls else said.text,
        usage=_used(said),
        finish_reason=str(said.response_metadata.get("finish_reason") or ""),
        refusal=str(said.additional_kwargs.get("refusal") or ""),
    )


def _used(said: AIMessage) -> TokenUsage | None:
    """None where the provider does not say, or says what cannot be."""
    usage = said.usage_metadata  # 0 where only the other number was told
    if usage is None or usage["input_tokens"] <= 0 or usage["output_tokens"] <= 0:
        return None
    details = usage.get("input_token_details", {})
    cached, kept = details.get("cache_read", 0), details.get("cache_creation", 0)
    if min(cached, kept) < 0 or cached + kept > usage["input_tokens"]:
        cached = kept = 0
    return TokenUsage(usage["input_tokens"], usage["output_tokens"], cached, kept)
