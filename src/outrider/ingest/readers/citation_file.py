"""Reader of CITATION.cff: software or a data set, and the article to cite for it.

Citation File Format 1.2 (citation-file-format.github.io). The software is a repository record, and its `preferred-citation` a paper of
its own. `references` are edges `cites` to their DOIs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from outrider.ingest.column_mapping import has_content, parse_row
from outrider.ingest.entry import BadEntry, Entry, Parsed, ReadOptions
from outrider.ingest.field_values import one_line, parse_year
from outrider.ingest.readers.open_text import read_text, refuse_large
from outrider.ingest.readers.text_documents import parse_mapping
from outrider.ingest.record_draft import make_citation
from outrider.linkage.identifiers import normal_doi, normal_repository
from outrider.state.errors import UnreadableFile
from outrider.state.records import Edge, Identifiers, Paper, Repository

PAPER_FIELDS = {
    "title": "title", "abstract": "abstract", "journal": "journal", "collection-title": "journal", "year": "year", "volume": "volume",
    "issue": "issue", "pages": "pages", "start": "start_page", "end": "end_page", "doi": "doi", "pmcid": "pmcid", "issn": "issn",
    "isbn": "isbn", "url": "url", "type": "type", "keywords": "keywords",
}  # fmt: skip
"""Keys of a reference -> names of columns."""
MAX_CHARS = 2**20


def read(path: Path, options: ReadOptions) -> Iterator[Parsed]:
    refuse_large(path, options)
    content, problem = parse_mapping(read_text(path, options).text, MAX_CHARS)
    if problem:
        raise UnreadableFile(f"{path}: {problem}")
    if "cff-version" not in content and "title" not in content:
        raise UnreadableFile(f"{path}: no CITATION.cff: neither cff-version nor title is among its keys")
    record = _make_record(content)
    if has_content(record):
        yield Entry(record, "citation")
    else:
        yield BadEntry("file", "names neither a title nor authors", empty=True)
    preferred = content.get("preferred-citation")
    if isinstance(preferred, Mapping):
        row = {PAPER_FIELDS[key]: value for key in PAPER_FIELDS if (value := preferred.get(key)) is not None}
        row = {name: value if isinstance(value, list) else _text(value) for name, value in row.items()}
        conference = preferred.get("conference")
        if "journal" not in row and isinstance(conference, Mapping):
            row["journal"] = _text(conference.get("name"))
        parsed = parse_row(row, {}, "preferred-citation")
        if isinstance(parsed, Entry):
            language = _text(next(iter(_list(preferred.get("languages"))), None)) or None
            changes = {"authors": tuple(_authors(preferred)), "language": language}
            edges = (Edge(relation="describes", target="id:citation"),)
            parsed = Entry(parsed.record.model_copy(update={**changes, "edges": edges}), "preferred-citation")
        yield parsed


def _make_record(content: Mapping[Any, Any]) -> Repository | Paper:
    identifiers = [item for item in _list(content.get("identifiers")) if isinstance(item, Mapping)]
    dois = [content.get("doi"), *(item.get("value") for item in identifiers if item.get("type") == "doi")]
    code = _text(content.get("repository-code") or content.get("repository"))
    references = (_text(item.get("doi")) for item in _list(content.get("references")) if isinstance(item, Mapping))
    edges = dict.fromkeys(edge for doi in references if (edge := make_citation(normal_doi(doi), None)))
    values: dict[str, Any] = {
        "doc_id": "",
        "title": _text(content.get("title")),
        "abstract": str(content.get("abstract") or "").strip(),
        "url": code or _text(content.get("url")) or None,
        "identifiers": Identifiers(
            doi=next(filter(None, (normal_doi(_text(doi)) for doi in dois)), None),
            github=normal_repository(code) if "github.com" in code else None,
        ),
        "authors": tuple(_authors(content)),
        "year": parse_year(_text(content.get("date-released")))[0],
        "tags": tuple(filter(None, map(_text, _list(content.get("keywords"))))),
        "edges": tuple(edges),
        "metadata": {
            name: text
            for name in ("version", "type", "message", "date-released", "license-url", "commit")
            if (text := _text(content.get(name)))
        },
    }
    if content.get("type") == "dataset":
        return Paper(**values)
    return Repository(**values, licence=", ".join(map(_text, _list(content.get("license")))) or None)


def _authors(content: Mapping[Any, Any]) -> Iterator[str]:
    """`Family, Given` for persons, the name of an entity, else the alias."""
    for person in _list(content.get("authors")):
        if isinstance(person, Mapping):
            family = " ".join(filter(None, (_text(person.get("name-particle")), _text(person.get("family-names")))))
            parts = (family, _text(person.get("given-names")), _text(person.get("name-suffix")))
            if name := ", ".join(filter(None, parts)) or _text(person.get("name")) or _text(person.get("alias")):
                yield name


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _text(value: Any) -> str:
    return "" if value is None or isinstance(value, list | Mapping) else one_line(str(value))
