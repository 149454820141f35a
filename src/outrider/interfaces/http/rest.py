"""REST interface: `/api/search` and its events, `/api/analyze` and `/api/library`."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import re
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from fastapi import APIRouter, Body, Header, Path, Query, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse
from pydantic import Field

from outrider.interfaces.http.openapi import (
    ANALYZE_EXAMPLES,
    COMPARE_EXAMPLES,
    EVENTS_EXAMPLE,
    LIBRARY_EXAMPLE,
    RESUME_EXAMPLES,
    SEARCH_ANSWER,
    SEARCH_EXAMPLES,
)
from outrider.interfaces.http.problems import Refusal, make_response, refuse_field
from outrider.interfaces.http.search_run import Run
from outrider.interfaces.http.search_runs import RunRegistry, read_thread
from outrider.services.make_nodes import parse_analysis_target
from outrider.state.analysis import Analysis, AnalyzeRequest
from outrider.state.checkpoints import Review
from outrider.state.comparison import CompareRequest, Comparison
from outrider.state.model import Model
from outrider.state.pipeline import RunContext
from outrider.state.plan import SearchPlan
from outrider.state.request import SearchRequest, refuse_misfits
from outrider.state.response import SearchResponse
from outrider.usecases.learning import remember_query
from outrider.usecases.plan import plan_request

if TYPE_CHECKING:
    from outrider.services import Services
    from outrider.settings.model import Settings

KEEP_ALIVE_S = 15.0
"""A comment is sent after this time without an event, so that no proxy drops the connection."""
MAX_WAIT_S = 3_600
WAIT = re.compile(r"wait=(\d{1,6})\Z")
PlainRequest = TypeVar("PlainRequest", SearchRequest, AnalyzeRequest, CompareRequest)
RunId = Annotated[str, Path(description="The number of a search, from its `X-Search-Id` or `Location`.", max_length=64)]


class SearchBody(SearchRequest):
    """One request, and settings of its run."""

    run: RunContext = Field(RunContext(), description="Settings that this search overrides; limits of the server can only be lowered.")


class AnalyzeBody(AnalyzeRequest):
    """One work, and settings of its analysis."""

    run: RunContext = Field(RunContext(), description="Settings that this analysis overrides; limits of the server can only be lowered.")


class CompareBody(CompareRequest):
    """Two to four works, and settings of their comparison."""

    run: RunContext = Field(RunContext(), description="Settings that this comparison overrides; limits of the server can only be lowered.")


class SearchState(Model):
    """An asynchronous search."""

    id: str
    status: Literal["waiting", "running", "done", "failed", "cancelled"] = Field(
        description="`waiting` for a free slot, or for a person: then `waiting` has what is asked."
    )
    events: str = Field(description="Address of its events; after an answer, of those from then on.")
    waiting: Review | None = Field(None, description="The plan or the results that wait for a person.")
    resume: str = Field("", description="Where the answer to `waiting` goes.")
    response: SearchResponse | None = Field(None, description="The answer, once it is done.")
    problem: dict[str, Any] | None = Field(None, description="A problem document, if it failed.")


@dataclass(frozen=True, slots=True)
class RestRoutes:
    """Handlers over one server's searches."""

    services: Services
    runs: RunRegistry

    async def search(
        self,
        request: Request,
        body: Annotated[SearchBody, Body(openapi_examples=SEARCH_EXAMPLES)],
        prefer: Annotated[
            str | None, Header(description="`respond-async` for a number instead of the answer; with `wait=5` after 5 seconds.")
        ] = None,
        x_thread_id: Annotated[str | None, Header(description="The thread of searches that this search continues.", max_length=128)] = None,
    ) -> Response:
        """Search, and return the complete response; or, with `Prefer: respond-async`, status 202 and the address of the search."""
        plain = drop_run(body, SearchRequest)
        refuse_misfits(plain)
        check_lowered(body.run, self.services.settings)
        if not self.services.settings.serve.read_only:
            await remember_query(self.services, str(plain.query), read_owner(request))
        preferences = parse_preferences(prefer)
        is_async = "respond-async" in preferences
        run = await self.runs.search(plain, body.run, read_owner(request), thread=read_thread(request), has_events=is_async)
        return await answer_run(request, run, preferences)

    async def plan(self, body: Annotated[SearchBody, Body(openapi_examples=SEARCH_EXAMPLES)]) -> SearchPlan:
        """What a search would take, each with an 80 % interval: seconds, calls, cost, hits by source. Nothing is searched."""
        plain = drop_run(body, SearchRequest)
        refuse_misfits(plain)
        check_lowered(body.run, self.services.settings)
        return await plan_request(self.services, plain, context=body.run)

    async def analyze(self, request: Request, body: Annotated[AnalyzeBody, Body(openapi_examples=ANALYZE_EXAMPLES)]) -> Response:
        """One repository or paper in depth. An unknown one has no `kind`, and the reason in `failures`."""
        plain = drop_run(body, AnalyzeRequest)
        parse_analysis_target(plain.target)
        check_lowered(body.run, self.services.settings)
        run = await self.runs.analyze(plain, body.run, read_owner(request))
        request.state.search_id = run.run_id
        return await _wait_for_answer(run)

    async def compare(self, request: Request, body: Annotated[CompareBody, Body(openapi_examples=COMPARE_EXAMPLES)]) -> Response:
        """Two to four works of one kind side by side. Different kinds are 422; a work that no source knows is 503."""
        from outrider.usecases.compare import refuse_incomparable

        plain = drop_run(body, CompareRequest)
        refuse_incomparable(plain.targets)
        check_lowered(body.run, self.services.settings)
        run = await self.runs.compare(plain, body.run, read_owner(request))
        request.state.search_id = run.run_id
        return await _wait_for_answer(run)

    async def state(self, request: Request, run_id: RunId) -> Response:
        """State of a search, and its answer once it is done."""
        run = await self.runs.find(run_id, read_owner(request))
        headers = {"Retry-After": "1"} if run.ended_at is None else {}
        return Response(_format_state(run), 200, headers, "application/json")

    async def stop(self, request: Request, run_id: RunId) -> Response:
        """Stop a search; one that has ended stays as it is."""
        await self.runs.stop(await self.runs.find(run_id, read_owner(request)))
        return Response(status_code=204)

    async def resume(
        self,
        request: Request,
        run_id: RunId,
        answer: Annotated[dict[str, Any], Body(openapi_examples=RESUME_EXAMPLES)],
        prefer: Annotated[str | None, Header(description="`respond-async`, as for a search.")] = None,
    ) -> Response:
        """Answer a search that waits for a person. A wrong answer is 422, and the search still waits."""
        run, preferences = await self.runs.find(run_id, read_owner(request)), parse_preferences(prefer)
        run = await self.runs.answer(run, answer, has_events="respond-async" in preferences)
        return await answer_run(request, run, preferences)

    async def events(
        self,
        request: Request,
        run_id: RunId,
        last_event_id: Annotated[
            str | None, Header(description="Number of the last event received; later ones are sent.", max_length=20)
        ] = None,
        after: Annotated[int, Query(ge=0, description="Send only later events than this one; for a client that sends no header.")] = 0,
    ) -> Response:
        """Events of a search as they happen: nodes, counts, the first works in the order of each node, the final response."""
        run = await self.runs.find(run_id, read_owner(request))
        after = int(last_event_id) if last_event_id and last_event_id.isascii() and last_event_id.isdigit() else after
        if after and run.ended_at is not None and after >= run.event_count:
            return Response(status_code=204)  # tells a browser not to reconnect
        return StreamingResponse(stream_events(run, after), media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})

    async def library(self) -> Response:
        """Contents of the library."""
        about = await (await self.services.library()).info()
        return JSONResponse(dataclasses.asdict(about))


