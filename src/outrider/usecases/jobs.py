"""Background jobs: queued, listed, paused, resumed, stopped, run.

A job belongs to a target: a thread, a tag, a file, or the query of a search. All functions read and write the table of `jobs.uri` and raise
`JobError`; `NoSuchJob` for an unknown number or target. None but `run_jobs` imports DBOS.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from pydantic import Field

from outrider.runtime.threads_and_loops import load_module
from outrider.services.citation_queue import find_job_table, find_library_address
from outrider.services.job_handlers import HandlersByLibrary, MakeHandlers, make_job_handlers
from outrider.state.jobs import Job, JobKind, JobStatus, StopScope
from outrider.state.model import Model

if TYPE_CHECKING:
    from pydantic import JsonValue

    from outrider.services import Services

OPEN: tuple[JobStatus, ...] = ("queued", "running", "paused")


class JobList(Model):
    """Jobs, the newest first."""

    jobs: tuple[Job, ...]
    paused_targets: tuple[str, ...] = Field((), description="Targets for which nothing is queued or fetched until they are resumed.")
    is_worked: bool = Field(False, description="Whether a process runs jobs now.")


class TargetJobs(Model):
    """Jobs of a target after a change to it."""

    target: str
    changed: tuple[Job, ...] = Field(description="Jobs that are held, go on, or were cancelled.")
    unchanged: tuple[Job, ...] = Field((), description="Other jobs of the target that have not ended: they complete.")


async def queue_job(services: Services, kind: JobKind, target: str, request: dict[str, JsonValue]) -> str:
    """Queue a job for the library of the settings and return its number; that of the same job where one is queued already.

    Raises `TargetPaused` while the target is paused.
    """
    settings = services.settings
    table, library = find_job_table(settings), find_library_address(settings)
    return await asyncio.to_thread(table.queue, kind, target, library, request)


async def list_jobs(services: Services, target: str = "", status: JobStatus | None = None) -> JobList:
    """All jobs, or those of one target or one state."""
    table = find_job_table(services.settings)

    def read() -> JobList:
        return JobList(jobs=table.list_jobs(target, status), paused_targets=table.paused_targets(), is_worked=table.is_worked())

    return await asyncio.to_thread(read)


async def show_job(services: Services, number: str) -> Job:
    return await asyncio.to_thread(find_job_table(services.settings).get, number)


async def pause_target(services: Services, target: str) -> TargetJobs:
    """Queue nothing more for a target and hold its queued `fetch` jobs. What runs, and its citation jobs, complete."""
    return await _change(services, target, lambda: find_job_table(services.settings).pause(target))


async def resume_target(services: Services, target: str) -> TargetJobs:
    """Undo a pause."""
    return await _change(services, target, lambda: find_job_table(services.settings).resume(target))


async def stop_jobs(services: Services, target: str, scope: StopScope = "all_jobs") -> TargetJobs:
    """Cancel the jobs of a target, or one job by its number. With `target_queue_only` citation jobs complete."""
    return await _change(services, target, lambda: find_job_table(services.settings).stop(target, scope))


async def _change(services: Services, target: str, change: Callable[[], tuple[Job, ...]]) -> TargetJobs:
    def apply() -> TargetJobs:
        changed = change()
        numbers = {job.id for job in changed}
        others = find_job_table(services.settings).list_jobs(target)
        return TargetJobs(target=target, changed=changed, unchanged=tuple(job for job in others if job.status in OPEN and job.id not in numbers))

    return await asyncio.to_thread(apply)


async def run_jobs(
    services: Services,
    *,
    wait: bool = False,
    limit: int | None = None,
    is_searching: Callable[[], bool] | None = None,
    make_handlers: MakeHandlers = make_job_handlers,
) -> int:
    """Run jobs here until none is left, or `limit` have ended; with `wait` until cancelled. The number of jobs that began.

    Cancelled, it leaves its jobs to the next process, which continues them. Raises `JobError` while another process runs jobs.
    """
    worker = await load_module("outrider.jobs.worker")
    handlers, settings = HandlersByLibrary(services, make_handlers), services.settings.jobs
    try:
        runner = worker.Worker(find_job_table(services.settings), handlers, settings.at_once, is_searching or worker.no_search_runs)
        began: int = await runner.run(wait=wait, limit=limit, retention_days=settings.retention_days)
    finally:
        handlers.close()
    return began
