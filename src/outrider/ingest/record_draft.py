"""The fields of a record, taken out of the values of one entry.

Years, authors, page ranges and identifiers are written in many ways. Nothing is guessed and nothing is lost: a value that does not
state its field stays in `Draft.rest`, which becomes the record's `metadata`. References become edges; one that names another entry of
the file gets that entry's `doc_id` when the file is named.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from urllib.parse import unquote

from pydantic import JsonValue

from outrider.ingest.field_values import (
    format_scalar,
    is_empty,
    one_line,
    parse_count,
    parse_issns,
    parse_list,
    parse_list_literal,
    parse_year,
    split_list,
)
from outrider.linkage.identifiers import (
    find_openalex_work,
    normal_arxiv,
    normal_doi,
    normal_isbn,
    normal_openalex_work,
    normal_pmcid,
    normal_pmid,
)
from outrider.state.records import Edge, Identifiers, Paper, Record, web_link
from outrider.text.languages_and_work_types import normal_language

OWN_ID = "id:"
"""Prefix of the target of an edge to another entry of the same file, followed by that entry's own id."""
MAX_OWN_ID_CHARS = 80
DOI_URL = re.compile(r"https?://(?:dx\.)?doi\.org/", re.IGNORECASE)
PUBMED = ("nlm", "pubmed", "medline")
"""Names of databases and providers that use PubMed's numbers."""


def make_citation(doi: str | None, pmid: str | None, arxiv: str | None = None, openalex: str | None = None) -> Edge | None:
    """The edge `cites` to a work, by the first of its normal identifiers; None if it has none."""
    pairs = (("doi", doi), ("pmid", pmid), ("arxiv", arxiv), ("openalex", openalex))
    best = next((f"{scheme}:{value}" for scheme, value in pairs if value), None)
    return Edge(relation="cites", target=best) if best else None


def parse_reference(item: JsonValue) -> Edge | None:
    """One item of a list of references: a DOI, PMID, arXiv or OpenAlex number, else the own id of another entry of the file (`id:...`)."""
    if isinstance(item, dict):
        values = {
            name.casefold(): value for part in (item, item.get("externalIds")) if isinstance(part, dict) for name, value in part.items()
        }
        ids = {scheme: format_scalar(values.get(scheme)) or "" for scheme in ("doi", "pmid", "pubmed", "arxiv", "openalex")}
        pmid, openalex = normal_pmid(ids["pmid"] or ids["pubmed"]), normal_openalex_work(ids["openalex"])
        return make_citation(normal_doi(ids["doi"]), pmid, normal_arxiv(ids["arxiv"]), openalex)
    text = format_scalar(item) or ""
    pmid = normal_pmid(text) if not text.isdigit() else None  # a bare number may be an own id
    edge = make_citation(normal_doi(text), pmid, normal_arxiv(text), find_openalex_work(text))
    return edge or (Edge(relation="cites", target=OWN_ID + text) if 0 < len(text) <= MAX_OWN_ID_CHARS and " " not in text else None)


def replace_own_ids(record: Record, rename: Callable[[str], str]) -> Record:
    """The record with each edge target `id:...` replaced by `rename` of it."""
    if not any(edge.target.startswith(OWN_ID) for edge in record.edges):
        return record
    edges = (Edge(relation=edge.relation, target=rename(edge.target)) if edge.target.startswith(OWN_ID) else edge for edge in record.edges)
    return record.model_copy(update={"edges": tuple(edges)})


class Columns(dict[tuple[str, ...], tuple[str, ...]]):
    """The columns of a table that have one of several names, by these names. Those of most names are none, for all of its rows."""

    def __init__(self, places: Mapping[str, str]) -> None:
        """`places` maps names to columns."""
        super().__init__()
        self._places = places

    def __missing__(self, names: tuple[str, ...]) -> tuple[str, ...]:
        self[names] = columns = tuple(self._places[name] for name in names if name in self._places)
        return columns


