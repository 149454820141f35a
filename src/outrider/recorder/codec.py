"""Values of the state as JSON and back, with records content-addressed

JSON, because a recording comes from outside and must run no code: `decode` makes types of `outrider.state` and nothing else. A record
stands in a blob of its own, named by its sha-256: the same one passes through many answers and updates.
"""

from __future__ import annotations

import hashlib
import importlib
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import fields, is_dataclass
from datetime import date, datetime
from enum import Enum
from functools import cache
from typing import Any

from pydantic import BaseModel

from outrider.state import errors
from outrider.state.model import STATE_PACKAGE
from outrider.state.records import RECORD, BaseRecord

Json = Any
TYPE, VALUE = "$type", "$value"
REFERENCE, TUPLE, SET, PAIRS, ERROR, SHAPE, CALLABLE, PORT, LEFT_OUT, TEXT = (
    "$record", "$tuple", "$set", "$pairs", "$error", "$shape", "$callable", "$port", "$left_out", "$text",
)  # fmt: skip
END_VALUE = {"$end": True}
"""The answer of an iterator that has ended."""
NO_PART_OF_A_QUESTION = frozenset({"within_s", "compare_again", "places_only", "read"})
"""Fields that differ between two askings of the same thing: time that is left, the form of the answer, and what to call for more."""
KNOWN_ERRORS = {name: kind for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, Exception)}
OTHER_ERRORS: Mapping[str, type[Exception]] = {"TimeoutError": TimeoutError}


class Unreadable(Exception):
    """A recording holds what no version of Outrider writes. No `SearchError`: a node must not take it for a failure of its source."""


