"""MCP tools that list, show, pause, resume and stop background jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from mcp.server.mcpserver import Context
from mcp_types import CallToolResult
from pydantic import BaseModel, Field

from outrider.interfaces.mcp.short_answers import cut
from outrider.interfaces.mcp.tool_calls import make_result, report_progress
from outrider.services.citation_queue import OWNER
from outrider.state.errors import BadRequest
from outrider.state.jobs import Job, JobStatus, StopScope
from outrider.usecases.jobs import list_jobs, pause_target, resume_target, show_job, stop_jobs

if TYPE_CHECKING:
    from outrider.services import Services

MAX_JOBS, NOTE_CHARS, RESULT_CHARS = 20, 200, 2_000
Target = Annotated[str, Field(description="A thread, tag, file or query, as the list of jobs shows it.", max_length=200)]


class ShortJob(BaseModel):
    id: str
    kind: str
    target: str
    status: str
    created_at: str
    progress: str = Field("", description="How far it is, or its error.")
    result: str = Field("", description="Only of one job that was asked for by its number.")


class JobsResult(BaseModel):
    """Background jobs."""

    jobs: list[ShortJob]
    total: int = Field(description="All jobs that match.")
    paused: list[str] = Field(default_factory=list, description="Targets for which nothing is queued or fetched.")
    notes: list[str] = Field(default_factory=list)


class JobTools:
    def __init__(self, services: Services) -> None:
        self._services = services

    async def jobs(
        self,
        context: Context,
        job: Annotated[str, Field(description="The number of one job, to see its result.", max_length=64)] = "",
        target: Target = "",
        status: Annotated[JobStatus | None, Field(description="Only jobs in this state.")] = None,
    ) -> Annotated[CallToolResult, JobsResult]:
        """List background jobs, which read citations and fetch works after a search, or show one of them."""
        async with report_progress(context, "reading"):
            if job:
                found = await show_job(self._services, job, OWNER.get())
                shown = shorten_job(found).model_copy(update={"result": cut(str(found.result or ""), RESULT_CHARS)})
                return make_result(JobsResult(jobs=[shown], total=1), [])
            listing = await list_jobs(self._services, target, status, OWNER.get())
        idle = not listing.is_worked and any(one.is_to_do for one in listing.jobs)
        result = JobsResult(
            jobs=[shorten_job(one) for one in listing.jobs[:MAX_JOBS]],
            total=len(listing.jobs),
            paused=list(listing.paused_targets),
            notes=["nothing runs them now; the user can run: outrider jobs run"] if idle else [],
        )
        return make_result(result, [])

    async def jobs_change(
        self,
        context: Context,
        action: Annotated[
            Literal["pause", "resume", "stop"],
            Field(description="pause queues and fetches nothing more for a target; stop cancels its jobs."),
        ],
        target: Annotated[str, Field(description="A target; for stop also the number of one job.", min_length=1, max_length=200)],
        scope: Annotated[
            StopScope, Field(description="Of stop: all_jobs cancels every job; with target_queue_only citation jobs complete.")
        ] = "all_jobs",
    ) -> Annotated[CallToolResult, JobsResult]:
        """Pause, resume or stop the background jobs of a target, or stop one job."""
        if self._services.settings.serve.read_only:
            raise BadRequest("this server changes nothing (serve.read_only)")
        async with report_progress(context, action):
            if action == "stop":
                change = await stop_jobs(self._services, target, scope, OWNER.get())
            else:
                change = await (pause_target if action == "pause" else resume_target)(self._services, target, OWNER.get())
        notes = [f"{len(change.unchanged)} other jobs of this target will complete"] if change.unchanged else []
        result = JobsResult(jobs=[shorten_job(one) for one in change.changed[:MAX_JOBS]], total=len(change.changed), notes=notes)
        return make_result(result, [])


def shorten_job(job: Job) -> ShortJob:
    return ShortJob(
        id=job.id,
        kind=job.kind,
        target=cut(job.target, NOTE_CHARS),
        status=job.status,
        created_at=job.created_at,
        progress=cut(job.error or job.progress, NOTE_CHARS),
    )
