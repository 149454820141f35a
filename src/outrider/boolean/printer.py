"""A tree as a query in PubMed's form, which reads back to the same tree."""

from __future__ import annotations

from outrider.boolean.field_tags import ENTERED, HEADING, MAJOR, PUBLISHED, QUALIFIER, format_fields
from outrider.state.boolean import And, Dates, Either, Everything, Heading, Leaf, Near, Node, Not, Or, Pattern, Text, Words

OPEN = ("1000", "3000")


def format_tree(tree: Node) -> str:
    """The tree as text. `parse(printed(tree)).tree == tree` for every tree that was parsed.

    Every term is quoted and has its field, every joined part its parentheses. What PubMed cannot say is written with Ovid's `ADJn` between
    terms and one field behind their parentheses.
    """
    match tree:
        case And(parts):
            return "".join(_joined(part, "AND", first=place == 0) for place, part in enumerate(parts))
        case Or(parts):
            return "".join(_joined(part, "OR", first=place == 0) for place, part in enumerate(parts))
        case Not(part):
            return f"NOT {_operand(part)}"
        case _:
            return _leaf(tree)


def _joined(part: Node, operator: str, *, first: bool) -> str:
    if isinstance(part, Not) and (first or operator == "AND"):
        return f"NOT {_operand(part.part)}" if first else f" NOT {_operand(part.part)}"
    return _operand(part) if first else f" {operator} {_operand(part)}"


def _operand(node: Node) -> str:
    return f"({format_tree(node)})" if isinstance(node, And | Or | Not) else _leaf(node)


def _leaf(node: Leaf) -> str:
    match node:
        case Text(Words(words), fields):
            return f'"{" ".join(words)}"[{format_fields(fields)}]'
        case Text(Near(parts, distance, False), fields) if (single := _single(parts)) is not None:
            return f'"{" ".join(single)}"[{format_fields(fields)}:~{distance}]'
        case Text(pattern, fields):
            return f"({_pattern(pattern)})[{format_fields(fields)}]"
        case Heading():
            return _heading(node)
        case Dates(start, end, kind):
            said = start if start == end and start else f"{start or OPEN[0]}:{end or OPEN[1]}"
            return f"{said}[{ENTERED if kind == 'entry' else PUBLISHED}]"
        case Everything():
            return "all[Subset]"


def _heading(node: Heading) -> str:
    if not node.name:
        return f'"{node.qualifier}"[{QUALIFIER}]'
    name = f"{node.name}/{node.qualifier}" if node.qualifier else node.name
    return f'"{name}"[{MAJOR if node.major else HEADING}{"" if node.explode else ":noexp"}]'


def _single(parts: tuple[Pattern, ...]) -> list[str] | None:
    """The words of a proximity that PubMed can ask for: one word each."""
    words = [part.words[0] for part in parts if isinstance(part, Words) and len(part.words) == 1]
    return words if len(words) == len(parts) else None


def _pattern(pattern: Pattern) -> str:
    match pattern:
        case Words(words):
            return f'"{" ".join(words)}"'
        case Either(parts):
            return " OR ".join(_grouped(part) if isinstance(part, Either) else _pattern(part) for part in parts)
        case Near(parts, distance, ordered):
            first, *rest = parts
            operator = "ADJ" if ordered else f"ADJ{distance + 1}"
            chained = _pattern(first) if isinstance(first, Near) else _grouped(first)
            return "".join([chained, *(f" {operator} {_grouped(part)}" for part in rest)])


def _grouped(pattern: Pattern) -> str:
    return _pattern(pattern) if isinstance(pattern, Words) else f"({_pattern(pattern)})"