def dump(value: Json, *, sort: bool = False) -> bytes:
    """JSON in the order of the values, which answers keep; sorted to compare two."""
    return json.dumps(value, sort_keys=sort, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


class Encoder:
    """Encodes values; `blobs` fills with the records that they hold, by digest. `dump_record` makes what is stored of a record's fields."""

    def __init__(self, dump_record: Callable[[dict[str, Json]], bytes] = dump) -> None:
        self.blobs: dict[str, bytes] = {}
        self._dump_record = dump_record
        self._known: dict[int, tuple[BaseRecord, str]] = {}
        """By identity, with the record, so that its id stays its own."""

    def encode(self, value: Any, without: Set[str] = frozenset()) -> Json:
        """`without` names fields of dataclasses that are left out."""
        if value is None or isinstance(value, bool | int | float) or type(value) is str:
            return value
        if isinstance(value, Enum):
            return value.value
        if isinstance(value, str):
            return str(value)
        if isinstance(value, BaseRecord):
            return {REFERENCE: self._store(value)}
        if isinstance(value, BaseModel):
            return self._encode_model(value)
        if is_dataclass(value) and not isinstance(value, type):
            names = (one.name for one in fields(value) if one.init and one.name not in without)
            return {TYPE: _name(type(value)), VALUE: {name: self.encode(getattr(value, name), without) for name in names}}
        return self._encode_collection(value, without)

    def _encode_model(self, value: BaseModel) -> Json:
        if type(value).__module__.startswith(STATE_PACKAGE):
            return {TYPE: _name(type(value)), VALUE: {name: self.encode(inner) for name, inner in value}}
        return {SHAPE: value.model_dump(mode="json")}

    def _encode_collection(self, value: Any, without: Set[str]) -> Json:
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return {TYPE: _name(type(value)), VALUE: {name: self.encode(getattr(value, name), without) for name in value._fields}}
        if isinstance(value, tuple):
            return {TUPLE: [self.encode(item, without) for item in value]}
        if isinstance(value, set | frozenset):
            return {SET: sorted((self.encode(item) for item in value), key=dump)}
        if isinstance(value, Counter | Mapping):
            if all(type(key) is str and not key.startswith("$") for key in value):
                return {key: self.encode(inner, without) for key, inner in value.items()}
            return {PAIRS: [[self.encode(key), self.encode(inner, without)] for key, inner in value.items()]}
        if isinstance(value, Sequence):
            return [self.encode(item, without) for item in value]
        if hasattr(value, "to_json"):  # a port
            return value.to_json(self)
        if isinstance(value, datetime | date):
            return value.isoformat()
        if hasattr(value, "item") and not callable(value):  # a number of NumPy
            return self.encode(value.item())
        return {CALLABLE: True} if callable(value) else {TYPE: type(value).__name__}

    def _store(self, record: BaseRecord) -> str:
        known = self._known.get(id(record))
        if known is not None:
            return known[1]
        content = self._dump_record(record.model_dump(mode="json", exclude_defaults=True) | {"kind": getattr(record, "kind", "")})
        name = digest(content)
        self.blobs[name] = content
        self._known[id(record)] = record, name
        return name

    def encode_error(self, error: BaseException) -> Json:
        attributes = {name: self.encode(value) for name, value in vars(error).items() if not name.startswith("_")}
        return {ERROR: type(error).__name__, "args": [self.encode(part) for part in error.args], "attributes": attributes}


class Decoder:
    """Decodes what `Encoder` wrote; `read` returns a blob by its digest."""

    def __init__(self, read: Callable[[str], bytes], restore: Callable[[dict[str, Json], Decoder], Any]) -> None:
        """`restore` makes a port that an answer holds."""
        self._read, self._restore = read, restore
        self._records: dict[str, BaseRecord] = {}

    def decode(self, value: Json, shape: type[BaseModel] | None = None) -> Any:
        if isinstance(value, list):
            return [self.decode(item, shape) for item in value]
        if not isinstance(value, dict):
            return value
        mark = next(iter(value), "")
        if mark in self._marks:
            return self._marks[mark](self, value, shape)
        return {key: self.decode(inner, shape) for key, inner in value.items()}

    def _decode_record(self, value: dict[str, Json], _: object) -> BaseRecord:
        name = str(value[REFERENCE])
        if name not in self._records:
            fields = json.loads(self._read(name))
            fields.pop(LEFT_OUT, None)
            self._records[name] = RECORD.validate_python(fields, strict=False)
        return self._records[name]

    def _decode_shape(self, value: dict[str, Json], shape: type[BaseModel] | None) -> BaseModel:
        if shape is None:
            raise Unreadable("an answer of a shape that nobody asked for")
        return shape.model_validate(value[SHAPE])

    def _decode_type(self, value: dict[str, Json], shape: type[BaseModel] | None) -> Any:
        kind = find_type(str(value[TYPE]))
        parts = {str(name): self.decode(inner, shape) for name, inner in dict(value[VALUE]).items()}
        return kind.model_validate(parts) if issubclass(kind, BaseModel) else kind(**parts)

    def decode_error(self, value: dict[str, Json]) -> Exception:
        kind = KNOWN_ERRORS.get(str(value[ERROR])) or OTHER_ERRORS.get(str(value[ERROR]), errors.SearchError)
        error = kind.__new__(kind)
        error.args = tuple(self.decode(part) for part in value["args"])
        for name, inner in value["attributes"].items():
            if name.isidentifier() and not name.startswith("_"):
                setattr(error, name, self.decode(inner))
        return error

    _marks: Mapping[str, Callable[[Decoder, dict[str, Json], Any], Any]] = {
        REFERENCE: _decode_record,
        SHAPE: _decode_shape,
        TYPE: _decode_type,
        TUPLE: lambda self, value, shape: tuple(self.decode(item, shape) for item in value[TUPLE]),
        SET: lambda self, value, shape: frozenset(self.decode(item, shape) for item in value[SET]),
        PAIRS: lambda self, value, shape: {self.decode(key): self.decode(inner, shape) for key, inner in value[PAIRS]},
        PORT: lambda self, value, shape: self._restore(value, self),
        TEXT: lambda self, value, shape: "",
        CALLABLE: lambda self, value, shape: None,
        ERROR: lambda self, value, shape: self.decode_error(value),
    }


def _name(kind: type) -> str:
    return f"{kind.__module__.removeprefix(STATE_PACKAGE)}:{kind.__qualname__}"


@cache
def find_type(name: str) -> type[Any]:
    """A model, dataclass or named tuple of `outrider.state`. Raises `Unreadable`."""
    module, _, kind_name = name.partition(":")
    if not (module.isidentifier() and kind_name.isidentifier()):
        raise Unreadable(f"a value of the unknown type {name!r}")
    try:
        kind = getattr(importlib.import_module(STATE_PACKAGE + module), kind_name)
    except (ImportError, AttributeError) as error:
        raise Unreadable(f"a value of the unknown type {name!r}") from error
    is_ours = isinstance(kind, type) and kind.__module__ == STATE_PACKAGE + module
    if not (is_ours and (is_dataclass(kind) or issubclass(kind, BaseModel) or hasattr(kind, "_fields"))):
        raise Unreadable(f"a value of the unknown type {name!r}")
    return kind  # type: ignore[no-any-return]