class Draft:
    """The values of one entry. Each method takes the first of several names that has a usable value out of `rest`."""

    def __init__(self, raw: Mapping[str, JsonValue], columns: Columns | None = None) -> None:
        """`columns` gives the keys of `raw`, where they are other names; those keys have no empty values."""
        self.rest: dict[str, JsonValue] = dict(raw)
        self._columns = columns

    def list_values(self, names: tuple[str, ...]) -> Sequence[tuple[str, JsonValue]]:
        """Keys and values of the names that have a value, in the order of the names."""
        if self._columns is not None:
            columns = self._columns[names]
            return [(name, self.rest[name]) for name in columns if name in self.rest] if columns else ()
        if self.rest.keys().isdisjoint(names):  # so it is for most
            return ()
        return [(name, value) for name in names if not is_empty(value := self.rest.get(name))]

    def _take(self, key: str, value: JsonValue, remainder: JsonValue = None, repeated: Sequence[tuple[str, JsonValue]] = ()) -> None:
        """Also drops repetitions of the value among the keys and values in `repeated`."""
        self.rest.pop(key)
        if not is_empty(remainder):
            self.rest[key] = remainder
        for other, same in repeated:
            if other != key and same == value:
                self.rest.pop(other, None)

    def text(self, *names: str) -> str:
        """Prose: outer white space dropped, paragraphs kept; several values become paragraphs."""
        for key, value in (candidates := self.list_values(names)):
            values = value if isinstance(value, list) else [value]
            parts = [part for item in values if (part := format_scalar(item))]
            if parts and len(parts) == len(values):
                self._take(key, value, repeated=candidates)
                return "\n".join(parts).replace("\r\n", "\n").replace("\r", "\n").strip()
        return ""

    def line(self, *names: str) -> str | None:
        """One line. The first of several values; the others stay."""
        for key, value in (candidates := self.list_values(names)):
            values = value if isinstance(value, list) else [value]
            if first := format_scalar(values[0]):
                others = [item for item in values[1:] if item != values[0]]
                self._take(key, value, others[0] if len(others) == 1 else others, candidates)
                return one_line(first)
        return None

    def languages(self, *names: str) -> str | None:
        """One line; of several languages each once, separated by semicolons."""
        for key, value in (candidates := self.list_values(names)):
            values = value if isinstance(value, list) else [value]
            parts = dict.fromkeys(one_line(part).rstrip(" .;") for item in values if (part := format_scalar(item)))
            if len(values) > 1 and parts and all(map(normal_language, parts)):
                self._take(key, value, repeated=candidates)
                return "; ".join(parts)
        return self.line(*names)

    def link(self, *names: str) -> str | None:
        """The first address of the web. Another one, such as `ftp://` or `file:`, stays as text, under its name."""
        for key, value in (candidates := self.list_values(names)):
            values = value if isinstance(value, list) else [value]
            links = [(item, one_line(text)) for item in values if (text := format_scalar(item)) and web_link(one_line(text))]
            if links:
                chosen, address = links[0]
                others = [item for item in values if item != chosen]
                self._take(key, value, others[0] if len(others) == 1 else others, candidates)
                return address
        return None

    def lines(self, *names: str, commas: bool = False) -> tuple[str, ...]:
        """A list, see `parse_list`. Objects in it also stay, since they hold more than a name."""
        for key, value in (candidates := self.list_values(names)):
            if lines := self._take_list(key, value, commas=commas, repeated=candidates):
                return lines
        return ()

    def _take_list(self, key: str, value: JsonValue, *, commas: bool, repeated: Sequence[tuple[str, JsonValue]] = ()) -> tuple[str, ...]:
        if lines := parse_list(value, commas=commas):
            has_objects = isinstance(value, list) and any(isinstance(item, dict) for item in value)
            self._take(key, value, value if has_objects else None, repeated)
        return lines

    def all_lines(self, *names: str, commas: bool = False) -> tuple[str, ...]:
        """The lists under all of these names, one after another; later ones without what was listed before."""
        items: list[str] = []
        for key, value in self.list_values(names):
            items += [item for item in self._take_list(key, value, commas=commas) if item not in items]
        return tuple(items)

    def issns(self, *names: str) -> tuple[str, ...]:
        """The valid ISSNs under all of these names. A value that says more stays."""
        issns: dict[str, None] = {}
        for key, value in self.list_values(names):
            items = value if isinstance(value, list) else [value]
            parsed = [(item, *parse_issns(format_scalar(item) or "")) for item in items]
            issns |= dict.fromkeys(issn for _, numbers, _ in parsed for issn in numbers)
            remainder = [item for item, numbers, other in parsed if other or not numbers]
            if len(remainder) < len(items):
                self._take(key, value, remainder[0] if len(remainder) == 1 else remainder)
        return tuple(issns)

    def year(self, *names: str) -> int | None:
        """The first year stated. The value stays if it states more."""
        for key, value in (candidates := self.list_values(names)):
            for item in value if isinstance(value, list) else [value]:
                year, exact = parse_year(item)
                if year is not None:
                    if exact and item == value:
                        self._take(key, value, repeated=candidates)
                    return year
        return None

    def count(self, *names: str) -> int | None:
        for key, value in (candidates := self.list_values(names)):
            if (count := parse_count(value)) is not None:
                self._take(key, value, repeated=candidates)
                return count
        return None

    def flag(self, *names: str) -> bool | None:
        for key, value in (candidates := self.list_values(names)):
            if (flag := {"true": True, "false": False}.get(str(value).casefold())) is not None:
                self._take(key, value, repeated=candidates)
                return flag
        return None

    def pages(self, whole: tuple[str, ...], first: tuple[str, ...], last: tuple[str, ...]) -> str | None:
        """A page range as written, or put together from its first and last page."""
        if pages := self.line(*whole):
            return pages
        start = self.line(*first)
        end = self.line(*last) if start else None
        return f"{start}-{end}" if start and end else start

    def identifier(self, normal: Callable[[str], str | None], *names: str) -> str | None:
        """The first valid identifier in its normal form. A value that holds more than it, or none, stays."""
        for key, value in (candidates := self.list_values(names)):
            values = value if isinstance(value, list) else [value]
            forms = [(item, normal(text) if (text := format_scalar(item)) else None) for item in values]
            if identifier := next((form for _, form in forms if form), None):
                remainder: list[JsonValue] = [
                    item for item, form in forms if form != identifier or not _is_only_identifier(str(item), identifier)
                ]
                self._take(key, value, remainder[0] if len(remainder) == 1 else remainder, candidates)
                return identifier
        return None

    def references(self, *names: str) -> tuple[Edge, ...]:
        """Edges `cites` to the works listed. A value that holds more than identifiers stays."""
        for key, value in (candidates := self.list_values(names)):
            items = value if isinstance(value, list) else []
            if isinstance(value, str):
                items = parse_list_literal(value) or split_list(value, commas=True)
                if len(items) < 2 and value.strip().isdigit():  # the number of references
                    continue
            edges = [parse_reference(item) for item in items if not is_empty(item)]
            if any(edges):
                bare = all(isinstance(item, str) and " " not in item.strip() for item in items)
                is_complete = bare and all(edge and not edge.target.startswith(OWN_ID) for edge in edges)
                self._take(key, value, None if is_complete else value, candidates)
                return tuple(dict.fromkeys(filter(None, edges)))
        return ()


