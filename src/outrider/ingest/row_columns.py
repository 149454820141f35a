"""Rows of named values (a line of CSV, a JSON object) into records, by known names or by `--map`.

Names are compared without case, spaces and punctuation. What is not known stays in the record's metadata as it was called.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path

from pydantic import JsonValue

from outrider.ingest.entry import BadEntry, Entry, Parsed
from outrider.ingest.record_draft import OWN_ID, Draft, identifiers_of, with_own_ids
from outrider.ingest.values import TooDeep, clean, empty, parted_authors, scalar
from outrider.state.errors import BadRequest, NothingToRead, UnreadableFile, did_you_mean
from outrider.state.records import BaseRecord, Document, Page, Paper, Record, Repository

NAMES: dict[str, tuple[str, ...]] = {
    "id": ("id", "_id", "record_id", "doc_id", "docid", "entity_id", "recordid", "rec_number"),
    "kind": ("kind",),
    "title": ("title", "primary_title", "article_title", "document_title"),
    "description": ("description",),
    "abstract": ("abstract", "notes_abstract", "abstract_text"),
    "text": ("text", "body", "full_text", "fulltext"),
    "authors": ("authors", "author", "author_s", "author_names", "first_authors"),
    "journal": ("journal", "venue", "journal_name", "journal_title", "source_title", "publication_name", "secondary_title",
                "container_title", "booktitle", "book_title"),
    "year": ("year", "publication_year", "pub_year", "year_published", "issued"),
    "volume": ("volume",),
    "issue": ("issue", "journal_issue"),
    "pages": ("pages", "page"),
    "start_page": ("start_page", "page_start", "first_page"),
    "end_page": ("end_page", "page_end", "last_page"),
    "doi": ("doi",),
    "pmid": ("pmid", "pubmed_id", "pubmedid"),
    "pmcid": ("pmcid", "pmc_id"),
    "arxiv": ("arxiv", "arxiv_id"),
    "isbn": ("isbn",),
    "url": ("url", "urls", "link"),
    "keywords": ("keywords", "keyword", "tags", "topics", "author_keywords"),
    "mesh": ("mesh", "mesh_terms"),
    "references": ("references", "cited_references", "reference_list", "referenced_works"),
    "language": ("language", "languages"),
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
PAIRED = frozenset({"journal", "volume", "pages", "start_page"})
"""`number` is an issue only beside one of these: in a table of anything else it is a number."""
KINDS: dict[str, type[Paper | Repository | Page | Document]] = {
    "repository": Repository,
    "page": Page,
    "document": Document,
    "paper": Paper,
}
NOTHING = "neither title nor text, nor anything else to find it by"


@lru_cache(maxsize=4096)
def fold(name: str) -> str:
    return re.sub(r"[\W_]+", "_", name.casefold()).strip("_") or name.strip()


def check_fields(columns: Mapping[str, str]) -> None:
    """Raises `BadRequest` for a `--map` that names no field of ours."""
    for ours in columns:
        if fold(ours) not in FIELD_OF:
            raise BadRequest(f"--map: unknown field {ours!r}{did_you_mean(fold(ours), FIELD_OF)}; known: {', '.join(NAMES)}")


def places(names: Iterable[str], columns: Mapping[str, str]) -> dict[str, str]:
    """Each known name -> the column that holds it; a mapped column holds its field and no other."""
    given = list(names)
    folded: dict[str, str] = {}
    for name in given:
        folded.setdefault(fold(name), name)
    mapped = {FIELD_OF[fold(ours)]: found for ours, theirs in columns.items() if (found := _column(theirs, given, folded))}
    taken = set(mapped.values())
    known = {name: column for name, column in folded.items() if name in FIELD_OF and column not in taken}
    number = folded.get("number")
    if number and number not in taken and any(FIELD_OF[name] in PAIRED for name in known):
        known.setdefault("issue", number)
    return known | {NAMES[field][0]: column for field, column in mapped.items()}


def _column(theirs: str, given: list[str], folded: Mapping[str, str]) -> str | None:
    return theirs if theirs in given else folded.get(fold(theirs))


def check_columns(path: Path, names: Iterable[str], columns: Mapping[str, str], where: str = "") -> None:
    """Raises `UnreadableFile` where a mapped column is missing or no column can hold anything to find a record by."""
    given = list(dict.fromkeys(names))
    folded = {fold(name): name for name in given}
    shown = ", ".join(name[:60] for name in given[:40]) + (", ..." if len(given) > 40 else "")
    missing = [f"{theirs!r} (for {ours})" for ours, theirs in columns.items() if not _column(theirs, given, folded)]
    if missing:
        raise UnreadableFile(f"{path}{where}: no column {', '.join(missing)}; the columns are: {shown}")
    if not any(FIELD_OF[name] in CONTENT for name in places(given, columns)):
        raise NothingToRead(
            f"{path}{where}: none of its columns is known ({shown}); name them with --map, for example --map title={given[0][:60]}"
        )


def parsed_row(row: Mapping[str, JsonValue], columns: Mapping[str, str], where: str, *, scope: str = "") -> Parsed:
    """One row's entry, or why there is none. `scope` sets own ids of one part of a file apart from those of another."""
    try:
        cleaned = {str(clean(name)): clean(value) for name, value in row.items()}
    except TooDeep as deep:
        return BadEntry(where, str(deep))
    known = places(cleaned, columns)
    columns_of_ours = frozenset(known.values())
    draft = Draft({name: value for name, value in cleaned.items() if name not in columns_of_ours or not empty(value)}, known)
    own = own_id(draft)
    record = _record(draft)
    if not has_content(record, ignored=("id",)):
        return BadEntry(where, NOTHING, empty=True)
    record = with_own_ids(record, lambda target: OWN_ID + scope + target.removeprefix(OWN_ID))
    return Entry(record, scope + own if own is not None else None)


