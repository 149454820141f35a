"""Maps of a function over many items: in this process, or on the workers of a cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol, TypeVar

Item = TypeVar("Item")
Shared = TypeVar("Shared")
Result = TypeVar("Result")


class TaskMap(Protocol):
    """Calls `function(item, shared)` for each item; results come in the order of the items, which are taken a few ahead.

    Elsewhere than in this process the function must be a module's own, and it, items, `shared` and results must survive pickling.
    """

    def __call__(self, function: Callable[[Item, Shared], Result], items: Iterable[Item], shared: Shared) -> Iterator[Result]: ...


def map_here(function: Callable[[Item, Shared], Result], items: Iterable[Item], shared: Shared) -> Iterator[Result]:
    """A `TaskMap` of this process: one item after the other, each when its result is asked for."""
    return (function(item, shared) for item in items)
