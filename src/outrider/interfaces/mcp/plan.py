"""MCP tool that predicts what a search takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from mcp.server.mcpserver import Context
from mcp_types import CallToolResult
from pydantic import BaseModel, Field

from outrider.interfaces.mcp.tool_calls import make_result, report_progress
from outrider.state.plan import Estimate
from outrider.state.request import check_request
from outrider.usecases.plan import describe_plan, plan_request

if TYPE_CHECKING:
    from outrider.services import Services


class PlanResult(BaseModel):
    summary: str
    estimates: list[Estimate]
    notes: list[str] = Field(default_factory=list, description="What cannot be estimated, and why.")


class PlanTool:
    def __init__(self, services: Services) -> None:
        self._services = services

    async def plan(
        self,
        context: Context,
        query: Annotated[str, Field(description="What would be searched for.", min_length=1, max_length=20_000)],
        top_k: Annotated[int, Field(description="How many hits.", ge=1, le=1_000)] = 5,
        sources: Annotated[list[str] | None, Field(description="Sources to search; all by default.")] = None,
        mode: Annotated[Literal["discovery", "systematic"], Field(description="Ranked, or exact Boolean.")] = "discovery",
    ) -> Annotated[CallToolResult, PlanResult]:
        """Predict seconds, calls, cost and hits of a search with 80 % intervals, without running it."""
        async with report_progress(context, "planning"):
            request = check_request({"query": query, "top_k": top_k, "sources": sources, "mode": mode})
            planned = await plan_request(self._services, request)
        notes = [f"{lack.quantity}: {lack.why}" for lack in planned.unknown]
        return make_result(PlanResult(summary=describe_plan(planned), estimates=list(planned.estimates), notes=notes), [])
