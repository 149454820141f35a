"""EndNote XML (`<xml><records><record>...`, the format of EndNote's own "XML" export; it has no published schema).

Streamed, one record in memory. Text is spread over `<style>` runs, which are joined; `&#xD;` inside is a line end. Elements
without a place of their own stay in the metadata under their names.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO
from xml.etree.ElementTree import Element  # the type only; defusedxml parses

from pydantic import JsonValue

from outrider.ingest.entry import BadEntry, Entry, Parsed, ReadOptions
from outrider.ingest.readers.safe_xml import translated
from outrider.ingest.readers.text_files import refuse_large
from outrider.ingest.record_draft import Draft, from_pubmed, identifiers_of
from outrider.ingest.row_columns import NOTHING, has_content
from outrider.ingest.values import clean, scalar
from outrider.state.errors import UnreadableFile
from outrider.state.records import Paper

GROUPS = frozenset({"contributors", "titles", "dates", "urls"})
"""Elements that only hold others; the names of those are the fields."""
LISTS = frozenset({"authors", "keywords"})
DATABASES = ("remote-database-name", "remote-database-provider")
OWN = "rec-number"


def read(path: Path, options: ReadOptions) -> Iterator[Parsed]:
    refuse_large(path, options)
    number = 0
    with path.open("rb") as file:
        try:
            for record in _records(path, file):
                number += 1
                yield _parsed(record, f"record {number}")
        except UnreadableFile as broken:
            if not number:
                raise
            yield BadEntry(f"after record {number}", f"{broken}; the rest of the file is lost")
    if not number:
        raise UnreadableFile(f"{path}: no EndNote <record> in it")


def _records(path: Path, file: BinaryIO) -> Iterator[Element]:
    from defusedxml.ElementTree import iterparse

    with translated(path):
        events = iterparse(file, events=("start", "end"))
    parent: Element | None = None
    while True:
        with translated(path):
            event, element = next(events, (None, None))
        if element is None:
            return
        if event == "start" and element.tag == "records":
            parent = element
        elif event == "end" and element.tag == "record":
            yield element
            (parent if parent is not None else element).clear()  # else the tree would keep every record


def _parsed(record: Element, where: str) -> Parsed:
    paper = _paper(Draft(_fields(record)))
    if not has_content(paper, ignored=(OWN, "ref-type", "database", "source-app", "foreign-keys")):
        return BadEntry(where, NOTHING, empty=True)
    own = paper.metadata.get(OWN)
    return Entry(paper, scalar(own) if own is not None else None)


def _fields(record: Element) -> dict[str, JsonValue]:
    found: dict[str, list[JsonValue]] = {}
    for part in record:
        for element in part if part.tag in GROUPS else (part,):
            name = str(element.tag)
            values = [str(clean(text)) for text in _texts(element) if text]
            found.setdefault(name, []).extend([element.get("name") or values[0]] if name == "ref-type" and values else values)
    return {name: values[0] if len(values) == 1 and name not in LISTS else values for name, values in found.items() if values}


def _texts(element: Element) -> list[str]:
    leaves = [part for part in element.iter() if part is not element and part.tag != "style" and all(sub.tag == "style" for sub in part)]
    return ["".join(leaf.itertext()).replace("\r\n", "\n").replace("\r", "\n").strip() for leaf in leaves or [element]]


def _paper(draft: Draft) -> Paper:
    pmid = ("accession-num",) if from_pubmed(draft, DATABASES, "accession-num") else ()
    names = {"doi": ("electronic-resource-num",), "pmid": pmid, "pmcid": ("custom2",), "isbn": ("isbn",)}
    url = draft.line("related-urls", "web-urls")
    return Paper(
        doc_id="",
        url=url,
        identifiers=identifiers_of(draft, names, url),
        title=draft.line("title") or "",
        abstract=draft.text("abstract"),
        authors=draft.lines("authors"),
        year=draft.year("year", "pub-dates"),
        venue=draft.line("secondary-title", "periodical"),
        volume=draft.line("volume"),
        issue=draft.line("number"),
        pages=draft.line("pages"),
        language=draft.line("language"),
        tags=draft.lines("keywords"),
        metadata=draft.rest,
    )
