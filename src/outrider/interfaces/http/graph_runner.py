"""The graphs of a server, as streams of their parts, and its store of threads."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from outrider.state.checkpoints import parse_review
from outrider.state.pipeline import RunContext
from outrider.usecases.threads import MODES, Begin, Part, Threads, open_threads

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig

    from outrider.graph.analyze import AnalysisGraph
    from outrider.graph.citations import CitationsGraph
    from outrider.graph.pipeline import SearchGraph
    from outrider.interfaces.http.run_store import Order
    from outrider.services import Services
    from outrider.state.analysis import AnalyzeRequest
    from outrider.state.citations import CitationsRequest
    from outrider.state.comparison import CompareRequest
    from outrider.state.request import SearchRequest

Modes = Any
"""Modes of LangGraph's stream; fewer modes take less time. A thread streams all."""


@dataclass(slots=True)
class GraphRunner:
    """One for a server. The store of threads is opened at its first use: most servers have none."""

    services: Services
    graph: SearchGraph
    analysis: AnalysisGraph
    citations: CitationsGraph
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
            threads = await self.threads()
            async for part in self._name_threads(threads.search(thread, request, context, str((config or {}).get("run_id") or ""))):
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

    async def compare(self, request: CompareRequest, context: RunContext | None = None) -> AsyncIterator[Part]:
        """The same for the comparison of some works. Raises `SearchError`."""
        from outrider.usecases.compare import stream_comparison  # most servers compare nothing

        async for part in stream_comparison(self.services, request, context):
            yield part

    async def build_citations(
        self, request: CitationsRequest, context: RunContext | None = None, config: RunnableConfig | None = None, modes: Modes = MODES
    ) -> AsyncIterator[Part]:
        """The same for the graph of citations around some works."""
        stream: AsyncIterator[Any] = self.citations.astream(request, config, context=context or RunContext(), stream_mode=modes)
        async for kind, part in stream:
            yield kind, part

    async def resume(self, thread: str, answer: object = None) -> AsyncIterator[Part]:
        """The parts of a thread's last search from its interruption on, or from a person's answer on."""
        async for part in self._name_threads((await self.threads()).resume(thread, answer)):
            yield part

    async def take_over(self, thread: str, begin: Begin | None, order: Order) -> AsyncIterator[Part]:
        """The parts of a thread's last search, which a process that ended had begun or not, from there on."""
        threads = await self.threads()
        answer = (parse_review(json.loads(order.review)), json.loads(order.answer)) if order.answer else None
        async for part in self._name_threads(threads.take_over(thread, begin, answer)):
            yield part

    async def _name_threads(self, parts: AsyncGenerator[Part]) -> AsyncIterator[Part]:
        """The parts; what waits names its thread as its owner does."""
        async with aclosing(parts):
            async for kind, part in parts:
                yield kind, part.model_copy(update={"thread": self.split_owner(part.thread)[1]}) if kind == "waiting" else part

    def split_owner(self, stored_name: str) -> tuple[str, str]:
        """The owner of a thread, empty for none, and the name that the owner gave it."""
        owner, slash, name = stored_name.partition("/")
        return (owner, name) if slash and owner in self.services.settings.serve.api_keys else ("", stored_name)

    async def threads(self) -> Threads:
        """The store of threads, opened at its first use. Raises `ThreadError`."""
        async with self._lock:
            if self._threads is None:
                self._threads = await self._stack.enter_async_context(open_threads(self.services))
        return self._threads

    async def close(self) -> None:
        await self._stack.aclose()
