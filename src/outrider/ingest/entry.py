"""What a reader yields, one entry at a time, so that no file is ever held whole."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from outrider.settings.model import IngestSettings
from outrider.state.records import Record

DEFAULTS = IngestSettings()


@dataclass(frozen=True, slots=True)
class Entry:
    """One record as read. Its `doc_id` is still empty: the pipeline names it from file and own id."""

    record: Record
    own_id: str | None = None


@dataclass(frozen=True, slots=True)
class BadEntry:
    """One entry of a file that could not be read; the others go on."""

    where: str
    why: str
    empty: bool = False
    """Nothing was lost: there was nothing in it. The report says so, and does not count it as failed."""


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Bounds and column names for one run of ingestion."""

    columns: Mapping[str, str] = field(default_factory=dict)
    """Our field name -> the file's column, from `--map`."""
    max_bytes: int = DEFAULTS.max_bytes
    """A file, or what an archive unpacks to, is refused beyond this."""
    max_pages: int = DEFAULTS.max_pages
    """A PDF is read up to this page, and the record says so."""


Parsed = Entry | BadEntry
Reader = Callable[[Path, ReadOptions], Iterator[Parsed]]
"""Reads lazily; raises `UnreadableFile` for a file that is not what it seems."""
