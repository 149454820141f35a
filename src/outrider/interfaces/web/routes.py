"""Routes of the page: its files, and the data that it needs besides the REST interface."""

from __future__ import annotations

import hashlib
from functools import partial
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Request, Response
from pydantic import Field

from outrider.graph.pipeline import DESCRIPTIONS
from outrider.ingest.export import FORMATS
from outrider.interfaces.web.explain_scoring import Explanation, explain_scoring
from outrider.interfaces.web.export import AnswerExport
from outrider.interfaces.web.static_files import HEADERS, File, read_files
from outrider.interfaces.web.systematic import SystematicPageRoutes
from outrider.services.systematic import find_remote_sources
from outrider.state.model import Model
from outrider.state.records import LIBRARY
from outrider.state.request import SearchMode
from outrider.usecases.export import RUN_FORMATS
from outrider.version import __version__

if TYPE_CHECKING:
    from outrider.interfaces.http.request_limits import Admission
    from outrider.interfaces.http.search_runs import RunRegistry
    from outrider.services import Services


class Step(Model):
    name: str
    about: str


class About(Model):
    version: str
    model: str = Field(description="The chat model, or why there is none.")
    sources: tuple[str, ...]
    exact_sources: tuple[str, ...] = Field(description="Sources that a systematic run can read.")
    search_modes: tuple[str, ...]
    steps: tuple[Step, ...] = Field(description="Steps of a ranked search, in their order.")
    formats: tuple[str, ...]
    run_formats: tuple[str, ...] = Field(description="Formats for the hits of a systematic run.")


def describe_server(services: Services) -> About:
    return About(
        version=__version__,
        model=services.chat_says,
        sources=services.source_names,
        exact_sources=(LIBRARY, *find_remote_sources(services)),
        search_modes=tuple(SearchMode),
        steps=tuple(Step(name=name, about=about) for name, about in DESCRIPTIONS.items() if name != "systematic"),
        formats=tuple(FORMATS),
        run_formats=tuple(RUN_FORMATS.values()),
    )


Responses = dict[int | str, dict[str, Any]]
FILE: Responses = {200: {"content": {"application/octet-stream": {"schema": {"type": "string"}}}, "description": "The file."}}
IMAGE: Responses = {200: {"content": {"image/svg+xml": {"schema": {"type": "string"}}}, "description": "The diagram."}}


def make_router(services: Services, runs: RunRegistry, admission: Admission) -> APIRouter:
    router = APIRouter(tags=["page"])
    for address, file in read_files().items():
        router.add_api_route(address, partial(_serve_file, file), methods=["GET"], include_in_schema=False)

    async def about() -> About:
        """Data for the page's form: sources, steps of a search, formats."""
        return describe_server(services)

    async def scoring() -> Explanation:
        """How works are scored: the formulas of the code, with the settings of this server."""
        return explain_scoring(services)

    router.add_api_route("/api/about", about, methods=["GET"], summary="Sources, steps and formats")
    router.add_api_route("/api/scoring", scoring, methods=["GET"], summary="How works are scored")
    answers = AnswerExport(runs)
    router.add_api_route(
        "/api/search/{run_id}/export", answers.export, methods=["GET"], summary="Hits as a file", response_class=Response,
        responses=FILE,
    )  # fmt: skip
    review = SystematicPageRoutes(services, admission)
    base = "/api/systematic"
    router.add_api_route(f"{base}/explain", review.explain, methods=["POST"], summary="Explanation of a Boolean query")
    router.add_api_route(f"{base}/{{run}}", review.report, methods=["GET"], summary="The report of a systematic run")
    router.add_api_route(
        f"{base}/{{run}}/prisma.svg", review.diagram, methods=["GET"], summary="PRISMA 2020 flow", response_class=Response,
        responses=IMAGE,
    )  # fmt: skip
    router.add_api_route(
        f"{base}/{{run}}/export", review.export, methods=["GET"], summary="A run's hits as a file", response_class=Response,
        responses=FILE,
    )  # fmt: skip
    return router


async def _serve_file(file: File, request: Request) -> Response:
    """Cached by a browser and revalidated, so that a new version is seen at once."""
    tag = f'"{hashlib.sha256(file.body).hexdigest()[:16]}"'
    headers = {**HEADERS, "ETag": tag}
    if request.headers.get("if-none-match") == tag:
        return Response(None, 304, headers)
    return Response(file.body, 200, headers, file.media_type)
