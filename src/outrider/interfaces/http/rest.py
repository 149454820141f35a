"""The graph by plain REST: `/api/search`, its events, and `/api/library`."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from fastapi import APIRouter, Body, Header, Path, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse
from pydantic import Field

from outrider.interfaces.http.events import LAST
from outrider.interfaces.http.openapi import ANALYSED, ANSWERED, ASKED, EVENTS, LIBRARY
from outrider.interfaces.http.problems import Refusal, WrongField, response_of
from outrider.interfaces.http.run_registry import Run, Runs
from outrider.interfaces.http.run_search import thread_of
from outrider.services.nodes import parse_analysis_target
from outrider.state.analysis import Analysis, AnalyzeRequest
from outrider.state.model import Model
from outrider.state.pipeline import RunContext
from outrider.state.request import SearchRequest, refuse_misfits
from outrider.state.response import SearchResponse

if TYPE_CHECKING:
    from outrider.services import Services
    from outrider.settings.model import Settings

ALIVE_S = 15.0
"""A comment goes out after so long a silence, so that nobody between takes the connection for dead."""
MOST_WAIT_S = 3_600
WAIT = re.compile(r"wait=(\d{1,6})\Z")
RunId = Annotated[str, Path(description="The number of a search, as its `Location` gives it.", max_length=64)]


class SearchBody(SearchRequest):
    """One request, and what this run of it may take."""

    run: RunContext = Field(RunContext(), description="Settings that this search overrides; limits of the server can only be lowered.")


class AnalyzeBody(AnalyzeRequest):
    """One work, and what this look at it may take."""

    run: RunContext = Field(RunContext(), description="Settings that this analysis overrides; limits of the server can only be lowered.")


class SearchState(Model):
    """A search that was asked for asynchronously."""

    id: str
    status: Literal["waiting", "running", "done", "failed", "cancelled"]
    events: str = Field(description="Where its events are.")
    response: SearchResponse | None = Field(None, description="The answer, once it is done.")
    problem: dict[str, Any] | None = Field(None, description="Why it failed, where it did: a problem document.")


@dataclass(frozen=True, slots=True)
class Rest:
    """The handlers over one server's searches."""

    services: Services
    runs: Runs

    async def search(
        self,
        request: Request,
        asked: Annotated[SearchBody, Body(openapi_examples=ASKED)],
        prefer: Annotated[
            str | None, Header(description="`respond-async` for a number instead of the answer; with `wait=5` after so many seconds.")
        ] = None,
        x_thread_id: Annotated[str | None, Header(description="The thread of searches that this one goes on with.", max_length=128)] = None,
    ) -> Response:
        """Search, and answer with the complete response; or, with `Prefer: respond-async`, with 202 and where to look for it."""
        plain = SearchRequest.model_construct(**{name: getattr(asked, name) for name in SearchRequest.model_fields})
        refuse_misfits(plain)
        check_lowered(asked.run, self.services.settings)
        preferred = _preferences(prefer)
        later = "respond-async" in preferred
        run = self.runs.search(plain, asked.run, owner_of(request), thread=thread_of(request), kept=later)
        if later:
            return await self._accepted(run, preferred)
        return await _answered(run)

    async def analyze(self, request: Request, asked: Annotated[AnalyzeBody, Body(openapi_examples=ANALYSED)]) -> Response:
        """One repository or paper in depth. One that nobody knows has no `kind`, and the reason in `failures`."""
        plain = AnalyzeRequest.model_construct(**{name: getattr(asked, name) for name in AnalyzeRequest.model_fields})
        parse_analysis_target(plain.target)
        check_lowered(asked.run, self.services.settings)
        return await _answered(self.runs.analyse(plain, asked.run, owner_of(request)))

    async def _accepted(self, run: Run, preferred: Mapping[str, int]) -> Response:
        if preferred.get("wait"):
            await asyncio.wait({asyncio.ensure_future(run.ended())}, timeout=preferred["wait"])
            if run.ended_at is not None:
                return answer_of(run)
        place = f"/api/search/{run.run_id}"
        headers = {"Location": place, "Preference-Applied": "respond-async", "Retry-After": "1"}
        return JSONResponse(json.loads(_state_of(run)), 202, headers)

    async def state(self, request: Request, run_id: RunId) -> Response:
        """How far a search is, and its answer once it is done."""
        run = self.runs.get(run_id, owner_of(request))
        headers = {"Retry-After": "1"} if run.ended_at is None else {}
        return Response(_state_of(run), 200, headers, "application/json")

    async def stop(self, request: Request, run_id: RunId) -> Response:
        """Stop a search; one that has ended stays as it is."""
        self.runs.get(run_id, owner_of(request)).cancel()
        return Response(status_code=204)

    async def events(
        self,
        request: Request,
        run_id: RunId,
        last_event_id: Annotated[
            str | None, Header(description="The last event that was seen; what came after it is sent.", max_length=20)
        ] = None,
    ) -> Response:
        """What happens in a search, as it happens: nodes, counts, the first works as each node leaves them, the final response."""
        run = self.runs.get(run_id, owner_of(request))
        after = int(last_event_id) if last_event_id and last_event_id.isascii() and last_event_id.isdigit() else 0
        if after and run.ended_at is not None and after >= len(run.events):
            return Response(status_code=204)  # by which a browser learns not to come again
        return StreamingResponse(wired(run, after), media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})

    async def library(self) -> Response:
        """What the library holds."""
        about = await (await self.services.library()).info()
        return JSONResponse(dataclasses.asdict(about))


