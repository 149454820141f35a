"""Citation chasing over REST: candidates, decisions, rounds, the map, exports.

A target is `label:NAME` or a thread; never a file of the server. With keys, an owner names only its own threads. Queueing is off with
`serve.read_only`.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from fastapi import APIRouter, Body, Query, Request, Response
from fastapi.responses import JSONResponse
from pydantic import Field

from outrider.citations.chase import ChaseRound, YieldPoint, describe_completeness, make_yield_curve
from outrider.ingest.export import FORMATS
from outrider.interfaces.http.library import READ_ONLY
from outrider.interfaces.http.problems import refuse_field
from outrider.interfaces.http.rest import read_owner
from outrider.interfaces.web.pictures import IMAGE, make_picture_response
from outrider.interfaces.web.pictures import MEDIA_TYPE as IMAGE_TYPE
from outrider.interfaces.web.routes import FILE, MEDIA_TYPES, make_headers
from outrider.jobs.job_table import MAX_TARGET_CHARS
from outrider.pictures.citation_map import MOST_WORKS, draw_citation_map, sort_works
from outrider.state.citations import CandidateList, CitationMap, QueueReport
from outrider.state.jobs import Job
from outrider.state.model import Model
from outrider.usecases.cite import export_round, get_status, list_candidates, load_map, queue_candidates
from outrider.usecases.jobs import list_jobs
from outrider.usecases.threads import find_client_target

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from outrider.interfaces.http.request_limits import Admission
    from outrider.services import Services

BASE = "/api/cite"
MAX_CANDIDATES, MAX_KEYS, MAX_KEY_CHARS = 500, 5_000, 1_000
MAX_REQUEST_CHARS = 2_000
SHOWN_JOBS = 20
COUNTS = {"prisma-svg": IMAGE_TYPE, "prisma-markdown": MEDIA_TYPES["markdown"], "prisma-json": MEDIA_TYPES["json"]}
"""Formats of the counts of a chase."""
ABOUT_TARGET = "`label:NAME`, a label of the library; or the name of a thread."

Target = Annotated[str, Query(description=ABOUT_TARGET, min_length=1, max_length=MAX_TARGET_CHARS)]
Keys = Annotated[tuple[Annotated[str, Field(min_length=1, max_length=MAX_KEY_CHARS)], ...], Field(max_length=MAX_KEYS)]


class TargetBody(Model):
    """A target of citation chasing."""

    target: Annotated[str, Field(min_length=1, max_length=MAX_TARGET_CHARS, description=ABOUT_TARGET)]


class CandidatesBody(TargetBody):
    """Which candidates to list. `direction` and `hops` also hold for the decisions that follow, and so does a `request`."""

    request: str = Field("", max_length=MAX_REQUEST_CHARS, description="Candidates that fit these words come first.")
    direction: Literal["", "references", "citations"] = Field(
        "", description="Only works that are cited, or only works that cite; both by default."
    )
    hops: int = Field(1, ge=1, le=3, description="Most links from a work of the target to a candidate.")
    limit: int = Field(20, ge=1, le=MAX_CANDIDATES)


class QueueBody(TargetBody):
    """A decision on the candidates of a target: exactly one of `include`, `exclude` and `all`."""

    include: Keys = Field((), description="Keys of the candidates that are fetched.")
    exclude: Keys = Field((), description="Keys of candidates that are excluded; all others are fetched.")
    all: bool = Field(False, description="Fetch all candidates.")
    dry_run: bool = Field(False, description="Only say what would be done.")


EXAMPLES: dict[str, Any] = {
    "include": {"summary": "Two candidates", "value": {"target": "label:review", "include": ["doi:10.1000/1", "doi:10.1000/2"]}},
    "look": {"summary": "All but one, without queueing", "value": {"target": "liver", "exclude": ["doi:10.1000/3"], "dry_run": True}},
}


class CiteStatus(Model):
    """How far the chase of a target is."""

    target: str
    works: int = Field(description="Works of the target itself.")
    included: int
    excluded: int
    seen: int = Field(description="Works that were candidates.")
    rounds: tuple[ChaseRound, ...] = ()
    yields: tuple[YieldPoint, ...] = Field((), description="Totals after each round.")
    completeness: str = Field(description="What chasing alone cannot find, in plain words.")
    jobs: tuple[Job, ...] = Field((), description=f"Background jobs of the target, the newest first; {SHOWN_JOBS} at most.")
    is_worked: bool = Field(False, description="Whether a process runs jobs now.")
    writable: bool = Field(True, description="Whether this server queues works.")


class DrawnMap(CitationMap):
    """A citation map as data and as a picture, which would cost a second ranking if it was asked for alone."""

    svg: str = Field(description="The picture, as `/api/cite/map.svg` has it.")


@dataclass(frozen=True, slots=True)
class CiteRoutes:
    services: Services
    admission: Admission

    async def candidates(self, request: Request, body: CandidatesBody) -> CandidateList:
        """Works that citations connect with the works of a target and that nobody decided on yet, best first.

        Works of the target whose citations were not read get a background job, so this is no GET: another site's page could send one.
        """
        async with self._work(request, body.target) as name:
            found = await list_candidates(
                self.services, name, request=body.request, direction=body.direction, hops=body.hops, limit=body.limit
            )
        return found.model_copy(update={"target": body.target})

    async def queue(self, request: Request, body: Annotated[QueueBody, Body(openapi_examples=EXAMPLES)]) -> QueueReport:
        """Decide on candidates: a round. Background jobs fetch the included works."""
        if self.services.settings.serve.read_only and not body.dry_run:
            raise READ_ONLY
        async with self._work(request, body.target) as name:
            report = await queue_candidates(
                self.services, name, include=body.include, exclude=body.exclude, all_of=body.all, dry_run=body.dry_run
            )
        return report.model_copy(update={"target": body.target})

    async def status(self, request: Request, target: Target) -> CiteStatus:
        """Rounds with their yield, background jobs, and what chasing alone cannot find."""
        async with self._work(request, target) as name:
            chase = await get_status(self.services, name)
        jobs = await list_jobs(self.services, name, None, read_owner(request))
        return CiteStatus(
            target=target,
            works=len(chase.works),
            included=len(chase.included),
            excluded=len(chase.excluded),
            seen=len(chase.seen),
            rounds=chase.rounds,
            yields=make_yield_curve(chase),
            completeness=describe_completeness(chase),
            jobs=tuple(job.model_copy(update={"target": target}) for job in jobs.jobs[:SHOWN_JOBS]),
            is_worked=jobs.is_worked,
            writable=not self.services.settings.serve.read_only,
        )

    async def map(self, request: Request, target: Target) -> DrawnMap:
        """The works of the map in the order of their numbers, the citations among them, and the picture."""
        async with self._work(request, target) as name:
            loaded = await load_map(self.services, name, MOST_WORKS)
        fields = dict(loaded) | {"target": target, "works": tuple(sort_works(loaded.works))}
        svg = await asyncio.to_thread(draw_citation_map, CitationMap(**fields))
        return DrawnMap(**fields, svg=svg)

    async def picture(self, request: Request, target: Target) -> Response:
        """The citation map, as SVG: works by year, role and round, and the citations among them."""
        return make_picture_response((await self.map(request, target)).svg)

    async def export(
        self,
        request: Request,
        target: Target,
        form: Annotated[
            str,
            Query(
                alias="format",
                description="ris, bibtex, csl, csv, json, jsonl or markdown; prisma-svg, prisma-markdown or prisma-json for the counts.",
                max_length=20,
            ),
        ] = "ris",
        number: Annotated[
            int | None,
            Query(alias="round", ge=1, le=1_000_000, description="A round, the last one by default; the next one has the candidates."),
        ] = None,
    ) -> Response:
        """The works of a round as a file, for screening; or the PRISMA 2020 boxes for citation searching."""
        if form not in FORMATS and form not in COUNTS:
            raise refuse_field("format", f"takes {', '.join((*FORMATS, *COUNTS))}")
        async with self._work(request, target) as name:
            text = await export_round(self.services, name, form, number)
        if form == "prisma-svg":
            return make_picture_response(text)
        if form in COUNTS:
            return Response(text.encode(), 200, media_type=COUNTS[form])
        return Response(text.encode(), 200, make_headers("citations", form), MEDIA_TYPES[form])

    @asynccontextmanager
    async def _work(self, request: Request, target: str) -> AsyncGenerator[str]:
        """The stored name of a target, and a place among the searches: ranking takes time on a large graph."""
        name = await find_client_target(self.services, target, read_owner(request))
        with self.admission.admit():
            async with self.admission.slot():
                yield name


def make_router(handlers: CiteRoutes) -> APIRouter:
    router = APIRouter(prefix=BASE, tags=["citations"], default_response_class=JSONResponse)
    add = router.add_api_route
    add("/candidates", handlers.candidates, methods=["POST"], summary="Candidates of a target")
    add("/queue", handlers.queue, methods=["POST"], summary="Decide on candidates")
    add("/status", handlers.status, methods=["GET"], summary="Rounds and yield")
    add("/map", handlers.map, methods=["GET"], summary="The citation map as data")
    add("/map.svg", handlers.picture, methods=["GET"], summary="The citation map", response_class=Response, responses=IMAGE)
    add("/export", handlers.export, methods=["GET"], summary="A round as a file", response_class=Response, responses=FILE)
    return router
