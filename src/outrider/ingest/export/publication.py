"""Type, publisher and editors of a record, under whatever names its file has them

Readers keep such fields in the metadata under the names of the file. A bibliography of another format needs them under its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import JsonValue

from outrider.ingest.field_values import format_scalar, one_line, parse_person, split_authors
from outrider.state.records import BaseRecord
from outrider.text.languages_and_work_types import GENRES, normal_type
from outrider.text.words import fold_name

TYPED_BY = ("type", "entry_type", "ref-type", "TY", "publication_types")
PUBLISHERS = ("publisher", "pb", "school", "institution", "%I")
PLACES = ("place", "publisher_place", "address", "location", "pub_location", "cy", "%C")
EDITORS = ("editor", "editors", "secondary_authors", "a2", "%E")
EDITIONS = ("edition", "et", "%7")
SERIES = ("series", "collection_title", "t3", "%S")
"""Names of BibTeX, RIS, CSL, EndNote and Zotero's tables, folded but for those of Refer, in the order in which they count."""


@dataclass(frozen=True, slots=True)
class Publication:
    """Empty fields are unknown."""

    publisher: str = ""
    place: str = ""
    editors: tuple[str, ...] = ()
    edition: str = ""
    series: str = ""


def find_publication(record: BaseRecord) -> Publication:
    fields = {name if name.startswith("%") else fold_name(name): value for name, value in reversed(record.metadata.items())}
    return Publication(
        _find_text(fields, PUBLISHERS),
        _find_text(fields, PLACES),
        next(filter(None, (_split_names(fields.get(name)) for name in EDITORS)), ()),
        _find_text(fields, EDITIONS),
        _find_text(fields, SERIES),
    )


def find_type(record: BaseRecord) -> str:
    """The first type that is named, by `normal_type`; empty for none, and if a name says that it is an article, also of a special kind."""
    values = (record.metadata.get(name) for name in TYPED_BY)
    words = (word for value in values for word in (value if isinstance(value, list) else [value]) if isinstance(word, str))
    types = [name for word in words if (name := normal_type(word))]
    return "" if not types or any(name == "article" or name in GENRES - {"news"} for name in types) else types[0]


def _find_text(fields: Mapping[str, JsonValue], names: tuple[str, ...]) -> str:
    return next((text for name in names if (text := one_line(format_scalar(fields.get(name)) or ""))), "")


def _split_names(value: JsonValue) -> tuple[str, ...]:
    """The names in a list of names or persons, or in one text as BibTeX or a table has it."""
    if isinstance(value, list):
        names = [parse_person(one) if isinstance(one, Mapping) else one for one in value]
        return tuple(one_line(name) for name in names if isinstance(name, str) and one_line(name))
    text = one_line(format_scalar(value) or "")
    separator = next((mark for mark in (";", " and ") if mark in text), None)
    return (
        tuple(filter(None, (name.strip() for name in text.split(separator) if name))) if separator else split_authors(text) if text else ()
    )
