"""Writing of vectors: embedding of records, their rows, and updates of stored rows.

A row holds the vector, a hash of the embedded text, the number of tokens that the model read, and copies of all columns that filters
know. With these copies a filter applies before the nearest are chosen, not after.
"""

from __future__ import annotations

import asyncio
import hashlib
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from outrider.library import schema
from outrider.library.filter_sql import in_list
from outrider.library.record_table import read_columns, read_content_hashes
from outrider.library.schema import to_row
from outrider.state.embedding import EmbeddedText, EmbeddingSpace, TokensRead
from outrider.state.errors import BadVectors
from outrider.state.filters import FIELDS
from outrider.state.ports import OnCount, TextEmbedder
from outrider.state.records import Record

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from lancedb.table import AsyncTable

VECTOR = "vector"
NO_TEXT = "holds no text to embed"


@dataclass(frozen=True, slots=True, eq=False)
class VectorRow:
    """A record with its vector of shape (d,), float32."""

    record: Record
    content_hash: str
    text_hash: str
    vector: np.ndarray
    read: TokensRead


def document_text(record: Record) -> str:
    """The text of a record that is embedded: all of it, never cut into pieces. Empty where there is none."""
    return "\n\n".join(part for part in (record.title, record.full_text()) if part.strip())


def text_hash(text: str) -> str:
    """Sha-256 of a text, in hexadecimal digits."""
    return hashlib.sha256(text.encode()).hexdigest()


def build_vector_schema(dimension: int) -> pa.Schema:
    """The columns of a table of vectors with `dimension` values of float32 each."""
    import pyarrow as pa

    copied = [field for field in schema.build_schema("") if field.name in FIELDS or field.name == "content_hash"]
    return pa.schema(
        [
            *copied,
            pa.field("text_hash", pa.string(), nullable=False),
            pa.field("tokens", pa.int64()),
            pa.field("tokens_of", pa.int64()),
            pa.field(VECTOR, pa.list_(pa.float32(), dimension), nullable=False),
        ]
    )


def to_table(rows: Sequence[VectorRow], dimension: int) -> pa.Table:
    """Rows with the columns of `build_vector_schema`."""
    import numpy as np
    import pyarrow as pa

    columns = build_vector_schema(dimension)
    values = [
        to_row(row.record, row.content_hash) | {"text_hash": row.text_hash, "tokens": row.read.tokens, "tokens_of": row.read.of}
        for row in rows
    ]
    flat = np.concatenate([row.vector for row in rows]).astype(np.float32, copy=False)
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(flat), type=columns.field(VECTOR).type)
    table = pa.Table.from_pylist(values, schema=columns.remove(columns.get_field_index(VECTOR)))
    return table.append_column(columns.field(VECTOR), vectors)


@dataclass(frozen=True, slots=True)
class EmbeddingReport:
    """Counts of a batch: `embedded` and `reused` vectors, and `cut` those of texts longer than the model's context."""

    embedded: int = 0
    reused: int = 0
    cut: int = 0
    without: Mapping[str, str] = field(default_factory=dict)
    """Why a record has no vector, by doc_id."""


@dataclass(frozen=True, slots=True)
class HashedText:
    """A record with its text to embed, and the hashes of both."""

    record: Record
    text: str
    content_hash: str
    text_hash: str


