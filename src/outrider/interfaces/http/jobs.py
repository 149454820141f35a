"""Background jobs over REST: listed, shown, paused, resumed and stopped.

With keys, an owner sees the jobs of its own threads and searches, and those that belong to no owner.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import JSONResponse
from pydantic import Field

from outrider.interfaces.http.library import require_writable
from outrider.interfaces.http.rest import read_owner
from outrider.jobs.job_table import MAX_TARGET_CHARS
from outrider.state.jobs import Job, JobStatus, StopScope
from outrider.state.model import Model
from outrider.usecases.jobs import JobList, TargetJobs, list_jobs, pause_target, resume_target, show_job, stop_jobs

if TYPE_CHECKING:
    from outrider.services import Services

JobNumber = Annotated[str, Path(alias="job", description="The job's number, as the list shows it.", min_length=1, max_length=64)]
Text = Annotated[str, Field(min_length=1, max_length=MAX_TARGET_CHARS, description="A thread, tag, file or query, as the list shows it.")]


class TargetBody(Model):
    """The target whose jobs are paused or resumed."""

    target: Text


class StopBody(TargetBody):
    """The target, or the number of one job, and what is cancelled."""

    scope: StopScope = Field("all_jobs", description="all_jobs cancels every job; with target_queue_only citation jobs complete.")


@dataclass(frozen=True, slots=True)
class JobRoutes:
    services: Services

    async def list_jobs(
        self,
        request: Request,
        target: Annotated[str, Query(description="Only the jobs of this target.", max_length=MAX_TARGET_CHARS)] = "",
        status: Annotated[JobStatus | None, Query(description="Only jobs in this state.")] = None,
    ) -> JobList:
        """Background jobs, the newest first."""
        return await list_jobs(self.services, target, status, read_owner(request))

    async def show(self, request: Request, number: JobNumber) -> Job:
        """A job with its request, and its result or error."""
        return await show_job(self.services, number, read_owner(request))

    async def pause(self, request: Request, body: TargetBody) -> TargetJobs:
        """Queue nothing more for a target and hold its queued jobs; those of citations, and what runs, complete."""
        require_writable(self.services)
        return await pause_target(self.services, body.target, read_owner(request))

    async def resume(self, request: Request, body: TargetBody) -> TargetJobs:
        """Undo a pause."""
        require_writable(self.services)
        return await resume_target(self.services, body.target, read_owner(request))

    async def stop(self, request: Request, body: StopBody) -> TargetJobs:
        """Cancel the jobs of a target, or one job by its number."""
        require_writable(self.services)
        return await stop_jobs(self.services, body.target, body.scope, read_owner(request))


def make_router(handlers: JobRoutes) -> APIRouter:
    router = APIRouter(tags=["jobs"], default_response_class=JSONResponse)
    routes: tuple[tuple[str, Any, str, str], ...] = (
        ("/api/jobs", handlers.list_jobs, "GET", "Background jobs"),
        ("/api/jobs/pause", handlers.pause, "POST", "Pause a target"),
        ("/api/jobs/resume", handlers.resume, "POST", "Resume a target"),
        ("/api/jobs/stop", handlers.stop, "POST", "Stop jobs"),
        ("/api/jobs/{job}", handlers.show, "GET", "A background job"),
    )
    for path, handler, method, summary in routes:
        router.add_api_route(path, handler, methods=[method], summary=summary)
    return router
