"""Filters as SQL of DataFusion, which LanceDB applies before it ranks.

A missing value is stored as NULL, so a comparison with it is NULL and holds nowhere; `IS NOT TRUE` turns the negation of a
comparison into its exact complement. Negations are pushed down to the comparisons (De Morgan), an AND within an OR
goes without parentheses, and the deepest operand stands first: the parser recurses for each parenthesis and each operand to
the right, and gives up at 50.
"""

from __future__ import annotations

from collections.abc import Iterable

from outrider.state.filters import FIELDS, And, Compare, Filter, Not, Or, Scalar

SYMBOLS = {"$eq": "=", "$gt": ">", "$gte": ">=", "$lt": "<", "$lte": "<="}
MIN_INT64 = -(2**63)


def to_sql(filter: Filter) -> str:  # noqa: A002 - the domain's word
    """The condition; it holds for the same records as the filter does by the docstring of `state.filters`."""
    return _build_sql(filter, positive=True)


def literal(value: Scalar) -> str:
    """A value as SQL. In a quoted string only the quote itself is special (SQL-92 §5.3): no backslash escapes."""
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if value == MIN_INT64:  # its digits alone exceed int64 and would be read as a float
        return f"CAST('{value}' AS BIGINT)"
    return str(int(value))


def in_list(column: str, values: Iterable[str]) -> str:
    """`column IN (...)`, false for no values."""
    literals = ", ".join(map(literal, values))
    return f"{column} IN ({literals})" if literals else "false"


def _build_sql(node: Filter, positive: bool) -> str:
    """The condition, or with `positive` false its negation."""
    match node:
        case Not(part):
            return _build_sql(part, not positive)
        case Compare():
            return _build_comparison(node) if positive else f"({_build_comparison(node)}) IS NOT TRUE"
        case And(parts) | Or(parts):
            operator = _find_operator(node, positive)
            if not parts:
                return "true" if operator == "AND" else "false"
            operands = [(_measure_height(part), _build_sql(part, sign)) for part, sign in _flatten(parts, operator, positive)]
            operands.sort(key=lambda operand: -operand[0])  # stable
            if operator == "AND":  # binds tighter: only an OR within it needs parentheses
                return " AND ".join(f"({text})" if height else text for height, text in operands)
            return " OR ".join(text for _, text in operands)


def _find_operator(node: And | Or, positive: bool) -> str:
    return "AND" if isinstance(node, And) is positive else "OR"


def _measure_height(node: Filter) -> int:
    """How deeply AND and OR are nested below, 0 for a comparison."""
    match node:
        case Not(part):
            return _measure_height(part)
        case And(parts) | Or(parts):
            return 1 + max(map(_measure_height, parts), default=0)
    return 0


def _flatten(parts: tuple[Filter, ...], operator: str, positive: bool) -> Iterable[tuple[Filter, bool]]:
    """The operands with their signs, where an operand that is joined by the same operator gives its own operands."""
    for part in parts:
        inner, sign = part, positive
        while isinstance(inner, Not):
            inner, sign = inner.part, not sign
        if isinstance(inner, And | Or) and inner.parts and _find_operator(inner, sign) == operator:
            yield from _flatten(inner.parts, operator, sign)
        else:
            yield inner, sign


def _build_comparison(node: Compare) -> str:
    is_list = FIELDS[node.field] == "list"
    if node.operator == "$exists":
        return f"{node.field} IS NOT NULL" if node.value else f"{node.field} IS NULL"
    if node.operator == "$in":
        literals = ", ".join(map(literal, node.value if isinstance(node.value, tuple) else (node.value,)))
        if not literals:
            return "false"
        return f"array_has_any({node.field}, make_array({literals}))" if is_list else f"{node.field} IN ({literals})"
    assert not isinstance(node.value, tuple)  # noqa: S101 - only $in has several values
    if is_list:
        return f"array_has({node.field}, {literal(node.value)})"
    return f"{node.field} {SYMBOLS[node.operator]} {literal(node.value)}"
