"""Damaged JSON answers of services, for tests by hypothesis."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

JUNK = st.sampled_from(
    [None, True, 0, -1, 2.5, 10**400, float("nan"), "", "x", "\ud800", "\x00", "9" * 5000, [], [None], {}, {"a": [1]}, [[[]]]]
)


def spots(value: Any) -> list[tuple[Any, Any]]:
    """Every place in a JSON value, as (container, key)."""
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else []
    return [spot for key in keys for spot in ((value, key), *spots(value[key]))]


def damaged(value: Any, draw: Callable[[st.SearchStrategy[Any]], Any], times: int) -> Any:
    """A copy of a JSON value in which up to `times` parts are removed or replaced."""
    whole = copy.deepcopy(value)
    for _ in range(times):
        if not (places := spots(whole)):
            break
        container, key = places[draw(st.integers(0, len(places) - 1))]
        if isinstance(container, dict) and draw(st.booleans()):
            del container[key]
        else:
            container[key] = copy.deepcopy(draw(JUNK))
    return whole
