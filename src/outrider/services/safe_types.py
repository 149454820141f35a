"""The types that a checkpoint may hold, and their place among LangGraph's safe types."""

from __future__ import annotations

from dataclasses import is_dataclass
from functools import cache
from typing import Any, get_args, get_type_hints

from langgraph.checkpoint.serde import _msgpack
from pydantic import BaseModel

from outrider.state.analysis import AnalysisState, AnalyzeRequest
from outrider.state.model import STATE_PACKAGE
from outrider.state.pipeline import ParentState, PipelineState
from outrider.state.request import SearchRequest
from outrider.state.response import SearchResponse

THREADS = (PipelineState, SearchRequest, ParentState)
"""What our own threads hold."""
PARENTS = (*THREADS, SearchResponse, AnalysisState, AnalyzeRequest)
"""What the state of a graph with ours in it may hold."""


@cache
def state_types(states: tuple[type, ...] = THREADS) -> tuple[type, ...]:
    """All types of `outrider.state` that these states can hold, by name."""
    types: set[type] = set()
    for state in states:
        _collect_types(state, types)
    return tuple(sorted(types, key=lambda kind: (kind.__module__, kind.__name__)))


def _collect_types(kind: Any, types: set[type]) -> None:
    for part in get_args(kind):
        _collect_types(part, types)
    if kind in types or not (isinstance(kind, type) and kind.__module__.startswith(STATE_PACKAGE)):
        return
    types.add(kind)
    if issubclass(kind, BaseModel) or is_dataclass(kind):
        for part in get_type_hints(kind).values():
            _collect_types(part, types)


class SafeTypes(frozenset[tuple[str, ...]]):
    """LangGraph's safe types, and ours, which are collected when a checkpoint first holds one: that takes longer than many imports."""

    def __contains__(self, key: object) -> bool:
        if frozenset.__contains__(self, key):
            return True
        return isinstance(key, tuple) and str(key[0]).startswith(STATE_PACKAGE) and key in _list_names()


@cache
def _list_names() -> frozenset[tuple[str, ...]]:
    return frozenset((kind.__module__, kind.__name__) for kind in state_types(PARENTS))


def register_state_types() -> None:
    """Let the serializer of every checkpointer read our types back: a graph that has ours as a node brings a checkpointer of its own.

    LangGraph registers only the types that the state of the compiled graph names, and only with LANGGRAPH_STRICT_MSGPACK; a parent with
    `hits: list` names none. Our types hold data and nothing else. See ADR 24.
    """
    _msgpack.SAFE_MSGPACK_TYPES = SafeTypes(_msgpack.SAFE_MSGPACK_TYPES)
