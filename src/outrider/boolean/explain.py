"""Outline and search history of a parsed query."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from outrider.boolean.printer import format_tree
from outrider.state.boolean import And, Node, Not, Or, children

_OPERATORS: dict[type, str] = {And: "AND", Or: "OR", Not: "NOT"}


def outline(tree: Node, indent: int = 2) -> str:
    """One operand a line, `indent` blanks deeper at each level."""
    lines: list[str] = []
    pending = [(tree, 0)]
    while pending:
        node, depth = pending.pop()
        operator = _OPERATORS.get(type(node))
        lines.append(" " * indent * depth + (operator or format_tree(node)))
        if operator:
            pending += [(child, depth + 1) for child in reversed(children(node))]
    return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a search history: `expression` refers to earlier lines as `#3`. `hits` is None without a count."""

    number: int
    expression: str
    node: Node
    hits: int | None = None


def history(tree: Node, hits: Callable[[Node], int | None] | None = None) -> tuple[Row, ...]:
    """Every part of the tree on a line of its own, operands before their operator; the last line is the whole.

    A part that occurs several times has one line. `hits` counts the records that a part matches.
    """
    rows: list[Row] = []
    numbers: dict[str, int] = {}
    numbers_by_node: dict[int, int] = {}

    def add(node: Node) -> int:
        """The number of the node's line."""
        if id(node) in numbers_by_node:
            return numbers_by_node[id(node)]
        operands = [f"#{add(child)}" for child in children(node)]
        operator = _OPERATORS.get(type(node))
        expression = f"NOT {operands[0]}" if operator == "NOT" else f" {operator} ".join(operands) if operator else format_tree(node)
        if expression not in numbers:
            numbers[expression] = len(rows) + 1
            rows.append(Row(len(rows) + 1, expression, node, hits(node) if hits else None))
        numbers_by_node[id(node)] = numbers[expression]
        return numbers[expression]

    add(tree)
    return tuple(rows)


def format_history(rows: tuple[Row, ...]) -> str:
    """The rows as text: number, hits if they were counted, expression."""
    numbers = [str(row.number) for row in rows]
    counts = ["" if row.hits is None else f"{row.hits:,}" for row in rows]
    wide, count = max(map(len, numbers), default=0), max(map(len, counts), default=0)
    lines = zip(numbers, counts, rows, strict=True)
    return "\n".join(f"{number:>{wide}}  {f'{hits:>{count}}  ' if count else ''}{row.expression}" for number, hits, row in lines)
