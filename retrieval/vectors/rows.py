"""A vector's row: what was embedded, how much of it the model read, and copies of all columns that filters know.

With these copies a filter applies before the nearest are chosen, not after.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from outrider.retrieval.schema import arrow_schema, to_row
from outrider.state.embedding import TokensRead
from outrider.state.filters import FIELDS
from outrider.state.records import Record

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

VECTOR = "vector"


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """`vector` has shape (d,), float32."""

    record: Record
    content_hash: str
    text_hash: str
    vector: np.ndarray
    read: TokensRead


def document_text(record: Record) -> str:
    """What is embedded of a record: all its text, never cut into pieces. Empty where there is none."""
    return "\n\n".join(part for part in (record.title, record.full_text()) if part.strip())


def text_hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def vector_schema(dimension: int) -> pa.Schema:
    import pyarrow as pa

    copied = [field for field in arrow_schema("") if field.name in FIELDS or field.name == "content_hash"]
    return pa.schema(
        [
            *copied,
            pa.field("text_hash", pa.string(), nullable=False),
            pa.field("tokens", pa.int64()),
            pa.field("tokens_of", pa.int64()),
            pa.field(VECTOR, pa.list_(pa.float32(), dimension), nullable=False),
        ]
    )


def to_table(rows: Sequence[Row], dimension: int) -> pa.Table:
    import numpy as np
    import pyarrow as pa

    columns = vector_schema(dimension)
    said = [
        to_row(row.record, row.content_hash) | {"text_hash": row.text_hash, "tokens": row.read.tokens, "tokens_of": row.read.of}
        for row in rows
    ]
    flat = np.concatenate([row.vector for row in rows]).astype(np.float32, copy=False)
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(flat), type=columns.field(VECTOR).type)
    table = pa.Table.from_pylist(said, schema=columns.remove(columns.get_field_index(VECTOR)))
    return table.append_column(columns.field(VECTOR), vectors)
