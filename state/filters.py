"""Filters over records: parsing of the request's mapping into a tree, and its evaluation.

The operators and their meaning follow MongoDB's query language, with one rule for missing values: a comparison with a
missing value is false, and `$ne`, `$nin` and `$not` are exact complements, so they hold for it. On a field that is a
list (`authors`, `tags`, `mesh`, `labels`) `$eq` and `$in` ask for any element. Strings compare exactly; of a language a library compares
every spelling (`resolve_languages`).
Sources that cannot filter by themselves use `matches`: their records have no labels, which users give to those of their library.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from outrider.moved import former_names
from outrider.state.errors import HALF_A_CHARACTER, BadRequest, did_you_mean, has_lone_surrogate, shorten
from outrider.state.notices import is_retracted, list_notices

if TYPE_CHECKING:
    from outrider.state.records import Record

Scalar = str | int | bool
Operator = Literal["$eq", "$gt", "$gte", "$lt", "$lte", "$in", "$exists"]
FieldType = Literal["string", "integer", "list", "flag"]

FIELDS: dict[str, FieldType] = {
    "doc_id": "string", "kind": "string", "title": "string", "venue": "string", "language": "string",
    "url": "string", "origin": "string", "doi": "string", "pmid": "string", "arxiv": "string",
    "year": "integer", "citations": "integer", "stars": "integer",
    "authors": "list", "tags": "list", "mesh": "list",
}  # fmt: skip
LABELS, RETRACTED, HAS_CODE, CODE_ALIVE = "labels", "retracted", "has_code", "code_alive"
OF_CODE = (HAS_CODE, CODE_ALIVE)
TYPES: dict[str, FieldType] = {**FIELDS, LABELS: "list", RETRACTED: "flag", HAS_CODE: "flag", CODE_ALIVE: "flag"}
"""`FIELDS` are columns of the library. Labels and links to code stand beside the records, and whether one is retracted follows from its
notices: `resolve_labels`, `resolve_retracted` and `resolve_has_code` put ids in their place.
"""
_SEVERAL_CODES = re.compile(r"[a-z]{2,3}(?:; [a-z]{2,3})+")
ALIASES = {"journal": "venue", "keywords": "tags"}
COMPARISONS = ("$eq", "$ne", "$gt", "$gte", "$lt", "$lte", "$in", "$nin", "$exists", "$not")
CONNECTIVES = ("$and", "$or", "$not")
MAX_DEPTH = 20
MAX_CONDITIONS = 1_000
INT64 = range(-(2**63), 2**63)


@dataclass(frozen=True, slots=True)
class Compare:
    """One field against a value, a tuple of values (`$in`) or a flag (`$exists`)."""

    field: str
    operator: Operator
    value: Scalar | tuple[Scalar, ...]


@dataclass(frozen=True, slots=True)
class And:
    parts: tuple[Filter, ...]


@dataclass(frozen=True, slots=True)
class Or:
    parts: tuple[Filter, ...]


@dataclass(frozen=True, slots=True)
class Not:
    part: Filter


Filter = Compare | And | Or | Not


def parse_filter(raw: Mapping[str, object]) -> Filter | None:
    """The tree of a filter mapping, None for an empty one; `BadRequest` names the wrong field or operator."""
    if not isinstance(raw, Mapping):
        raise BadRequest(f"filters must be a mapping such as {{'year': {{'$gte': 2020}}}}, not {_name(raw)}")
    return _Parser().mapping(raw, depth=0) if raw else None


def combine(first: Filter | None, second: Filter | None) -> Filter | None:
    """A filter that requires both; either may be absent."""
    if first is None or second is None:
        return first or second
    return And((first, second))


def resolve_labels(where: Filter, labels: Mapping[str, Sequence[str]]) -> Filter:
    """The filter with the ids of labelled records in place of labels. `labels` has those of each record that has some."""
    match where:
        case And(parts):
            return And(tuple(resolve_labels(part, labels) for part in parts))
        case Or(parts):
            return Or(tuple(resolve_labels(part, labels) for part in parts))
        case Not(part):
            return Not(resolve_labels(part, labels))
        case Compare(field, operator, value) if field == LABELS:
            if operator == "$exists":
                labelled = Compare("doc_id", "$in", tuple(sorted(labels)))
                return labelled if value else Not(labelled)
            return Compare("doc_id", "$in", tuple(sorted(doc_id for doc_id, names in labels.items() if _compare(where, tuple(names)))))
    return where


def resolve_retracted(where: Filter, doc_ids: Sequence[str]) -> Filter:
    """The filter with the ids of the retracted records in place of the flag."""
    return _resolve_flag(where, RETRACTED, Compare("doc_id", "$in", tuple(doc_ids)))


def resolve_has_code(where: Filter, doc_ids: Sequence[str]) -> Filter:
    """The filter with the ids of the records that have code of their own in place of the flag. A repository is its own code."""
    return _resolve_flag(where, HAS_CODE, Or((Compare("doc_id", "$in", tuple(doc_ids)), Compare("kind", "$eq", "repository"))))


def resolve_languages(where: Filter, spellings: Callable[[str], Sequence[str]]) -> Filter:
    """The filter with every spelling of a language in place of one: `spellings` lists those that stand for the same as a value."""
    match where:
        case And(parts):
            return And(tuple(resolve_languages(part, spellings) for part in parts))
        case Or(parts):
            return Or(tuple(resolve_languages(part, spellings) for part in parts))
        case Not(part):
            return Not(resolve_languages(part, spellings))
        case Compare("language", "$eq" | "$in", value):
            values = value if isinstance(value, tuple) else (value,)
            written = dict.fromkeys(spelling for one in values for spelling in (one, *spellings(str(one))))
            return where if len(written) == len(values) else Compare("language", "$in", tuple(written))
    return where


def _resolve_flag(where: Filter, flag: str, among: Filter) -> Filter:
    """The filter with another in place of a flag that is true."""
    match where:
        case And(parts):
            return And(tuple(_resolve_flag(part, flag, among) for part in parts))
        case Or(parts):
            return Or(tuple(_resolve_flag(part, flag, among) for part in parts))
        case Not(part):
            return Not(_resolve_flag(part, flag, among))
        case Compare(field, _, value) if field == flag:
            return among if value else Not(among)
    return where


@dataclass(frozen=True, slots=True)
class CodeConditions:
    """What a search requires of the code of its works; None for no condition."""

    has_code: bool | None = None
    code_alive: bool | None = None

    def __bool__(self) -> bool:
        return self.has_code is not None or self.code_alive is not None


NO_CONDITIONS = CodeConditions()


def split_code(where: Filter | None) -> tuple[Filter | None, CodeConditions]:
    """The filter without conditions on code, and those: a search judges them after all sources have answered.

    `BadRequest` for one inside `$or` or a larger `$not`.
    """
    rest: list[Filter] = []
    wanted: dict[str, bool] = {}
    for condition in _iter_conditions(where) if where else ():
        inner, sign = condition, True
        while isinstance(inner, Not):
            inner, sign = inner.part, not sign
        if isinstance(inner, Compare) and inner.field in OF_CODE:
            wanted[inner.field] = bool(inner.value) is sign
        elif any(one.field in OF_CODE for one in iter_comparisons(condition)):
            raise BadRequest("has_code and code_alive are conditions of their own in a search; write them outside of $or")
        else:
            rest.append(condition)
    conditions = CodeConditions(wanted.get(HAS_CODE), wanted.get(CODE_ALIVE))
    if not conditions:
        return where, conditions
    return (And(tuple(rest)) if len(rest) > 1 else rest[0] if rest else None), conditions


def split_retracted(where: Filter | None) -> tuple[Filter | None, bool]:
    """The filter without a condition that every record must not be retracted, and whether it had one.

    A search applies this condition after all sources have answered, so that it can name what it leaves out.
    """
    conditions = list(_iter_conditions(where)) if where else []
    rest = [one for one in conditions if one not in NOT_RETRACTED]
    if len(rest) == len(conditions):
        return where, False
    return (And(tuple(rest)) if len(rest) > 1 else rest[0] if rest else None), True


def _iter_conditions(where: Filter) -> Iterator[Filter]:
    """What all records must fulfil, each condition by itself."""
    if isinstance(where, And):
        for part in where.parts:
            yield from _iter_conditions(part)
    else:
        yield where


NOT_RETRACTED: tuple[Filter, ...] = (Compare(RETRACTED, "$eq", False), Not(Compare(RETRACTED, "$eq", True)))


def iter_comparisons(where: Filter) -> Iterator[Compare]:
    match where:
        case And(parts) | Or(parts):
            for part in parts:
                yield from iter_comparisons(part)
        case Not(part):
            yield from iter_comparisons(part)
        case Compare():
            yield where


def find_missing_value_filters(where: Filter) -> dict[str, Filter]:
    """By field of the filter, what selects the records that fail it only because they have no such field."""
    filters: dict[str, Filter] = {}
    for field in dict.fromkeys(_iter_compared(where, positive=True)):
        missing = Compare(field, "$exists", False)
        filters[field] = And((_assume(where, field, missing, positive=True), missing, Not(where)))
    return filters


def _iter_compared(where: Filter, *, positive: bool) -> Iterator[str]:
    """The fields whose absence fails a condition: under a negation it fulfils it."""
    match where:
        case And(parts) | Or(parts):
            for part in parts:
                yield from _iter_compared(part, positive=positive)
        case Not(part):
            yield from _iter_compared(part, positive=not positive)
        case Compare(field, operator) if positive and operator != "$exists" and TYPES[field] != "flag":
            yield field


def _assume(where: Filter, field: str, condition: Filter, *, positive: bool) -> Filter:
    """The filter with `condition` in place of each comparison of the field that its absence fails."""
    match where:
        case And(parts):
            return And(tuple(_assume(part, field, condition, positive=positive) for part in parts))
        case Or(parts):
            return Or(tuple(_assume(part, field, condition, positive=positive) for part in parts))
        case Not(part):
            return Not(_assume(part, field, condition, positive=not positive))
        case Compare(compared, operator) if positive and compared == field and operator != "$exists":
            return condition
    return where


class _Parser:
    def __init__(self) -> None:
        self.conditions = 0

    def mapping(self, raw: Mapping[str, object], depth: int) -> Filter:
        if depth > MAX_DEPTH:
            raise BadRequest(f"filters are nested more than {MAX_DEPTH} deep")
        parts = tuple(self.entry(key, value, depth) for key, value in raw.items())
        if not parts:
            raise BadRequest("an empty mapping inside filters means nothing; leave it out")
        return parts[0] if len(parts) == 1 else And(parts)

    def entry(self, key: str, value: object, depth: int) -> Filter:
        if key in ("$and", "$or"):
            if not isinstance(value, Sequence) or isinstance(value, str) or not value:
                raise BadRequest(f"{key} takes a list of at least one filter, not {_name(value)}")
            parts = tuple(self.mapping(_mapping(part, key), depth + 1) for part in value)
            return And(parts) if key == "$and" else Or(parts)
        if key == "$not":
            return Not(self.mapping(_mapping(value, key), depth + 1))
        if not isinstance(key, str) or key.startswith("$"):
            raise BadRequest(f"unknown filter operator {key!r}{did_you_mean(key, (*CONNECTIVES, *COMPARISONS))}")
        name = ALIASES.get(key, key)
        if name not in TYPES:
            raise BadRequest(f"unknown filter field {key!r}{did_you_mean(key, (*TYPES, *ALIASES))}; known: {', '.join(TYPES)}")
        return self.field(name, value, depth)

    def field(self, field: str, value: object, depth: int) -> Filter:
        if not isinstance(value, Mapping):
            return self.compare(field, "$eq", value, depth)
        if not value:
            raise BadRequest(f"filter on {field!r} is empty; give a value or an operator such as $gte")
        parts = tuple(self.compare(field, operator, operand, depth) for operator, operand in value.items())
        return parts[0] if len(parts) == 1 else And(parts)

    def compare(self, field: str, operator: object, operand: object, depth: int) -> Filter:
        self.conditions += 1
        if self.conditions > MAX_CONDITIONS:
            raise BadRequest(f"filters hold more than {MAX_CONDITIONS} conditions")
        match operator:
            case str() if TYPES[field] == "flag" and operator in COMPARISONS and operator not in ("$eq", "$ne", "$not"):
                raise BadRequest(f"{operator} has no meaning on {field!r}, which is true or false; use $eq or $ne")
            case "$not":
                if depth > MAX_DEPTH:
                    raise BadRequest(f"filters are nested more than {MAX_DEPTH} deep")
                return Not(self.field(field, _mapping(operand, f"$not on {field!r}"), depth + 1))
            case "$ne":
                return Not(Compare(field, "$eq", _scalar(field, "$ne", operand)))
            case "$nin":
                return Not(Compare(field, "$in", _scalars(field, "$nin", operand)))
            case "$in":
                return Compare(field, "$in", _scalars(field, "$in", operand))
            case "$exists":
                if not isinstance(operand, bool):
                    raise BadRequest(f"$exists on {field!r} takes true or false, not {_name(operand)}")
                return Compare(field, "$exists", operand)
            case "$eq":
                return Compare(field, "$eq", _scalar(field, "$eq", operand))
            case "$gt" | "$gte" | "$lt" | "$lte":
                if TYPES[field] == "list":
                    raise BadRequest(f"{operator} has no meaning on the list {field!r}; use $eq or $in")
                return Compare(field, operator, _scalar(field, operator, operand))
            case _:
                raise BadRequest(f"unknown filter operator {operator!r} on {field!r}{did_you_mean(operator, COMPARISONS)}")


def _mapping(value: object, where: str) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise BadRequest(f"{where} takes a mapping, not {_name(value)}")
    return value


def _scalars(field: str, operator: str, value: object) -> tuple[Scalar, ...]:
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise BadRequest(f"{operator} on {field!r} takes a list of values, not {_name(value)}")
    if len(value) > MAX_CONDITIONS:
        raise BadRequest(f"{operator} on {field!r} takes at most {MAX_CONDITIONS} values, not {len(value)}")
    return tuple(_scalar(field, operator, item) for item in value)


def _scalar(field: str, operator: str, value: object) -> Scalar:
    if TYPES[field] == "integer":
        if isinstance(value, bool) or not isinstance(value, int) or value not in INT64:
            raise BadRequest(f"{operator} on {field!r} takes a whole number, not {_name(value)}")
        return value
    if TYPES[field] == "flag":
        if not isinstance(value, bool):
            raise BadRequest(f"{operator} on {field!r} takes true or false, not {_name(value)}")
        return value
    if not isinstance(value, str):
        raise BadRequest(f"{operator} on {field!r} takes a string, not {_name(value)}")
    if has_lone_surrogate(value):
        raise BadRequest(f"{operator} on {field!r} takes a string, not {shorten(value)}, which {HALF_A_CHARACTER}")
    return value


def _name(value: object) -> str:
    return "null; use $exists to test for missing values" if value is None else f"{shorten(value)} ({type(value).__name__})"


def matches(where: Filter, record: Record) -> bool:
    match where:
        case And(parts):
            return all(matches(part, record) for part in parts)
        case Or(parts):
            return any(matches(part, record) for part in parts)
        case Not(part):
            return not matches(part, record)
        case Compare(field) if field == RETRACTED:
            return _compare(where, (is_retracted(list_notices(record)),))
        case Compare(field):
            value = getattr(record.identifiers if field in type(record.identifiers).model_fields else record, field, None)
            if isinstance(value, tuple):
                return _compare(where, value)
            if field == "language" and isinstance(value, str) and _SEVERAL_CODES.fullmatch(value):  # any counts
                return _compare(where, (value, *value.split("; ")))
            return _compare(where, () if value is None or value == "" else (value,))


def _compare(comparison: Compare, values: tuple[Scalar, ...]) -> bool:
    """Compare a field's values, none if it is missing or an empty text."""
    operand = comparison.value
    match comparison.operator:
        case "$exists":
            return bool(values) is operand
        case "$eq":
            return operand in values
        case "$in":
            return isinstance(operand, tuple) and any(value in operand for value in values)
    if not values:
        return False
    value = values[0]
    match comparison.operator:
        case "$gt":
            return value > operand  # type: ignore[operator]
        case "$gte":
            return value >= operand  # type: ignore[operator]
        case "$lt":
            return value < operand  # type: ignore[operator]
        case "$lte":
            return value <= operand  # type: ignore[operator]
    raise AssertionError(comparison.operator)


__getattr__ = former_names(__name__, {"both": "combine"})
