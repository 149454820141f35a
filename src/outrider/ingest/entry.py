"""Entries that a reader yields one at a time, and the limits under which it reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from outrider.settings.model import IngestSettings
from outrider.state.records import Paper, Record
from outrider.text.encoding import Encoding

DEFAULTS = IngestSettings()
OVERHEAD_BYTES = 500
"""Of a record, besides its texts."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One record as read. Its `doc_id` is still empty: the pipeline makes it from file and own id."""

    record: Record
    own_id: str | None = None
    cited: tuple[Paper, ...] = ()
    """What its reference list says of works that have an identifier; they are no records."""


@dataclass(frozen=True, slots=True)
class BadEntry:
    """One entry of a file that could not be read. The others are read."""

    where: str
    why: str
    empty: bool = False
    """The entry held nothing, so nothing is lost: the report names it and does not count it as failed."""


@dataclass(frozen=True, slots=True)
class FileNote:
    """What a reader noticed about the whole file, for a person: nothing is lost."""

    text: str


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Limits and column names for one run of ingestion."""

    columns: Mapping[str, str] = field(default_factory=dict)
    """Field of a record -> column of the file, from `--map`."""
    max_bytes: int = DEFAULTS.max_bytes
    """A larger file, or an archive that unpacks to more, is refused."""
    max_pages: int = DEFAULTS.max_pages
    """A PDF is read up to this page, and the record states it."""
    on_encoding: Callable[[Encoding], None] | None = field(default=None, compare=False)
    """Called once for each text file, before its entries are read."""


Parsed = Entry | BadEntry | FileNote
Reader = Callable[[Path, ReadOptions], Iterator[Parsed]]
"""Reads lazily. Raises `UnreadableFile` for a file that is not of its format."""


def estimate_bytes(record: Record) -> int:
    """Estimate the bytes that a record takes, without encoding it."""
    lists = (record.authors, record.tags)
    return (
        OVERHEAD_BYTES
        + sum(map(len, (record.title, record.description, record.abstract, record.text)))
        + sum(len("".join(words)) + 50 * len(words) for words in lists)
        + 100 * len(record.edges)
        + len(str(record.metadata))
    )
