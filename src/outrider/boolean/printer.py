"""Printing of a parsed query: in PubMed's syntax, as an outline, as a search history.

A tree that is printed in PubMed's syntax parses to the same tree.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from outrider.boolean.field_tags import ENTERED, HEADING, MAJOR, PUBLISHED, QUALIFIER, format_fields
from outrider.state.boolean import And, Dates, Either, Everything, Heading, Leaf, Near, Node, Not, Or, Pattern, Text, Words, children

OPEN = ("1000", "3000")
_OPERATORS: dict[type, str] = {And: "AND", Or: "OR", Not: "NOT"}


def format_tree(tree: Node) -> str:
    """The tree as text. `parse(format_tree(tree)).tree == tree` for every tree that was parsed.

    Every term is quoted and has its field, every joined part its parentheses. A proximity that PubMed lacks is written with Ovid's `ADJn`,
    or with `PREn` where the order counts, between terms and one field after their parentheses.
    """
    match tree:
        case And(parts) | Or(parts):
            operator = "AND" if isinstance(tree, And) else "OR"
            first, *rest = parts
            text = format_tree(first) if isinstance(first, Not) else _format_operand(first)
            for part in rest:
                # `a NOT b` is PubMed's form of `a AND NOT b`
                is_excluded = isinstance(part, Not) and operator == "AND"
                text += f" {format_tree(part)}" if is_excluded else f" {operator} {_format_operand(part)}"
            return text
        case Not(part):
            return f"NOT {_format_operand(part)}"
        case _:
            return _format_leaf(tree)


def _format_operand(node: Node) -> str:
    return f"({format_tree(node)})" if isinstance(node, And | Or | Not) else _format_leaf(node)


def _format_leaf(node: Leaf) -> str:
    match node:
        case Text(Words(words), fields):
            return f'"{" ".join(words)}"[{format_fields(fields)}]'
        case Text(Near(parts, distance, False), fields) if all(isinstance(part, Words) and len(part.words) == 1 for part in parts):
            single = [word for part in parts if isinstance(part, Words) for word in part.words]
            return f'"{" ".join(single)}"[{format_fields(fields)}:~{distance}]'
        case Text(pattern, fields):
            return f"({_format_pattern(pattern)})[{format_fields(fields)}]"
        case Heading("", qualifier):
            return f'"{qualifier}"[{QUALIFIER}]'
        case Heading(name, qualifier, explode, major):
            name = f"{name}/{qualifier}" if qualifier else name
            return f'"{name}"[{MAJOR if major else HEADING}{"" if explode else ":noexp"}]'
        case Dates(start, end, kind):
            dates = start if start == end and start else f"{start or OPEN[0]}:{end or OPEN[1]}"
            return f"{dates}[{ENTERED if kind == 'entry' else PUBLISHED}]"
        case Everything():
            return "all[Subset]"


def _format_pattern(pattern: Pattern) -> str:
    match pattern:
        case Words(words):
            return f'"{" ".join(words)}"'
        case Either(parts):
            return " OR ".join(_format_group(part) if isinstance(part, Either) else _format_pattern(part) for part in parts)
        case Near(parts, distance, ordered):
            first, *rest = parts
            operator = f"ADJ{distance + 1}" if not ordered else f"PRE{distance + 1}" if distance else "ADJ"
            chained = _format_pattern(first) if isinstance(first, Near) else _format_group(first)
            return "".join([chained, *(f" {operator} {_format_group(part)}" for part in rest)])


def _format_group(pattern: Pattern) -> str:
    return _format_pattern(pattern) if isinstance(pattern, Words) else f"({_format_pattern(pattern)})"


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
