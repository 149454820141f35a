"""A `TaskMap` whose tasks run on the workers of a Ray cluster, for blocking code."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from outrider.cluster.session import Cluster, open_cluster
from outrider.cluster.tasks import TASKS_A_CPU, run_task
from outrider.runtime.task_map import TaskMap
from outrider.runtime.threads_and_loops import run_in_background

if TYPE_CHECKING:
    from outrider.settings.model import ClusterSettings

Item = TypeVar("Item")
Shared = TypeVar("Shared")
Result = TypeVar("Result")
ONE_SEED = {"PYTHONHASHSEED": "0"}
"""Hashes of texts, such as names of blocks, are compared between tasks, so all workers must hash alike."""


@contextmanager
def map_on_ray(settings: ClusterSettings) -> Iterator[TaskMap]:
    """A map of a session on Ray. Its end, also by Ctrl-C, ends the tasks under way. Raises as `open_cluster`.

    The map itself raises what the function does, and `TaskCrashed`. Tasks of a node that dies run again on another one.
    """
    stack = AsyncExitStack()

    async def enter() -> _RayMap:
        return _RayMap(await stack.enter_async_context(open_cluster(settings)), asyncio.get_running_loop())

    tasks = run_in_background(enter())
    try:
        yield tasks
    finally:
        tasks.cancel()
        run_in_background(stack.aclose())


@dataclass(frozen=True, slots=True)
class _RayMap:
    _cluster: Cluster
    _loop: asyncio.AbstractEventLoop
    """On which the tasks are awaited."""
    _running: set[Future[Any]] = field(default_factory=set)

    def __call__(self, function: Callable[[Item, Shared], Result], items: Iterable[Item], shared: Shared) -> Iterator[Result]:
        reference = self._cluster.ray.put(shared)  # travels once to each node
        window = TASKS_A_CPU * self._cluster.count_cpus()
        waiting: deque[Future[Result]] = deque()
        try:
            for item in items:
                task = run_task(self._cluster, function, item, reference, env=ONE_SEED)
                waiting.append(asyncio.run_coroutine_threadsafe(task, self._loop))
                self._running.add(waiting[-1])
                if len(waiting) >= window:
                    yield self._take(waiting)
            while waiting:
                yield self._take(waiting)
        finally:
            for future in waiting:
                future.cancel()

    def _take(self, waiting: deque[Future[Result]]) -> Result:
        result = waiting[0].result()
        self._running.discard(waiting.popleft())
        return result

    def cancel(self) -> None:
        for future in self._running:
            future.cancel()
