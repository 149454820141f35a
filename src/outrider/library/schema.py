"""Schema of the table of records: conversion of a record to a row and back.

`record` holds the record as JSON, its body cut to `LEAD_CHARS` and without its edges: a search reads it for a hundred records.
`edges` holds the edges as JSON: a review cites hundreds of works. The other columns are copies for filters and indexes. A missing value
(None, empty string, empty list) is NULL.

All text indexes hold folded text (`text.strip_markup`), as the evaluator compares it. A body may be long and is mostly stored once:
`exact_text` holds it folded, and `text` only where the original differs.

The column `exact_other` holds the words that no other exact index holds: names, numbers and kinds. So every word that a query may name
is indexed. A candidate for a leaf of a query is a row with the leaf's words in the leaf's columns. That loses nothing as long as the index
splits a text as the evaluator does. Over regular characters it does, which was measured on each of them and on random mixtures
(`tests/library/exact/test_plan.py`); a record that holds others carries `ODD` and is a candidate for every query.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter

from outrider.boolean.document import normal_doi, read_texts
from outrider.boolean.field_values import author_initials
from outrider.state.boolean import Field
from outrider.state.errors import BadRequest
from outrider.state.filters import INT64
from outrider.state.records import BaseRecord, Paper, Record
from outrider.text.strip_markup import fold_text

if TYPE_CHECKING:
    import pyarrow as pa

FORMAT = 3
"""Rises when an older Outrider cannot read the rows of this one, or when indexes hold other words. Format 1 held the edges in `record`, the
indexes of format 2 held text with its markup and invisible characters."""
FORMAT_KEY = "outrider.format"
ID_KEY = "outrider.library_id"
PRIMARY_KEY = {"lance-schema:unenforced-primary-key:position": "1"}
"""Field metadata that `set_unenforced_primary_key` writes. In the schema from the start, so that no process writes before it."""

LEAD_CHARS = 4_000
RANKED_AUTHORS = 50
"""Of a record, in the ranking index."""
BRIEF = ["record"]
WITH_EDGES = [*BRIEF, "edges"]
BODY = ["text", "exact_text"]
"""`join_body` makes the whole body of them."""
FULL = [*WITH_EDGES, *BODY]

EXACT_FIELDS = {"title": "exact_title", "abstract": "exact_abstract", "text": "exact_text", "keywords": "exact_keywords"}
TAGS, OTHER = "exact_tags", "exact_other"
"""Keywords without headings; names, numbers and kinds. Only for exact search. Both are NULL in rows of an earlier Outrider that did not
know them, and a library created by it lacks the columns: exact search reads those rows themselves. Else `OTHER` is never NULL."""
RANKED = "rank_text"
RANKED_INDEX = f"{RANKED}_idx"
BTREE = ("doc_id", "year", "venue")
BITMAP = ("kind", "language")

ODD = "xqoddqx"
"""A word of rows whose texts the index may split otherwise than the evaluator."""
SEPARATOR = "\nxqsepqx\n"
"""A word between joined parts in the exact indexes: a phrase does not run from one keyword into the next."""
_IRREGULAR = re.compile(
    "[^\x00-\x7f\u00a0-\u02af\u0370-\u0373\u0376-\u0482\u048a-\u052f\u1e00-\u1fff"  # Latin, Greek, Cyrillic
    "\u2010-\u2027\u2030-\u205e\u2070-\u209c\u20a0-\u20bf\u2190-\u22ff\u2460-\u2473\u25a0-\u25ff"  # punctuation, numbers, signs
    "\u3001-\u3007\u3041-\u3096\u30a1-\u30fa\u30fc\u3400-\u4dbf\u4e00-\u9fff"  # kana, Han
    "\uac00-\ud7a3\ufb00-\ufb06\uff01-\uff5e]"  # Hangul, ligatures, full width
)
_OTHER_FIELDS = (
    Field.AUTHOR, Field.JOURNAL, Field.PUBLICATION_TYPE, Field.PMID, Field.DOI, Field.VOLUME, Field.ISSUE, Field.PAGES,
)  # fmt: skip

RECORDS: TypeAdapter[list[Record]] = TypeAdapter(list[Record])


def build_schema(library_id: str) -> pa.Schema:
    """The columns of the table of records; its metadata hold the format and the id of the library."""
    import pyarrow as pa

    strings = [pa.field(name, pa.string()) for name in ("title", "venue", "language", "url", "origin", "doi", "pmid", "arxiv")]
    numbers = [pa.field(name, pa.int64()) for name in ("year", "citations", "stars")]
    lists = [pa.field(name, pa.list_(pa.string())) for name in ("authors", "tags", "mesh")]
    bodies = [pa.field(name, pa.large_string()) for name in ("record", "edges", "text", *EXACT_FIELDS.values(), TAGS, OTHER, RANKED)]
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
    """Values by column, for all columns of `build_schema`."""
    mesh = record.mesh if isinstance(record, Paper) else ()
    # each text is folded by itself, as the evaluator does: a `$` of one abstract closes no formula in the next
    tags, headings = list(map(fold_text, record.tags)), list(map(fold_text, mesh))
    abstracts = [fold_text(part) for part in (record.abstract, record.description) if part]
    title, body = fold_text(record.title), fold_text(record.text)
    # The title is there twice in the ranking index: measured better or equal on all of SciFact, Cranfield, CISI and CACM.
    # a request may be a name; the thousands of a collaboration would only make the text long
    authors = ", ".join(map(fold_text, record.authors[:RANKED_AUTHORS]))
    ranked = (title, title, *abstracts, ", ".join((*tags, *headings)), authors, body)
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
        "record": _build_json(record),
        "edges": _dump_compact([edge.model_dump() for edge in record.edges]) if record.edges else None,
        "text": record.text if record.text != body else None,
        "exact_title": title or None,
        "exact_abstract": SEPARATOR.join(abstracts) if abstracts else None,
        "exact_text": body or None,
        "exact_keywords": SEPARATOR.join((*tags, *headings)) or None,
        TAGS: SEPARATOR.join(tags) or None,
        OTHER: other_words(record, (title, *abstracts, *tags, *headings, body)),
        RANKED: "\n".join(part for part in ranked if part),
    }


def brief_records(columns: Mapping[str, Sequence[Any]]) -> list[Record]:
    """Records whose body is cut to `LEAD_CHARS` and whose edges are left out, from the columns `BRIEF`."""
    return RECORDS.validate_json("[" + ",".join(columns["record"]) + "]")


def records_with_edges(columns: Mapping[str, Sequence[Any]]) -> list[Record]:
    """Records whose body is cut, from the columns `WITH_EDGES`."""
    pairs = zip(columns["record"], columns["edges"], strict=True)
    return brief_records({"record": [f'{record[:-1]},"edges":{edges}}}' if edges else record for record, edges in pairs]})


def full_records(columns: Mapping[str, Sequence[Any]]) -> list[Record]:
    """Whole records, from the columns `FULL`."""
    pairs = zip(records_with_edges(columns), map(join_body, columns["text"], columns["exact_text"]), strict=True)
    return [record if len(text) <= LEAD_CHARS else record.model_copy(update={"text": text}) for record, text in pairs]


def join_body(text: str | None, exact_text: str | None) -> str:
    """A record's whole body, from the columns `BODY`; empty for none."""
    return text or exact_text or ""


