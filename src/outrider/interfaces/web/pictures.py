"""Routes of pictures: a search's timeline, and the radar of its repositories."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import Query, Request, Response

from outrider.interfaces.http.problems import Refusal, refuse_field
from outrider.interfaces.http.rest import RunId, read_owner
from outrider.pictures.radar import MAX_SHAPES, draw_radar, make_hit_shape
from outrider.pictures.timeline import draw_timeline
from outrider.state.response import SearchResponse

if TYPE_CHECKING:
    from fastapi import APIRouter

    from outrider.interfaces.http.search_runs import RunRegistry

MEDIA_TYPE = "image/svg+xml"
POLICY = "default-src 'none'; style-src 'unsafe-inline'; sandbox; frame-ancestors 'none'"
"""A picture has one style sheet, inside, for a dark scheme. It runs nothing and loads nothing."""
IMAGE: dict[int | str, dict[str, Any]] = {200: {"content": {MEDIA_TYPE: {"schema": {"type": "string"}}}, "description": "The picture."}}
Ranks = Annotated[
    list[int] | None,
    Query(alias="rank", description="Ranks of the repositories; by default the first ones that have dimensions.", max_length=MAX_SHAPES),
]


def make_picture_response(svg: str) -> Response:
    return Response(svg, 200, {"Content-Security-Policy": POLICY}, MEDIA_TYPE)


@dataclass(frozen=True, slots=True)
class SearchPictures:
    """Pictures of a search, as long as its answer is kept."""

    runs: RunRegistry

    async def timeline(self, request: Request, run_id: RunId) -> Response:
        """The hits of a finished search by year, their kinds stacked, as SVG."""
        answer = await self._read_answer(request, run_id)
        return make_picture_response(await asyncio.to_thread(draw_timeline, answer))

    async def radar(self, request: Request, run_id: RunId, ranks: Ranks = None) -> Response:
        """The six dimensions of one to four repositories among the hits of a finished search, as SVG."""
        shapes = {hit.rank: shape for hit in (await self._read_answer(request, run_id)).hits if (shape := make_hit_shape(hit))}
        chosen = list(dict.fromkeys(ranks or sorted(shapes)[:MAX_SHAPES]))
        if unknown := [rank for rank in chosen if rank not in shapes]:
            raise refuse_field("rank", f"no hit with dimensions has rank {', '.join(map(str, unknown))} in this search")
        if not chosen:
            raise Refusal(404, "no-dimensions", "no hit of this search has dimensions: only repositories that a model scored have them")
        return make_picture_response(await asyncio.to_thread(draw_radar, [shapes[rank] for rank in chosen]))

    async def _read_answer(self, request: Request, run_id: str) -> SearchResponse:
        run = await self.runs.find(run_id, read_owner(request))
        if not run.answer:
            raise Refusal(404, "no-answer", "this search has no answer yet")
        return SearchResponse.model_validate_json(run.answer)


def add_picture_routes(router: APIRouter, runs: RunRegistry) -> None:
    pictures = SearchPictures(runs)
    base = "/api/search/{run_id}"
    for name, draw, summary in (
        ("timeline", pictures.timeline, "Hits by year, as a picture"),
        ("radar", pictures.radar, "Dimensions of repositories, as a picture"),
    ):
        router.add_api_route(f"{base}/{name}.svg", draw, methods=["GET"], summary=summary, response_class=Response, responses=IMAGE)
