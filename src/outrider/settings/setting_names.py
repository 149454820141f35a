"""Flat list of all settings by dotted name, to check files, variables and flags."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from types import NoneType
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo

from outrider.settings.model import Settings
from outrider.settings.sections import JOIN_ADDRESSES
from outrider.state.errors import find_nearest

CLOSE = 0.7
"""Similarity at which a whole name, or its last part, is preferred to any less similar whole name."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A value and its location, for example `search_config.yaml:12` or `environment variable OUTRIDER_RUN__CANDIDATES`."""

    value: object
    where: str
    variables: tuple[str, ...] = ()
    """Environment variables that `${...}` in a file put into the value."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """One setting that takes a value; `free` where it is a mapping whose keys the user chooses."""

    name: str
    field: FieldInfo

    @property
    def free(self) -> bool:
        return get_origin(self.field.annotation) is dict

    @property
    def of_mappings(self) -> bool:
        """Whether each of those keys holds a mapping of its own, with any JSON values."""
        return self.free and get_origin(get_args(self.field.annotation)[1]) is dict

    @property
    def of_addresses(self) -> bool:
        """Whether a file may list several addresses."""
        return JOIN_ADDRESSES in self.field.metadata

    @property
    def choices(self) -> tuple[str, ...]:
        """The accepted words, for a setting that accepts only some."""
        return get_args(self.field.annotation) if get_origin(self.field.annotation) is Literal else ()

    @property
    def kind(self) -> type[Any]:
        """`str`, `int`, `float` or `bool`; for a free mapping, the type of its values."""
        if self.choices:
            return str
        annotation: Any = get_args(self.field.annotation)[1] if self.free else self.field.annotation
        if self.may_be_empty:
            annotation = next(kind for kind in get_args(annotation) if kind is not NoneType)
        return str if annotation is SecretStr else annotation

    @property
    def may_be_empty(self) -> bool:
        """Whether `null` is accepted, which means no limit or a computed default."""
        return NoneType in get_args(self.field.annotation)

    @property
    def secret(self) -> bool:
        return self.of_mappings or SecretStr in (self.field.annotation, *get_args(self.field.annotation))


@cache
def leaves() -> Mapping[str, Leaf]:
    """Every setting by dotted name, in the order of the model."""
    return {name: Leaf(name, field) for name, field in _fields(Settings, "") if not _section(field)}


@cache
def _free_leaves() -> tuple[Leaf, ...]:
    return tuple(leaf for leaf in leaves().values() if leaf.free)


@cache
def sections() -> Mapping[str, type[BaseModel]]:
    """Every group of settings by dotted name, in the order of the model."""
    return {name: section for name, field in _fields(Settings, "") if (section := _section(field))}


def _fields(model: type[BaseModel], prefix: str) -> Iterator[tuple[str, FieldInfo]]:
    """All fields, those of groups included, depth first."""
    for key, field in model.model_fields.items():
        yield f"{prefix}{key}", field
        if section := _section(field):
            yield from _fields(section, f"{prefix}{key}.")


def _section(field: FieldInfo) -> type[BaseModel] | None:
    kind = field.annotation
    return kind if isinstance(kind, type) and issubclass(kind, BaseModel) else None


def find_leaf(name: str) -> Leaf | None:
    """The setting that a dotted name belongs to: itself, or the free mapping around it."""
    around = (leaf for leaf in _free_leaves() if name.startswith(f"{leaf.name}."))
    return leaves().get(name) or next(around, None)


def is_group(name: str) -> bool:
    """Whether a known dotted name denotes a mapping: a section, a free mapping, or one of several mappings in it."""
    leaf = find_leaf(name)
    return leaf is None or (leaf.free and len(split_name(name)) < len(leaf.name.split(".")) + (2 if leaf.of_mappings else 1))


def split_name(name: str) -> list[str]:
    """The parts of a known dotted name; the last key in a free mapping may contain dots."""
    leaf = find_leaf(name)
    if leaf is None or leaf.name == name:
        return name.split(".")
    return [*leaf.name.split("."), *name.removeprefix(f"{leaf.name}.").split(".", 1 if leaf.of_mappings else 0)]


def suggest(name: str) -> str:
    """`; did you mean 'run.candidates'?`, or the known groups where no known name is similar.

    A correct last part in the wrong section counts as similar: `candidates` for `run.candidates`.
    """

    def last_part(name: str) -> str:
        return name.rpartition(".")[2]

    names = [*leaves(), *sections()]
    key = find_nearest(last_part(name), map(last_part, names), CLOSE)
    elsewhere = next((known for known in names if last_part(known) == key), None)
    best = find_nearest(name, names, CLOSE) or elsewhere or find_nearest(name, names)
    return f"; did you mean {best!r}?" if best else f"; known groups: {', '.join(Settings.model_fields)}"
