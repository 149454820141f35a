"""What an entry of a file cites, as edges; an entry that is cited by its own id gets its name once the file is named.

The values of an entry, turned into the fields of a record; what has no place stays under its own name.

Years, authors, page ranges and identifiers come in many dresses. Nothing is guessed and nothing is lost: a value that does
not say what its field asks for stays in `Draft.rest`, which becomes the record's `metadata`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from urllib.parse import unquote

from pydantic import JsonValue

from outrider.ingest.values import count_of, cut, empty, listed, one_line, scalar, spelled_out, year_of
from outrider.linkage.identifiers import normal_arxiv, normal_doi, normal_isbn, normal_pmcid, normal_pmid
from outrider.state.records import Edge, Identifiers, Record

OWN_ID = "id:"
"""Begins the target of an edge to another entry of the same file, by its own id; naming puts that entry's `doc_id` there."""
MAX_OWN_ID_CHARS = 80


def cites(doi: str | None, pmid: str | None, arxiv: str | None = None) -> Edge | None:
    """The edge to a work that is cited, by the best of its normal identifiers; None for a work without."""
    best = next((f"{scheme}:{value}" for scheme, value in (("doi", doi), ("pmid", pmid), ("arxiv", arxiv)) if value), None)
    return Edge(relation="cites", target=best) if best else None


def cited(item: JsonValue) -> Edge | None:
    """One entry of a list of references: by DOI, PMID or arXiv number, else by the own id of another entry of the file (`id:...`)."""
    if isinstance(item, dict):
        known = {
            name.casefold(): value for part in (item, item.get("externalIds")) if isinstance(part, dict) for name, value in part.items()
        }
        said = {scheme: scalar(known.get(scheme)) or "" for scheme in ("doi", "pmid", "pubmed", "arxiv")}
        return cites(normal_doi(said["doi"]), normal_pmid(said["pmid"] or said["pubmed"]), normal_arxiv(said["arxiv"]))
    text = scalar(item) or ""
    numbered = normal_pmid(text) if not text.isdigit() else None
    edge = cites(normal_doi(text), numbered, normal_arxiv(text))
    return edge or (Edge(relation="cites", target=OWN_ID + text) if 0 < len(text) <= MAX_OWN_ID_CHARS and " " not in text else None)


def with_own_ids(record: Record, renamed: Callable[[str], str]) -> Record:
    """The record with the own ids that it cites replaced by what they are renamed to: a whole target for each `id:...`."""
    if not any(edge.target.startswith(OWN_ID) for edge in record.edges):
        return record
    edges = (Edge(relation=edge.relation, target=renamed(edge.target)) if edge.target.startswith(OWN_ID) else edge for edge in record.edges)
    return record.model_copy(update={"edges": tuple(edges)})


DOI_URL = re.compile(r"https?://(?:dx\.)?doi\.org/", re.IGNORECASE)
PUBMED = ("nlm", "pubmed", "medline")
"""What databases and providers that number as PubMed does are called."""


