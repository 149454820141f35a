"""Worker of background jobs over DBOS: durable steps, recovery, cancellation.

One worker at a time works a table. DBOS (https://docs.dbos.dev) keeps the answer of each step in the database of the table. A workflow
that was under way when its process died starts again with the next worker; its finished steps return their answers of before. A fixed
executor and version let any later process recover it. See ADR 43.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pydantic import JsonValue

from outrider.runtime.threads_and_loops import is_cancelled, load_module, run_in_thread
from outrider.state import errors
from outrider.state.errors import JobError, SearchError
from outrider.state.jobs import BACKGROUND
from outrider.text.sanitize import explain_database_error, without_credentials

if TYPE_CHECKING:
    from outrider.jobs.job_table import Handover, JobTable
    from outrider.state.jobs import Job, JobHandler, JobKind

log = logging.getLogger(__name__)

WORKFLOW = "outrider_job"
EXECUTOR, VERSION = "outrider", "1"
"""DBOS recovers workflows of its own executor and version: both stay the same for ever."""
QUEUES: Mapping[JobKind, str] = {
    "fetch": "outrider_fetch",
    "saved": "outrider_saved",
    "full_text": "outrider_full_text",
    "citations": "outrider_citations",
    "code_links": "outrider_code_links",
}
TICK_S = 0.5
"""How often the worker looks for new, stopped and ended jobs. Each look takes processor time that a search may need."""
QUEUE_S = 0.5
"""How often DBOS looks for a job that was handed over."""
YIELD_S = 0.05
LONGEST_YIELD_S = 30.0
"""A step waits so long at most for searches to end: under a load that never ends, jobs still go on."""
MOST_ATTEMPTS = 20
"""A job that was begun so often and never ended presumably kills its process."""
CHANGED = "DBOSUnexpectedStepError"
ENDED = frozenset({"SUCCESS", "ERROR", "CANCELLED", "MAX_RECOVERY_ATTEMPTS_EXCEEDED"})


class StepsChanged(Exception):
    """A job that continues takes another way than before: the settings or the program changed. It begins again."""


class TableFailed(Exception):
    """The jobs cannot be written: the disk is full, for example. No job's own failure, so each goes on with the next worker."""


def no_search_runs() -> bool:
    return False


