"""A record as the evaluator sees it: the texts of each field, and their words once they are asked for."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from outrider.boolean.occurrences import Column
from outrider.state.boolean import Field
from outrider.state.records import Identifiers
from outrider.text.tokens import tokens

Value = list[str]
"""The words of a value that is compared as a whole."""


class Readable(Protocol):
    """What of a record is read: one that was validated, or that was just taken from where it is stored. Papers have more."""

    @property
    def title(self) -> str: ...
    @property
    def abstract(self) -> str: ...
    @property
    def description(self) -> str: ...
    @property
    def text(self) -> str: ...
    @property
    def tags(self) -> Sequence[str]: ...
    @property
    def authors(self) -> Sequence[str]: ...
    @property
    def year(self) -> int | None: ...
    @property
    def venue(self) -> str | None: ...
    @property
    def language(self) -> str | None: ...
    @property
    def identifiers(self) -> Identifiers: ...
    @property
    def metadata(self) -> Mapping[str, object]: ...


Indexed = tuple[Value, list[Value]]
"""A heading and its qualifiers."""


@dataclass(slots=True)
class Document:
    """One record. Nothing is read or cut into words before it is asked for, and nothing twice."""

    record: Readable
    _columns: dict[Field, Column] = field(default_factory=dict)
    _values: dict[Field, list[Value]] = field(default_factory=dict)
    _headings: list[Indexed] | None = None

    def column(self, name: Field) -> Column:
        """The words of a field in which words are looked for."""
        if name not in self._columns:
            self._columns[name] = Column.of(read_texts(self.record, name))
        return self._columns[name]

    def values(self, name: Field) -> list[Value]:
        """The values of a field that is compared as a whole."""
        if name not in self._values:
            self._values[name] = [tokens(text) for text in read_texts(self.record, name)]
        return self._values[name]

    def headings(self) -> list[Indexed]:
        if self._headings is None:
            self._headings = list(read_headings(self.record))
        return self._headings


def read_texts(record: Readable, name: Field) -> list[str]:
    """The texts of a field; a pattern stands inside one of them. Empty for a field that a library lacks."""
    reader = _TEXTS.get(name)
    return [text for text in reader(record) if text] if reader else []


def read_headings(record: Readable) -> Iterable[Indexed]:
    """Headings with their qualifiers: of `mesh`, where some files write `Liver/surgery*`, and of PubMed's qualified ones."""
    for said in (*_mesh(record), *_listed(record.metadata.get("mesh_qualified"))):
        name, *qualifiers = said.replace("*", " ").split("/")
        yield tokens(name), [qualifier_words(qualifier) for qualifier in qualifiers]


def qualifier_words(said: str) -> Value:
    """`prevention & control` and `prevention and control` alike."""
    return [word for word in tokens(said) if word != "and"]


def normal_doi(said: str) -> str:
    """Without a resolver before it, in lower case: DOIs do not tell cases apart."""
    return re.sub(r"^(?:https?://(?:dx\.)?doi\.org/|doi:\s*)", "", said.strip(), flags=re.IGNORECASE).lower()


def _all_texts(record: Readable) -> list[str]:
    """Every text of the record: words, names and numbers."""
    asked = (
        Field.TITLE, Field.ABSTRACT, Field.KEYWORDS, Field.MESH, Field.BODY, Field.AUTHOR, Field.JOURNAL, Field.PUBLICATION_TYPE,
        Field.PMID, Field.DOI,
    )  # fmt: skip
    return [text for name in asked for text in read_texts(record, name)]


def _mesh(record: Readable) -> tuple[str, ...]:
    return getattr(record, "mesh", ())


def _journals(record: Readable) -> list[str]:
    """The title in full, abbreviated, and the ISSN."""
    return [record.venue or "", *(_said(record.metadata, name) for name in ("journal_abbreviation", "issn"))]


def _said(metadata: Mapping[str, object], name: str) -> str:
    value = metadata.get(name)
    return value if isinstance(value, str) else ""


def _listed(value: object) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list | tuple) else []


def _kinds(record: Readable) -> list[str]:
    return [*_listed(record.metadata.get("publication_types")), _said(record.metadata, "type")]


def _of_paper(record: Readable, name: str) -> list[str]:
    return [getattr(record, name, None) or ""]


_TEXTS: dict[Field, Callable[[Readable], Iterable[str]]] = {
    Field.TITLE: lambda record: (record.title,),
    Field.ABSTRACT: lambda record: (record.abstract, record.description),
    Field.KEYWORDS: lambda record: record.tags,
    Field.MESH: _mesh,
    Field.BODY: lambda record: (record.text,),
    Field.ALL: _all_texts,
    Field.AUTHOR: lambda record: record.authors,
    Field.JOURNAL: _journals,
    Field.JOURNAL_WORDS: _journals,
    Field.LANGUAGE: lambda record: (record.language or "",),
    Field.PUBLICATION_TYPE: _kinds,
    Field.PMID: lambda record: (record.identifiers.pmid or "",),
    Field.DOI: lambda record: (record.identifiers.doi or "",),
    Field.VOLUME: lambda record: _of_paper(record, "volume"),
    Field.ISSUE: lambda record: _of_paper(record, "issue"),
    Field.PAGES: lambda record: _of_paper(record, "pages"),
}
