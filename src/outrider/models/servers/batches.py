"""Batches for model servers, filled by count and tokens and run several at a time."""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from outrider.models.servers.transport import TooLarge

Result = TypeVar("Result")

LEAST_TEXTS = 8
"""A smaller batch costs a server nearly as much as this one."""
MIN_CHARS = 16
"""A refusal of a text this short has another cause than its length."""


@dataclass(slots=True)
class BatchLimits:
    """Most texts and tokens of one request; shared by all requests to the servers of one model."""

    texts: int
    tokens: int

    def read_info(self, info: Mapping[str, Any]) -> None:
        """Learn from TEI's `/info`."""
        limit = info.get("max_client_batch_size")
        if isinstance(limit, int) and limit > 0:
            self.texts = min(self.texts, limit)

    def lower(self, refused: int, error: TooLarge) -> None:
        """Learn from the refusal of a batch of `refused` texts."""
        if error.most_texts and error.most_texts < refused:
            self.texts = min(self.texts, error.most_texts)
        elif not error.is_length:
            self.texts = min(self.texts, max(1, refused // 2))


async def run_batches(
    lengths: Sequence[int],
    limits: BatchLimits,
    count_slots: Callable[[], int],
    run: Callable[[list[int]], Awaitable[Result]],
    deliver: Callable[[list[int], Result | TooLarge], None],
) -> None:
    """Run batches of places in `lengths`, the longest texts first, as many at a time as there are slots.

    No more are under way than that, so that a slow server holds up the caller, not the memory. Batches have one size, with which all slots
    end at about the same time. A batch that `run` refuses by `TooLarge` is split; a single text is delivered with the refusal. Each place
    is delivered once. An error of `run` ends all batches.
    """
    waiting = deque(sorted(range(len(lengths)), key=lambda place: (-lengths[place], place)))
    parts: deque[list[int]] = deque()
    sizes: dict[tuple[int, int], int] = {}

    def take() -> list[int]:
        slots = count_slots()
        size = sizes.setdefault((limits.texts, slots), _choose_size(len(waiting), limits.texts, slots))
        return _take(waiting, lengths, size, limits.tokens)

    async def work() -> None:
        while parts or waiting:
            batch = parts.popleft() if parts else take()
            try:
                result = await run(batch)
            except TooLarge as error:
                if len(batch) == 1:
                    deliver(batch, error)
                    continue
                limits.lower(len(batch), error)
                size = min(limits.texts, math.ceil(len(batch) / 2))
                parts.extend(batch[start : start + size] for start in range(0, len(batch), size))
            else:
                deliver(batch, result)

    workers: set[asyncio.Task[None]] = set()
    try:
        while parts or waiting or workers:
            needed = math.ceil(len(waiting) / LEAST_TEXTS) + len(parts)
            while len(workers) < count_slots() and needed > 0 and (parts or waiting):
                workers.add(asyncio.create_task(work()))
                needed -= 1
                await asyncio.sleep(0)  # the worker takes its batch
            done, _ = await asyncio.wait(workers, return_when=asyncio.FIRST_COMPLETED, timeout=1.0)
            for task in done:
                workers.remove(task)
                task.result()
    finally:
        for task in workers:
            task.cancel()
        await asyncio.gather(*workers, return_exceptions=True)  # one error has been raised; asyncio would log the others


def _choose_size(count: int, most: int, slots: int) -> int:
    """Texts a batch, so that `count` texts take as few rounds of all slots as possible, and the last round is full, too."""
    rounds = math.ceil(count / (most * slots))
    return min(most, max(LEAST_TEXTS, math.ceil(count / (rounds * slots))))


def _take(waiting: deque[int], lengths: Sequence[int], most_texts: int, most_tokens: int) -> list[int]:
    batch = [waiting.popleft()]
    tokens = lengths[batch[0]]
    while waiting and len(batch) < most_texts and tokens + lengths[waiting[0]] <= most_tokens:
        tokens += lengths[waiting[0]]
        batch.append(waiting.popleft())
    return batch
