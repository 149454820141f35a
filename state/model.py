"""Base classes of the values that travel through the graph."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, is_dataclass
from functools import cache
from typing import Any, TypeVar, dataclass_transform

from pydantic import BaseModel, ConfigDict, TypeAdapter

T = TypeVar("T")
STATE_PACKAGE = "outrider.state."


class Model(BaseModel):
    """Immutable, and strict about its fields: a misspelt one is an error, never ignored."""

    model_config = ConfigDict(frozen=True, extra="forbid")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def fast_dataclass(cls: type[T]) -> type[T]:
    """A dataclass that is frozen only for the type checker, for objects that a search creates by the hundred: freezing at run time makes
    creation three times as slow.
    """
    return dataclass(slots=True, unsafe_hash=True)(cls)


_make_adapter = cache(TypeAdapter)


def restore_tuples(value: Any) -> Any:
    """A value from a checkpoint as it was written.

    MessagePack has no tuples, and a dataclass is not validated when it is made, so its lists become the types of its fields.
    """
    if isinstance(value, list):
        return [restore_tuples(item) for item in value]
    if isinstance(value, dict):
        return {name: restore_tuples(item) for name, item in value.items()}
    if is_dataclass(value) and not isinstance(value, type) and type(value).__module__.startswith(STATE_PACKAGE):
        return _make_adapter(type(value)).validate_python({one.name: restore_tuples(getattr(value, one.name)) for one in fields(value)})
    return value
