"""Descriptions of values, schemas, signatures and help texts, reduced to what a user's program relies on."""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

FROZEN = Path(__file__).parent / "frozen"
OPEN = frozenset({"indexes", "seconds"})
"""Fields whose keys are data, such as names of indexes: only their type is compared."""
REQUIRED = "required"


def frozen(name: str) -> Any:
    """Return the list that was written from the documentation of version 0.1.0."""
    return json.loads((FROZEN / f"{name}.json").read_text(encoding="utf-8"))


def missing(expected: Mapping[str, Any], current: Mapping[str, Any]) -> list[str]:
    """Return what is expected and is not there, or is there in another form. Additions are compatible."""
    return [f"{key}: expected {value}, is {current.get(key, 'missing')}" for key, value in expected.items() if current.get(key) != value]


def refused(expected: Mapping[str, str], current: Mapping[str, str]) -> list[str]:
    """Return what a request could hold and no longer can. A field that takes further values still takes those it took."""
    return [
        f"{key}: took {value}, takes {current.get(key, 'nothing')}"
        for key, value in expected.items()
        if key not in current or not set(value.split(" or ")) <= set(current[key].split(" or "))
    ]


def key_paths(value: Any, prefix: str = "") -> dict[str, str]:
    """Return the JSON type at each path of a value: `hits[].rank: number`."""
    paths: dict[str, set[str]] = {}
    for path, kind in _walk_value(value, prefix):
        paths.setdefault(path, set()).add(kind)
    return {path: " or ".join(sorted(kinds)) for path, kinds in paths.items()}


def _walk_value(value: Any, prefix: str) -> Iterator[tuple[str, str]]:
    names = {dict: "object", list: "array", str: "string", bool: "boolean", int: "number", float: "number", type(None): "null"}
    yield prefix or ".", names[type(value)]
    if isinstance(value, dict) and prefix.rpartition(".")[2] not in OPEN:
        for key, child in value.items():
            yield from _walk_value(child, f"{prefix}.{key}" if prefix else key)
    if isinstance(value, list):
        for child in value:
            yield from _walk_value(child, f"{prefix}[]")


def schema_paths(schema: Any, definitions: Mapping[str, Any]) -> dict[str, str]:
    """Return type, choices and whether it is required for each path of a JSON schema."""
    paths: dict[str, set[str]] = {}
    for path, kind in _walk_schema(schema, definitions, "", ()):
        paths.setdefault(path, set()).add(kind)
    return {path or ".": " or ".join(sorted(kinds)) for path, kinds in paths.items()}


