"""The shape of an answer: which fields it has and of what kind they are, one a line. No value is kept.

`items[].full_name: string` of JSON, `feed/entry/title` and `PMID@Version` of XML. What is null or empty says nothing. An object whose keys
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


def shape_of(body: bytes) -> frozenset[str]:
    try:
        return frozenset(_of_json(json.loads(body), ""))
    except ValueError:
        pass
    try:
        return frozenset(_of_xml(fromstring(body), ""))
    except (ParseError, DefusedXmlException, LookupError, ValueError):
        return frozenset({TEXT})


def difference(before: frozenset[str], now: frozenset[str]) -> Difference:
    return Difference(tuple(sorted(before - now)), tuple(sorted(now - before)))


def kept(file: Path) -> frozenset[str] | None:
    """None where nobody has kept one."""
    return frozenset(file.read_text(encoding="utf-8").splitlines()) if file.is_file() else None


def keep(shape: frozenset[str], file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(f"{line}\n" for line in sorted(shape)), encoding="utf-8")


def _of_json(said: Any, path: str) -> Iterator[str]:
    if isinstance(said, dict):
        if _keyed_by_data(said):
            yield f"{path}{{}}: object"
            return
        for name, value in said.items():
            yield from _of_json(value, f"{path}.{name}" if path else name)
    elif isinstance(said, list):
        for value in said:
            yield from _of_json(value, f"{path}[]")
    elif said is not None:
        yield f"{path}: {KINDS[type(said)]}"


def _keyed_by_data(said: dict[str, Any]) -> bool:
    places = all(isinstance(value, list) and value and all(isinstance(one, int) for one in value) for value in said.values())
    return len(said) > MOST_KEYS or bool(said and places)


def _of_xml(element: Element, path: str) -> Iterator[str]:
    here = f"{path}/{element.tag.rpartition('}')[2]}".lstrip("/")
    yield here
    yield from (f"{here}@{name.rpartition('}')[2]}" for name in element.attrib)
    for child in element:
        yield from _of_xml(child, here)
