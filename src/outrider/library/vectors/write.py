"""A vector's row: what was embedded, how much of it the model read, and copies of all columns that filters know.

With these copies a filter applies before the nearest are chosen, not after.

Records to rows of vectors: what is embedded anew, what keeps its vector, what cannot have one.
"""

from __future__ import annotations

import asyncio
import hashlib
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from outrider.library import record_reader as reading
from outrider.library import schema
from outrider.library.filter_sql import any_of
from outrider.library.schema import arrow_schema, to_row
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


NO_TEXT = "holds no text to embed"


@dataclass(frozen=True, slots=True)
class Embedded:
    """What became of a batch. `embedded` and `reused` count vectors, `cut` those of texts longer than the model's context."""

    embedded: int = 0
    reused: int = 0
    cut: int = 0
    without: Mapping[str, str] = field(default_factory=dict)
    """Why a record has no vector, by doc_id."""


@dataclass(frozen=True, slots=True)
class Text:
    """A record on its way to a vector."""

    record: Record
    text: str
    content_hash: str
    text_hash: str


@dataclass(frozen=True, slots=True)
class Refused:
    """A record that cannot have a vector."""

    text: Text
    why: str


@dataclass(frozen=True, slots=True)
class Batch:
    """What is to be written: new rows, rows that keep their vector, and what must have none."""

    rows: tuple[Row, ...]
    kept: tuple[Text, ...]
    refused: tuple[Refused, ...]

    @property
    def done(self) -> Embedded:
        cut = sum(is_cut(row.read) for row in self.rows)
        return Embedded(len(self.rows), len(self.kept), cut, {one.text.record.doc_id: one.why for one in self.refused})

    def only(self, hashes: Mapping[str, str]) -> Batch:
        """What still is as these content hashes say: a record that was changed or removed meanwhile is left out."""

        def stands(record: Record, content: str) -> bool:
            return hashes.get(record.doc_id) == content

        return Batch(
            tuple(row for row in self.rows if stands(row.record, row.content_hash)),
            tuple(text for text in self.kept if stands(text.record, text.content_hash)),
            tuple(one for one in self.refused if stands(one.text.record, one.text.content_hash)),
        )


def texts_of(records: Sequence[Record]) -> list[Text]:
    """Of several records with one id the last counts. `BadRequest` for text that is no Unicode text."""
    latest = {record.doc_id: record for record in records}
    hashed = [(record, schema.content_hash(record), document_text(record)) for record in latest.values()]
    return [Text(record, text, content, text_hash(text)) for record, content, text in hashed]


async def known(table: AsyncTable, texts: Sequence[Text]) -> frozenset[str]:
    """Ids of the records whose very text the table has a vector of."""
    wanted = {text.record.doc_id: text.text_hash for text in texts}
    rows = reading.columns_of(table, list(wanted), ["doc_id", "text_hash"])
    return frozenset([row["doc_id"] async for row in rows if row["text_hash"] == wanted[row["doc_id"]]])


async def made(texts: Sequence[Text], kept: frozenset[str], embedder: TextEmbedder, progress: OnCount | None) -> Batch:
    """Vectors of all texts but those `kept`. Raises `ModelError`; touches no table."""
    new = [text for text in texts if text.text and text.record.doc_id not in kept]
    results = await in_thread(embedder, [text.text for text in new], progress) if new else []
    rows = []
    refused = [Refused(text, NO_TEXT) for text in texts if not text.text]
    for text, result in zip(new, results, strict=True):
        if problem := _problem(result, embedder.space):
            refused.append(Refused(text, problem))
        elif result.vector is not None:
            rows.append(Row(text.record, text.content_hash, text.text_hash, result.vector, result.read))
    return Batch(tuple(rows), tuple(text for text in texts if text.record.doc_id in kept), tuple(refused))


def is_cut(read: TokensRead) -> bool:
    return read.tokens is not None and read.of is not None and read.tokens < read.of


