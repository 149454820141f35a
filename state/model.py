"""Base classes of the values that travel through the graph."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar, dataclass_transform

from pydantic import BaseModel, ConfigDict

T = TypeVar("T")


class Model(BaseModel):
    """Immutable, and strict about its fields: a misspelt one is an error, never ignored."""

    model_config = ConfigDict(frozen=True, extra="forbid")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def fast_dataclass(cls: type[T]) -> type[T]:
    """A dataclass that is frozen only for the type checker, for objects that a search creates by the hundred: freezing at run time makes
    creation three times as slow.
    """
    return dataclass(slots=True, unsafe_hash=True)(cls)
