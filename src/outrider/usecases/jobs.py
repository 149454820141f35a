"""Background jobs: queued, listed, paused, resumed, stopped, run.

A job belongs to a target: a thread, a tag, a file, or the query of a search. All functions read and write the table of `jobs.uri` and
raise `JobError`; `NoSuchJob` for an unknown number or target. None but `run_jobs` imports DBOS. On a server with keys an `owner` sees the
jobs of its own threads and searches.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from pydantic import Field

from outrider.jobs.job_table import JobTable
from outrider.runtime.threads_and_loops import load_module
from outrider.services.citation_queue import find_job_table, find_library_address
from outrider.services.job_handlers import HandlersByLibrary, MakeHandlers, make_job_handlers
from outrider.state.errors import NoSuchJob
from outrider.state.jobs import Job, JobKind, JobStatus, StopScope
from outrider.state.model import Model

if TYPE_CHECKING:
    from pydantic import JsonValue

    from outrider.services import Services
    from outrider.state.jobs import JobHandler

Result = TypeVar("Result")


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
    return await _call(services, lambda table: table.queue(kind, target, find_library_address(settings), request))


async def list_jobs(services: Services, target: str = "", status: JobStatus | None = None, owner: str | None = None) -> JobList:
    """All jobs, or those of one target or one state."""
    hidden = [] if owner is None else [name for name in services.settings.serve.api_keys if name != owner]

    def read(table: JobTable) -> JobList:
        jobs = table.list_jobs(target, status, hidden=hidden)
        paused = tuple(name for name in table.paused_targets() if is_visible(services, name, owner))
        return JobList(jobs=jobs, paused_targets=paused, is_worked=table.is_worked())

    return await _call(services, read)


async def show_job(services: Services, number: str, owner: str | None = None) -> Job:
    job = await _call(services, lambda table: table.get(number))
    _require_visible(services, job.target, owner)
    return job


async def pause_target(services: Services, target: str, owner: str | None = None) -> TargetJobs:
    """Queue nothing more for a target and hold its queued jobs. What runs, and its citation jobs, complete."""
    return await _change(services, target, owner, JobTable.pause)


async def resume_target(services: Services, target: str, owner: str | None = None) -> TargetJobs:
    """Undo a pause."""
    return await _change(services, target, owner, JobTable.resume)


async def stop_jobs(services: Services, target: str, scope: StopScope = "all_jobs", owner: str | None = None) -> TargetJobs:
    """Cancel the jobs of a target, or one job by its number. With `target_queue_only` citation jobs complete."""
    named = target
    with suppress(NoSuchJob):  # it is no number
        named = (await show_job(services, target)).target
    _require_visible(services, named, owner)
    return await _change(services, target, owner, lambda table, name: table.stop(name, scope))


def is_visible(services: Services, target: str, owner: str | None) -> bool:
    """Whether the owner of a key may see the jobs of a target: its own, and those of no other owner. None sees all."""
    name, slash, _ = target.partition("/")
    return owner is None or not slash or name == owner or name not in services.settings.serve.api_keys


def _require_visible(services: Services, target: str, owner: str | None) -> None:
    if not is_visible(services, target, owner):
        raise NoSuchJob(f"there is no target or job {target!r}")


async def _change(services: Services, target: str, owner: str | None, change: Callable[[JobTable, str], tuple[Job, ...]]) -> TargetJobs:
    _require_visible(services, target, owner)

    def apply(table: JobTable) -> TargetJobs:
        changed = change(table, target)
        numbers = {job.id for job in changed}
        others = tuple(job for job in table.list_jobs(target) if job.is_open and job.id not in numbers)
        return TargetJobs(target=target, changed=changed, unchanged=others)

    return await _call(services, apply)


async def _call(services: Services, work: Callable[[JobTable], Result]) -> Result:
    """Work on the table in a thread."""
    return await asyncio.to_thread(lambda: work(find_job_table(services.settings)))


def make_all_handlers(services: Services) -> Mapping[JobKind, JobHandler]:
    """The handlers of the services, and that of saved searches, which runs the whole graph."""
    from outrider.usecases.saved import run_saved_job

    return {**make_job_handlers(services), "saved": partial(run_saved_job, services)}


async def run_jobs(
    services: Services,
    *,
    wait: bool = False,
    limit: int | None = None,
    is_searching: Callable[[], bool] | None = None,
    make_handlers: MakeHandlers = make_all_handlers,
) -> int:
    """Run jobs here until none is left, or `limit` have ended; with `wait` until cancelled. The number of jobs that began.

    Cancelled, it leaves its jobs to the next process, which continues them. DBOS blocks the event loop while it starts, so this is for a
    process, or a loop, of its own. Raises `JobError` while another process runs jobs.
    """
    worker = await load_module("outrider.jobs.worker")
    handlers, settings = HandlersByLibrary(services, make_handlers), services.settings.jobs
    table = await asyncio.to_thread(find_job_table, services.settings)
    try:
        runner = worker.Worker(table, handlers, settings.at_once, is_searching or worker.no_search_runs)
        began: int = await runner.run(wait=wait, limit=limit, retention_days=settings.retention_days)
    finally:
        handlers.close()
    return began
