"""Mapping of table columns and JSON fields to fields of a record, by known names or `--map`.

Names are compared without case, spaces and punctuation. Those in other languages are in `translated_columns`. A column with an unknown
name stays in the record's metadata under that name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from pydantic import JsonValue

from outrider.ingest.entry import BadEntry, Entry, Parsed
from outrider.ingest.field_values import TooDeep, clean, format_scalar, is_absent, is_empty, one_line, parse_source, split_authors
from outrider.ingest.record_draft import OWN_ID, Columns, Draft, read_identifiers, read_metadata, replace_own_ids
from outrider.ingest.translated_columns import fold_accents, translate_columns
from outrider.linkage.identifiers import find_openalex_work
from outrider.state.errors import BadRequest, NothingToRead, UnreadableFile, did_you_mean
from outrider.state.records import BaseRecord, Document, Page, Paper, Record, Repository
from outrider.text.words import fold_name

NAMES: dict[str, tuple[str, ...]] = {
    "id": ("id", "_id", "record_id", "doc_id", "docid", "entity_id", "recordid", "rec_number"),
    "kind": ("kind",),
    "title": ("title", "primary_title", "article_title", "document_title"),
    "description": ("description",),
    "abstract": ("abstract", "notes_abstract", "abstract_text", "abstract_note"),
    "text": ("text", "body", "full_text", "fulltext"),
    "authors": ("authors", "author", "author_s", "author_names", "first_authors"),
    "journal": ("journal", "venue", "journal_name", "journal_title", "source_title", "publication_name", "secondary_title",
                "container_title", "booktitle", "book_title", "journal_book", "publication_title", "pubtitle"),
    "abbreviation": ("abbreviated_source_title", "journal_abbreviation", "journal_abbrev", "journal_iso_abbreviation",
                     "container_title_short", "journalabbreviation"),
    "year": ("year", "publication_year", "pub_year", "pubyear", "year_published", "year_of_publication", "issued", "date_of_publication",
             "published_year", "publication_date", "pub_date"),
    "volume": ("volume",),
    "issue": ("issue", "journal_issue", "issue_number"),
    "pages": ("pages", "page", "pagination", "page_range"),
    "start_page": ("start_page", "page_start", "first_page"),
    "end_page": ("end_page", "page_end", "last_page"),
    "article_number": ("article_number", "art_no", "elocation_id"),
    "doi": ("doi",),
    "pmid": ("pmid", "pubmed_id", "pubmedid", "medline_pmid"),
    "pmcid": ("pmcid", "pmc_id"),
    "arxiv": ("arxiv", "arxiv_id"),
    "openalex": ("openalex", "openalex_id"),
    "isbn": ("isbn", "isbns"),
    "issn": ("issn", "issns", "print_issn", "issn_print", "eissn", "e_issn", "electronic_issn", "online_issn"),
    "url": ("url", "urls", "link", "document_url", "documenturl", "plink"),
    "keywords": ("keywords", "keyword", "tags", "topics", "author_keywords", "index_keywords", "keywords_plus", "manual_tags",
                 "automatic_tags", "identifierkeywords", "subjectterms", "ieee_terms",
                 "emtree_drug_index_terms_major_focus", "emtree_drug_index_terms", "emtree_medical_index_terms_major_focus",
                 "emtree_medical_index_terms", "emtree_device_index_terms_major_focus", "emtree_device_index_terms"),
    "mesh": ("mesh", "mesh_terms", "mesh_headings"),
    "types": ("document_type", "publication_type", "publication_types", "publicationtypes", "type_of_work", "documenttype",
              "doctype", "item_type", "reference_type"),
    "references": ("references", "cited_references", "reference_list", "referenced_works"),
    "language": ("language", "languages", "language_of_original_document", "article_language", "language_of_article"),
    "citations": ("citations",),
    "stars": ("stars",),
    "licence": ("licence", "license"),
    "forks": ("forks",),
    "is_fork": ("is_fork", "fork"),
    "archived": ("archived",),
    "updated_at": ("updated_at", "pushed_at"),
}  # fmt: skip
FIELD_OF = {name: field for field, names in NAMES.items() for name in names}
CONTENT = frozenset(
    {"title", "description", "abstract", "text", "authors", "doi", "pmid", "pmcid", "arxiv", "isbn", "url", "keywords", "mesh"}
)
PUBMED_ID = re.compile(r"\b(PMID|PMCID): ?([1-9]\d{0,8}|PMC[1-9]\d{0,8})\b")
FLOAT = re.compile(r"\d+\.0")
NUMBERS = frozenset({"volume", "issue", "pages", "start_page", "end_page", "pmid"})
"""Columns that a spreadsheet or pandas turns into `12.0`."""
BESIDE_NUMBER = frozenset({"journal", "volume", "pages", "start_page"})
"""`number` is an issue only next to one of these columns; in any other table it is a number."""
NOTES = frozenset({"note", "extra"})
"""Columns in which Zotero writes identifiers that it has no field for."""
SOURCES = frozenset({"source"})
"""Columns in which Embase writes journal, year, volume, issue and pages in one line."""
KINDS: dict[str, type[Paper | Repository | Page | Document]] = {
    "repository": Repository,
    "page": Page,
    "document": Document,
    "paper": Paper,
}
NOTHING = "neither title nor text, nor anything else to find it by"


def check_fields(columns: Mapping[str, str]) -> None:
    """Raises `BadRequest` for a `--map` with an unknown field."""
    for field in columns:
        if fold_name(field) not in FIELD_OF:
            raise BadRequest(f"--map: unknown field {field!r}{did_you_mean(fold_name(field), FIELD_OF)}; known: {', '.join(NAMES)}")


def find_columns(names: Iterable[str], columns: Mapping[str, str], translated: Mapping[str, str] | None = None) -> dict[str, str]:
    """Each known name -> the column that holds it. A column mapped by `columns` holds its field and no other.

    A column that is named in another language stands under the first English name, where no column has an English one. `translated` are
    these columns with their fields, if more is known than `names`: a row lacks the columns in which it has no value.
    """
    headers = list(names)
    by_folded: dict[str, str] = {}
    for name in headers:
        by_folded.setdefault(fold_name(name), name)
    mapped = {FIELD_OF[fold_name(field)]: column for field, name in columns.items() if (column := _find_column(name, headers, by_folded))}
    mapped_columns = set(mapped.values())
    known = {name: column for name, column in by_folded.items() if name in FIELD_OF and column not in mapped_columns}
    number = by_folded.get("number")
    if number and number not in mapped_columns and any(FIELD_OF[name] in BESIDE_NUMBER for name in known):
        known.setdefault("issue", number)
    fields = {*map(FIELD_OF.__getitem__, known), *mapped}
    for column, field in (translate_columns(headers) if translated is None else translated).items():
        if field not in fields and column not in mapped_columns and (translated is None or column in headers):
            fields.add(field)
            known[NAMES[field][0]] = column
    return known | {NAMES[field][0]: column for field, column in mapped.items()}


def find_translated(names: Sequence[str], columns: Mapping[str, str]) -> dict[str, str]:
    """The field of each column of a table that is named in another language, where no other column holds this field."""
    known = find_columns(names, columns)
    return {column: field for column, field in translate_columns(names).items() if known.get(NAMES[field][0]) == column}


@dataclass(frozen=True, slots=True)
class _Header:
    """What the columns of a row are."""

    names: tuple[str, ...]
    """Of all columns, without what no store takes."""
    columns: Columns
    field_of: Mapping[str, str]
    """The field of each known column."""
    ids: tuple[tuple[str, str], ...]
    """Names and columns that may hold the own id, the likeliest first."""
    notes: tuple[str, ...]
    sources: tuple[str, ...]


@lru_cache(maxsize=256)
def _read_header(names: tuple[str, ...], mapped: tuple[tuple[str, str], ...], translated: tuple[tuple[str, str], ...] | None) -> _Header:
    """Most rows have the columns of the row before."""
    cleaned = tuple(str(clean(name)) for name in names)
    unique = tuple(dict.fromkeys(cleaned))
    known = find_columns(unique, dict(mapped), None if translated is None else dict(translated))
    return _Header(
        cleaned,
        Columns(known),
        {column: FIELD_OF[name] for name, column in known.items()},
        tuple((name, known[name]) for name in NAMES["id"] if name in known),
        tuple(name for name in unique if fold_name(name) in NOTES),
        tuple(name for name in unique if fold_name(name) in SOURCES),
    )


def _find_column(name: str, headers: list[str], by_folded: Mapping[str, str]) -> str | None:
    if name in headers:
        return name
    return by_folded.get(fold_name(name)) or next((header for header in headers if fold_accents(header) == fold_accents(name)), None)


def check_columns(path: Path, names: Iterable[str], columns: Mapping[str, str], where: str = "") -> None:
    """Raises `UnreadableFile` for a mapped column that is missing, `NothingToRead` if no column is one to find a record by."""
    headers = list(dict.fromkeys(names))
    by_folded = {fold_name(name): name for name in headers}
    listing = ", ".join(name[:60] for name in headers[:40]) + (", ..." if len(headers) > 40 else "")
    missing = [f"{name!r} (for {field})" for field, name in columns.items() if not _find_column(name, headers, by_folded)]
    if missing:
        raise UnreadableFile(f"{path}{where}: no column {', '.join(missing)}; the columns are: {listing}")
    if not any(FIELD_OF[name] in CONTENT for name in find_columns(headers, columns)):
        raise NothingToRead(
            f"{path}{where}: none of its columns is known ({listing}); name them with --map, for example --map title={headers[0][:60]}"
        )


def parse_row(
    row: Mapping[str, JsonValue],
    columns: Mapping[str, str],
    where: str,
    *,
    translated: Mapping[str, str] | None = None,
    scope: str = "",
) -> Parsed:
    """The entry of one row, or the reason why it has none. `translated` as for `find_columns`.

    `scope` separates the own ids of one part of a file from another's.
    """
    header = _read_header(tuple(row), tuple(columns.items()), None if translated is None else tuple(translated.items()))
    try:
        cleaned = dict(zip(header.names, map(clean, row.values()), strict=True))
    except TooDeep as error:
        return BadEntry(where, str(error))
    draft = Draft(_keep_values(cleaned, header.field_of), header.columns)
    # the own id stays in the metadata: as `id`, whatever its case, or under another name as written
    own_id = None
    for name, column in header.ids:
        value = draft.rest.get(column)
        if (own_id := format_scalar(value)) is not None:
            if name == "id":
                draft.rest.pop(column)
                draft.rest["id"] = value
            break
    record = _make_record(draft, header)
    if not has_content(record, ignored=("id",)):
        return BadEntry(where, NOTHING, empty=True)
    if own_id and record.identifiers.openalex is None and (openalex := find_openalex_work(own_id)):
        record = record.model_copy(update={"identifiers": record.identifiers.model_copy(update={"openalex": openalex})})
    record = replace_own_ids(record, lambda target: OWN_ID + scope + target.removeprefix(OWN_ID))
    return Entry(record, scope + own_id if own_id is not None else None)


def _keep_values(cells: Mapping[str, JsonValue], field_of: Mapping[str, str]) -> dict[str, JsonValue]:
    """The cells but for those of known columns that hold nothing, or a word for nothing; numbers without a spreadsheet's `.0`."""
    kept: dict[str, JsonValue] = {}
    for name, value in cells.items():
        field = field_of.get(name)
        if field is None:
            kept[name] = value
        elif not (is_absent(value) if isinstance(value, str) else is_empty(value)):
            is_decimal = field in NUMBERS and isinstance(value, str) and FLOAT.fullmatch(value)
            kept[name] = str(value).removesuffix(".0") if is_decimal else value
    return kept


