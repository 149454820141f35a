"""Tasks on a Ray cluster: one function over many items, results in their order.

Ray's own retries make no difference between a node that died, which says nothing about the item, and an item that kills the process that
works on it. Here the first is tried again without limit, the second `CRASHES` times.
"""

from __future__ import annotations

import asyncio
import importlib
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial, wraps
from typing import Any, Generic, ParamSpec, TypeVar

from outrider.cluster.session import Cluster
from outrider.state.errors import ClusterError, SearchError

Item = TypeVar("Item")
Result = TypeVar("Result")
Arguments = ParamSpec("Arguments")

CRASHES = 3
"""Times that a task may lose its process before it is given up."""
TASKS_A_CPU = 2
"""Submitted at once: the next task is at its node when one ends."""


class TaskCrashed(ClusterError):
    """A task has lost its process `CRASHES` times, on nodes that live."""


@dataclass(frozen=True, slots=True)
class RemoteError:
    """An expected error of a worker, as names and texts: exceptions with arguments of their own do not survive pickling."""

    module: str
    name: str
    message: str

    @classmethod
    def of(cls, error: SearchError) -> RemoteError:
        return cls(type(error).__module__, type(error).__qualname__, str(error))

    def make(self) -> SearchError:
        kind = getattr(importlib.import_module(self.module), self.name, SearchError)
        error: SearchError = kind.__new__(kind)
        Exception.__init__(error, self.message)
        return error


@dataclass(frozen=True, slots=True)
class Returned(Generic[Result]):
    value: Result


def catch_expected(function: Callable[Arguments, Result]) -> Callable[Arguments, Returned[Result] | RemoteError]:
    """The function as it runs on a worker: an expected error becomes a result."""

    @wraps(function)
    def run(*args: Arguments.args, **options: Arguments.kwargs) -> Returned[Result] | RemoteError:
        try:
            return Returned(function(*args, **options))
        except SearchError as error:
            return RemoteError.of(error)

    return run


def unwrap(answer: Returned[Result] | RemoteError) -> Result:
    if isinstance(answer, RemoteError):
        raise answer.make()
    return answer.value


def is_crash(cluster: Cluster, error: BaseException) -> bool:
    """Whether a process died that ran on a living node; False for the death of the node, and of objects that it held."""
    errors = cluster.ray.exceptions
    return isinstance(error, errors.WorkerCrashedError | errors.OutOfMemoryError)


def is_lost(cluster: Cluster, error: BaseException) -> bool:
    """Whether a node died with the task or its result, so that it is to be run again."""
    errors = cluster.ray.exceptions
    return isinstance(error, errors.NodeDiedError | errors.ObjectLostError | errors.ActorUnavailableError | errors.ActorDiedError)


async def run_task(
    cluster: Cluster,
    function: Callable[..., Result],
    *args: Any,
    cpus: float = 1.0,
    name: str = "",
    env: Mapping[str, str] | None = None,
) -> Result:
    """The result of one task. Raises the function's `SearchError`, `TaskCrashed`; a bug of the function as Ray shows it.

    `env` are variables of the worker's process, which Ray shows to everyone: nothing secret.
    """
    task = cluster.ray.remote(catch_expected(function)).options(
        num_cpus=cpus,
        max_retries=0,
        scheduling_strategy="SPREAD",
        name=name or function.__name__,
        runtime_env={"env_vars": dict(env)} if env else None,
    )
    crashes = 0
    while True:
        answer = task.remote(*args)
        try:
            returned: Returned[Result] | RemoteError = await answer
            return unwrap(returned)
        except asyncio.CancelledError:
            with suppress(Exception):
                cluster.ray.cancel(answer, force=True)
            raise
        except cluster.ray.exceptions.RayError as error:
            if not (is_crash(cluster, error) or is_lost(cluster, error)):
                raise
            crashes += is_crash(cluster, error)
            if crashes >= CRASHES:
                raise TaskCrashed(f"the process of {name or function.__name__} died {crashes} times on Ray at {cluster.address}") from error


async def run_tasks(
    cluster: Cluster, function: Callable[[Item], Result], items: Iterable[Item], *, at_once: int = 0, cpus: float = 1.0, name: str = ""
) -> AsyncGenerator[Result]:
    """The results for all items, in their order; at most `at_once` (0: by the cluster's CPUs) are under way or wait to be taken.

    Items and results travel through Ray's object store: keep each below some 100 MB. `aclose` or cancellation ends the tasks under way.
    """
    window = at_once or TASKS_A_CPU * cluster.count_cpus()
    running: deque[asyncio.Task[Result]] = deque()
    start = partial(run_task, cluster, function, cpus=cpus, name=name)
    todo = iter(items)
    try:
        while True:
            while len(running) < window:
                try:
                    running.append(asyncio.create_task(start(next(todo))))
                except StopIteration:
                    break
            if not running:
                return
            yield await running[0]
            running.popleft()
    finally:
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running)
        for task in running:
            task.cancelled() or task.exception()  # mark as retrieved
