"""SQL conditions on the rows of records that lack a part, such as a year.

Most parts are a column, which is NULL where the record has no value. The others are only in the record's JSON: a pattern finds the rows
that surely have them, and those that cannot be decided so are read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from outrider.library.filter_sql import literal
from outrider.state.boolean import Field, RecordPart

ALL_ROWS = "true"


@dataclass(frozen=True, slots=True)
class RowsLacking:
    """`possibly` holds for every row whose record lacks the part; those of them that are also `unsure` must be read to know."""

    possibly: str
    unsure: str = ""

    @property
    def surely(self) -> str:
        return f"({self.possibly}) AND ({self.unsure}) IS NOT TRUE" if self.unsure else self.possibly


def _has_key(*names: str) -> str:
    """Rows whose JSON has one of the keys somewhere. A quote within a text is escaped there, so no text looks like a key."""
    return " OR ".join(f"""contains(record, '"{name}":')""" for name in names)


def _matches(pattern: str) -> str:
    return f"regexp_like(record, {literal(pattern)})"


def _list_column(name: str) -> RowsLacking:
    """An empty text in a list is no value."""
    with_empty_text = f"array_has({name}, '')"
    return RowsLacking(f"{name} IS NULL OR {with_empty_text}", with_empty_text)


def _in_metadata(condition: str, *values: str) -> RowsLacking:
    """Rows surely have one of the values if it follows the beginning of the metadata: `[^{}]*` enters no other object.

    Of the other rows only those of the condition can have one.
    """
    pattern = r'"metadata":\{[^{}]*(' + "|".join(values) + ")"
    without = f"NOT {_matches(pattern)}"
    return RowsLacking(without, f"{without} AND ({condition})")


def _of_papers(name: str) -> RowsLacking:
    """A field that only papers have, behind their metadata; a key of the metadata means nothing."""
    value = f'"{name}":"[^"]'
    with_metadata, without_metadata = _matches(r'"metadata":\{[^{}]*\}[^{}]*' + value), _matches(value)
    has_value = f"({with_metadata} OR ({without_metadata} AND NOT {_has_key('metadata')}))"
    without = f"NOT (kind = 'paper' AND {has_value})"
    return RowsLacking(without, f"{without} AND ({_has_key(name)})")


ROWS_LACKING: Mapping[RecordPart, RowsLacking] = {
    "year": RowsLacking("year IS NULL"),
    "headings": RowsLacking("mesh IS NULL", f"mesh IS NULL AND {_has_key('mesh_qualified')}"),
    "qualifiers": _in_metadata(
        f"mesh IS NOT NULL AND contains(array_to_string(mesh, ' '), '/') OR {_has_key('mesh_qualified')}",
        r'"mesh_qualified":\["[^"/]*/[A-Za-z]',
    ),
    Field.TITLE: RowsLacking("title IS NULL"),
    Field.ABSTRACT: RowsLacking("exact_abstract IS NULL"),
    Field.BODY: RowsLacking("text IS NULL AND exact_text IS NULL"),
    Field.KEYWORDS: _list_column("tags"),
    Field.AUTHOR: _list_column("authors"),
    Field.JOURNAL: RowsLacking("venue IS NULL", f"venue IS NULL AND ({_has_key('journal_abbreviation', 'issn')})"),
    Field.LANGUAGE: RowsLacking("language IS NULL"),
    Field.PUBLICATION_TYPE: _in_metadata(_has_key("publication_types", "type"), r'"publication_types":\["[^"]', '"type":"[^"]'),
    Field.PMID: RowsLacking("pmid IS NULL"),
    Field.DOI: RowsLacking("doi IS NULL"),
    Field.VOLUME: _of_papers("volume"),
    Field.ISSUE: _of_papers("issue"),
    Field.PAGES: _of_papers("pages"),
}
"""As `boolean.document.lacks` decides for a record."""
