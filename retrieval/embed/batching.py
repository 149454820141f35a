"""Batches formed by length under a budget of padded tokens, made smaller where one turns out to be too much."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

Result = TypeVar("Result")
ALIKE = 0.75
"""Share of a batch's longest text that its others are at least as long as, where what they lack is computed, too: sentences of five
abstracts take half the time so, with anything from .6 to .8 (docs/benchmarks.md).
"""
FEW = 8
"""Tokens that a text may lack beside: another batch costs more."""


class TooMuch(Exception):
    """A batch is more than the memory or the server takes; a single text that is raised for cannot be embedded.

    `of_texts` says that the number of texts may be at fault, not only their length.
    """

    def __init__(self, reason: str, *, of_texts: bool = False) -> None:
        super().__init__(reason)
        self.of_texts = of_texts


def run_by_length(
    lengths: Sequence[int], most_texts: int, most_tokens: int, run: Callable[[list[int]], Result], alike: float = 0.0
) -> Iterator[tuple[list[int], Result | TooMuch]]:
    """Runs batches of places in `lengths`, longest texts first, so that what does not fit is known at once.

    A batch of n texts costs n times its longest text; a single text is run however long it is, and one far shorter than `alike` of the
    longest waits for the next batch. Where `run` raises `TooMuch`, the batch is halved, and so is the budget of those after it. Each place
    is yielded once.
    """
    waiting = deque(sorted(range(len(lengths)), key=lambda place: (-lengths[place], place)))
    while waiting:
        batch = _next(waiting, lengths, most_texts, most_tokens, alike)
        refused = None
        try:
            result = run(batch)
        except TooMuch as error:
            refused = error
        if refused is None:
            yield batch, result
        elif len(batch) == 1:
            yield batch, refused
        else:
            half = len(batch) // 2
            most_tokens = half * lengths[batch[0]]
            most_texts = half if refused.of_texts else most_texts
            waiting.extendleft(reversed(batch))


def _next(waiting: deque[int], lengths: Sequence[int], most_texts: int, most_tokens: int, alike: float) -> list[int]:
    batch = [waiting.popleft()]
    room = min(most_texts, most_tokens // max(1, lengths[batch[0]]))
    while waiting and len(batch) < room and lengths[waiting[0]] + FEW >= alike * lengths[batch[0]]:
        batch.append(waiting.popleft())
    return batch