Responses = dict[int | str, dict[str, Any]]
SEARCH = "/api/search/{run_id}"
SEARCH_RESPONSES: Responses = {
    200: {
        "model": SearchResponse,
        "content": {"application/json": {"example": SEARCH_ANSWER}},
        "description": "The answer.",
        "headers": {"X-Search-Id": {"description": "The number of the search, for its export.", "schema": {"type": "string"}}},
    },
    202: {"model": SearchState, "description": "It runs, or waits for a person; `Location` is its address."},
}
EVENT_RESPONSES: Responses = {
    200: {"content": {"text/event-stream": {"schema": {"type": "string"}, "example": EVENTS_EXAMPLE}}, "description": "Events."},
    204: {"description": "No further events will come."},
}
ANALYSIS_RESPONSES: Responses = {200: {"model": Analysis, "description": "The analysis."}}
COMPARE_RESPONSES: Responses = {200: {"model": Comparison, "description": "The comparison."}}
LIBRARY_RESPONSES: Responses = {
    200: {"content": {"application/json": {"schema": {"type": "object"}, "example": LIBRARY_EXAMPLE}}, "description": "Its contents."}
}


def drop_run(body: Model, request: type[PlainRequest]) -> PlainRequest:
    """The request of a body, which is checked, without the settings of its run."""
    return request.model_construct(**{name: getattr(body, name) for name in request.model_fields})


