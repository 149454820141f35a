"""Which thread of searches a request belongs to.

How a search is run, whichever of the server's doors asked: on a thread, whose steps are kept, or on none.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from outrider.interfaces.http.problems import Refusal, WrongField
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
NAME = re.compile(r"[A-Za-z0-9._:-]{1,128}\Z")


def thread_of(request: Request, named: object = None) -> str:
    """The thread that the request names, in its body or in `X-Thread-Id`; empty for none.

    With a key it is the owner's own: the same name of somebody else is another thread. Raises `Refusal` for what cannot be a name.
    """
    name = named if named is not None else request.headers.get(HEADER)
    if name is None:
        return ""
    if not isinstance(name, str) or not NAME.match(name):
        wrong = WrongField(field="thread_id", message="takes up to 128 letters, digits, dots, colons, - and _")
        raise Refusal(422, "bad-request", f"thread_id: {wrong.message}", errors=(wrong,))
    owner = request.scope["state"].get("owner", "")
    return f"{owner}/{name}" if owner else name


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
                self._threads = await self._open.enter_async_context(open_threads(self.services))
            return self._threads

    async def close(self) -> None:
        await self._open.aclose()
