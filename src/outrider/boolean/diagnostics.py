"""Syntax errors and warnings about a Boolean query, with their places."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from outrider.state.boolean import Span
from outrider.state.errors import BadRequest

SHOWN = 60
"""Characters of a line on each side of the place of an error."""


class BooleanSyntaxError(BadRequest):
    """A query that cannot be parsed. `line` and `column` count from 1; the message shows the place with a caret under it."""

    def __init__(self, problem: str, text: str, at: int, expected: Sequence[str] = ()) -> None:
        self.problem, self.expected = problem, tuple(expected)
        self.line, self.column = find_place(text, at)
        *others, last = expected or [""]
        alternatives = f"{', '.join(others)} or {last}" if others else last
        hint = f"; expected {alternatives}" if expected else ""
        super().__init__(f"line {self.line}, column {self.column}: {problem}{hint}\n{show_place(text, at)}")


def find_place(text: str, at: int) -> tuple[int, int]:
    """Line and column of an offset, both from 1."""
    starts = [0, *(end + 1 for end, char in enumerate(text) if char == "\n")]
    line = bisect_right(starts, at)
    return line, at - starts[line - 1] + 1


def show_place(text: str, at: int) -> str:
    """The part of the line around an offset, and a caret under the place."""
    start = text.rfind("\n", 0, at) + 1
    end = text.find("\n", at)
    line = text[start : end if end >= 0 else len(text)]
    column = at - start
    first, last = max(0, column - SHOWN), column + SHOWN
    before = ("…" if first else "") + line[first:column]
    after = line[column:last] + ("…" if last < len(line) else "")
    shown = "".join(char if char.isprintable() else " " for char in before + after)
    return f"  {shown}\n  {' ' * len(before)}^"


Code = Literal[
    "mixed operators", "quotes", "mapped by PubMed", "missing operator", "operator in lower case", "not in a library", "unsupported",
    "hyphen", "short truncation", "explosion", "major topic", "only years", "unused line", "empty",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Finding:
    """A warning, with the place (from 1) of its first occurrence and the number of occurrences."""

    code: Code
    message: str
    line: int
    column: int
    times: int = 1

    def __str__(self) -> str:
        count = f" ({self.times} times)" if self.times > 1 else ""
        return f"line {self.line}, column {self.column}: {self.message}{count}"


@dataclass(slots=True)
class Findings:
    """Collects the warnings about one query; equal warnings are counted."""

    text: str
    _offsets: dict[tuple[Code, str], list[int]] = field(default_factory=dict)

    def add(self, code: Code, message: str, at: Span | int) -> None:
        self._offsets.setdefault((code, message), []).append(at if isinstance(at, int) else at.start)

    def all(self) -> tuple[Finding, ...]:
        """In the order of their places, then of their messages."""
        findings = sorted((min(offsets), code, message, len(offsets)) for (code, message), offsets in self._offsets.items())
        return tuple(Finding(code, message, *find_place(self.text, at), times=times) for at, code, message, times in findings)
