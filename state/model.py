"""The base of every value that travels through the graph."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Model(BaseModel):
    """Immutable, and strict about its fields: a misspelt one is an error, never ignored."""

    model_config = ConfigDict(frozen=True, extra="forbid")
