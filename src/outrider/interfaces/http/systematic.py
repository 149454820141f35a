"""Systematic runs over HTTP: hits as lines of JSON, with cursors to continue from."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Body, Path, Query, Request
from fastapi.responses import JSONResponse, StreamingResponse
from pydantic import Field, model_validator

from outrider.interfaces.http.problems import make_problem, translate_error
from outrider.services.systematic import RUN_NAME, Syntax, find_run_folder, list_sources
from outrider.state.errors import SearchError
from outrider.state.model import Model
from outrider.state.notices import list_notices
from outrider.state.request import MAX_BOOLEAN_CHARS
from outrider.systematic_search import ledger
from outrider.systematic_search.ledger_reader import RunHit, read_hits
from outrider.text.readable import read_plainly
from outrider.usecases.explain_hit import name_source
from outrider.usecases.systematic import AsyncSystematicHits, HitPage, asystematic

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from outrider.interfaces.http.request_limits import Admission
    from outrider.services import Services

LINES = "application/x-ndjson"
MAX_HITS, MAX_AUTHORS, MAX_ABSTRACT_CHARS = 100, 10, 10_000
RunName = Annotated[str, Path(description="The name of a run, from its first line.", pattern=rf"^{RUN_NAME.pattern}$")]
Text = Annotated[str, Field(min_length=1, max_length=MAX_BOOLEAN_CHARS)]
EXAMPLES: dict[str, Any] = {
    "query": {"summary": "A query", "value": {"query": '("Aspirin"[Title] OR "Acetylsalicylic Acid"[Abstract]) AND liver[Title]'}},
    "go on": {"summary": "Continue after a cursor", "value": {"resume": "20261122T101500-3f2a", "after": "doi:10.1000/x"}},
}
EXAMPLE_LINES = """{"run": "20261122T101500-3f2a", "remarks": ["hyphen: line 1, column 1: a hyphen is read as a blank: ..."]}
{"hit": {"rank": 1, "doc_id": "doi:10.1000/x", "title": "Aspirin and the liver"}}
{"cursor": "doi:10.1000/x"}
{"end": {"total": 1, "cursor": null, "sha256": "9c1e...", "remarks": ["hyphen: ...", "missing values: ..."]}}
"""


class SystematicBody(Model):
    """The query of a new run, or an interrupted run to resume."""

    query: Text | dict[str, str] | None = Field(
        None, description="The syntax of PubMed, Ovid or another platform, or a mapping of fields to texts."
    )
    sources: tuple[str, ...] | None = Field(None, description="Sources to read; the library alone by default.")
    syntax: Syntax = Field("auto", description="The language of the query.")
    resume: str = Field("", pattern=rf"^({RUN_NAME.pattern})?$", description="The name of an interrupted run, from its first line.")
    after: str = Field("", max_length=2_000, description="The cursor after which its hits are returned.")

    @model_validator(mode="after")
    def _check_query_or_resume(self) -> SystematicBody:
        if (self.query is None) == (not self.resume):
            raise ValueError("takes either a query, or resume with the run to continue; not both")
        return self


class Lines(StreamingResponse):
    """Releases its resources, however it ends."""

    media_type = LINES

    def __init__(self, lines: AsyncGenerator[str, None], resources: AsyncExitStack) -> None:
        super().__init__(lines)
        self._lines, self._resources = lines, resources

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with self._resources, aclosing(self._lines):
            await super().__call__(scope, receive, send)


@dataclass(frozen=True, slots=True)
class SystematicRoutes:
    services: Services
    admission: Admission

    async def systematic(self, request: Request, body: Annotated[SystematicBody, Body(openapi_examples=EXAMPLES)]) -> StreamingResponse:
        """Every record that a Boolean query matches and no other, a line each: first `run` with the `remarks` on the query, then `hit`s
        with a `cursor` after each page, and last `end` with all remarks, or `problem` if it broke off.
        """
        hits = asystematic(
            body.query, sources=body.sources, syntax=body.syntax, resume=body.resume or None, after=body.after, services=self.services
        )
        async with AsyncExitStack() as resources:
            resources.enter_context(self.admission.admit())
            await resources.enter_async_context(self.admission.slot())
            pages = await resources.enter_async_context(aclosing(hits.pages()))
            first = await anext(pages, None)  # raises errors of the query before the answer begins
            request.state.search_id = hits.folder.name if hits.folder else ""
            return Lines(_stream_lines(hits, first, pages), resources.pop_all())

    async def sources(self) -> JSONResponse:
        """The sources that a run can ask now, and why others cannot be asked."""
        reasons = await list_sources(self.services)
        rows = [{"name": name, "title": name_source(name), "why_not": why} for name, why in reasons.items()]
        return JSONResponse({"sources": rows})

    async def hits(
        self,
        run: RunName,
        after: Annotated[int, Query(ge=0, le=10**9, description="The number of the last hit before them.")] = 0,
        limit: Annotated[int, Query(ge=1, le=MAX_HITS)] = MAX_HITS,
    ) -> JSONResponse:
        """Hits of a run in its order, with their abstracts; also of one that has not ended."""

        def read() -> list[dict[str, Any]]:
            return [_describe_hit(hit) for hit in read_hits(find_run_folder(self.services, run) / ledger.NAME, after, limit)]

        return JSONResponse({"run": run, "hits": await asyncio.to_thread(read)})


def _describe_hit(hit: RunHit) -> dict[str, Any]:
    record = hit.record
    return {
        "rank": hit.number,
        "doc_id": record.doc_id,
        "kind": record.kind,
        "title": record.title,
        "url": record.url,
        "authors": record.authors[:MAX_AUTHORS],
        "more_authors": max(0, len(record.authors) - MAX_AUTHORS),
        "year": record.year,
        "venue": record.venue,
        "source": name_source(hit.source),
        "proof": hit.proof,
        "notices": [notice.model_dump(mode="json", exclude_defaults=True) for notice in list_notices(record)],
        "abstract": read_plainly((record.abstract or record.description)[:MAX_ABSTRACT_CHARS]),
    }


async def _stream_lines(hits: AsyncSystematicHits, first: HitPage | None, pages: AsyncIterator[HitPage]) -> AsyncGenerator[str, None]:
    yield format_line(run=hits.folder.name if hits.folder else "", remarks=hits.remarks)
    page = first
    try:
        while page is not None:
            for hit in page.hits:
                yield f'{{"hit": {hit.model_dump_json(exclude_defaults=True)}}}\n'
            yield format_line(cursor=page.cursor)
            page = await anext(pages, None)
        result_set = hits.result_set
        yield format_line(end=result_set.model_dump(mode="json", include={"total", "cursor", "sha256", "remarks"}))
    except SearchError as error:
        problem = make_problem(translate_error(error), "")
        yield format_line(problem=problem.model_dump(mode="json", exclude_defaults=True))


def format_line(**fields: Any) -> str:
    return json.dumps(fields, ensure_ascii=False) + "\n"


def make_router(handlers: SystematicRoutes) -> APIRouter:
    router = APIRouter(tags=["rest"])
    responses: dict[int | str, dict[str, Any]] = {
        200: {"content": {LINES: {"schema": {"type": "string"}, "example": EXAMPLE_LINES}}, "description": "Lines of JSON."}
    }
    router.add_api_route("/api/systematic/sources", handlers.sources, methods=["GET"], summary="Sources of systematic runs")
    router.add_api_route("/api/systematic/{run}/hits", handlers.hits, methods=["GET"], summary="Hits of a systematic run")
    router.add_api_route(
        "/api/systematic", handlers.systematic, methods=["POST"], summary="A systematic run", response_class=StreamingResponse,
        responses=responses,
    )  # fmt: skip
    return router
