"""Client of a chat model through langchain-openai, and the limit on concurrent calls.

Errors of foreign packages become ours, and no error message contains a secret.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from pydantic import SecretStr

from outrider.models.chat.endpoint_errors import RequestRefused, UnreadableResponse, is_key_rejected
from outrider.models.chat.provider import Endpoint, TokenUsage
from outrider.runtime.threads_and_loops import load_module
from outrider.state.errors import BadAnswer, ChatUnavailable, KeyRejected

if TYPE_CHECKING:
    from langchain_core.messages import AIMessage
    from langchain_openai import ChatOpenAI

    from outrider.runtime.shared_permits import SharedPermit, SharedPermits
    from outrider.runtime.shared_redis import SharedRedis

PASSED_THROUGH = ("response_format", "thinking", "max_tokens")
"""Request fields sent unchanged: the client would parse the first one its own way, and rename the last."""
MAX_LISTED_MODELS = 5
NO_LIST = frozenset({404, 405, 501})
"""Statuses of a server that has no list of models."""
FOREVER_S = 1e6
Messages = list[dict[str, str]]
"""`role` and `content` of each message."""


class ConcurrencyLimiter:
    """A first-come, first-served limit on concurrent calls. A waiting call delays all later ones, whatever their limits.

    All methods must run on one event loop.
    """

    def __init__(self) -> None:
        self._running = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        self.redis: SharedRedis | None = None
        """The server through which the calls of all processes are counted; None counts those of this process."""
        self._permits: dict[int, SharedPermits] = {}

    @asynccontextmanager
    async def slot(self, limit: int, longest_s: float = 0.0) -> AsyncIterator[None]:
        """Wait until fewer than `limit` calls run; callers with different limits count each other's calls.

        A call takes at most `longest_s`, after which other processes do not count it any more. While the shared server is away, this
        process makes its share of the calls, at least one at a time: the limit protects a server of the user's own choice.
        """
        permit, redis = await self._wait_for_permit(limit, longest_s), self.redis
        if permit is None:
            share = limit if redis is None else max(1, limit // max(1, redis.processes))
            async with self._own_slot(share):
                yield
            return
        try:
            yield
        finally:
            permit.end(has_response=True)

    async def _wait_for_permit(self, limit: int, longest_s: float) -> SharedPermit | None:
        if self.redis is None:
            return None
        from outrider.runtime.shared_permits import SharedLimits, SharedPermits
        from outrider.runtime.shared_redis import RedisAway

        if limit not in self._permits:
            self._permits[limit] = SharedPermits(self.redis, "model calls", SharedLimits(limit))
        with suppress(RedisAway):
            return await self._permits[limit].acquire(FOREVER_S, longest_s)
        return None

    @asynccontextmanager
    async def _own_slot(self, limit: int) -> AsyncIterator[None]:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((limit, turn))
        self._admit()
        try:
            await turn
            yield
        finally:
            if turn.done() and not turn.cancelled():
                self._running -= 1
            turn.cancel()  # a caller that leaves while waiting is skipped
            self._admit()

    def _admit(self) -> None:
        """Admit waiting calls in order while there is room; skip those that were cancelled."""
        while self._waiting:
            limit, turn = self._waiting[0]
            if not turn.cancelled():
                if self._running >= limit:
                    return
                self._running += 1
                turn.set_result(None)
            self._waiting.popleft()


@cache
def get_concurrency_limiter() -> ConcurrencyLimiter:
    """The limiter of the process."""
    return ConcurrencyLimiter()


class ConnectionBroken(Exception):
    """No response arrived; `reached` if the request may have reached the server."""

    def __init__(self, why: str, *, reached: bool) -> None:
        super().__init__(why)
        self.reached = reached


class ClientTimeout(Exception):
    """The client's own limit on one read or write has passed."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A model's reply: its text, or the arguments of the function that it called."""

    content: str | dict[str, Any]
    usage: TokenUsage | None
    """None if the provider gives no count, or an impossible one."""
    finish_reason: str
    refusal: str


class ChatClient:
    """One model at one address. All its calls run on one event loop."""

    def __init__(self, endpoint: Endpoint, timeout_s: float) -> None:
        self._endpoint = endpoint
        self._timeout_s = timeout_s
        self._client: ChatOpenAI | None = None

    async def warm_up(self) -> None:
        """Load the client, which can take seconds, outside the time limit of any call."""
        if self._client is None:
            client = await asyncio.to_thread(_make_client, self._endpoint, self._timeout_s)
            self._client = self._client or client

    async def ask(self, messages: Messages, request: dict[str, Any]) -> Reply:
        """Make one call. Raises `RequestRefused` with the server's message, `ConnectionBroken`, `ClientTimeout`, `BadAnswer`."""
        await self.warm_up()
        assert self._client is not None  # noqa: S101 - warm_up has set it
        import httpx2
        from openai import APITimeoutError, Omit, OpenAIError

        plain: dict[str, Any] = {name: value for name, value in request.items() if name not in PASSED_THROUGH}
        extra = {name: value for name, value in request.items() if name in PASSED_THROUGH}
        if not self._endpoint.is_openai:  # else the client sends the user's OpenAI account to a foreign server
            plain["extra_headers"] = {"OpenAI-Organization": Omit(), "OpenAI-Project": Omit()}
        try:
            return _make_reply(await self._client.ainvoke(messages, **plain, extra_body=extra))
        except UnreadableResponse as error:
            raise BadAnswer(f"{self._endpoint.name} answered with {error}; is llm.base_url its OpenAI address (.../v1)?") from None
        except APITimeoutError:
            raise ClientTimeout from None
        except OpenAIError as error:
            causes: list[BaseException] = [error]
            while (cause := causes[-1].__cause__) is not None:
                causes.append(cause)
            reached = not any(isinstance(cause, httpx2.ConnectError) for cause in causes)
            raise ConnectionBroken(self._endpoint.redact(causes[-1]), reached=reached) from None  # the cause shows the request