def _build_json(record: Record) -> str:
    fields = record.model_dump(exclude={"edges"}, exclude_defaults=True)
    if record.text:
        fields["text"] = record.text[:LEAD_CHARS]
    return _dump_compact({"kind": record.kind, **fields})


def _dump_compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _int64(value: int | None) -> int | None:
    """The nearest number that a column holds: comparisons with any int64 but the outermost two come out the same."""
    return None if value is None else min(max(value, INT64[0]), INT64[-1])


def other_words(record: BaseRecord, indexed: Iterable[str]) -> str:
    """Every text that is in no other exact column, folded, with the forms in which a query may name it; never NULL, but empty for none.

    `indexed` are the record's folded texts in the other exact columns.
    """
    own = [fold_text(text) for name in _OTHER_FIELDS for text in read_texts(record, name)]
    qualified = record.metadata.get("mesh_qualified")
    if isinstance(qualified, list | tuple):
        own += [fold_text(text) for text in qualified if isinstance(text, str)]
    own += [" ".join(author_initials(author)) for author in read_texts(record, Field.AUTHOR)]
    own += [number.lstrip("0") for number in read_texts(record, Field.PMID)]
    own += [normal_doi(doi) for doi in read_texts(record, Field.DOI)]  # compared as it is, so not folded
    if any(map(is_irregular, (*own, *indexed))):
        own.append(ODD)
    return SEPARATOR.join(own)


def is_irregular(text: str) -> bool:
    """Whether the index may split the folded text otherwise than the evaluator."""
    return not text.isascii() and _IRREGULAR.search(text) is not None