def _walk_schema(schema: Any, definitions: Mapping[str, Any], prefix: str, above: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    if not isinstance(schema, dict):
        return
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        if name not in above:
            yield from _walk_schema(definitions[name], definitions, prefix, (*above, name))
        return
    for part in ("anyOf", "oneOf", "allOf"):
        for choice in schema.get(part, ()):
            yield from _walk_schema(choice, definitions, prefix, above)
    for choice in schema.get("enum", [schema["const"]] if "const" in schema else []):
        yield prefix, repr(choice)
    if "type" in schema and "enum" not in schema and "const" not in schema:
        yield prefix, schema["type"]
    for key, child in schema.get("properties", {}).items():
        path = f"{prefix}.{key}" if prefix else key
        if key in schema.get("required", ()):
            yield path, REQUIRED
        yield from _walk_schema(child, definitions, path, above)
    yield from _walk_schema(schema.get("items"), definitions, f"{prefix}[]", above)
    yield from _walk_schema(schema.get("additionalProperties"), definitions, f"{prefix}.*", above)


def call_shape(function: Callable[..., Any], *inner: Callable[..., Any]) -> dict[str, Any]:
    """Return how a function may be called; `inner` are those that its `**` arguments go to."""
    shape: dict[str, Any] = {"positional": [], "many": False, "keywords": {}, "open": False}
    for depth, one in enumerate((function, *inner)):
        for parameter in inspect.signature(one).parameters.values():
            default = REQUIRED if parameter.default is parameter.empty else _stable(parameter.default)
            if parameter.name == "self" or (depth and parameter.kind is not parameter.KEYWORD_ONLY):
                continue
            if parameter.kind is parameter.VAR_POSITIONAL:
                shape["many"] = True
            elif parameter.kind is parameter.VAR_KEYWORD:
                shape["open"] = True
            elif parameter.kind is parameter.KEYWORD_ONLY:
                shape["keywords"][parameter.name] = default
            else:
                shape["positional"].append([parameter.name, default])
    return shape


def _stable(default: Any) -> str:
    """Return a default as text that does not depend on a module's path or an object's address."""
    if callable(default) and not isinstance(default, type):
        return "a function"
    return re.sub(r"<(\w+)\.(\w+): ('.*?')>", r"\3", repr(default))


def broken_calls(expected: Mapping[str, Any], function: Callable[..., Any]) -> list[str]:
    """Return which of the expected ways to call a function no longer work."""
    now = call_shape(function)
    named = {**dict(now["positional"]), **now["keywords"]}
    places = [name for name, _ in now["positional"]][: len(expected["positional"])]
    problems = []
    if places != [name for name, _ in expected["positional"]]:
        problems.append(f"takes {places} by position")
    if expected["many"] and not now["many"]:
        problems.append("takes no further arguments by position")
    if expected["open"] and not now["open"]:
        problems.append("takes no further arguments by name")
    known = {**dict(expected["positional"]), **expected["keywords"]}
    for name, default in known.items():
        if name not in named and not now["open"]:
            problems.append(f"does not take {name}")
        elif name in named and named[name] != default:
            problems.append(f"{name} is {named[name]} by default, not {default}")
    problems += [f"wants {name}, too" for name, default in named.items() if name not in known and default == REQUIRED]
    return problems


def public_members(owner: type) -> list[str]:
    """Return the public methods, properties and fields of a class, those of `object` aside."""
    fields = {field.name for field in dataclasses.fields(owner)} if dataclasses.is_dataclass(owner) else set()
    annotated = {name for base in owner.__mro__ for name in inspect.get_annotations(base)}
    return sorted(name for name in {*dir(owner), *fields, *annotated} - {*dir(object)} if not name.startswith("_"))


BORDER = re.compile(r"^[│|]\s?(.*?)\s*[│|]$")


def help_shape(text: str) -> dict[str, Any]:
    """Return arguments, options and subcommands that a help text shows, without the words of their descriptions."""
    shape: dict[str, Any] = {"arguments": [], "options": {}, "commands": []}
    panel = ""
    for line in text.splitlines():
        if title := re.match(r"^╭─ (\w+) ─", line):
            panel = title[1]
        elif content := BORDER.match(line):
            cells = re.split(r"\s{2,}", content[1].strip())
            required = cells[0] == "*"
            cells = cells[1:] if required else cells
            if panel == "Arguments":
                many = any(cell.startswith("<list") for cell in cells)
                shape["arguments"].append(f"{REQUIRED if required else 'optional'}, {'many values' if many else 'a value'}")
            elif panel == "Options" and cells[0].startswith("-"):
                shape["options"].update(_option(cells, required=required))
            elif panel == "Commands":
                shape["commands"].append(cells[0].split()[0])
    return shape


def _option(cells: list[str], *, required: bool) -> dict[str, str]:
    names = [name for cell in cells if cell.startswith("-") for name in cell.split()[:1]]
    default = re.search(r"\[default: (.*?)\]", " ".join(cells))
    takes = next(cell for cell in cells if not cell.startswith("-")).split()[0]
    parts = [*names[1:], "no value" if takes == "<bool>" else "many values" if takes.startswith("<list") else "a value"]
    parts += [f"default {default[1]}"] if default else []
    parts += [REQUIRED] if required else []
    return {names[0]: ", ".join(parts)}
