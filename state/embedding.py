"""Embedding spaces, in which vectors are comparable, and embedded texts."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple

from pydantic import Field

from outrider.state.model import Model

if TYPE_CHECKING:
    import numpy as np

TextRole = Literal["query", "document"]


class EmbeddingSpace(Model):
    """Vectors compare only within one space. `model_name` is for people; the other fields decide."""

    model_name: str
    revision: str = Field(description="Commit of the weights, or sha256 of local ones; the served name if an endpoint gives no more.")
    dimension: int = Field(ge=1)
    context_length: int = Field(ge=1, description="Tokens of a text that are read; the rest is ignored.")
    query_prompt: str = ""
    document_prompt: str = ""
    pooling: str = ""
    normalized: bool = True

    NOT_IDENTITY: ClassVar[frozenset[str]] = frozenset({"model_name"})

    @property
    def id(self) -> str:
        """16 hexadecimal digits, the same for the same space wherever its weights are stored."""
        return _compute_id(self)


@lru_cache(maxsize=100)
def _compute_id(space: EmbeddingSpace) -> str:
    identity = space.model_dump(mode="json", exclude=set(space.NOT_IDENTITY))
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:16]


class TokensRead(NamedTuple):
    """Tokens of a record that its vector covers, and all of them; None if an endpoint does not report them."""

    tokens: int | None = None
    of: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class EmbeddedText:
    """One text's vector, shape (d,), float32; or None with the problem."""

    vector: np.ndarray | None
    read: TokensRead = field(default_factory=TokensRead)
    problem: str = ""
