"""A record for the evaluator: the texts of each field, split into words on demand."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from outrider.boolean.occurrences import Column
from outrider.state.boolean import Field, RecordPart
from outrider.state.records import Identifiers
from outrider.text.languages_and_work_types import split_languages
from outrider.text.strip_markup import fold_text
from outrider.text.words import separate_words, tokens

Value = list[str]
"""The words of a value that is compared as a whole."""


class Readable(Protocol):
    """The fields of a record that the evaluator reads, whether validated or just loaded. Papers have more."""

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


IndexTerm = tuple[Value, list[Value]]
"""A heading and its qualifiers."""


@dataclass(slots=True)
class Document:
    """One record. Each field is read and split into words on first use."""

    record: Readable
    _columns: dict[Field, Column] = field(default_factory=dict)
    _values: dict[Field, list[Value]] = field(default_factory=dict)
    _headings: list[IndexTerm] | None = None

    def column(self, name: Field) -> Column:
        """The words of a field that is searched for words."""
        if name not in self._columns:
            self._columns[name] = Column.from_texts(read_texts(self.record, name))
        return self._columns[name]

    def values(self, name: Field) -> list[Value]:
        """The values of a field that is compared as a whole."""
        if name not in self._values:
            self._values[name] = [tokens(text) for text in read_texts(self.record, name)]
        return self._values[name]

    def headings(self) -> list[IndexTerm]:
        if self._headings is None:
            self._headings = list(read_headings(self.record))
        return self._headings


def read_texts(record: Readable, name: Field) -> list[str]:
    """The texts of a field; a pattern must match inside one of them. Empty for a field that a library lacks."""
    reader = _TEXTS.get(name)
    return [text for text in reader(record) if text] if reader else []


def read_headings(record: Readable) -> Iterable[IndexTerm]:
    """Headings with their qualifiers: from `mesh`, where some files write `Liver/surgery*`, and from PubMed's qualified headings."""
    for heading in (*_mesh(record), *_list_strings(record.metadata.get("mesh_qualified"))):
        name, *qualifiers = fold_text(heading).replace("*", " ").split("/")  # folded first: a tag holds a slash
        yield separate_words(name).split(), [qualifier_words(qualifier) for qualifier in qualifiers]


def qualifier_words(qualifier: str) -> Value:
    """The words of a qualifier without `and`: `prevention & control` equals `prevention and control`."""
    return [word for word in tokens(qualifier) if word != "and"]


def lacks(record: Readable, part: RecordPart) -> bool:
    """Whether the record has no value that a leaf about this part could match."""
    match part:
        case "year":
            return record.year is None
        case "headings":
            return not any(True for _ in read_headings(record))
        case "qualifiers":
            return not any(words for _, qualifiers in read_headings(record) for words in qualifiers)
    return not read_texts(record, Field(part))


def normal_doi(text: str) -> str:
    """A DOI without resolver, in lower case, since DOIs ignore case; wildcards stay."""
    return re.sub(r"^(?:https?://(?:dx\.)?doi\.org/|doi:\s*)", "", text.strip(), flags=re.IGNORECASE).lower()


JOURNAL_KEYS = ("journal_abbreviation", "issn", "other_issns", "JF", "JO", "JA", "J1", "J2")
"""Metadata with further names of a journal; the last are tags of RIS beside the one that became the record's `venue`."""
ALL_FIELDS = (
    Field.TITLE, Field.ABSTRACT, Field.KEYWORDS, Field.MESH, Field.BODY, Field.AUTHOR, Field.JOURNAL, Field.PUBLICATION_TYPE,
    Field.PMID, Field.DOI,
)  # fmt: skip


def _mesh(record: Readable) -> tuple[str, ...]:
    return getattr(record, "mesh", ())


def _journals(record: Readable) -> list[str]:
    """The full title, the abbreviated titles, and the ISSNs."""
    values = [record.metadata.get(key) for key in JOURNAL_KEYS]
    return [record.venue or "", *(name for value in values for name in ([value] if isinstance(value, str) else _list_strings(value)))]


def major_headings(record: Readable) -> list[Value]:
    """The headings that the record calls major; empty if it does not say which are."""
    return [tokens(name) for name in _list_strings(record.metadata.get("mesh_major")) if name]


def _list_strings(value: object) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list | tuple) else []


_TEXTS: dict[Field, Callable[[Readable], Iterable[str]]] = {
    Field.TITLE: lambda record: (record.title,),
    Field.ABSTRACT: lambda record: (record.abstract, record.description),
    Field.KEYWORDS: lambda record: record.tags,
    Field.MESH: _mesh,
    Field.BODY: lambda record: (record.text,),
    Field.ALL: lambda record: (text for name in ALL_FIELDS for text in read_texts(record, name)),
    Field.AUTHOR: lambda record: record.authors,
    Field.JOURNAL: _journals,
    Field.JOURNAL_WORDS: _journals,
    Field.LANGUAGE: lambda record: split_languages(record.language or ""),
    Field.PUBLICATION_TYPE: lambda record: (
        *_list_strings(record.metadata.get("publication_types")),
        *_list_strings([record.metadata.get("type")]),
    ),
    Field.PMID: lambda record: (record.identifiers.pmid or "",),
    Field.DOI: lambda record: (record.identifiers.doi or "",),
    # only papers have the following
    Field.VOLUME: lambda record: (getattr(record, "volume", None) or "",),
    Field.ISSUE: lambda record: (getattr(record, "issue", None) or "",),
    Field.PAGES: lambda record: (getattr(record, "pages", None) or "",),
}
