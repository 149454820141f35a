"""The shape of an answer: its fields and their kinds, one a line, without values.

`items[].full_name: string` of JSON, `feed/entry/title` and `PMID@Version` of XML. Null and empty values have no line. An object whose keys
are data (OpenAlex: the words of an abstract) is one line.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element, ParseError

from defusedxml.common import DefusedXmlException
from defusedxml.ElementTree import fromstring

KINDS = {bool: "boolean", int: "number", float: "number", str: "string"}
MOST_KEYS = 60
"""An object with more of them has keys that are data."""
TEXT = "text"
"""What is neither JSON nor XML."""


@dataclass(frozen=True, slots=True)
class Difference:
    gone: tuple[str, ...]
    """Perhaps only from this answer: many fields are optional."""
    new: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join([*(f"- {line}" for line in self.gone), *(f"+ {line}" for line in self.new)])


def compute_shape(body: bytes) -> frozenset[str]:
    try:
        return frozenset(_walk_json(json.loads(body), ""))
    except ValueError:
        pass
    try:
        return frozenset(_walk_xml(fromstring(body), ""))
    except (ParseError, DefusedXmlException, LookupError, ValueError):
        return frozenset({TEXT})


def difference(before: frozenset[str], now: frozenset[str]) -> Difference:
    return Difference(tuple(sorted(before - now)), tuple(sorted(now - before)))


def read_shape(file: Path) -> frozenset[str] | None:
    """None where no shape is stored."""
    return frozenset(file.read_text(encoding="utf-8").splitlines()) if file.is_file() else None


def write_shape(shape: frozenset[str], file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(f"{line}\n" for line in sorted(shape)), encoding="utf-8")


def _walk_json(parsed: Any, path: str) -> Iterator[str]:
    if isinstance(parsed, dict):
        if _has_data_keys(parsed):
            yield f"{path}{{}}: object"
            return
        for name, value in parsed.items():
            yield from _walk_json(value, f"{path}.{name}" if path else name)
    elif isinstance(parsed, list):
        for value in parsed:
            yield from _walk_json(value, f"{path}[]")
    elif parsed is not None:
        yield f"{path}: {KINDS[type(parsed)]}"


def _has_data_keys(parsed: dict[str, Any]) -> bool:
    positions = all(isinstance(value, list) and value and all(isinstance(one, int) for one in value) for value in parsed.values())
    return len(parsed) > MOST_KEYS or bool(parsed and positions)


def _walk_xml(element: Element, path: str) -> Iterator[str]:
    here = f"{path}/{element.tag.rpartition('}')[2]}".lstrip("/")
    yield here
    yield from (f"{here}@{name.rpartition('}')[2]}" for name in element.attrib)
    for child in element:
        yield from _walk_xml(child, here)
