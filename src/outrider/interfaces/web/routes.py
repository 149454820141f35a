"""What the page needs to know of the server before anything is asked.

The routes of the page: its files, and what it asks beside the REST door.
"""

from __future__ import annotations

import hashlib
from functools import partial
from typing import TYPE_CHECKING

from fastapi import APIRouter, Request, Response
from pydantic import Field

from outrider.graph.pipeline import DESCRIPTIONS
from outrider.ingest.export import FORMATS
from outrider.interfaces.web import static_files as files
from outrider.interfaces.web.explain_scoring import Explanation, explain_scoring
from outrider.interfaces.web.export import AnswerExport
from outrider.interfaces.web.systematic import Reviewing
from outrider.services.systematic import find_remote_sources
from outrider.state.model import Model
from outrider.state.records import LIBRARY
from outrider.state.request import SearchMode
from outrider.usecases.systematic import RUN_FORMATS
from outrider.version import __version__

if TYPE_CHECKING:
    from outrider.interfaces.http.admission import Gate
    from outrider.interfaces.http.run_registry import Runs
    from outrider.services import Services


class Step(Model):
    name: str
    about: str


class About(Model):
    version: str
    model: str = Field(description="The chat model, or why there is none.")
    sources: tuple[str, ...]
    exact_sources: tuple[str, ...] = Field(description="Those that a systematic run can ask.")
    search_modes: tuple[str, ...]
    steps: tuple[Step, ...] = Field(description="Of a ranked search, in the order in which they run.")
    formats: tuple[str, ...]
    run_formats: tuple[str, ...] = Field(description="Of the hits of a systematic run.")


def about(services: Services) -> About:
    return About(
        version=__version__,
        model=services.chat_says,
        sources=services.source_names,
        exact_sources=(LIBRARY, *find_remote_sources(services)),
        search_modes=tuple(SearchMode),
        steps=tuple(Step(name=name, about=said) for name, said in DESCRIPTIONS.items() if name != "systematic"),
        formats=tuple(FORMATS),
        run_formats=tuple(RUN_FORMATS.values()),
    )


FILE = {200: {"content": {"application/octet-stream": {"schema": {"type": "string"}}}, "description": "The file."}}
IMAGE = {200: {"content": {"image/svg+xml": {"schema": {"type": "string"}}}, "description": "The diagram."}}


def routes_of(services: Services, runs: Runs, gate: Gate) -> APIRouter:
    router = APIRouter(tags=["page"])
    for address, file in files.read().items():
        router.add_api_route(address, partial(_file, file), methods=["GET"], include_in_schema=False)

    async def told() -> About:
        """What a page needs to draw its form: sources, steps of a search, formats."""
        return about(services)

    async def scored() -> Explanation:
        """How works are scored here: the code's own formulas, with the settings of this server."""
        return explain_scoring(services)

    router.add_api_route("/api/about", told, methods=["GET"], summary="What can be asked here")
    router.add_api_route("/api/scoring", scored, methods=["GET"], summary="How works are scored")
    answers = AnswerExport(runs)
    router.add_api_route(
        "/api/search/{run_id}/export", answers.export, methods=["GET"], summary="Hits as a file", response_class=Response,
        responses={status: dict(said) for status, said in FILE.items()},
    )  # fmt: skip
    review = Reviewing(services, gate)
    base = "/api/systematic"
    router.add_api_route(f"{base}/explain", review.explain, methods=["POST"], summary="What a Boolean query means")
    router.add_api_route(f"{base}/{{run}}", review.report, methods=["GET"], summary="The report of a systematic run")
    router.add_api_route(
        f"{base}/{{run}}/prisma.svg", review.diagram, methods=["GET"], summary="PRISMA 2020 flow", response_class=Response,
        responses={status: dict(said) for status, said in IMAGE.items()},
    )  # fmt: skip
    router.add_api_route(
        f"{base}/{{run}}/export", review.export, methods=["GET"], summary="A run's hits as a file", response_class=Response,
        responses={status: dict(said) for status, said in FILE.items()},
    )  # fmt: skip
    return router


async def _file(file: files.File, request: Request) -> Response:
    """Kept by a browser, and asked for again, so that a new version is seen at once."""
    tag = f'"{hashlib.sha256(file.body).hexdigest()[:16]}"'
    headers = {**files.HEADERS, "ETag": tag}
    if request.headers.get("if-none-match") == tag:
        return Response(None, 304, headers)
    return Response(file.body, 200, headers, file.media_type)
