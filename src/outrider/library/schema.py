"""How a record lies in a row, and how it comes back.

`record` holds the record as JSON, its body cut to `LEAD_CHARS` and without its edges: what a search reads of a hundred records.
`text` holds the whole body, `edges` the edges as JSON: a review cites hundreds of works. The other columns are copies for filters
and indexes. A missing value (None, empty string, empty list) is NULL.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter

from outrider.library.exact.other_words import SEPARATOR, other_words
from outrider.state.errors import BadRequest
from outrider.state.filters import INT64
from outrider.state.records import Paper, Record

if TYPE_CHECKING:
    import pyarrow as pa

FORMAT = 2
"""Raised when an older Outrider could not read what this one writes. 1 held the edges in `record`."""
FORMAT_KEY = "outrider.format"
ID_KEY = "outrider.library_id"
PRIMARY_KEY = {"lance-schema:unenforced-primary-key:position": "1"}
"""Field metadata that `set_unenforced_primary_key` writes; in the schema from the start, no other process can get in between."""

LEAD_CHARS = 4_000
BRIEF = ["record"]
WITH_EDGES = [*BRIEF, "edges"]
FULL = [*WITH_EDGES, "text"]

EXACT_FIELDS = {"title": "title", "abstract": "exact_abstract", "text": "text", "keywords": "exact_keywords"}
TAGS, OTHER = "exact_tags", "exact_other"
"""Keywords without headings; names, numbers and kinds. Only for exact search. Both are NULL in rows that an Outrider wrote which did not
know them, and a library that such a one made lacks the columns: exact search reads those rows themselves. Else `OTHER` is never NULL."""
RANKED = "rank_text"
BTREE = ("doc_id", "year", "venue")
BITMAP = ("kind", "language")

RECORDS: TypeAdapter[list[Record]] = TypeAdapter(list[Record])


def arrow_schema(library_id: str) -> pa.Schema:
    import pyarrow as pa

    strings = [pa.field(name, pa.string()) for name in ("title", "venue", "language", "url", "origin", "doi", "pmid", "arxiv")]
    numbers = [pa.field(name, pa.int64()) for name in ("year", "citations", "stars")]
    lists = [pa.field(name, pa.list_(pa.string())) for name in ("authors", "tags", "mesh")]
    bodies = [
        pa.field(name, pa.large_string()) for name in ("record", "edges", "text", "exact_abstract", "exact_keywords", TAGS, OTHER, RANKED)
    ]
    return pa.schema(
        [
            pa.field("doc_id", pa.string(), nullable=False, metadata=PRIMARY_KEY),
            pa.field("kind", pa.string(), nullable=False),
            pa.field("content_hash", pa.string(), nullable=False),
            *strings,
            *numbers,
            *lists,
            *bodies,
        ],
        metadata={FORMAT_KEY: str(FORMAT), ID_KEY: library_id},
    )


def content_hash(record: Record) -> str:
    """The record's content hash; `BadRequest` for text that is no Unicode text, which no file format can hold."""
    try:
        return record.content_hash()
    except UnicodeEncodeError as error:
        raise BadRequest(f"record {record.doc_id!r} holds a lone surrogate {error.object[error.start]!r}; it cannot be stored") from error


def to_row(record: Record, content_hash: str) -> dict[str, object]:
    mesh = record.mesh if isinstance(record, Paper) else ()
    keywords = [*record.tags, *mesh]
    abstracts = [part for part in (record.abstract, record.description) if part]
    return {
        "doc_id": record.doc_id,
        "kind": record.kind,
        "content_hash": content_hash,
        "title": record.title or None,
        "venue": record.venue or None,
        "language": record.language or None,
        "url": record.url or None,
        "origin": record.origin or None,
        "doi": record.identifiers.doi or None,
        "pmid": record.identifiers.pmid or None,
        "arxiv": record.identifiers.arxiv or None,
        "year": _int64(record.year),
        "citations": _int64(record.citations),
        "stars": _int64(record.stars),
        "authors": list(record.authors) or None,
        "tags": list(record.tags) or None,
        "mesh": list(mesh) or None,
        "record": _json(record),
        "edges": _compact([edge.model_dump() for edge in record.edges]) if record.edges else None,
        "text": record.text or None,
        "exact_abstract": SEPARATOR.join(abstracts) or None,
        "exact_keywords": SEPARATOR.join(keywords) or None,
        TAGS: SEPARATOR.join(record.tags) or None,
        OTHER: other_words(record),
        RANKED: _rank_text(record, abstracts, keywords),
    }


def brief_records(columns: Mapping[str, Sequence[Any]]) -> list[Record]:
    """Records whose body is cut to `LEAD_CHARS` and whose edges are left out, from the columns `BRIEF`."""
    return RECORDS.validate_json("[" + ",".join(columns["record"]) + "]")


def records_with_edges(columns: Mapping[str, Sequence[Any]]) -> list[Record]:
    """Records whose body is cut, from the columns `WITH_EDGES`."""
    pairs = zip(columns["record"], columns["edges"], strict=True)
    return brief_records({"record": [f'{record[:-1]},"edges":{edges}}}' if edges else record for record, edges in pairs]})


def full_records(columns: Mapping[str, Sequence[Any]]) -> list[Record]:
    """Records as they were given, from the columns `FULL`."""
    pairs = zip(records_with_edges(columns), columns["text"], strict=True)
    return [record if len(text or "") <= LEAD_CHARS else record.model_copy(update={"text": text}) for record, text in pairs]


def _json(record: Record) -> str:
    said = record.model_dump(exclude={"edges"}, exclude_defaults=True)
    if record.text:
        said["text"] = record.text[:LEAD_CHARS]
    return _compact({"kind": record.kind, **said})


def _compact(said: object) -> str:
    return json.dumps(said, ensure_ascii=False, separators=(",", ":"))


def _rank_text(record: Record, abstracts: list[str], keywords: list[str]) -> str:
    """What the ranking index reads. The title stands twice: measured better or equal on all of SciFact, Cranfield, CISI and CACM."""
    return "\n".join(part for part in (record.title, record.title, *abstracts, ", ".join(keywords), record.text) if part)


def _int64(value: int | None) -> int | None:
    """The nearest number that a column holds: comparisons with any int64 but the outermost two come out the same."""
    return None if value is None else min(max(value, INT64[0]), INT64[-1])
