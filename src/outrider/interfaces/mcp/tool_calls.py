"""Progress, expected errors, results and addresses, which all calls of tools share."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import wraps
from typing import Any, ParamSpec, TypeVar
from urllib.parse import quote

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ResourceError, ToolError
from mcp_types import CallToolResult, ContentBlock, ResourceLink, TextContent
from pydantic import BaseModel

from outrider.interfaces.mcp.short_answers import format_result
from outrider.state.errors import SearchError

HEARTBEAT_S = 5.0
"""Time between two notifications of one step. Clients give up after 10 to 60 s of silence."""

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


class Progress:
    """Progress notifications of one call. A client sees each step as it starts, and each `HEARTBEAT_S` that the call is still alive.

    Numbers of notifications must rise (MCP, "Progress"), so those of one step approach the number of steps done with it.
    """

    def __init__(self, context: Context, steps: int | None) -> None:
        self._context, self._steps = context, steps
        self._done, self._reports, self._step, self._since = 0, 0, "", time.monotonic()

    async def start(self, step: str) -> None:
        """The next step, such as a node of the graph."""
        self._done += bool(self._reports)
        self._reports, self._step, self._since = 0, step, time.monotonic()
        await self._report(step)

    async def beat(self) -> None:
        while True:
            await asyncio.sleep(HEARTBEAT_S)
            await self._report(f"{self._step} ({time.monotonic() - self._since:.0f} s)")

    async def follow(self, parts: AsyncIterator[tuple[str, Any]]) -> Any:
        """The last state of a graph's stream, with what waits for a person; each node that starts is a step."""
        state: Any = {}
        async for kind, part in parts:
            if kind == "values":
                state = part
            elif kind == "waiting":
                state = {**state, "waiting": part}
            elif kind == "custom" and part.get("event") == "started":
                await self.start(part["node"])
        return state

    async def _report(self, message: str) -> None:
        self._reports += 1
        steps = None if self._steps is None else max(self._steps, self._done + 1)
        await self._context.report_progress(self._done + 1 - 1 / (self._reports + 1), steps, message)


@asynccontextmanager
async def report_progress(context: Context, first: str, steps: int | None = None) -> AsyncGenerator[Progress]:
    """Notifications from the first step until the block ends."""
    progress = Progress(context, steps)
    await progress.start(first)
    beating = asyncio.create_task(progress.beat())
    try:
        yield progress
    finally:
        beating.cancel()
        await asyncio.wait({beating})  # an error of its own does not replace the call's result


def raise_tool_errors(tool: Callable[Parameters, Awaitable[Result]]) -> Callable[Parameters, Awaitable[Result]]:
    """The tool with expected errors as `ToolError`, which the model sees; the SDK logs bugs."""
    return _translate_errors(tool, ToolError)


def raise_resource_errors(resource: Callable[Parameters, Awaitable[Result]]) -> Callable[Parameters, Awaitable[Result]]:
    """The same for a resource, whose reader gets the message."""
    return _translate_errors(resource, ResourceError)


def _translate_errors(function: Callable[Parameters, Awaitable[Result]], kind: type[Exception]) -> Callable[Parameters, Awaitable[Result]]:
    @wraps(function)
    async def call(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        try:
            return await function(*args, **kwargs)
        except SearchError as error:
            raise kind(str(error)) from error

    return call


def make_result(result: BaseModel, links: list[ContentBlock], *, failed: bool = False) -> CallToolResult:
    text = TextContent(text=format_result(result))
    return CallToolResult(content=[text, *links], structured_content=result.model_dump(mode="json"), is_error=failed)


def make_uri(*parts: str) -> str:
    """An address of ours; an id such as `doi:10.1000/x` is one part of it."""
    return "outrider://" + "/".join(quote(part, safe="") for part in parts)


def make_link(title: str, *parts: str, mime_type: str | None = None, size: int | None = None) -> ResourceLink:
    return ResourceLink(name=parts[-1], title=title, uri=make_uri(*parts), mime_type=mime_type, size=size)
