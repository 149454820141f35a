"""Syntax errors and warnings about a Boolean query, with their places.

Warnings are about parts of a query that a library, or PubMed, may treat in an unexpected way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from outrider.boolean.field_tags import NAMES
from outrider.boolean.occurrences import WILD, stem_length
from outrider.state.boolean import LACKING, Dates, Heading, Leaf, Node, Pattern, Span, Text, Words, children
from outrider.state.errors import BadRequest

CONTEXT_CHARS = 60
"""Characters of a line on each side of the place of an error."""
Code = Literal[
    "mixed operators", "quotes", "mapped by PubMed", "missing operator", "operator in lower case", "not in a library", "unsupported",
    "hyphen", "short truncation", "explosion", "major topic", "only years", "unused line", "empty", "approximated", "platform",
    "missing values",
]  # fmt: skip
SHORTEST_STEM = 4
"""PubMed truncates from four characters on (User Guide, "Truncating search terms")."""


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
    return text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)


def show_place(text: str, at: int) -> str:
    """The part of the line around an offset, and a caret under the place."""
    start = text.rfind("\n", 0, at) + 1
    end = text.find("\n", at)
    line = text[start : end if end >= 0 else len(text)]
    column = at - start
    first, last = max(0, column - CONTEXT_CHARS), column + CONTEXT_CHARS
    before = ("…" if first else "") + line[first:column]
    after = line[column:last] + ("…" if last < len(line) else "")
    printable = "".join(char if char.isprintable() else " " for char in before + after)
    return f"  {printable}\n  {' ' * len(before)}^"


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


def add_remarks(tree: Node, findings: Findings) -> None:
    """Add the warnings about a tree to those about its text."""
    for leaf in iter_leaves(tree):
        match leaf:
            case Text():
                _remark_text(leaf, findings)
            case Heading(name, _, explode, major):
                if explode and name:
                    below = "databases also find the headings below this one; a library has no tree, and finds the heading itself only"
                    findings.add("explosion", below, leaf.at)
                if major:
                    unknown = "a record that does not say which of its headings are major matches by the heading, major or not"
                    findings.add("major topic", unknown, leaf.at)
            case Dates(_, _, "entry"):
                findings.add("not in a library", "a library has no dates of entry; years of publication are compared instead", leaf.at)
            case Dates(start, end) if any(date and len(date) > 4 for date in (start, end)):
                findings.add("only years", "a library stores only years; months and days are ignored", leaf.at)


def iter_leaves(tree: Node) -> Iterator[Leaf]:
    """Each leaf once, in the order of the query."""
    visited: set[int] = set()
    stack = [tree]
    while stack:
        node = stack.pop()
        if id(node) in visited:
            continue
        visited.add(id(node))
        below = children(node)
        stack += reversed(below)
        if not below:
            yield node  # type: ignore[misc] # a node without children is a leaf


def find_empty_terms(tree: Node, hits: Callable[[Node], int | None], text: str) -> tuple[Finding, ...]:
    """A warning for each leaf without a hit. `hits` counts those of a node; None means unknown."""
    findings = Findings(text)
    for leaf in iter_leaves(tree):
        if hits(leaf) == 0:
            findings.add("empty", "this term matches nothing", leaf.at)
    return findings.all()


def iter_words(pattern: Pattern) -> Iterator[str]:
    """Every word of a pattern, with its wildcards, in order."""
    if isinstance(pattern, Words):
        yield from pattern.words
    else:
        for part in pattern.parts:
            yield from iter_words(part)


def _remark_text(leaf: Text, findings: Findings) -> None:
    for name in leaf.fields:
        if name in LACKING:
            findings.add("not in a library", f"a library has no field [{NAMES[name,]}]: nothing in it matches", leaf.at)
    for word in iter_words(leaf.pattern):
        if "-" in word:
            findings.add("hyphen", "a hyphen is read as a blank: the words around it stand next to each other", leaf.at)
        sign = WILD.search(word)
        if sign and sign.start() == 0:
            findings.add("unsupported", "PubMed ignores truncation at the start of a word; a library does not", leaf.at)
        elif sign and stem_length(word) < SHORTEST_STEM and sign.group() == "*":
            findings.add(
                "short truncation", f"PubMed truncates from {SHORTEST_STEM} characters on; a library takes fewer, and finds much", leaf.at
            )
