"""Whether a record fits a filter, by the meaning that `filters` gives it: for sources that cannot be asked with one."""

from __future__ import annotations

from outrider.state.filters import And, Compare, Filter, Not, Or, Scalar
from outrider.state.records import Identifiers, Record


def holds(where: Filter, record: Record) -> bool:
    match where:
        case And(parts):
            return all(holds(part, record) for part in parts)
        case Or(parts):
            return any(holds(part, record) for part in parts)
        case Not(part):
            return not holds(part, record)
        case Compare():
            return _compares(where, _values(record, where.field))


def _values(record: Record, field: str) -> tuple[Scalar, ...]:
    """What the field holds: nothing where it is missing, as an empty text is."""
    value = getattr(record.identifiers if field in Identifiers.model_fields else record, field, None)
    if isinstance(value, tuple):
        return value
    return () if value is None or value == "" else (value,)


def _compares(asked: Compare, held: tuple[Scalar, ...]) -> bool:
    wanted = asked.value
    match asked.operator:
        case "$exists":
            return bool(held) is wanted
        case "$eq":
            return wanted in held
        case "$in":
            return isinstance(wanted, tuple) and any(value in wanted for value in held)
    if not held:
        return False
    value = held[0]
    match asked.operator:
        case "$gt":
            return value > wanted  # type: ignore[operator]
        case "$gte":
            return value >= wanted  # type: ignore[operator]
        case "$lt":
            return value < wanted  # type: ignore[operator]
        case "$lte":
            return value <= wanted  # type: ignore[operator]
    raise AssertionError(asked.operator)
