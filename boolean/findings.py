"""What a query's author should know of it before running it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from outrider.boolean.errors import place
from outrider.state.boolean import Span

Code = Literal[
    "mixed operators", "quotes", "mapped by PubMed", "missing operator", "operator in lower case", "not in a library", "unsupported",
    "hyphen", "short truncation", "explosion", "major topic", "only years", "unused line", "empty",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Finding:
    """One remark, with the place (from 1) where it first holds and how many times it holds."""

    code: Code
    message: str
    line: int
    column: int
    times: int = 1

    def __str__(self) -> str:
        often = f" ({self.times} times)" if self.times > 1 else ""
        return f"line {self.line}, column {self.column}: {self.message}{often}"


@dataclass(slots=True)
class Findings:
    """Collects remarks on one query; the same remark made again is counted."""

    text: str
    _found: dict[tuple[Code, str], list[int]] = field(default_factory=dict)

    def add(self, code: Code, message: str, at: Span | int) -> None:
        self._found.setdefault((code, message), []).append(at if isinstance(at, int) else at.start)

    def all(self) -> tuple[Finding, ...]:
        """In the order of their places, then of their words."""
        found = [(min(places), code, message, len(places)) for (code, message), places in self._found.items()]
        return tuple(Finding(code, message, *place(self.text, at), times=times) for at, code, message, times in sorted(found))
