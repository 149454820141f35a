"""What every export format is: something that takes records one by one and never holds them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TextIO

from outrider.state.records import BaseRecord


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