def _is_only_identifier(text: str, normal: str) -> bool:
    bare = unquote(text).strip().rstrip("./;,").casefold()
    is_isbn = normal.startswith("978") and len(text) <= 30
    return bare.endswith(normal.casefold()) or (is_isbn and len(re.sub(r"[^0-9Xx]", "", text)) in (10, 13))


def read_identifiers(draft: Draft, names: Mapping[str, tuple[str, ...]], url: str | None) -> Identifiers:
    """The identifiers under these names (scheme -> names), or in a URL of their resolver."""
    link = url or ""
    return Identifiers(
        doi=draft.identifier(normal_doi, *names.get("doi", ())) or (normal_doi(link) if DOI_URL.match(link) else None),
        pmid=draft.identifier(normal_pmid, *names.get("pmid", ())) or (normal_pmid(link) if "://" in link else None),
        pmcid=draft.identifier(normal_pmcid, *names.get("pmcid", ())),
        arxiv=draft.identifier(normal_arxiv, *names.get("arxiv", ())) or (normal_arxiv(link) if "://" in link else None),
        isbn=draft.identifier(normal_isbn, *names.get("isbn", ())),
        openalex=draft.identifier(normal_openalex_work, *names.get("openalex", ())) or find_openalex_work(link),
    )


def is_from_pubmed(draft: Draft, databases: tuple[str, ...], number: str) -> bool:
    """Whether the accession number under `number` is PubMed's: the database or its provider, under `databases`, names PubMed."""
    origin = " ".join(text.casefold() for _, value in draft.list_values(databases) if (text := format_scalar(value)))
    accession = next((format_scalar(value) for _, value in draft.list_values((number,))), None)
    return any(name in origin for name in PUBMED) and bool(accession and normal_pmid(accession)) and not normal_doi(accession or "")


def read_metadata(draft: Draft, names: Mapping[str, tuple[str, ...]]) -> dict[str, JsonValue]:
    """Metadata that searches read: `publication_types`, `issn` (the first; others are `other_issns`) and `journal_abbreviation`."""
    issns = draft.issns(*names.get("issn", ()))
    metadata: dict[str, JsonValue] = {
        "publication_types": [name for name in draft.all_lines(*names.get("types", ())) if len(name) > 1],
        "issn": issns[0] if issns else None,
        "other_issns": [*issns[1:]],
        "journal_abbreviation": draft.line(*names.get("abbreviation", ())),
    }
    return {name: value for name, value in metadata.items() if value}


def make_paper(draft: Draft, names: Mapping[str, tuple[str, ...]], *, commas: bool = False) -> Paper:
    """The paper whose fields and identifiers are under these names; with `commas`, keywords may be separated by commas.

    Values without a field of the record are its metadata.
    """
    url = draft.link(*names["url"])
    return Paper(
        doc_id="",
        url=url,
        identifiers=read_identifiers(draft, names, url),
        title=draft.line(*names["title"]) or draft.line(*names.get("book", ())) or "",
        abstract=draft.text(*names["abstract"]),
        authors=draft.lines(*names.get("authors", ())),
        year=draft.year(*names["year"]),
        venue=draft.line(*names["venue"]),
        volume=draft.line(*names["volume"]),
        issue=draft.line(*names["issue"]),
        pages=draft.pages(names.get("pages", ()), names.get("first_page", ()), names.get("last_page", ())),
        language=draft.languages(*names["language"]),
        tags=draft.all_lines(*names["keywords"], commas=commas),
        mesh=draft.lines(*names.get("mesh", ())),
        edges=draft.references(*names.get("references", ())),
        metadata=read_metadata(draft, names) | draft.rest,
    )
