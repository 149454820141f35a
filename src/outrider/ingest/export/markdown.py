"""Markdown export for people: heading, notices, authors, venue, links, abstract

It is not read back.
"""

from __future__ import annotations

import re

from outrider.ingest.export.base_writer import Writer
from outrider.ingest.field_values import one_line
from outrider.state.full_text import parse_origin
from outrider.state.notices import list_notices
from outrider.state.records import BaseRecord, Paper

SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|])")


class MarkdownWriter(Writer):
    """One section a record, numbered from 1."""

    _number = 0

    def record(self, record: BaseRecord) -> None:
        self._number += 1
        venue = [record.venue or "", str(record.year or "")]
        if isinstance(record, Paper):
            issue = f"({record.issue})" if record.issue else ""
            venue.append(":".join(part for part in (f"{record.volume or ''}{issue}", record.pages) if part))
        if record.stars is not None:
            venue.append(f"{record.stars:,} stars")
        doi, pmid = record.identifiers.doi, record.identifiers.pmid
        links = (f"https://doi.org/{doi}" if doi else "", f"https://pubmed.ncbi.nlm.nih.gov/{pmid}/" if pmid else "", record.url or "")
        authors = "; ".join(record.authors)
        parts = [
            f"## {self._number}. {_escape(record.title or record.doc_id)}",
            "\n".join(f"**{_escape(notice.describe())}**  " for notice in list_notices(record)),
            ". ".join(_escape(part) for part in (authors, ", ".join(part for part in venue if part)) if part),
            " · ".join(f"<{link}>" for link in dict.fromkeys(links) if link and not re.search(r"[\s<>]", link)),
            f"Full text: {_escape(origin.describe())}" if (origin := parse_origin(record.metadata)) else "",
            _escape(record.abstract or record.description),
        ]
        self.stream.write("\n\n".join(part for part in parts if part) + "\n\n")


def _escape(text: str) -> str:
    return SPECIAL.sub(r"\\\1", one_line(text))
