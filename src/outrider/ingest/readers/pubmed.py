"""Reader of PubMed XML (`PubmedArticleSet`), streamed.

`sources.pubmed` reads the single articles.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from xml.etree.ElementTree import Element  # the type only; defusedxml parses

from outrider.ingest.entry import BadEntry, Entry, Parsed, ReadOptions
from outrider.ingest.readers.safe_xml import xml_errors
from outrider.sources.pubmed import ARTICLES, parse_paper
from outrider.state.errors import UnreadableFile


def read(path: Path, options: ReadOptions) -> Iterator[Parsed]:
    from defusedxml.ElementTree import iterparse

    articles = 0
    with path.open("rb") as file, xml_errors(path):
        root: Element | None = None
        for event, element in iterparse(file, events=("start", "end")):
            if root is None:
                root = element
            if event == "end" and element.tag in ARTICLES:
                articles += 1
                record = parse_paper(element)
                if record is None:
                    yield BadEntry(f"article {articles}", "has neither a title nor an identifier")
                else:
                    yield Entry(record, own_id=record.identifiers.pmid)
                element.clear()
                if root is not element:
                    root.clear()  # the article is not needed again: memory does not grow with the file
    if not articles:
        raise UnreadableFile(f"{path}: holds no PubMed article")
