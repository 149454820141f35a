"""A parsed query for the eye: its tree as indented text, and its parts as the lines of a search history with their hits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from outrider.boolean.printer import format_tree
from outrider.state.boolean import And, Node, Not, Or, children

_NAMES: dict[type, str] = {And: "AND", Or: "OR", Not: "NOT"}


def outline(tree: Node, indent: int = 2) -> str:
    """One operand a line, two blanks deeper for each level."""
    return "\n".join(f"{' ' * indent * depth}{said}" for depth, said in _outlined(tree, 0))


def _outlined(node: Node, depth: int) -> list[tuple[int, str]]:
    name = _NAMES.get(type(node))
    if name is None:
        return [(depth, format_tree(node))]
    return [(depth, name), *(line for child in children(node) for line in _outlined(child, depth + 1))]


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a search history: `said` names earlier lines as `#3`. `hits` is None where nobody counted."""

    number: int
    expression: str
    node: Node
    hits: int | None = None


def history(tree: Node, hits: Callable[[Node], int | None] | None = None) -> tuple[Row, ...]:
    """Every part of the tree on a line of its own, operands before what joins them; the last line is the whole.

    A part that stands in the tree several times has one line. `hits` counts the records that a part matches.
    """
    rows: list[Row] = []
    numbers: dict[str, int] = {}
    known: dict[int, int] = {}

    def added(node: Node) -> int:
        if id(node) in known:
            return known[id(node)]
        said = _joined(node, [added(child) for child in children(node)])
        if said not in numbers:
            numbers[said] = len(rows) + 1
            rows.append(Row(len(rows) + 1, said, node, hits(node) if hits else None))
        known[id(node)] = numbers[said]
        return numbers[said]

    added(tree)
    return tuple(rows)


def _joined(node: Node, numbers: list[int]) -> str:
    match node:
        case Not():
            return f"NOT #{numbers[0]}"
        case And() | Or():
            return f" {_NAMES[type(node)]} ".join(f"#{number}" for number in numbers)
    return format_tree(node)


def format_history(rows: tuple[Row, ...]) -> str:
    """The rows as text: number, hits where they were counted, what is asked for."""
    numbers = [str(row.number) for row in rows]
    counts = ["" if row.hits is None else f"{row.hits:,}" for row in rows]
    wide, count = max(map(len, numbers), default=0), max(map(len, counts), default=0)
    lines = zip(numbers, counts, rows, strict=True)
    return "\n".join(f"{number:>{wide}}  {f'{hits:>{count}}  ' if count else ''}{row.expression}" for number, hits, row in lines)
