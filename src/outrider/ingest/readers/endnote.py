"""Reader of EndNote XML (`<xml><records><record>...`), the format of EndNote's "XML" export.

The format has no published schema. It is streamed, one record in memory. Text is spread over `<style>` runs, which are joined;
`&#xD;` inside is a line end. Elements without a field of the record stay in the metadata under their names.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO
from xml.etree.ElementTree import Element  # the type only; defusedxml parses

from pydantic import JsonValue

from outrider.ingest.column_mapping import NOTHING, has_content
from outrider.ingest.entry import BadEntry, Entry, Parsed, ReadOptions
from outrider.ingest.field_values import clean, format_scalar
from outrider.ingest.readers.open_text import refuse_large
from outrider.ingest.readers.safe_xml import xml_errors
from outrider.ingest.record_draft import Draft, is_from_pubmed, make_paper
from outrider.state.errors import UnreadableFile

GROUPS = frozenset({"contributors", "titles", "dates", "urls"})
"""Elements that only hold others; the names of those are the fields."""
LISTS = frozenset({"authors", "keywords"})
DATABASES = ("remote-database-name", "remote-database-provider")
OWN_ID = "rec-number"
NAMES = {
    "title": ("title",), "abstract": ("abstract",), "url": ("related-urls", "web-urls"), "authors": ("authors",),
    "year": ("year", "pub-dates"), "venue": ("secondary-title", "periodical"), "volume": ("volume",), "issue": ("number",),
    "pages": ("pages",), "language": ("language",), "keywords": ("keywords",), "types": ("work-type",),
    "doi": ("electronic-resource-num",), "pmcid": ("custom2",), "isbn": ("isbn",), "issn": ("isbn",),
}  # fmt: skip
"""Field or identifier of a record -> elements."""


def read(path: Path, options: ReadOptions) -> Iterator[Parsed]:
    refuse_large(path, options)
    number = 0
    with path.open("rb") as file:
        try:
            for element in _stream_records(path, file):
                number += 1
                draft = Draft(_list_fields(element))
                pmid = ("accession-num",) if is_from_pubmed(draft, DATABASES, "accession-num") else ()
                paper = make_paper(draft, {**NAMES, "pmid": pmid})
                if has_content(paper, ignored=(OWN_ID, "ref-type", "database", "source-app", "foreign-keys")):
                    yield Entry(paper, format_scalar(paper.metadata.get(OWN_ID)))
                else:
                    yield BadEntry(f"record {number}", NOTHING, empty=True)
        except UnreadableFile as error:
            if not number:
                raise
            yield BadEntry(f"after record {number}", f"{error}; the rest of the file is lost")
    if not number:
        raise UnreadableFile(f"{path}: no EndNote <record> in it")


def _stream_records(path: Path, file: BinaryIO) -> Iterator[Element]:
    from defusedxml.ElementTree import iterparse

    with xml_errors(path):
        events = iterparse(file, events=("start", "end"))
    parent: Element | None = None
    while True:
        with xml_errors(path):
            event, element = next(events, (None, None))
        if element is None:
            return
        if event == "start" and element.tag == "records":
            parent = element
        elif event == "end" and element.tag == "record":
            yield element
            (parent if parent is not None else element).clear()  # else the tree would keep every record


def _list_fields(record: Element) -> dict[str, JsonValue]:
    fields: dict[str, list[JsonValue]] = {}
    for part in record:
        for element in part if part.tag in GROUPS else (part,):
            parts = [leaf for leaf in element.iter() if leaf is not element and leaf.tag != "style"]
            leaves = [leaf for leaf in parts if all(run.tag == "style" for run in leaf)]
            texts = ("".join(leaf.itertext()).replace("\r\n", "\n").replace("\r", "\n").strip() for leaf in leaves or [element])
            values: list[JsonValue] = [str(clean(text)) for text in texts if text]
            if element.tag == "ref-type" and values:
                values = [element.get("name") or values[0]]
            fields.setdefault(str(element.tag), []).extend(values)
    return {name: values[0] if len(values) == 1 and name not in LISTS else values for name, values in fields.items() if values}
