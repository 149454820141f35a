"""PubMed XML (`PubmedArticleSet`): many articles a file, read as a stream. What an article says is read by `sources.records.pubmed`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from xml.etree.ElementTree import Element  # the type only; defusedxml parses

from outrider.ingest.entry import BadEntry, Entry, Parsed, ReadOptions
from outrider.ingest.readers.safe_xml import translated
from outrider.sources.pubmed.parse import ARTICLES, paper_of
from outrider.state.errors import UnreadableFile


def read(path: Path, options: ReadOptions) -> Iterator[Parsed]:
    from defusedxml.ElementTree import iterparse

    seen = 0
    with path.open("rb") as file, translated(path):
        root: Element | None = None
        for event, element in iterparse(file, events=("start", "end")):
            if root is None:
                root = element
            if event == "end" and element.tag in ARTICLES:
                seen += 1
                yield _entry(element, seen)
                element.clear()
                if root is not element:
                    root.clear()  # what was yielded is not needed again: memory does not grow with the file
    if not seen:
        raise UnreadableFile(f"{path}: holds no PubMed article")


def _entry(item: Element, place: int) -> Parsed:
    record = paper_of(item)
    if record is None:
        return BadEntry(f"article {place}", "has neither a title nor an identifier")
    return Entry(record, own_id=record.identifiers.pmid)
