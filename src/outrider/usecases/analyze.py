"""`outrider.analyze`: one repository or paper in depth, by the analysis graph."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from outrider.graph.analyze import build_analysis, make_analysis
from outrider.runtime.spans import run_named
from outrider.runtime.threads_and_loops import run_in_background
from outrider.services import Services, open_services
from outrider.services.make_nodes import parse_analysis_target
from outrider.services.tracing import keep_traces_local
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

    A recent analysis is returned again unless `fresh`. Raises `BadRequest` for a target that names neither. A work that no source knows
    has no `kind`, and the reason in `failures`.
    """
    state: Mapping[str, Any] = {}
    async with open_services(services) as opened:
        request = {"target": target, "question": question, "fresh": fresh}
        with run_named(), keep_traces_local(opened.settings):
            async with aclosing(stream_analysis(opened, request, context)) as parts:
                async for kind, part in parts:
                    state = part if kind == "values" else state
    return make_analysis(state)


def analyze(target: str, **options: Any) -> Analysis:
    """`aanalyze` for callers without an event loop."""
    return run_in_background(aanalyze(target, **options))


async def stream_analysis(
    services: Services, request: Mapping[str, Any] | AnalyzeRequest, context: RunContext | None = None
) -> AsyncGenerator[tuple[str, Any]]:
    """The parts that the graph streams: `custom` events of its nodes, and the whole state as `values`."""
    analyze_request = check_analysis_request(request)
    parse_analysis_target(analyze_request.target)
    await services.prepare()
    stream: Any = build_analysis(services, checkpointer=False).astream(
        analyze_request, context=context or RunContext(), stream_mode=["custom", "values"]
    )
    async with aclosing(stream) as parts:
        async for kind, part in parts:
            yield kind, part