@dataclass
class Worker:
    """Runs the jobs of a table in the running event loop."""

    table: JobTable
    make_handlers: Callable[[str], Mapping[JobKind, JobHandler]]
    """The handlers for a library, by kind."""
    fetches: int = 2
    """Concurrent `fetch` jobs. The other kinds have one slot each."""
    is_searching: Callable[[], bool] = no_search_runs
    """Whether searches run, which jobs make way for."""
    _dbos: Any = None
    _begun: set[str] = field(default_factory=set)
    """Workflows that this worker handed over or that DBOS recovered."""
    _open: tuple[Handover, ...] = ()
    _failure: BaseException | None = None
    """Why a job was left as it is: its answers, or its end, could not be written."""
    _is_full: bool = False
    """The limit of `run` is reached: nothing more begins."""
    _workflows: dict[str, asyncio.Task[Any]] = field(default_factory=dict)
    _jobs: dict[str, asyncio.Task[dict[str, JsonValue]]] = field(default_factory=dict)
    """The handlers that run, by the job's number."""

    async def run(self, *, wait: bool = False, limit: int | None = None, retention_days: float = 30.0) -> int:
        """Run jobs until none is left, or `limit` have begun and ended; with `wait` until cancelled. The number that began.

        Raises `JobError` while another process works them.
        """
        if not wait and not await asyncio.to_thread(self.table.count_open):
            return 0
        claim = await asyncio.to_thread(self.table.try_lock)
        if claim is None:
            raise JobError("another process works the jobs, such as `outrider serve`; `outrider jobs list` shows their progress")
        try:
            async with self._launch(await asyncio.to_thread(self.table.expire, retention_days)):
                while await self._tick(limit) or wait:
                    await asyncio.sleep(TICK_S)
                    await asyncio.to_thread(claim.check)
        finally:
            await run_in_thread(claim.release)
        return len(self._begun)

    async def _tick(self, limit: int | None) -> bool:
        """Hand over jobs as slots are free, and cancel stopped ones; whether there is more to do."""
        if self._failure is not None:
            raise self._failure
        self._open = await asyncio.to_thread(self.table.list_handovers)
        for number in await asyncio.to_thread(self.table.list_cancelled, tuple(self._jobs)):
            if number in self._jobs:
                self._jobs[number].cancel()
        for handover in self._open:
            if handover.workflow not in self._begun and (handover.is_running or (self._has_slot(handover.kind) and not self._is_full)):
                await self._hand_over(handover)
            self._is_full = limit is not None and len(self._begun) >= limit
        is_left = any(not self._is_full or one.workflow in self._begun for one in self._open)
        return is_left or bool(self._workflows)

    def _has_slot(self, kind: JobKind) -> bool:
        """`citations` and `code_links` begin one at a time, and when no `fetch` job waits or runs."""
        active = [one.kind for one in self._open if one.is_running or one.workflow in self._begun]
        if kind in BACKGROUND:
            return not self._workflows and not active and not self._fetches_left()
        return active.count(kind) < (self.fetches if kind == "fetch" else 1)

    def _fetches_left(self) -> bool:
        """Whether a `fetch` job runs, or waits and will begin."""
        return any(one.kind == "fetch" and (one.workflow in self._begun or not self._is_full) for one in self._open)

    async def _hand_over(self, handover: Handover) -> None:
        """Let DBOS run a job. One that an earlier worker began is recovered already, unless DBOS has lost or ended its workflow."""
        status = await self._dbos.get_workflow_status_async(handover.workflow)
        if status is not None and status.status in ENDED:  # also one that could not mark its job as running
            await asyncio.to_thread(self.table.restart, handover.id, handover.round)
            return
        self._begun.add(handover.workflow)
        with self._context.SetWorkflowID(handover.workflow):
            await self._dbos.enqueue_workflow_async(QUEUES[handover.kind], self._workflow, handover.id, handover.round)

    async def _run_job(self, number: str, round: int) -> None:  # noqa: A002
        """The workflow: run the handler of a job and write its end to the table."""
        workflow = f"{number}.{round}"
        self._begun.add(workflow)
        self._workflows[workflow] = asyncio.current_task()  # type: ignore[assignment] # a coroutine always runs in one
        try:
            job = await asyncio.to_thread(self.table.start, number, round)
            if job is not None:
                await self._handle(job, round)
        except Exception as error:
            self._failure = error
            raise
        finally:
            del self._workflows[workflow]

    async def _handle(self, job: Job, round: int) -> None:  # noqa: A002
        error, result = "", None
        try:
            result = await self._run_handler(job)
            json.dumps(result, ensure_ascii=False).encode()  # what cannot be written fails this job alone
        except asyncio.CancelledError:
            if is_cancelled():  # the worker ends: the job goes on with the next one
                raise
            return  # the job was stopped
        except StepsChanged:
            log.warning("job %s begins again: its steps are others than before the interruption", job.id)
            await asyncio.to_thread(self.table.restart, job.id, round)
            return
        except SearchError as reason:
            error = str(reason) or type(reason).__name__
        except Exception as reason:
            if isinstance(reason, TableFailed) or _is_of_database(reason):
                raise
            log.exception("job %s failed", job.id)
            error, result = f"an error of this program ({type(reason).__name__}: {str(reason)[:200]}); its log has details", None
        await asyncio.to_thread(self.table.finish, job.id, "failed" if error else "done", result, error)

    async def _run_handler(self, job: Job) -> dict[str, JsonValue]:
        if job.attempts > MOST_ATTEMPTS:
            raise JobError(f"it was begun {MOST_ATTEMPTS} times and never ended: its process may be killed by it")
        handler = (await asyncio.to_thread(self.make_handlers, job.library)).get(job.kind)
        if handler is None:
            raise JobError(f"this version of Outrider runs no {job.kind} jobs")
        task = self._jobs[job.id] = asyncio.ensure_future(handler(job.request, _Steps(self, job)))
        try:
            return await task
        finally:
            del self._jobs[job.id]

    async def make_way(self, kind: JobKind) -> None:
        """Wait while searches run, for a limited time; a `citations` or `code_links` job also while `fetch` jobs wait or run."""
        until = time.monotonic() + LONGEST_YIELD_S
        while (self.is_searching() and time.monotonic() < until) or (kind in BACKGROUND and self._fetches_left()):  # noqa: ASYNC110 - as above
            await asyncio.sleep(YIELD_S)

    @asynccontextmanager
    async def _launch(self, expired: tuple[str, ...]) -> AsyncIterator[None]:
        """DBOS while the block runs. What runs at its end is interrupted, and recovered by the next worker."""
        self._context = await load_module("dbos")
        _quiet_dbos()
        self._dbos = self._context.DBOS
        self._dbos(config=self._make_config())
        self._workflow = self._dbos.workflow(name=WORKFLOW, max_recovery_attempts=None)(self._run_job_function())
        try:
            self._dbos.launch()  # here, not in a thread: it runs workflows on the loop that it is launched from
            for kind, queue in QUEUES.items():
                slots = self.fetches if kind == "fetch" else 1
                await self._dbos.register_queue_async(queue, worker_concurrency=slots, polling_interval_sec=QUEUE_S)
            if expired:
                await self._dbos.delete_workflows_async(list(expired))
            yield
        except (SearchError, asyncio.CancelledError):
            raise
        except TableFailed as error:
            raise JobError(str(error)) from error
        except Exception as error:
            if not _is_of_database(error):
                raise
            where = without_credentials(self.table.uri)
            reason = explain_database_error(str(error).partition("(Background on this error")[0], self.table.uri)
            raise JobError(f"the jobs in {where} cannot be run: {reason}; look at the space there and at jobs.uri") from error
        finally:
            await self._close()

    async def _close(self) -> None:
        tasks = list(self._workflows.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await run_in_thread(lambda: self._dbos.destroy(destroy_registry=True))
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor())  # DBOS put its own here, which is shut down

    def _run_job_function(self) -> Callable[[str, int], Awaitable[None]]:
        """A plain function: DBOS registers no bound method."""

        async def run_job(number: str, round: int) -> None:  # noqa: A002
            await self._run_job(number, round)

        return run_job

    def _make_config(self) -> dict[str, Any]:
        address = self.table.uri if self.table.is_postgres else f"sqlite:///{self.table.uri}"
        return {
            "name": "outrider",
            "system_database_url": address,
            "executor_id": EXECUTOR,
            "application_version": VERSION,
            "serializer": self._context.DBOSPortableJSONSerializer(),  # pickles of a database could run code of whoever writes to it
            "use_listen_notify": False,
            "log_level": "ERROR",
            "sys_db_pool_size": 5,
        }


