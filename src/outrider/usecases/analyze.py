"""The Python door to the analysis of one repository or paper."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from outrider.graph.analyze import build_analysis, make_analysis
from outrider.runtime.background_loop import run_in_background
from outrider.runtime.tracing import run_named
from outrider.services import Services
from outrider.services.nodes import named_of
from outrider.state.analysis import Analysis, AnalyzeRequest, check_analysis_request
from outrider.state.pipeline import RunContext

if TYPE_CHECKING:
    from collections.abc import Mapping


async def aanalyze(
    target: str,
    *,
    question: str = "",
    fresh: bool = False,
    services: Services | None = None,
    context: RunContext | None = None,
) -> Analysis:
    """One repository (`owner/name`) or paper (a DOI, `arxiv:...`, `pmid:...`) in depth, judged against `question`.

    An analysis of late is given again unless `fresh`. Raises `BadRequest` for what names neither; one that nobody knows has no `kind`,
    and the reason in `failures`.
    """
    made = services or Services.from_file()
    try:
        found = None
        asked = {"target": target, "question": question, "fresh": fresh}
        with run_named():
            async with aclosing(analysed(made, asked, context)) as parts:
                async for kind, part in parts:
                    found = part if kind == "values" else found
    finally:
        if services is None:
            made.close()
    return make_analysis(found or {})


def analyze(target: str, **given: Any) -> Analysis:
    """`aanalyze` for callers without an event loop."""
    return run_in_background(aanalyze(target, **given))


async def analysed(
    services: Services, asked: Mapping[str, Any] | AnalyzeRequest, context: RunContext | None = None
) -> AsyncGenerator[tuple[str, Any]]:
    """What the graph streams: `custom` events of its nodes, and the whole state as `values`."""
    request = check_analysis_request(asked)
    named_of(request.target)
    await services.warm(searches=False)
    streamed: Any = build_analysis(services).astream(request, context=context or RunContext(), stream_mode=["custom", "values"])
    async with aclosing(streamed) as parts:
        async for kind, part in parts:
            yield kind, part
