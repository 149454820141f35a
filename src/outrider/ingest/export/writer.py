"""What every export format is: something that takes records one by one and never holds them."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from typing import TextIO

from outrider.state.records import BaseRecord


def scraps(record: BaseRecord) -> str:
    """What is left of a record without title and abstract in a format of bibliographies: its body, or its metadata as text.

    Empty for every other record. Without it such a record could not be read again.
    """
    if record.title or record.abstract or record.description:
        return ""
    return record.text or "; ".join(f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in record.metadata.items())


class Writer(ABC):
    """`begin()`, then `record(...)` for each, then `end()`. The stream is text, opened with `newline=""`."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def begin(self) -> None:  # noqa: B027 - most formats have no head
        """Writes what stands before the first record."""

    @abstractmethod
    def record(self, record: BaseRecord) -> None: ...

    def end(self) -> None:  # noqa: B027 - nor a tail
        """Writes what stands behind the last record."""
