"""Background jobs: what is queued, its state, and the steps that survive a crash."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Literal, Protocol

from pydantic import Field, JsonValue

from outrider.state.model import Model

JobKind = Literal["fetch", "saved", "full_text", "citations", "code_links"]
"""`fetch` gets works that a person chose (highest priority); `saved` runs a saved search, `full_text` reads open texts, one job of each at
a time; `citations` builds the graph and `code_links` reads repositories, one at a time, when no fetch waits."""
BACKGROUND: frozenset[JobKind] = frozenset({"citations", "code_links"})
JobStatus = Literal["queued", "running", "paused", "done", "failed", "cancelled"]
StopScope = Literal["all_jobs", "target_queue_only"]
"""`all_jobs` cancels every job of a target; with `target_queue_only` its citation jobs complete."""


class Job(Model):
    """One job as it is shown."""

    id: str
    kind: JobKind
    target: str = Field(description="The thread, tag, file or query that it was queued for.")
    library: str = Field("", description="The library that it works on.")
    status: JobStatus
    created_at: str
    started_at: str | None = None
    finished_at: str | None = None
    progress: str = Field("", description="One line: how far it is.")
    request: dict[str, JsonValue] = Field(default_factory=dict)
    result: dict[str, JsonValue] | None = None
    error: str = ""
    attempts: int = 0

    @property
    def is_open(self) -> bool:
        """It has not ended: it waits, runs, or is held by a pause."""
        return self.status in ("queued", "running", "paused")

    @property
    def is_to_do(self) -> bool:
        """It waits or runs: nothing holds it."""
        return self.status in ("queued", "running")


class JobSteps(Protocol):
    """What a running job gets: steps whose answers survive a crash, its progress, and its cancellation."""

    async def step(self, name: str, work: Callable[[], Awaitable[JsonValue]]) -> JsonValue:
        """Run `work` and keep its answer: a job that continues after a crash gets the answer of before.

        Steps are counted in the order in which they are called, which must be the same each time. A step that was under way is run again,
        so it must write idempotently. Raises `asyncio.CancelledError` once the job is cancelled.
        """
        ...

    async def report(self, progress: str) -> None:
        """Show one line: how far the job is."""
        ...


JobHandler = Callable[[dict[str, JsonValue], JobSteps], Awaitable[dict[str, JsonValue]]]
"""Runs one kind of job: its request and its steps in, its result out."""
