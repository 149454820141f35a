"""Markdown for people: a heading, authors and place, links, the abstract. It is not read back as records."""

from __future__ import annotations

import re

from outrider.ingest.export.writer import Writer
from outrider.ingest.values import one_line
from outrider.state.records import BaseRecord, Paper

SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|])")


class MarkdownWriter(Writer):
    _number = 0

    def record(self, record: BaseRecord) -> None:
        self._number += 1
        parts = [f"## {self._number}. {_plain(record.title or record.doc_id)}", _line(record), _links(record), _prose(record)]
        self.stream.write("\n\n".join(part for part in parts if part) + "\n\n")


def _line(record: BaseRecord) -> str:
    place = [record.venue or "", str(record.year or "")]
    if isinstance(record, Paper):
        place.append(f"{record.volume or ''}{f'({record.issue})' if record.issue else ''}{f':{record.pages}' if record.pages else ''}")
    if record.stars is not None:
        place.append(f"{record.stars:,} stars")
    return ". ".join(_plain(part) for part in ("; ".join(record.authors), ", ".join(part for part in place if part)) if part)


def _links(record: BaseRecord) -> str:
    doi, pmid = record.identifiers.doi, record.identifiers.pmid
    found = [f"https://doi.org/{doi}" if doi else "", f"https://pubmed.ncbi.nlm.nih.gov/{pmid}/" if pmid else "", record.url or ""]
    return " · ".join(f"<{link}>" for link in dict.fromkeys(found) if link and not re.search(r"[\s<>]", link))


def _prose(record: BaseRecord) -> str:
    return _plain(record.abstract or record.description)


def _plain(text: str) -> str:
    return SPECIAL.sub(r"\\\1", one_line(text))
