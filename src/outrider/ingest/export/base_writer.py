"""Base class of the export formats, which write records one by one and store none of them."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from typing import TextIO

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


def format_untitled(record: BaseRecord) -> str:
    """The note for a record without title, abstract and description: its text, or its metadata as text; else empty.

    Without a note, such a record could not be read from a bibliography again.
    """
    if record.title or record.abstract or record.description:
        return ""
    return record.text or "; ".join(f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in record.metadata.items())
