"""Learning from use over REST: feedback on hits, completion of queries, status and reset.

Each owner of a key has its own feedback and history. Both are off unless `learning.enabled` is set.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import JSONResponse
from pydantic import Field

from outrider.interfaces.http.library import require_writable
from outrider.interfaces.http.rest import read_owner
from outrider.state.learning import FeedbackAction
from outrider.state.model import Model
from outrider.state.response import SearchResponse
from outrider.usecases.learning import (
    Completion,
    LearningStatus,
    clear_history,
    complete_query,
    record_feedback,
    reset_learning,
    show_learning,
)

if TYPE_CHECKING:
    from outrider.interfaces.http.search_runs import RunRegistry
    from outrider.services import Services

MAX_BEGINNING_CHARS = 300


class FeedbackBody(Model):
    """What was done with a hit of a search whose answer is still kept."""

    search: str = Field(min_length=1, max_length=64, description="The number of the search, from its `X-Search-Id`.")
    doc_id: str = Field(min_length=1, max_length=1_000)
    action: FeedbackAction


class Completions(Model):
    completions: tuple[Completion, ...]


class Forgotten(Model):
    forgotten: int


@dataclass(frozen=True, slots=True)
class LearningRoutes:
    services: Services
    runs: RunRegistry

    async def feedback(self, request: Request, body: FeedbackBody) -> Response:
        """Remember that a hit was kept, dropped or opened; `undo` takes that back."""
        require_writable(self.services)
        owner = read_owner(request)
        run = await self.runs.find(body.search, owner)
        answer = await asyncio.to_thread(SearchResponse.model_validate_json, run.answer or '{"query": "", "mode": ""}')
        await record_feedback(self.services, body.search, answer, body.doc_id, body.action, owner)
        return Response(status_code=204)

    async def complete(
        self, request: Request, q: Annotated[str, Query(description="The beginning of a query.", max_length=MAX_BEGINNING_CHARS)]
    ) -> Completions:
        """Queries that begin so: from your history, and from keywords, subjects and venues of the library."""
        return Completions(completions=await complete_query(self.services, q, read_owner(request)))

    async def status(self, request: Request) -> LearningStatus:
        """What was learned, and whether it is proven to help."""
        status = await show_learning(self.services, read_owner(request))
        return status.model_copy(update={"library": ""})

    async def reset(self, request: Request) -> Forgotten:
        """Forget all feedback on the library."""
        require_writable(self.services)
        return Forgotten(forgotten=await reset_learning(self.services, read_owner(request)))

    async def clear(self, request: Request) -> Forgotten:
        """Forget past queries."""
        require_writable(self.services)
        return Forgotten(forgotten=await clear_history(self.services, read_owner(request)))


def make_router(handlers: LearningRoutes) -> APIRouter:
    router = APIRouter(tags=["learning"], default_response_class=JSONResponse)
    add = router.add_api_route
    add("/api/feedback", handlers.feedback, methods=["POST"], summary="Feedback on a hit", status_code=204)
    add("/api/complete", handlers.complete, methods=["GET"], summary="Complete a query")
    add("/api/learning", handlers.status, methods=["GET"], summary="What was learned")
    add("/api/learning", handlers.reset, methods=["DELETE"], summary="Forget feedback")
    add("/api/learning/history", handlers.clear, methods=["DELETE"], summary="Forget past queries")
    return router