async def in_thread(embedder: TextEmbedder, texts: Sequence[str], progress: OnCount | None) -> list[EmbeddedText]:
    """`progress` is called on the event loop. A cancelled call stops the model at its next batch, so that Ctrl-C does not wait."""
    loop = asyncio.get_running_loop()
    stopped = threading.Event()

    def told(done: int, of: int) -> None:
        if stopped.is_set():
            raise asyncio.CancelledError
        if progress is not None:
            loop.call_soon_threadsafe(progress, done, of)

    try:
        results = await asyncio.to_thread(embedder.embed_each, texts, "document", told)
    finally:
        stopped.set()
    if len(results) != len(texts):
        raise BadVectors(f"{embedder.space.model_name} gave {len(results):,} vectors for {len(texts):,} texts")
    return results


def _problem(result: EmbeddedText, space: EmbeddingSpace) -> str:
    import numpy as np

    if (vector := result.vector) is None:
        return result.problem or f"{space.model_name} gave no vector"
    if vector.shape != (space.dimension,):
        raise BadVectors(f"{space.model_name} gave a vector of shape {vector.shape} instead of ({space.dimension},)")
    if not np.isfinite(vector).all():
        return f"{space.model_name} gave a vector with values that are not numbers"
    return "" if vector.any() else f"{space.model_name} gave a vector of zeros"


async def write(table: AsyncTable, batch: Batch) -> None:
    """One commit for the rows; a record that cannot have a vector loses an older one. Only under the library's lock."""
    stale = any_of("doc_id", [one.text.record.doc_id for one in batch.refused])
    if batch.refused and await table.count_rows(stale):
        await table.delete(stale)
    rows = (*batch.rows, *await refreshed(table, batch.kept))
    if rows:
        await merge(table, rows)


async def merge(table: AsyncTable, rows: Sequence[Row]) -> None:
    dimension = rows[0].vector.shape[0]
    made = await asyncio.to_thread(to_table, rows, dimension)
    await table.merge_insert("doc_id").when_matched_update_all().when_not_matched_insert_all().execute(made)


async def refreshed(table: AsyncTable, texts: Sequence[Text]) -> list[Row]:
    """Rows of records whose text is the same but something else is not, with the vector that they have."""
    import numpy as np

    by_id = {text.record.doc_id: text for text in texts}
    held = {row["doc_id"]: row["content_hash"] async for row in reading.columns_of(table, list(by_id), ["doc_id", "content_hash"])}
    changed = [doc_id for doc_id, content in held.items() if content != by_id[doc_id].content_hash]
    rows = []
    async for row in reading.columns_of(table, changed, ["doc_id", "text_hash", "tokens", "tokens_of", VECTOR]):
        text = by_id[row["doc_id"]]
        if row["text_hash"] == text.text_hash:
            read = TokensRead(tokens=row["tokens"], of=row["tokens_of"])
            vector = np.asarray(row[VECTOR], dtype=np.float32)
            rows.append(Row(text.record, text.content_hash, text.text_hash, vector, read))
    return rows


async def follow(table: AsyncTable, records: Sequence[Record], hashes: Mapping[str, str]) -> None:
    """Make the rows agree with records that are about to be written: one whose text is another loses its vector.

    Nothing is left to do where they were embedded before.
    """
    rows = reading.columns_of(table, [record.doc_id for record in records], ["doc_id", "content_hash", "text_hash"])
    held = {row["doc_id"]: row["text_hash"] async for row in rows if row["content_hash"] != hashes[row["doc_id"]]}
    texts = texts_of([record for record in records if record.doc_id in held])
    stale = [text.record.doc_id for text in texts if text.text_hash != held[text.record.doc_id]]
    if stale:
        await table.delete(any_of("doc_id", stale))
    if fresh := await refreshed(table, texts):
        await merge(table, fresh)