def own_id(draft: Draft) -> str | None:
    """The row's own id, which stays in the metadata: as `id`, whatever its case, or under the name it has."""
    for name in NAMES["id"]:
        for column, value in draft.given((name,)):
            own = scalar(value)
            if own is not None:
                if name == "id":
                    draft.rest.pop(column)
                    draft.rest["id"] = value
                return own
    return None


def has_content(record: BaseRecord, ignored: tuple[str, ...] = ()) -> bool:
    """Whether a record says anything at all beyond its own id."""
    said = (
        record.title,
        record.abstract,
        record.text,
        record.description,
        record.url,
        record.authors,
        record.tags,
        record.identifiers.pairs(),
    )
    return any(said) or any(not empty(value) for name, value in record.metadata.items() if name not in ignored)


def _record(draft: Draft) -> Record:
    kind = KINDS.get((_kind(draft) or "").casefold())
    if kind:
        draft.line("kind")
    kind = kind or Paper
    url = draft.line(*NAMES["url"])
    identifiers = identifiers_of(draft, NAMES, url)
    special = _of_repository(draft) if kind is Repository else _of_paper(draft) if kind is Paper else {}
    return kind.model_validate(
        {
            "doc_id": "",
            "title": draft.line(*NAMES["title"]) or "",
            "description": draft.text(*NAMES["description"]),
            "abstract": draft.text(*NAMES["abstract"]),
            "text": draft.text(*NAMES["text"]),
            "url": url,
            "identifiers": identifiers,
            "authors": _authors(draft.lines(*NAMES["authors"])),
            "year": draft.year(*NAMES["year"]),
            "venue": draft.line(*NAMES["journal"]),
            "citations": draft.count(*NAMES["citations"]),
            "stars": draft.count(*NAMES["stars"]),
            "language": draft.line(*NAMES["language"]),
            "tags": draft.lines(*NAMES["keywords"], commas=True),
            "edges": draft.references(*NAMES["references"]),
            **special,
            "metadata": draft.rest,
        }
    )


def _authors(said: tuple[str, ...]) -> tuple[str, ...]:
    return parted_authors(said[0]) if len(said) == 1 else said


def _kind(draft: Draft) -> str | None:
    return next((scalar(value) for _, value in draft.given(NAMES["kind"])), None)


def _of_paper(draft: Draft) -> dict[str, object]:
    return {
        "volume": draft.line(*NAMES["volume"]),
        "issue": draft.line(*NAMES["issue"]),
        "pages": draft.pages(NAMES["pages"], NAMES["start_page"], NAMES["end_page"]),
        "mesh": draft.lines(*NAMES["mesh"]),
    }


def _of_repository(draft: Draft) -> dict[str, object]:
    return {
        "licence": draft.line(*NAMES["licence"]),
        "forks": draft.count(*NAMES["forks"]),
        "is_fork": draft.flag(*NAMES["is_fork"]),
        "archived": draft.flag(*NAMES["archived"]),
        "updated_at": draft.line(*NAMES["updated_at"]),
    }
