"""A record as it lies in its row, read without being validated: for the evaluator, which lets most candidates of a scan fall."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from outrider.state.records import Identifiers


class Stored:
    """From the columns `record` and `text`. `boolean.documents.Readable`."""

    __slots__ = ("_said", "_text")

    def __init__(self, record: str, text: str | None) -> None:
        from pydantic_core import from_json

        self._said: dict[str, Any] = from_json(record)
        self._text = text

    @property
    def title(self) -> str:
        return self._string("title")

    @property
    def abstract(self) -> str:
        return self._string("abstract")

    @property
    def description(self) -> str:
        return self._string("description")

    @property
    def text(self) -> str:
        return self._text or ""

    @property
    def tags(self) -> Sequence[str]:
        return self._strings("tags")

    @property
    def authors(self) -> Sequence[str]:
        return self._strings("authors")

    @property
    def mesh(self) -> Sequence[str]:
        return self._strings("mesh")

    @property
    def year(self) -> int | None:
        year: int | None = self._said.get("year")
        return year

    @property
    def venue(self) -> str | None:
        return self._string("venue") or None

    @property
    def language(self) -> str | None:
        return self._string("language") or None

    @property
    def volume(self) -> str | None:
        return self._string("volume") or None

    @property
    def issue(self) -> str | None:
        return self._string("issue") or None

    @property
    def pages(self) -> str | None:
        return self._string("pages") or None

    @property
    def identifiers(self) -> Identifiers:
        return Identifiers.model_construct(**self._said.get("identifiers", {}))

    @property
    def metadata(self) -> Mapping[str, object]:
        said: dict[str, object] = self._said.get("metadata", {})
        return said

    def _string(self, name: str) -> str:
        return self._said.get(name) or ""

    def _strings(self, name: str) -> Sequence[str]:
        return self._said.get(name) or ()
