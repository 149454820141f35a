"""The settings as a flat list of dotted names, so that files, variables and flags are checked against one thing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from types import NoneType
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo

from outrider.settings.model import Settings
from outrider.state.nearest import nearest as most_like

CLOSE = 0.7
"""Likeness of a whole name, or of its last part, that goes before any weaker one of whole names."""


@dataclass(frozen=True, slots=True)
class Given:
    """A value and where it stands, for example `search_config.yaml:12` or `environment variable OUTRIDER_RUN__CANDIDATES`."""

    value: object
    where: str
    reads: tuple[str, ...] = ()
    """Environment variables that a file's `${...}` put into it."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """One setting that takes a value; `free` where it is a mapping whose keys are the user's."""

    name: str
    field: FieldInfo

    @property
    def free(self) -> bool:
        return get_origin(self.field.annotation) is dict

    @property
    def of_mappings(self) -> bool:
        """Whether each of those keys holds a mapping of its own, whose values are any that JSON has."""
        return self.free and get_origin(get_args(self.field.annotation)[1]) is dict

    @property
    def choices(self) -> tuple[str, ...]:
        """The words that are taken, where only some are."""
        return get_args(self.field.annotation) if get_origin(self.field.annotation) is Literal else ()

    @property
    def kind(self) -> type[Any]:
        """`str`, `int`, `float` or `bool`; of a free mapping, that of its values."""
        if self.choices:
            return str
        found: Any = get_args(self.field.annotation)[1] if self.free else self.field.annotation
        if self.may_be_empty:
            found = next(kind for kind in get_args(found) if kind is not NoneType)
        return str if found is SecretStr else found

    @property
    def may_be_empty(self) -> bool:
        """Whether `null` is a value: no bound."""
        return NoneType in get_args(self.field.annotation)

    @property
    def secret(self) -> bool:
        return self.of_mappings or SecretStr in (self.field.annotation, *get_args(self.field.annotation))


@cache
def leaves() -> Mapping[str, Leaf]:
    """Every setting by dotted name, in the order of the model."""
    return {leaf.name: leaf for leaf in _walk(Settings, "")}


@cache
def sections() -> Mapping[str, type[BaseModel]]:
    """Every group of settings by dotted name, in the order of the model."""
    return dict(_sections(Settings, ""))


def _walk(model: type[BaseModel], prefix: str) -> Iterator[Leaf]:
    for key, field in model.model_fields.items():
        section = _section(field)
        if section:
            yield from _walk(section, f"{prefix}{key}.")
        else:
            yield Leaf(f"{prefix}{key}", field)


def _sections(model: type[BaseModel], prefix: str) -> Iterator[tuple[str, type[BaseModel]]]:
    for key, field in model.model_fields.items():
        section = _section(field)
        if section:
            yield f"{prefix}{key}", section
            yield from _sections(section, f"{prefix}{key}.")


def _section(field: FieldInfo) -> type[BaseModel] | None:
    found = field.annotation
    return found if isinstance(found, type) and issubclass(found, BaseModel) else None


def owner(name: str) -> Leaf | None:
    """The setting that a dotted name belongs to: itself, or the free mapping around it."""
    around = (leaf for leaf in leaves().values() if leaf.free and name.startswith(f"{leaf.name}."))
    return leaves().get(name) or next(around, None)


def is_group(name: str) -> bool:
    """Whether a known dotted name is one of a mapping: a section, a free mapping, or one mapping of several in such."""
    leaf = owner(name)
    return leaf is None or (leaf.free and len(split(name)) < len(leaf.name.split(".")) + (2 if leaf.of_mappings else 1))


def split(name: str) -> list[str]:
    """The parts of a known dotted name; the last key in a free mapping may hold dots of its own."""
    leaf = owner(name)
    if leaf is None or leaf.name == name:
        return name.split(".")
    return [*leaf.name.split("."), *name.removeprefix(f"{leaf.name}.").split(".", 1 if leaf.of_mappings else 0)]


def nearest(name: str) -> str:
    """`; did you mean 'run.candidates'?`, or the known groups where no known name is like it.

    A right last part in the wrong section counts as near: `candidates` for `run.candidates`.
    """
    names = [*leaves(), *sections()]
    key = most_like(_last_part(name), map(_last_part, names), CLOSE)
    elsewhere = next((known for known in names if _last_part(known) == key), None)
    best = most_like(name, names, CLOSE) or elsewhere or most_like(name, names)
    return f"; did you mean {best!r}?" if best else f"; known groups: {', '.join(Settings.model_fields)}"


def _last_part(name: str) -> str:
    return name.rpartition(".")[2]
