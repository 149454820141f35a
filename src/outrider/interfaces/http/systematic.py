"""Systematic runs over HTTP: every hit as a line of JSON, with cursors to go on from."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Body, Request
from fastapi.responses import StreamingResponse
from pydantic import Field, model_validator

from outrider.interfaces.http.problems import of_error, problem_of
from outrider.services.systematic import RUN_NAME, Syntax
from outrider.state.errors import SearchError
from outrider.state.model import Model
from outrider.state.request import MAX_BOOLEAN_CHARS
from outrider.usecases.systematic import AsyncSystematicHits, HitPage, asystematic

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from outrider.interfaces.http.admission import Gate
    from outrider.services import Services

LINES = "application/x-ndjson"
Text = Annotated[str, Field(min_length=1, max_length=MAX_BOOLEAN_CHARS)]
EXAMPLES: dict[str, Any] = {
    "query": {"summary": "A query", "value": {"query": '("Aspirin"[Title] OR "Acetylsalicylic Acid"[Abstract]) AND liver[Title]'}},
    "go on": {"summary": "Go on behind a cursor", "value": {"resume": "20261122T101500-3f2a", "after": "doi:10.1000/x"}},
}
SAID = """{"run": "20261122T101500-3f2a"}
{"hit": {"rank": 1, "doc_id": "doi:10.1000/x", "title": "Aspirin and the liver"}}
{"cursor": "doi:10.1000/x"}
{"end": {"total": 1, "sha256": "9c1e..."}}
"""


class SystematicBody(Model):
    """A new run by its query, or one to go on with."""

    query: Text | dict[str, str] | None = Field(None, description="PubMed's syntax, Ovid's lines, or a mapping of fields to texts.")
    sources: tuple[str, ...] | None = Field(None, description="Who is asked; the library alone by default.")
    syntax: Syntax = Field("auto", description="Which language the query is in.")
    resume: str = Field("", pattern=rf"^({RUN_NAME.pattern})?$", description="The name of a run that broke off, as its first line said.")
    after: str = Field("", max_length=2_000, description="The cursor behind which its hits are given.")

    @model_validator(mode="after")
    def _one_of_both(self) -> SystematicBody:
        if (self.query is None) == (not self.resume):
            raise ValueError("takes a query, or resume with the run to go on with; not both")
        return self


class Lines(StreamingResponse):
    """Gives back what was held for it, however it ends."""

    media_type = LINES

    def __init__(self, lines: AsyncGenerator[str, None], held: AsyncExitStack) -> None:
        super().__init__(lines)
        self._lines, self._held = lines, held

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with self._held, aclosing(self._lines):
            await super().__call__(scope, receive, send)


@dataclass(frozen=True, slots=True)
class Exact:
    services: Services
    gate: Gate

    async def systematic(self, request: Request, asked: Annotated[SystematicBody, Body(openapi_examples=EXAMPLES)]) -> StreamingResponse:
        """Every record that a Boolean query matches and no other, a line each: first `run`, then `hit`s with a `cursor` behind each page,
        and last `end`, or `problem` where it broke off.
        """
        hits = asystematic(
            asked.query, sources=asked.sources, syntax=asked.syntax, resume=asked.resume or None, after=asked.after, services=self.services
        )
        async with AsyncExitStack() as held:
            held.enter_context(self.gate.admission())
            await held.enter_async_context(self.gate.place())
            pages = await held.enter_async_context(aclosing(hits.pages()))
            first = await anext(pages, None)  # what is wrong with the query is said before anything is answered
            return Lines(_lines(hits, first, pages), held.pop_all())


async def _lines(hits: AsyncSystematicHits, first: HitPage | None, pages: AsyncIterator[HitPage]) -> AsyncGenerator[str, None]:
    yield _line(run=hits.folder.name if hits.folder else "")
    page = first
    try:
        while page is not None:
            for hit in page.hits:
                yield f'{{"hit": {hit.model_dump_json(exclude_defaults=True)}}}\n'
            yield _line(cursor=page.cursor)
            page = await anext(pages, None)
        made = hits.result_set
        yield _line(end={"total": made.total, "cursor": made.cursor, "sha256": made.sha256})
    except SearchError as error:
        problem = problem_of(of_error(error), "")
        yield _line(problem=problem.model_dump(mode="json", exclude_defaults=True))


def _line(**said: Any) -> str:
    return json.dumps(said, ensure_ascii=False) + "\n"


def routes_of(exact: Exact) -> APIRouter:
    router = APIRouter(tags=["rest"])
    said = {200: {"content": {LINES: {"schema": {"type": "string"}, "example": SAID}}, "description": "Lines of JSON."}}
    router.add_api_route(
        "/api/systematic", exact.systematic, methods=["POST"], summary="A systematic run", response_class=StreamingResponse,
        responses={status: dict(what) for status, what in said.items()},
    )  # fmt: skip
    return router
