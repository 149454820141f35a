"""Saved searches over REST: listed, saved, run, compared, as feeds, removed.

With keys, an owner sees its own. With `serve.read_only` nothing is saved, run or removed. A webhook's address may hold a key, so answers
show its host alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Body, Path, Query, Request, Response
from fastapi.responses import JSONResponse
from pydantic import Field, JsonValue

from outrider.interfaces.http.library import require_writable
from outrider.interfaces.http.rest import read_owner
from outrider.interfaces.web.pictures import IMAGE, make_picture_response
from outrider.state.model import Model
from outrider.state.saved import RunDifference, SavedKind
from outrider.systematic_search.prisma import format_update_flow, make_update_flow
from outrider.usecases.saved import (
    DigestForm,
    SavedInfo,
    add_saved,
    diff_runs,
    list_saved,
    queue_saved,
    read_run,
    remove_saved,
    show_saved,
    write_digest,
)

if TYPE_CHECKING:
    from outrider.services import Services

NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"
FORMS: dict[str, tuple[DigestForm, str]] = {
    "feed.atom": ("atom", "application/atom+xml; charset=utf-8"),
    "feed.rss": ("rss", "application/rss+xml; charset=utf-8"),
    "digest.md": ("markdown", "text/markdown; charset=utf-8"),
}
SavedName = Annotated[str, Path(alias="name", description="Its name, as the list shows it.", pattern=NAME)]
RunNumber = Annotated[int | None, Query(ge=1, le=10**9)]
EXAMPLES: dict[str, Any] = {
    "search": {"summary": "A ranked search, daily", "value": {"name": "liver", "request": {"query": "liver injury"}, "schedule": "daily"}},
    "protocol": {
        "summary": "A protocol, run by hand",
        "value": {"name": "aspirin", "kind": "systematic", "request": {"query": "aspirin[ti]", "sources": ["library"]}},
    },
}


class SavedBody(Model):
    """A search or a protocol to save."""

    name: str = Field(pattern=NAME)
    kind: SavedKind = "search"
    request: dict[str, JsonValue] = Field(description="Fields of a search; of a protocol `query`, `sources`, `syntax`.")
    schedule: str = Field("", max_length=200, description="daily, weekly, monthly, `every 6 h`, or a cron expression; empty: by hand.")
    timezone: str = Field("", max_length=100, description="Of the schedule, such as Europe/Berlin.")
    webhook: str = Field("", max_length=4_000, repr=False, description="A public address that gets what changed, signed.")
    replace: bool = Field(False, description="Replace a saved search of this name; its runs stay.")


class SavedList(Model):
    saved: tuple[SavedInfo, ...]
    writable: bool = Field(description="Whether this server saves, runs and removes searches.")


class QueuedRun(Model):
    """The background job that runs a saved search."""

    name: str
    job: str


@dataclass(frozen=True, slots=True)
class SavedRoutes:
    services: Services

    async def list_saved(self, request: Request) -> SavedList:
        """Saved searches by name, each with its last run."""
        infos = await list_saved(self.services, read_owner(request))
        return SavedList(saved=tuple(map(_without_folder, infos)), writable=not self.services.settings.serve.read_only)

    async def add(self, request: Request, body: Annotated[SavedBody, Body(openapi_examples=EXAMPLES)]) -> SavedInfo:
        """Save a search or a protocol. Nothing runs yet."""
        require_writable(self.services)
        info = await add_saved(
            self.services,
            body.name,
            body.request,
            kind=body.kind,
            schedule=body.schedule,
            timezone=body.timezone,
            webhook_address=body.webhook,
            owner=read_owner(request),
            replace=body.replace,
        )
        return _without_folder(info).model_copy(update={"name": body.name})

    async def show(self, request: Request, name: SavedName) -> SavedInfo:
        """A saved search with its newest runs."""
        return _without_folder(await show_saved(self.services, name, read_owner(request)))

    async def remove(self, request: Request, name: SavedName) -> Response:
        """Delete a saved search with its runs."""
        require_writable(self.services)
        await remove_saved(self.services, name, read_owner(request))
        return Response(status_code=204)

    async def run(self, request: Request, name: SavedName) -> QueuedRun:
        """Queue a run; `/api/jobs/{job}` says how far it is."""
        require_writable(self.services)
        return QueuedRun(name=name, job=await queue_saved(self.services, name, read_owner(request)))

    async def diff(
        self,
        request: Request,
        name: SavedName,
        before: Annotated[RunNumber, Query(alias="from", description="The earlier run; by default the one before.")] = None,
        after: Annotated[RunNumber, Query(alias="to", description="The later run; by default the last one.")] = None,
    ) -> RunDifference:
        """What is new, changed and gone between two runs, each work with its cause."""
        difference = await diff_runs(self.services, name, before, after, read_owner(request))
        return difference.model_copy(update={"name": name})

    async def atom(self, request: Request, name: SavedName) -> Response:
        """The newest runs as an Atom feed."""
        return await self._write(request, name, "feed.atom")

    async def rss(self, request: Request, name: SavedName) -> Response:
        """The newest runs as an RSS feed."""
        return await self._write(request, name, "feed.rss")

    async def digest(self, request: Request, name: SavedName) -> Response:
        """The last two runs compared, as Markdown."""
        return await self._write(request, name, "digest.md")

    async def flow(self, request: Request, name: SavedName) -> Response:
        """The PRISMA 2020 flow of an updated review from a protocol's last run, as SVG."""
        run, difference = await read_run(self.services, name, read_owner(request))
        return make_picture_response(format_update_flow(make_update_flow(run, difference), "prisma-svg"))

    async def _write(self, request: Request, name: str, file: str) -> Response:
        form, media_type = FORMS[file]
        address = str(request.url.replace(query=""))
        text = await write_digest(self.services, name, form, owner=read_owner(request), address=address)
        return Response(text.encode(), 200, media_type=media_type)


def _without_folder(info: SavedInfo) -> SavedInfo:
    """Folders of the server are no business of its clients."""
    return info.model_copy(update={"library": ""})


def make_router(handlers: SavedRoutes) -> APIRouter:
    router = APIRouter(tags=["saved"], default_response_class=JSONResponse)
    add, every, one = router.add_api_route, "/api/saved", "/api/saved/{name}"
    add(every, handlers.list_saved, methods=["GET"], summary="Saved searches")
    add(every, handlers.add, methods=["POST"], summary="Save a search", status_code=201)
    add(one, handlers.show, methods=["GET"], summary="A saved search")
    add(one, handlers.remove, methods=["DELETE"], summary="Remove a saved search", status_code=204)
    add(f"{one}/run", handlers.run, methods=["POST"], summary="Run a saved search", status_code=202)
    add(f"{one}/diff", handlers.diff, methods=["GET"], summary="What changed")
    files: tuple[tuple[str, Any, str], ...] = (
        ("feed.atom", handlers.atom, "Its Atom feed"),
        ("feed.rss", handlers.rss, "Its RSS feed"),
        ("digest.md", handlers.digest, "Its digest"),
    )
    for file, handler, summary in files:
        media_type = FORMS[file][1].partition(";")[0]
        responses: dict[int | str, dict[str, Any]] = {
            200: {"content": {media_type: {"schema": {"type": "string"}}}, "description": "A text."}
        }
        add(f"{one}/{file}", handler, methods=["GET"], summary=summary, response_class=Response, responses=responses)
    add(f"{one}/prisma.svg", handlers.flow, methods=["GET"], summary="Its PRISMA flow", response_class=Response, responses=IMAGE)
    return router