@dataclass(frozen=True, slots=True)
class _Steps:
    """`JobSteps` of one job."""

    worker: Worker
    job: Job

    async def step(self, name: str, work: Callable[[], Awaitable[JsonValue]]) -> JsonValue:
        """An expected error of `work` is its answer, too, and raised again by a job that continues."""

        async def answer() -> dict[str, JsonValue]:
            try:
                return {"value": await work()}
            except SearchError as error:
                return {"error": type(error).__name__, "message": str(error)}

        place = self.worker._dbos.reserve_step()  # before anything is awaited: concurrent steps are counted as they are called  # noqa: SLF001
        await self.worker.make_way(self.job.kind)
        try:
            found = await place.run_async({"name": name}, answer)
        except Exception as error:
            if type(error).__name__ != CHANGED:
                raise
            raise StepsChanged from error
        if "error" in found:
            raise _restore_error(found["error"], found["message"])
        value: JsonValue = found["value"]
        return value

    async def report(self, progress: str) -> None:
        try:
            await asyncio.to_thread(self.worker.table.report, self.job.id, progress)
        except JobError as error:
            raise TableFailed(str(error)) from error


def _restore_error(name: str, message: str) -> SearchError:
    kind: Any = getattr(errors, name, SearchError)
    try:
        error: SearchError = kind(message)
    except TypeError:  # a class that makes its message of parts
        error = SearchError(message)
    return error


def _is_of_database(error: BaseException | None) -> bool:
    """Whether DBOS could not read or write its tables."""
    return type(error).__module__.startswith(("dbos", "sqlalchemy", "psycopg", "sqlite3"))


def _is_no_error_of_ours(record: logging.LogRecord) -> bool:
    """Whether DBOS says something that we do not report: it prints a traceback of each error of the database and of the table."""
    error = record.exc_info[1] if record.exc_info else None
    return not (isinstance(error, SearchError | TableFailed) or _is_of_database(error))


def _quiet_dbos() -> None:
    """Let DBOS's logger write through ours. It would add a handler of its own, and print a traceback of each error that we report."""
    logger = logging.getLogger("dbos")
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())
        logger.addFilter(_is_no_error_of_ours)
