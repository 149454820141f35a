"""HTTP client of chat models that passes only completions and lists of models.

Answers have a bounded size. Imported at first use, since httpx2 takes time to load.
"""

from __future__ import annotations

import asyncio
import atexit
import json
from collections.abc import AsyncIterator
from contextlib import suppress
from functools import cache
from typing import Any, Literal

import anyio
import httpx2
from pydantic import BaseModel, ConfigDict, Field, SecretStr, TypeAdapter, ValidationError

from outrider.models.chat.endpoint_errors import RequestRefused, UnreadableResponse
from outrider.runtime.threads_and_loops import run_in_background
from outrider.state.errors import ChatUnavailable
from outrider.text.sanitize import find_proxy_fault, is_loopback

MAX_BYTES = 2**20
"""Of one response. The longest that is requested has some thousand tokens of a few bytes each."""
MAX_IDLE_CONNECTIONS = 20
"""Idle connections kept for the next call."""
CLOSE_TIMEOUT_S = 1.0
LIST_MODELS = "outrider_list_models"
"""Extension of a request whose answer is a list of models instead of a chat completion."""


def get_http_client(base_url: str) -> httpx2.AsyncClient:
    """The client for an address. Uses the environment's proxies, except for this machine: a proxy would send the request elsewhere.

    Raises `ChatUnavailable` for an unusable proxy.
    """
    if fault := find_proxy_fault(base_url):
        raise ChatUnavailable(fault)
    return _make_http_client(not is_loopback(base_url))


@cache
def _make_http_client(uses_proxy: bool) -> httpx2.AsyncClient:
    """One for a process, on its background loop; each call sets its own timeout.

    It raises `RequestRefused` and `UnreadableResponse` besides the errors of httpx2.
    """
    client = _Client(
        verify=httpx2.create_ssl_context(),  # reads SSL_CERT_FILE, also without `trust_env`
        trust_env=uses_proxy,
        headers={"Accept-Encoding": "identity"},  # a compressed body cannot be bounded before it is decompressed
        event_hooks={"response": [_check_response]},
        limits=httpx2.Limits(max_connections=None, max_keepalive_connections=MAX_IDLE_CONNECTIONS),
    )

    def close() -> None:
        """Close idle connections, which the interpreter would warn about at exit."""
        with suppress(TimeoutError):
            run_in_background(asyncio.wait_for(client.aclose(), CLOSE_TIMEOUT_S))

    atexit.register(close)
    return client


@cache
def get_unused_client() -> httpx2.Client:
    """The client for synchronous calls, of which there are none; langchain-openai's own would read the certificates for each server."""
    return httpx2.Client(transport=_NoSynchronousCalls(), trust_env=False)


class _NoSynchronousCalls(httpx2.BaseTransport):
    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        raise NotImplementedError(f"models are called asynchronously only; this call to {request.url.host} is synchronous")


class _Client(httpx2.AsyncClient):
    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Send in a task of its own, which anyio's scope cancels.

        The pool closes old connections within the next call and shields that against anyio, not against asyncio: an asyncio
        cancellation would leave them open without an owner (httpcore2 2.16).
        """
        scope = anyio.CancelScope()
        sending = super().send(request, **options)

        async def send_in_scope() -> httpx2.Response:
            with scope:
                return await sending
            raise asyncio.CancelledError  # ignored: the caller has been cancelled

        def retrieve_error(task: asyncio.Task[httpx2.Response]) -> None:
            if not task.cancelled():
                task.exception()  # otherwise asyncio warns of an error that occurred after the caller was cancelled

        task = asyncio.create_task(send_in_scope())
        task.add_done_callback(retrieve_error)
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            scope.cancel()
            await asyncio.wait({task})
            raise
        return task.result()


async def list_models(base_url: str, key: SecretStr) -> list[str]:
    """The names of the models that a server lists (platform.openai.com/docs/api-reference/models/list), each once, in its order.

    Raises `RequestRefused`, `UnreadableResponse`, and `ConnectionError` without a connection or an answer.
    """
    authorization = f"Bearer {key.get_secret_value() or 'none'}"
    try:
        response = await get_http_client(base_url).get(
            f"{base_url.rstrip('/')}/models", headers={"Authorization": authorization}, timeout=None, extensions={LIST_MODELS: True}
        )
    except httpx2.HTTPError as error:
        raise ConnectionError(str(error) or type(error).__name__) from None  # the cause shows the request
    try:
        models = _Models.validate_json(response.content)
    except ValidationError:
        raise UnreadableResponse("something else") from None  # the cause shows the answer
    return list(dict.fromkeys(model.id for model in (models if isinstance(models, list) else models.data)))


async def _check_response(response: httpx2.Response) -> None:
    compression = response.headers.get("content-encoding", "identity")
    if compression != "identity":
        raise UnreadableResponse(f"a body packed with {compression}, which was not requested")
    if not isinstance(response.stream, httpx2.AsyncByteStream):
        raise TypeError("an answer of a synchronous client")
    response.stream = _BoundedStream(response.stream)
    body = await response.aread()
    if response.status_code != 200:
        raise RequestRefused(response.status_code, dict(response.headers), *_parse_error(body))
    if LIST_MODELS in response.request.extensions:
        return
    try:
        _Completion.model_validate_json(body)
    except ValidationError:
        param, code, message = _parse_error(body)
        if code.isdecimal() and 400 <= int(code) < 600:  # OpenRouter passes on its providers' errors with status 200
            raise RequestRefused(int(code), dict(response.headers), param, code, message) from None
        raise UnreadableResponse("something else than a chat completion") from None  # the cause shows the answer


class _BoundedStream(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        read = 0
        async for chunk in self._stream:
            read += len(chunk)
            if read > MAX_BYTES:
                raise UnreadableResponse(f"more than {MAX_BYTES:,} bytes")
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


class _Part(BaseModel):
    """A part of a completion that is used (platform.openai.com/docs/api-reference/chat/object); additional fields are ignored."""

    model_config = ConfigDict(strict=True)


class _Function(_Part):
    name: str
    arguments: str


class _ToolCall(_Part):
    function: _Function


class _Message(_Part):
    role: Literal["assistant"]
    content: str | None = None
    refusal: str | None = None
    tool_calls: list[_ToolCall] | None = None


class _Choice(_Part):
    message: _Message
    finish_reason: str | None = None


class _Details(_Part):
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None


class _Usage(_Part):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _Details | None = None


class _Completion(_Part):
    choices: list[_Choice] = Field(min_length=1)
    usage: _Usage | None = None


class _Model(_Part):
    id: str = Field(min_length=1)


class _ModelList(_Part):
    data: list[_Model]


_Models: TypeAdapter[_ModelList | list[_Model]] = TypeAdapter(_ModelList | list[_Model])
"""Some servers (Together) send the list by itself."""


def _parse_error(body: bytes) -> tuple[str, str, str]:
    """Parameter, code and message of an error response."""
    text = body.decode(errors="replace")
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return "", "", text
    if isinstance(content, list) and len(content) == 1:  # Gemini
        content = content[0]
    error = content.get("error", content) if isinstance(content, dict) else content
    if not isinstance(error, dict):
        return "", "", str(error)
    return str(error.get("param") or ""), str(error.get("code") or ""), str(error.get("message") or error.get("detail") or text)