def has_content(record: BaseRecord, ignored: tuple[str, ...] = ()) -> bool:
    """Whether a record holds anything but the metadata in `ignored`."""
    names = ("title", "abstract", "text", "description", "url", "authors", "tags")
    if any(getattr(record, name) for name in names) or record.identifiers.pairs():
        return True
    return any(not is_empty(value) for name, value in record.metadata.items() if name not in ignored)


def _find_text(draft: Draft, columns: Iterable[str]) -> str:
    """The text of the first of these columns that is left, and stays where it is."""
    return next((format_scalar(draft.rest[name]) or "" for name in columns if name in draft.rest), "")


def _make_record(draft: Draft, header: _Header) -> Record:
    kind = KINDS.get(next((format_scalar(value) or "" for _, value in draft.list_values(NAMES["kind"])), "").casefold())
    if kind:
        draft.line("kind")
    kind = kind or Paper
    url = draft.link(*NAMES["url"])
    identifiers = read_identifiers(draft, NAMES, url)
    note, source = _find_text(draft, header.notes), _find_text(draft, header.sources)
    if missing := {match[1].lower(): match[2] for match in PUBMED_ID.finditer(note) if getattr(identifiers, match[1].lower()) is None}:
        identifiers = identifiers.model_copy(update=missing)
    fields: dict[str, object] = {"doc_id": "", "url": url, "identifiers": identifiers}
    if kind is Repository:
        fields["licence"] = draft.line(*NAMES["licence"])
        fields["forks"] = draft.count(*NAMES["forks"])
        fields |= {name: draft.flag(*NAMES[name]) for name in ("is_fork", "archived")}
        fields["updated_at"] = draft.line(*NAMES["updated_at"])
    elif kind is Paper:
        fields |= {name: draft.line(*NAMES[name]) for name in ("volume", "issue")}
        pages = draft.pages(NAMES["pages"], NAMES["start_page"], NAMES["end_page"])
        fields["pages"] = pages or draft.line(*NAMES["article_number"])
        fields["mesh"] = draft.lines(*NAMES["mesh"])
    fields["title"] = draft.line(*NAMES["title"]) or ""
    fields |= {name: draft.text(*NAMES[name]) for name in ("description", "abstract", "text")}
    persons = next((value for _, value in draft.list_values(NAMES["authors"])), None)
    authors = draft.lines(*NAMES["authors"])
    is_whole = isinstance(persons, list) and any(isinstance(person, dict) for person in persons)
    fields["authors"] = split_authors(authors[0]) if len(authors) == 1 and not is_whole else authors
    fields["year"] = draft.year(*NAMES["year"])
    fields["venue"] = draft.line(*NAMES["journal"])
    fields |= {name: draft.count(*NAMES[name]) for name in ("citations", "stars")}
    fields["language"] = draft.languages(*NAMES["language"])
    fields["tags"] = draft.all_lines(*NAMES["keywords"], commas=True)
    fields["edges"] = draft.references(*NAMES["references"])
    metadata: dict[str, JsonValue] = {}
    if kind is Paper:
        metadata |= read_metadata(draft, NAMES)
        for name, value in parse_source(one_line(source)).items() if source else ():
            fields[name] = fields[name] or (int(value) if name == "year" else value)
    return kind.model_validate({**fields, "metadata": metadata | draft.rest})
