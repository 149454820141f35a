"""Base class of the export formats, which write records one by one and store none of them."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import TextIO

from pydantic import JsonValue

from outrider.ingest.field_values import format_scalar, one_line, parse_list
from outrider.state.notices import NOTES, list_notices
from outrider.state.records import BaseRecord


class Writer(ABC):
    """Call `begin()`, then `record(...)` for each record, then `end()`. The stream is text, opened with `newline=""`."""

    shortened = 0
    """Values that the format cannot hold whole, and that were cut."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def begin(self) -> None:  # noqa: B027 - most formats have no head
        """Writes the text before the first record."""

    @abstractmethod
    def record(self, record: BaseRecord) -> None: ...

    def end(self) -> None:  # noqa: B027 - most formats have no tail
        """Writes the text after the last record."""


def find_link(record: BaseRecord, *, has_arxiv: bool = False) -> str | None:
    """The address of a record, else that of a number that the format has no field for. `has_arxiv`: it has one for arXiv's.

    OpenAlex' number is written where there is no other: a work that is known from citations alone may have nothing else.
    """
    ids = record.identifiers
    if record.url or (ids.arxiv and has_arxiv):
        return record.url
    if ids.arxiv:
        return f"https://arxiv.org/abs/{ids.arxiv}"
    return f"https://openalex.org/{ids.openalex.upper()}" if ids.openalex and not (ids.doi or ids.pmid) else None


def list_own_notes(metadata: Mapping[str, JsonValue], names: Iterable[str] = NOTES) -> list[str]:
    """The texts in fields with notes."""
    values = [value if isinstance(value := metadata.get(name), list) else [value] for name in names]
    return [text for items in values for item in items if (text := format_scalar(item))]


def list_new_notes(record: BaseRecord, own: str) -> list[str]:
    """The notices of a record in words, without those that its `own` notes have."""
    metadata = {name: value for name, value in record.metadata.items() if name not in NOTES}
    texts = (notice.describe() for notice in list_notices(record.model_copy(update={"metadata": metadata})))
    return [text for text in texts if text not in own]


def make_note(record: BaseRecord) -> str:
    """The note of a bibliography's entry: the record's own, what it is retracted or corrected by, else the body of an untitled record."""
    texts = list_own_notes(record.metadata, ("note", "N1"))
    return "; ".join([*texts, *list_new_notes(record, "; ".join(texts))]) or format_untitled(record)


def join_keywords(keywords: Iterable[str]) -> str:
    """Keywords on one line, separated so that a reader finds the same; a semicolon within one becomes a comma."""
    words = [word.replace(";", ",") for keyword in keywords if (word := one_line(keyword))]
    # a lone keyword with a comma ends in a semicolon, else a reader would cut it; brackets open in one and closed in another need line ends
    forms = (", ".join(words), "; ".join(words), "; ".join(words) + ";", "\n".join(words) + ";")
    return next((form for form in forms if parse_list(form, commas=True) == tuple(words)), forms[1])


def format_untitled(record: BaseRecord) -> str:
    """The note for a record without title, abstract and description: its text, or its metadata as text; else empty.

    Without a note, such a record could not be read from a bibliography again, unless it has a number or an address.
    """
    if record.title or record.abstract or record.description:
        return ""
    ids = record.identifiers
    if record.text or record.url or any((ids.doi, ids.pmid, ids.pmcid, ids.isbn, ids.arxiv, ids.openalex)):
        return record.text
    return "; ".join(f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in record.metadata.items())