Described = dict[int | str, dict[str, Any]]
SEARCH = "/api/search/{run_id}"
FOUND: Described = {
    200: {"model": SearchResponse, "content": {"application/json": {"example": ANSWERED}}, "description": "The answer."},
    202: {"model": SearchState, "description": "It runs; `Location` says where to look for it."},
}
HAPPENED: Described = {
    200: {"content": {"text/event-stream": {"schema": {"type": "string"}, "example": EVENTS}}, "description": "Events."},
    204: {"description": "There is nothing more to come."},
}
LOOKED: Described = {200: {"model": Analysis, "description": "What was found."}}
HELD: Described = {
    200: {"content": {"application/json": {"schema": {"type": "object"}, "example": LIBRARY}}, "description": "What it holds."}
}


def routes_of(rest: Rest) -> APIRouter:
    router = APIRouter(tags=["rest"])
    router.add_api_route("/api/search", rest.search, methods=["POST"], summary="Search", response_class=JSONResponse, responses=FOUND)
    router.add_api_route(SEARCH, rest.state, methods=["GET"], summary="A search and its answer", responses={200: {"model": SearchState}})
    router.add_api_route(SEARCH, rest.stop, methods=["DELETE"], summary="Stop a search", status_code=204)
    about = "What happens in a search"
    router.add_api_route(
        f"{SEARCH}/events", rest.events, methods=["GET"], summary=about, response_class=StreamingResponse, responses=HAPPENED
    )
    for path in ("/api/analyze", "/api/analyze-repo"):
        router.add_api_route(path, rest.analyze, methods=["POST"], summary="One work in depth", responses=LOOKED)
    router.add_api_route("/api/library", rest.library, methods=["GET"], summary="What the library holds", responses=HELD)
    return router


def owner_of(request: Request) -> str:
    return str(request.scope["state"].get("owner", ""))


def check_lowered(run: RunContext, settings: Settings) -> None:
    """A client may bound what its search costs, not what the server's owner has bound. Raises `Refusal`."""
    bounds = {"max_calls": settings.llm.max_calls, "max_cost_usd": settings.llm.max_cost_usd, "run_timeout_s": settings.serve.request_s}
    for name, most in bounds.items():
        given = getattr(run, name)
        if given is not None and most is not None and given > most:
            wrong = WrongField(field=f"run.{name}", message=f"this server allows at most {most:g}")
            raise Refusal(422, "bad-request", f"{wrong.field}: {wrong.message}", errors=(wrong,))


def _preferences(header: str | None) -> dict[str, int]:
    """RFC 7240: `respond-async, wait=10`; what is not known is passed over."""
    found: dict[str, int] = {}
    for token in re.split(r"[,;]", header or ""):
        name = token.strip().lower()
        if name == "respond-async":
            found[name] = 1
        elif match := WAIT.match(name):
            found["wait"] = min(int(match[1]), MOST_WAIT_S)
    return found


async def _answered(run: Run) -> Response:
    try:
        await run.ended()
    finally:
        run.cancel()  # who asked has gone; a search that has ended bears it
    return answer_of(run)


def answer_of(run: Run) -> Response:
    """Of a search that has ended."""
    if run.answer:
        return Response(run.answer, 200, media_type="application/json")
    refusal = run.refusal or Refusal(503, "stopped", "the search was stopped before it was done")
    return response_of(refusal, run.run_id)


def _state_of(run: Run) -> str:
    """JSON. The answer is put in as the text that it is: it may be long, and was written once."""
    about: dict[str, Any] = {"id": run.run_id, "status": run.status, "events": f"/api/search/{run.run_id}/events"}
    if run.status == "failed":
        about["problem"] = json.loads(next(one.data for one in run.events if one.name in LAST))
    text = json.dumps(about)
    return f'{text[:-1]}, "response": {run.answer}}}' if run.answer else text


async def wired(run: Run, after: int) -> AsyncIterator[bytes]:
    """Its events as bytes, with a comment where there is none for long."""
    yield b"retry: 1000\n\n"
    async with aclosing(run.follow(after)) as following:
        coming = asyncio.ensure_future(anext(following, None))
        try:
            while True:
                done, _ = await asyncio.wait({coming}, timeout=ALIVE_S)
                if not done:
                    yield b": still here\n\n"
                    continue
                one = coming.result()
                if one is None:
                    return
                yield one[1].wire(one[0])
                coming = asyncio.ensure_future(anext(following, None))
        finally:
            coming.cancel()
            await asyncio.gather(coming, return_exceptions=True)