class Draft:
    """The values of one entry. Each method takes the first of several names that has a usable value out of `rest`."""

    def __init__(self, raw: Mapping[str, JsonValue], places: Mapping[str, str] | None = None) -> None:
        """`places`: the names asked for -> the keys of `raw`, where they differ."""
        self.rest: dict[str, JsonValue] = dict(raw)
        self._places = places
        self._keys: frozenset[str] = frozenset()

    def given(self, names: tuple[str, ...]) -> Iterator[tuple[str, JsonValue]]:
        """The names' keys and values that are there and not empty, in the order of the names."""
        for name in names:
            key = name if self._places is None else self._places.get(name, "")
            if key in self.rest and not empty(self.rest[key]):
                yield key, self.rest[key]

    def _take(self, key: str, value: JsonValue, left: JsonValue = None) -> None:
        self.rest.pop(key)
        if not empty(left):
            self.rest[key] = left
        for name in [name for name, other in self.rest.items() if name != key and other == value and name in self._keys]:
            del self.rest[name]

    def text(self, *names: str) -> str:
        """Prose: outer white space dropped, paragraphs kept; several values become paragraphs."""
        for key, value in self._asked(names):
            values = value if isinstance(value, list) else [value]
            parts = [part for item in values if (part := scalar(item))]
            if parts and len(parts) == len(values):
                self._take(key, value)
                return "\n".join(parts).replace("\r\n", "\n").replace("\r", "\n").strip()
        return ""

    def line(self, *names: str) -> str | None:
        """One line; of several values the first, the others stay."""
        for key, value in self._asked(names):
            values = value if isinstance(value, list) else [value]
            first = scalar(values[0])
            if first:
                others = [item for item in values[1:] if item != values[0]]
                self._take(key, value, others[0] if len(others) == 1 else others)
                return one_line(first)
        return None

    def lines(self, *names: str, commas: bool = False) -> tuple[str, ...]:
        """A list, see `listed`; objects in it also stay, since they say more than a name."""
        for key, value in self._asked(names):
            found = listed(value, commas=commas)
            if found:
                says_more = isinstance(value, list) and any(isinstance(item, dict) for item in value)
                self._take(key, value, value if says_more else None)
                return found
        return ()

    def year(self, *names: str) -> int | None:
        """The first year stated; the value stays where it states more."""
        for key, value in self._asked(names):
            items = value if isinstance(value, list) else [value]
            for item in items:
                year, exact = year_of(item)
                if year is not None:
                    if exact and item == value:
                        self._take(key, value)
                    return year
        return None

    def count(self, *names: str) -> int | None:
        for key, value in self._asked(names):
            count = count_of(value)
            if count is not None:
                self._take(key, value)
                return count
        return None

    def flag(self, *names: str) -> bool | None:
        for key, value in self._asked(names):
            known = {"true": True, "false": False}.get(str(value).casefold())
            if known is not None:
                self._take(key, value)
                return known
        return None

    def pages(self, whole: tuple[str, ...], first: tuple[str, ...], last: tuple[str, ...]) -> str | None:
        """A page range as given, or put together from its first and last page."""
        given = self.line(*whole)
        if given:
            return given
        start = self.line(*first)
        end = self.line(*last) if start else None
        return f"{start}-{end}" if start and end else start

    def identifier(self, normal: Callable[[str], str | None], *names: str) -> str | None:
        """The first valid one in its normal form; a value that holds more than it, or none, stays."""
        for key, value in self._asked(names):
            values = value if isinstance(value, list) else [value]
            forms = [(item, normal(text) if (text := scalar(item)) else None) for item in values]
            found = next((form for _, form in forms if form), None)
            if found:
                left: list[JsonValue] = [item for item, form in forms if form != found or not _says_only(str(item), found)]
                self._take(key, value, left[0] if len(left) == 1 else left)
                return found
        return None

    def references(self, *names: str) -> tuple[Edge, ...]:
        """Edges `cites` to what is cited; a value that says more than identifiers, or something else, stays."""
        for key, value in self._asked(names):
            items = value if isinstance(value, list) else spelled_out(value) or cut(value, commas=True) if isinstance(value, str) else []
            if isinstance(value, str) and len(items) < 2 and value.strip().isdigit():  # how many there are
                continue
            edges = [cited(item) for item in items if not empty(item)]
            if any(edges):
                bare = all(isinstance(item, str) and " " not in item.strip() for item in items)
                said = bare and all(edge and not edge.target.startswith(OWN_ID) for edge in edges)
                self._take(key, value, None if said else value)
                return tuple(dict.fromkeys(filter(None, edges)))
        return ()

    def _asked(self, names: tuple[str, ...]) -> Iterator[tuple[str, JsonValue]]:
        given = list(self.given(names))
        self._keys = frozenset(key for key, _ in given)
        yield from given


def identifiers_of(draft: Draft, names: Mapping[str, tuple[str, ...]], url: str | None) -> Identifiers:
    """The identifiers under the given names (scheme -> names), or in a URL that is a resolver's."""
    link = url or ""
    return Identifiers(
        doi=draft.identifier(normal_doi, *names.get("doi", ())) or (normal_doi(link) if DOI_URL.match(link) else None),
        pmid=draft.identifier(normal_pmid, *names.get("pmid", ())) or (normal_pmid(link) if "://" in link else None),
        pmcid=draft.identifier(normal_pmcid, *names.get("pmcid", ())),
        arxiv=draft.identifier(normal_arxiv, *names.get("arxiv", ())) or (normal_arxiv(link) if "://" in link else None),
        isbn=draft.identifier(normal_isbn, *names.get("isbn", ())),
    )


def from_pubmed(draft: Draft, databases: tuple[str, ...], number: str) -> bool:
    """Whether the accession number under the name `number` is PubMed's: the database or its provider, under `databases`, says so."""
    said = " ".join(text.casefold() for _, value in draft.given(databases) if (text := scalar(value)))
    given = next((scalar(value) for _, value in draft.given((number,))), None)
    return any(name in said for name in PUBMED) and bool(given and normal_pmid(given)) and not normal_doi(given or "")


def _says_only(text: str, normal: str) -> bool:
    bare = unquote(text).strip().rstrip("./;,").casefold()
    digits = re.sub(r"[^0-9Xx]", "", text)
    return bare.endswith(normal.casefold()) or (normal.startswith("978") and len(digits) in (10, 13) and len(text) <= 30)
