"""How a search is run, whichever of the server's doors asked: on a thread, whose steps are kept, or on none."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from outrider.serve.threads import MODES, Part, Threads, threads_of
from outrider.state.pipeline import RunContext

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig

    from outrider.graph.analyze import AnalysisGraph
    from outrider.graph.pipeline import SearchGraph
    from outrider.services import Services
    from outrider.state.analysis import AnalyzeRequest
    from outrider.state.request import SearchRequest


Modes = Any
"""Of LangGraph's streams; fewer of them take less time. A thread streams all."""


@dataclass(slots=True)
class Searching:
    """One for a server. The store of threads is opened when the first is asked for: most servers have none."""

    services: Services
    graph: SearchGraph
    analysis: AnalysisGraph
    _threads: Threads | None = None
    _open: AsyncExitStack = field(default_factory=AsyncExitStack)
    _opening: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def stream(
        self,
        asked: SearchRequest,
        context: RunContext | None = None,
        thread: str = "",
        config: RunnableConfig | None = None,
        modes: Modes = MODES,
    ) -> AsyncIterator[Part]:
        """What LangGraph streams in `MODES`. Raises `SearchError`."""
        context = context or RunContext()
        if thread:
            async for part in (await self.threads()).search(thread, asked, context):
                yield part
            return
        streamed: AsyncIterator[Any] = self.graph.astream(asked, config, context=context, stream_mode=modes)
        async for kind, part in streamed:
            yield kind, part

    async def analyse(
        self, asked: AnalyzeRequest, context: RunContext | None = None, config: RunnableConfig | None = None, modes: Modes = MODES
    ) -> AsyncIterator[Part]:
        """The same of one work in depth."""
        streamed: AsyncIterator[Any] = self.analysis.astream(asked, config, context=context or RunContext(), stream_mode=modes)
        async for kind, part in streamed:
            yield kind, part

    async def threads(self) -> Threads:
        async with self._opening:
            if self._threads is None:
                self._threads = await self._open.enter_async_context(threads_of(self.services))
            return self._threads

    async def close(self) -> None:
        await self._open.aclose()