def make_router(handlers: RestRoutes) -> APIRouter:
    router = APIRouter(tags=["rest"])
    router.add_api_route(
        "/api/search", handlers.search, methods=["POST"], summary="Search", response_class=JSONResponse, responses=SEARCH_RESPONSES
    )
    router.add_api_route("/api/plan", handlers.plan, methods=["POST"], summary="What a search would take")
    router.add_api_route(
        SEARCH, handlers.state, methods=["GET"], summary="A search and its answer", responses={200: {"model": SearchState}}
    )
    router.add_api_route(SEARCH, handlers.stop, methods=["DELETE"], summary="Stop a search", status_code=204)
    router.add_api_route(
        f"{SEARCH}/resume", handlers.resume, methods=["POST"], summary="Answer a waiting search", responses=SEARCH_RESPONSES
    )
    router.add_api_route(
        f"{SEARCH}/events",
        handlers.events,
        methods=["GET"],
        summary="Events of a search",
        response_class=StreamingResponse,
        responses=EVENT_RESPONSES,
    )
    for path in ("/api/analyze", "/api/analyze-repo"):
        router.add_api_route(path, handlers.analyze, methods=["POST"], summary="One work in depth", responses=ANALYSIS_RESPONSES)
    router.add_api_route("/api/compare", handlers.compare, methods=["POST"], summary="Works side by side", responses=COMPARE_RESPONSES)
    router.add_api_route("/api/library", handlers.library, methods=["GET"], summary="Contents of the library", responses=LIBRARY_RESPONSES)
    return router


def read_owner(request: Request) -> str:
    return str(request.scope["state"].get("owner", ""))


def check_lowered(run: RunContext, settings: Settings) -> None:
    """A client may lower the server's limits, not raise them. Raises `Refusal`."""
    limits = {"max_calls": settings.llm.max_calls, "max_cost_usd": settings.llm.max_cost_usd, "run_timeout_s": settings.serve.request_s}
    for name, limit in limits.items():
        value = getattr(run, name)
        if value is not None and limit is not None and value > limit:
            raise refuse_field(f"run.{name}", f"this server allows at most {limit:g}")


def parse_preferences(header: str | None) -> dict[str, int]:
    """RFC 7240: `respond-async, wait=10`; unknown preferences are ignored."""
    preferences: dict[str, int] = {}
    for token in re.split(r"[,;]", header or ""):
        name = token.strip().lower()
        if name == "respond-async":
            preferences[name] = 1
        elif match := WAIT.match(name):
            preferences["wait"] = min(int(match[1]), MAX_WAIT_S)
    return preferences


async def answer_run(request: Request, run: Run, preferences: dict[str, int]) -> Response:
    """The response of a search that has begun: its answer, or with `respond-async` status 202 and its address."""
    request.state.search_id = run.run_id
    if "respond-async" not in preferences:
        return await _wait_for_answer(run)
    if preferences.get("wait"):
        await asyncio.wait({asyncio.ensure_future(run.wait())}, timeout=preferences["wait"])
        if run.ended_at is not None:
            return make_answer(run)
    return _accept(run, {"Preference-Applied": "respond-async", "Retry-After": "1"})


def _accept(run: Run, headers: dict[str, str]) -> Response:
    return JSONResponse(
        json.loads(_format_state(run)), 202, {"Location": f"/api/search/{run.run_id}", "X-Search-Id": run.run_id, **headers}
    )


async def _wait_for_answer(run: Run) -> Response:
    try:
        await run.wait()
    finally:
        run.cancel()  # for a client that disconnected; an ended search is not affected
    return make_answer(run)


def make_answer(run: Run) -> Response:
    """The response of an ended search, with its number for the export and the log."""
    if run.answer:
        return Response(run.answer, 200, {"X-Search-Id": run.run_id}, "application/json")
    if run.review is not None:
        return _accept(run, {})
    refusal = run.refusal or Refusal(503, "stopped", "the search was stopped before it was done")
    return make_response(refusal, run.run_id)


def _format_state(run: Run) -> str:
    """JSON. The answer is inserted as text: it may be long, and is serialized already."""
    about: dict[str, Any] = {"id": run.run_id, "status": run.status, "events": f"/api/search/{run.run_id}/events"}
    if run.seen:
        about["events"] += f"?after={run.seen}"
    if run.review is not None:
        about |= {"waiting": run.review.model_dump(mode="json"), "resume": f"/api/search/{run.run_id}/resume"}
    if run.status == "failed":
        about["problem"] = json.loads(run.problem)
    text = json.dumps(about)
    return f'{text[:-1]}, "response": {run.answer}}}' if run.answer else text


async def stream_events(run: Run, after: int) -> AsyncIterator[bytes]:
    """Events of a run as bytes, with a comment after each `KEEP_ALIVE_S` without one."""
    yield b"retry: 1000\n\n"
    async with aclosing(run.follow(after)) as events:
        next_event = asyncio.ensure_future(anext(events, None))
        try:
            while True:
                done, _ = await asyncio.wait({next_event}, timeout=KEEP_ALIVE_S)
                if not done:
                    yield b": still here\n\n"
                    continue
                numbered = next_event.result()
                if numbered is None:
                    return
                number, event = numbered
                yield event.wire(number)
                next_event = asyncio.ensure_future(anext(events, None))
        finally:
            next_event.cancel()
            await asyncio.gather(next_event, return_exceptions=True)
