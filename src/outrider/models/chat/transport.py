"""The HTTP client under langchain-openai: it passes on nothing but chat completions of bounded size. Imported at first use."""

from __future__ import annotations

import asyncio
import atexit
import json
from collections.abc import AsyncIterator, Coroutine
from contextlib import suppress
from functools import cache
from typing import Any, Literal

import anyio
import httpx2
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from outrider.models.chat.endpoint_errors import RequestRefused, UnreadableResponse
from outrider.runtime.background_loop import run_in_background

MAX_BYTES = 2**20
"""Of one answer. The longest that is asked for has some thousand tokens, of a few bytes each."""
MAX_IDLE_CONNECTIONS = 20
"""Connections that wait for the next call."""
CLOSE_TIMEOUT_S = 1.0


@cache
def get_http_client() -> httpx2.AsyncClient:
    """One for the process, on its background loop. Raises `Refused` and `Unreadable` beside its own errors; each call brings its time.

    Proxies of the environment are used.
    """
    made = _Client(
        headers={"Accept-Encoding": "identity"},  # what is packed cannot be bounded before it is unpacked
        event_hooks={"response": [_guard]},
        limits=httpx2.Limits(max_connections=None, max_keepalive_connections=MAX_IDLE_CONNECTIONS),
    )
    atexit.register(_close, made)
    return made


class _Client(httpx2.AsyncClient):
    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """In a task of its own, which is given up by anyio's scope.

        The pool closes old connections within whichever call comes next and shields that against anyio, not against asyncio: a call that
        is cancelled meanwhile would leave them open, and nobody would hold them any more (httpcore2 2.16).
        """
        scope = anyio.CancelScope()
        task = asyncio.create_task(_within(scope, super().send(request, **options)))
        task.add_done_callback(_seen)
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            scope.cancel()
            await asyncio.wait({task})
            raise
        return task.result()


async def _within(scope: anyio.CancelScope, sent: Coroutine[Any, Any, httpx2.Response]) -> httpx2.Response:
    with scope:
        return await sent
    raise asyncio.CancelledError  # of which nobody hears: who sent it has gone


def _seen(task: asyncio.Task[httpx2.Response]) -> None:
    """Or asyncio would complain of an error that came after the caller had gone."""
    if not task.cancelled():
        task.exception()


def _close(made: httpx2.AsyncClient) -> None:
    """Connections that are kept open would be complained about when the process ends."""
    with suppress(TimeoutError):
        run_in_background(asyncio.wait_for(made.aclose(), CLOSE_TIMEOUT_S))


async def _guard(response: httpx2.Response) -> None:
    packed = response.headers.get("content-encoding", "identity")
    if packed != "identity":
        raise UnreadableResponse(f"a body packed with {packed}, which was not asked for")
    if not isinstance(response.stream, httpx2.AsyncByteStream):
        raise TypeError("an answer of a synchronous client")
    response.stream = _Bounded(response.stream)
    body = await response.aread()
    if response.status_code != 200:
        raise RequestRefused(response.status_code, dict(response.headers), *_error(body))
    try:
        _Completion.model_validate_json(body)
    except ValidationError:
        param, code, message = _error(body)
        if code.isdecimal() and 400 <= int(code) < 600:  # OpenRouter passes on its providers' errors with status 200
            raise RequestRefused(int(code), dict(response.headers), param, code, message) from None
        raise UnreadableResponse("something else than a chat completion") from None  # the cause shows the answer


class _Bounded(httpx2.AsyncByteStream):
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


class _Read(BaseModel):
    """What of a completion is read (platform.openai.com/docs/api-reference/chat/object); whatever a server adds is let be."""

    model_config = ConfigDict(strict=True)


class _Function(_Read):
    name: str
    arguments: str


class _ToolCall(_Read):
    function: _Function


class _Message(_Read):
    role: Literal["assistant"]
    content: str | None = None
    refusal: str | None = None
    tool_calls: list[_ToolCall] | None = None


class _Choice(_Read):
    message: _Message
    finish_reason: str | None = None


class _Details(_Read):
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None


class _Usage(_Read):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _Details | None = None


class _Completion(_Read):
    choices: list[_Choice] = Field(min_length=1)
    usage: _Usage | None = None


def _error(body: bytes) -> tuple[str, str, str]:
    """Parameter, code and message."""
    text = body.decode(errors="replace")
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        return "", "", text
    if isinstance(said, list) and len(said) == 1:  # Gemini
        said = said[0]
    error = said.get("error", said) if isinstance(said, dict) else said
    if not isinstance(error, dict):
        return "", "", str(error)
    return str(error.get("param") or ""), str(error.get("code") or ""), str(error.get("message") or error.get("detail") or text)
