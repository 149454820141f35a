"""The base of every value that travels through the graph."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar, dataclass_transform

from pydantic import BaseModel, ConfigDict

T = TypeVar("T")


class Model(BaseModel):
    """Immutable, and strict about its fields: a misspelt one is an error, never ignored."""

    model_config = ConfigDict(frozen=True, extra="forbid")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def fast_dataclass(made: type[T]) -> type[T]:
    """A dataclass that is frozen for the type checker alone, for what a search makes by the hundred: to be frozen at run time makes
    making one three times as long.
    """
    return dataclass(slots=True, unsafe_hash=True)(made)