@dataclass(frozen=True, slots=True)
class Refusal:
    """A record that cannot have a vector."""

    text: HashedText
    reason: str


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows to write, records that keep their vector, and records that must have none."""

    rows: tuple[VectorRow, ...]
    reused: tuple[HashedText, ...]
    refused: tuple[Refusal, ...]

    def doc_ids(self) -> list[str]:
        texts = (*self.reused, *(one.text for one in self.refused))
        return [*(row.record.doc_id for row in self.rows), *(text.record.doc_id for text in texts)]

    def report(self) -> EmbeddingReport:
        cut = sum(is_cut(row.read) for row in self.rows)
        return EmbeddingReport(len(self.rows), len(self.reused), cut, {one.text.record.doc_id: one.reason for one in self.refused})

    def select_current(self, hashes: Mapping[str, str]) -> Batch:
        """Only records with these content hashes: those that were changed or removed meanwhile are left out."""

        def is_current(record: Record, content: str) -> bool:
            return hashes.get(record.doc_id) == content

        return Batch(
            tuple(row for row in self.rows if is_current(row.record, row.content_hash)),
            tuple(text for text in self.reused if is_current(text.record, text.content_hash)),
            tuple(one for one in self.refused if is_current(one.text.record, one.text.content_hash)),
        )


def hash_texts(records: Sequence[Record]) -> list[HashedText]:
    """Of several records with one id the last counts. `BadRequest` for text that is no Unicode text."""
    latest = {record.doc_id: record for record in records}
    hashed = [(record, schema.content_hash(record), document_text(record)) for record in latest.values()]
    return [HashedText(record, text, content, text_hash(text)) for record, content, text in hashed]


async def find_reusable(table: AsyncTable, texts: Sequence[HashedText]) -> frozenset[str]:
    """Ids of the records of which the table has a vector of this very text."""
    hashes = {text.record.doc_id: text.text_hash for text in texts}
    rows = read_columns(table, list(hashes), ["doc_id", "text_hash"])
    return frozenset([row["doc_id"] async for row in rows if row["text_hash"] == hashes[row["doc_id"]]])


async def embed_batch(texts: Sequence[HashedText], reusable: frozenset[str], embedder: TextEmbedder, progress: OnCount | None) -> Batch:
    """Vectors of all texts but those of the ids `reusable`. Raises `ModelError`; touches no table."""
    new = [text for text in texts if text.text and text.record.doc_id not in reusable]
    results = await embed_in_thread(embedder, [text.text for text in new], progress) if new else []
    rows = []
    refused = [Refusal(text, NO_TEXT) for text in texts if not text.text]
    for text, result in zip(new, results, strict=True):
        if problem := _find_problem(result, embedder.space):
            refused.append(Refusal(text, problem))
        elif result.vector is not None:
            rows.append(VectorRow(text.record, text.content_hash, text.text_hash, result.vector, result.read))
    return Batch(tuple(rows), tuple(text for text in texts if text.record.doc_id in reusable), tuple(refused))


def is_cut(read: TokensRead) -> bool:
    """Whether the vector stands for only the first tokens of its text."""
    return read.tokens is not None and read.of is not None and read.tokens < read.of


async def embed_in_thread(embedder: TextEmbedder, texts: Sequence[str], progress: OnCount | None) -> list[EmbeddedText]:
    """`progress` is called on the event loop. A cancelled call stops the model at its next batch, so that Ctrl-C does not wait."""
    loop = asyncio.get_running_loop()
    stopped = threading.Event()

    def report(count: int, total: int) -> None:
        if stopped.is_set():
            raise asyncio.CancelledError
        if progress is not None:
            loop.call_soon_threadsafe(progress, count, total)

    try:
        results = await asyncio.to_thread(embedder.embed_each, texts, "document", report)
    finally:
        stopped.set()
    if len(results) != len(texts):
        raise BadVectors(f"{embedder.space.model_name} gave {len(results):,} vectors for {len(texts):,} texts")
    return results


def _find_problem(result: EmbeddedText, space: EmbeddingSpace) -> str:
    """Why this vector cannot be stored; empty where it can."""
    import numpy as np

    if (vector := result.vector) is None:
        return result.problem or f"{space.model_name} gave no vector"
    if vector.shape != (space.dimension,):
        raise BadVectors(f"{space.model_name} gave a vector of shape {vector.shape} instead of ({space.dimension},)")
    if not np.isfinite(vector).all():
        return f"{space.model_name} gave a vector with values that are not numbers"
    return "" if vector.any() else f"{space.model_name} gave a vector of zeros"


async def write_batch(table: AsyncTable, batch: Batch) -> None:
    """One commit for the rows; a record that cannot have a vector loses an older one. Only under the library's lock."""
    stale = in_list("doc_id", [one.text.record.doc_id for one in batch.refused])
    if batch.refused and await table.count_rows(stale):
        await table.delete(stale)
    await _merge_rows(table, (*batch.rows, *await _refresh_rows(table, batch.reused)))


async def drop_outdated(table: AsyncTable, records: Sequence[Record], hashes: Mapping[str, str]) -> None:
    """Make the rows agree with records that are about to be written: one whose text has changed loses its vector.

    Nothing is left to do where they were embedded before.
    """
    rows = read_columns(table, [record.doc_id for record in records], ["doc_id", "content_hash", "text_hash"])
    outdated = {row["doc_id"]: row["text_hash"] async for row in rows if row["content_hash"] != hashes[row["doc_id"]]}
    texts = hash_texts([record for record in records if record.doc_id in outdated])
    stale = [text.record.doc_id for text in texts if text.text_hash != outdated[text.record.doc_id]]
    if stale:
        await table.delete(in_list("doc_id", stale))
    await _merge_rows(table, await _refresh_rows(table, texts))


async def _refresh_rows(table: AsyncTable, texts: Sequence[HashedText]) -> list[VectorRow]:
    """Rows of records whose text is unchanged but something else is not, with their stored vector."""
    import numpy as np

    by_id = {text.record.doc_id: text for text in texts}
    stored = await read_content_hashes(table, list(by_id))
    changed = [doc_id for doc_id, content in stored.items() if content != by_id[doc_id].content_hash]
    rows = []
    async for row in read_columns(table, changed, ["doc_id", "text_hash", "tokens", "tokens_of", VECTOR]):
        text = by_id[row["doc_id"]]
        if row["text_hash"] == text.text_hash:
            read = TokensRead(tokens=row["tokens"], of=row["tokens_of"])
            vector = np.asarray(row[VECTOR], dtype=np.float32)
            rows.append(VectorRow(text.record, text.content_hash, text.text_hash, vector, read))
    return rows


async def _merge_rows(table: AsyncTable, rows: Sequence[VectorRow]) -> None:
    if rows:
        new = await asyncio.to_thread(to_table, rows, rows[0].vector.shape[0])
        await table.merge_insert("doc_id").when_matched_update_all().when_not_matched_insert_all().execute(new)
