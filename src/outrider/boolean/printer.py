"""Printing of a tree as a query in PubMed's syntax, which parses to the same tree."""

from __future__ import annotations

from outrider.boolean.field_tags import ENTERED, HEADING, MAJOR, PUBLISHED, QUALIFIER, format_fields
from outrider.state.boolean import And, Dates, Either, Everything, Heading, Leaf, Near, Node, Not, Or, Pattern, Text, Words

OPEN = ("1000", "3000")


def format_tree(tree: Node) -> str:
    """The tree as text. `parse(format_tree(tree)).tree == tree` for every tree that was parsed.

    Every term is quoted and has its field, every joined part its parentheses. A proximity that PubMed lacks is written with Ovid's `ADJn`
    between terms and one field after their parentheses.
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
            operator = "ADJ" if ordered else f"ADJ{distance + 1}"
            chained = _format_pattern(first) if isinstance(first, Near) else _format_group(first)
            return "".join([chained, *(f" {operator} {_format_group(part)}" for part in rest)])


def _format_group(pattern: Pattern) -> str:
    return _format_pattern(pattern) if isinstance(pattern, Words) else f"({_format_pattern(pattern)})"
