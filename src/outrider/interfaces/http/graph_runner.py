"""Runs of the graphs for the server's interfaces, and the thread that a request names."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from outrider.interfaces.http.problems import refuse_field
from outrider.state.pipeline import RunContext
from outrider.usecases.threads import MODES, Part, Threads, open_threads

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from starlette.requests import Request

    from outrider.graph.analyze import AnalysisGraph
    from outrider.graph.pipeline import SearchGraph
    from outrider.services import Services
    from outrider.state.analysis import AnalyzeRequest
    from outrider.state.request import SearchRequest


HEADER = "x-thread-id"
THREAD_NAME = re.compile(r"[A-Za-z0-9._:-]{1,128}\Z")
Modes = Any
"""Modes of LangGraph's stream; fewer modes take less time. A thread streams all."""


def read_thread(request: Request, thread_id: object = None) -> str:
    """The thread of a request, from its body (`thread_id`) or `X-Thread-Id`; empty for none.

    With a key it belongs to the owner: the same name used by another owner is another thread. Raises `Refusal` for an invalid name.
    """
    name = thread_id if thread_id is not None else request.headers.get(HEADER)
    if name is None:
        return ""
    if not isinstance(name, str) or not THREAD_NAME.match(name):
        raise refuse_field("thread_id", "takes up to 128 letters, digits, dots, colons, - and _")
    owner = request.scope["state"].get("owner", "")
    return f"{owner}/{name}" if owner else name


@dataclass(slots=True)
class GraphRunner:
    """One for a server. The store of threads is opened at its first use: most servers have none."""

    services: Services
    graph: SearchGraph
    analysis: AnalysisGraph
    _threads: Threads | None = None
    _stack: AsyncExitStack = field(default_factory=AsyncExitStack)
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def search(
        self,
        request: SearchRequest,
        context: RunContext | None = None,
        thread: str = "",
        config: RunnableConfig | None = None,
        modes: Modes = MODES,
    ) -> AsyncIterator[Part]:
        """The parts of LangGraph's stream in `modes`. Raises `SearchError`."""
        context = context or RunContext()
        if thread:
            async with self._lock:
                if self._threads is None:
                    self._threads = await self._stack.enter_async_context(open_threads(self.services))
            async for part in self._threads.search(thread, request, context):
                yield part
            return
        stream: AsyncIterator[Any] = self.graph.astream(request, config, context=context, stream_mode=modes)
        async for kind, part in stream:
            yield kind, part

    async def analyze(
        self, request: AnalyzeRequest, context: RunContext | None = None, config: RunnableConfig | None = None, modes: Modes = MODES
    ) -> AsyncIterator[Part]:
        """The same for the analysis of one work."""
        stream: AsyncIterator[Any] = self.analysis.astream(request, config, context=context or RunContext(), stream_mode=modes)
        async for kind, part in stream:
            yield kind, part

    async def close(self) -> None:
        await self._stack.aclose()
