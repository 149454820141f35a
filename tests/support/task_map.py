"""A `TaskMap` that behaves like one on other machines."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

Item = TypeVar("Item")
Shared = TypeVar("Shared")
Result = TypeVar("Result")


def map_elsewhere(function: Callable[[Item, Shared], Result], items: Iterable[Item], shared: Shared) -> Iterator[Result]:
    """Nothing but bytes comes and goes, and later items are done first."""
    calls = [pickle.dumps((function, item, shared)) for item in items]
    done = []
    for call in reversed(calls):
        called, item, own_shared = pickle.loads(call)
        done.append(pickle.dumps(called(item, own_shared)))
    return (pickle.loads(result) for result in reversed(done))