def _make_client(endpoint: Endpoint, timeout_s: float) -> ChatOpenAI:
    from langchain_openai import ChatOpenAI

    from outrider.models.chat.transport import get_http_client, get_unused_client

    return ChatOpenAI(
        model=endpoint.model,
        base_url=endpoint.base_url,
        # never None: the client would send OPENAI_API_KEY to any server
        api_key=endpoint.key if endpoint.key.get_secret_value() else SecretStr("none"),
        timeout=timeout_s,
        max_retries=0,
        http_client=get_unused_client(),
        http_async_client=get_http_client(endpoint.base_url),
        openai_proxy=None,
        use_responses_api=False,
        disable_streaming=True,
        cache=False,
    )


def _make_reply(message: AIMessage) -> Reply:
    calls: list[str | dict[str, Any]] = [call["args"] for call in message.tool_calls]
    calls += [call["args"] or "" for call in message.invalid_tool_calls]
    usage, counts = None, message.usage_metadata
    # langchain gives 0 for a number that the provider leaves out
    if counts is not None and counts["input_tokens"] > 0 and counts["output_tokens"] > 0:
        details = counts.get("input_token_details", {})
        cached, cache_write = details.get("cache_read", 0), details.get("cache_creation", 0)
        if min(cached, cache_write) < 0 or cached + cache_write > counts["input_tokens"]:
            cached = cache_write = 0
        usage = TokenUsage(counts["input_tokens"], counts["output_tokens"], cached, cache_write)
    return Reply(
        content=calls[0] if calls else message.text,
        usage=usage,
        finish_reason=str(message.response_metadata.get("finish_reason") or ""),
        refusal=str(message.additional_kwargs.get("refusal") or ""),
    )


async def list_models(endpoint: Endpoint, within_s: float) -> list[str]:
    """The names of the models that the endpoint's first address lists at `/models`.

    Raises `RequestRefused`, `UnreadableResponse`, `ChatUnavailable` for an unusable proxy, `ConnectionError`, `TimeoutError`.
    """
    transport = await load_module("outrider.models.chat.transport")
    await asyncio.to_thread(transport.get_http_client, endpoint.base_url)  # reads certificates
    async with asyncio.timeout(within_s):
        names: list[str] = await transport.list_models(endpoint.base_url, endpoint.key)
    return names


async def find_only_model(endpoint: Endpoint, timeout_s: float) -> str:
    """The name of the only model that the server lists at `/models`. Raises `KeyRejected`, and `ChatUnavailable` if it is not one."""
    remedy = "set llm.model (OUTRIDER_LLM__MODEL) to the model to use"
    try:
        names = await list_models(endpoint, timeout_s)
    except RequestRefused as refused:
        message = endpoint.redact(refused.message)
        detail = f"{refused.status}: {message}" if message else f"{refused.status}"
        if is_key_rejected(refused, accepted=False):
            raise KeyRejected(f"{endpoint.host} rejects the key ({detail}); set llm.api_key, or the variable that holds the key") from None
        why = "has no list of models" if refused.status in NO_LIST else f"does not list its models ({detail})"
        raise ChatUnavailable(f"{endpoint.host} {why}, and no model is named; {remedy}") from None
    except TimeoutError:
        raise ChatUnavailable(f"{endpoint.host} did not list its models within {timeout_s:g} s, and no model is named; {remedy}") from None
    except UnreadableResponse as error:
        why = f"answered with {error} instead of a list of its models"
        raise ChatUnavailable(f"{endpoint.host} {why}, and no model is named; is llm.base_url its OpenAI address (.../v1)?") from None
    except ConnectionError as error:
        why = f"{endpoint.host} cannot be reached ({endpoint.redact(error)})"
        raise ChatUnavailable(f"{why}, so its models are unknown; is it running, and is llm.base_url right?") from None
    if len(names) == 1:
        return names[0]
    if not names:
        raise ChatUnavailable(f"{endpoint.host} serves no model; start one there")
    listed = endpoint.redact(", ".join(names[:MAX_LISTED_MODELS]) + (", ..." if len(names) > MAX_LISTED_MODELS else ""))
    raise ChatUnavailable(f"{endpoint.host} serves {len(names):,} models ({listed}), and no model is named; {remedy}")
