"""JATS (NISO Z39.96) and its NLM ancestors: one article, or a `pmc-articleset`; full text with its headings.

References are edges `cites` to `doi:...`, else `pmid:...`; those with neither are counted in `metadata["references"]` only.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element  # the type only; defusedxml parses

from pydantic import JsonValue

from outrider.ingest.entry import BadEntry, Entry, Parsed, ReadOptions
from outrider.ingest.readers.safe_xml import parsed
from outrider.ingest.record_draft import cites
from outrider.ingest.values import year_of
from outrider.linkage.identifiers import normal_doi, normal_pmcid, normal_pmid
from outrider.state.errors import UnreadableFile
from outrider.state.records import Document, Edge, Identifiers, Paper
from outrider.text.sanitize import flat, one_line

HREF = "{http://www.w3.org/1999/xlink}href"
LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"
UNREAD = frozenset(
    {"tex-math", "object-id", "ref-list", "fn-group", "graphic", "media", "inline-graphic", "processing-meta", "label-alternatives"}
)
BLOCKS = frozenset(
    {
        "p",
        "title",
        "caption",
        "disp-quote",
        "list-item",
        "def-item",
        "disp-formula",
        "boxed-text",
        "label",
        "verse-line",
        "preformat",
        "code",
        "tr",
    }
)
CELLS = frozenset({"td", "th"})
NOT_PUBLISHED = frozenset({"pmc-release", "nihms-submitted", "received", "accepted", "rev-recd", "preprint", "retraction"})
OTHER_ABSTRACTS = frozenset({"graphical", "teaser", "toc", "editor", "key-points", "web-summary"})


def read(path: Path, options: ReadOptions) -> Iterator[Parsed]:
    root = parsed(path)
    articles = [root] if root.tag == "article" else list(root.iter("article"))
    if not articles:
        raise UnreadableFile(f"{path}: holds no JATS article")
    for place, article in enumerate(articles, start=1):
        entry = _entry(article, in_set=len(articles) > 1)
        yield entry or BadEntry(f"article {place}", "has neither a title nor a text")


def _entry(article: Element, *, in_set: bool) -> Entry | None:
    meta = _child(_child(article, "front"), "article-meta")
    journal = _child(_child(article, "front"), "journal-meta")
    venue = flat(_first(journal, "journal-title")) or None
    identifiers = _identifiers(meta)
    references = list(article.iter("ref"))
    common: dict[str, Any] = {
        "doc_id": "",
        "title": _inline(_first(meta, "article-title")),
        "abstract": _abstract(meta),
        "text": _body(article),
        "identifiers": identifiers,
        "authors": tuple(_authors(meta)),
        "year": _year(meta),
        "venue": venue,
        "language": (article.get(LANGUAGE) or "").split("-")[0].lower() or None,
        "tags": tuple(dict.fromkeys(filter(None, (flat(word) for group in _all(meta, "kwd-group") for word in group.iter("kwd"))))),
        "edges": tuple(dict.fromkeys(edge for reference in references for edge in _cited(reference))),
        "metadata": _metadata(article, journal, meta, len(references)),
    }
    if not common["title"] and not common["text"] and not common["abstract"]:
        return None
    own_id = next((f"{scheme}:{value}" for scheme, value in identifiers.pairs()), None) if in_set else None
    if not venue and not any(identifiers.pairs()):
        return Entry(Document(**common), own_id)
    return Entry(Paper(**common, volume=_text(meta, "volume"), issue=_text(meta, "issue"), pages=_pages(meta)), own_id)


def _child(element: Element | None, tag: str) -> Element | None:
    return element.find(tag) if element is not None else None


def _first(element: Element | None, tag: str) -> Element | None:
    return next(element.iter(tag), None) if element is not None else None


def _all(element: Element | None, tag: str) -> list[Element]:
    return element.findall(tag) if element is not None else []


def _text(element: Element | None, tag: str) -> str | None:
    return flat(_child(element, tag)) or None


def _identifiers(meta: Element | None) -> Identifiers:
    said: dict[str, str] = {}
    for element in _all(meta, "article-id"):
        said.setdefault(element.get("pub-id-type", ""), flat(element))
    pmcid = said.get("pmcid") or said.get("pmc") or said.get("pmcaid") or ""
    return Identifiers(
        doi=normal_doi(said.get("doi", "")),
        pmid=normal_pmid(said.get("pmid", "")),
        pmcid=normal_pmcid(f"PMC{pmcid}" if pmcid.isdigit() else pmcid),
    )


def _authors(meta: Element | None) -> Iterator[str]:
    """`Surname, Given` for people, the name as it stands for groups; editors are left out."""
    for group in _all(meta, "contrib-group"):
        for person in group.findall("contrib"):
            if person.get("contrib-type", group.get("content-type", "author")) not in ("author", "authors"):
                continue
            name = _first(person, "name")
            parts = [flat(_child(name, part)) for part in ("surname", "given-names")] if name is not None else []
            written = ", ".join(filter(None, parts)) or _inline(_first(person, "collab")) or flat(_first(person, "string-name"))
            if written:
                yield written


def _year(meta: Element | None) -> int | None:
    """The earliest year of publication, in print or online."""
    dates = [date for date in _all(meta, "pub-date") if date.get("pub-type", date.get("date-type", "")) not in NOT_PUBLISHED]
    years = (year_of(flat(_child(date, "year")))[0] for date in dates)
    return min(filter(None, years), default=None)


def _pages(meta: Element | None) -> str | None:
    pages = [flat(_child(meta, "fpage")), flat(_child(meta, "lpage"))]
    return "-".join(dict.fromkeys(filter(None, pages))) or _text(meta, "elocation-id")


def _metadata(article: Element, journal: Element | None, meta: Element | None, references: int) -> dict[str, JsonValue]:
    said: dict[str, JsonValue] = {
        "article_type": article.get("article-type", ""),
        "issn": flat(_first(journal, "issn")),
        "publisher": flat(_first(journal, "publisher-name")),
        "licence": (licence.get(HREF) or "") if (licence := _first(meta, "license")) is not None else "",
        "references": references,
    }
    return {name: value for name, value in said.items() if value}


def _cited(reference: Element) -> Iterator[Edge]:
    """The work a reference names; several where one entry of the list holds several citations."""
    citations = [part for part in reference if "citation" in part.tag] or [reference]
    for citation in citations:
        said = {element.get("pub-id-type", ""): flat(element) for element in citation.iter("pub-id")}
        links = (link.get(HREF) or flat(link) for link in citation.iter("ext-link"))
        doi = normal_doi(said.get("doi", "")) or next((found for link in links if "doi.org/" in link and (found := normal_doi(link))), None)
        edge = cites(doi, normal_pmid(said.get("pmid", "")))
        if edge:
            yield edge


def _abstract(meta: Element | None) -> str:
    """The abstract proper: not the graphical one, the teaser or the summary for the table of contents."""
    candidates = [abstract for abstract in _all(meta, "abstract") if abstract.get("abstract-type", "") not in OTHER_ABSTRACTS]
    candidates.sort(key=lambda abstract: bool(abstract.get("abstract-type")))
    return "\n".join(_blocks(candidates[0], own_title="Abstract")) if candidates else ""


def _body(article: Element) -> str:
    """The body, then appendices: headings, paragraphs, captions and table rows, a blank line between them."""
    parts = [article.find("body"), *(back for back in article.findall("back/app-group"))]
    return "\n\n".join(line for part in parts if part is not None for line in _blocks(part))


def _blocks(element: Element, own_title: str = "") -> Iterator[str]:
    """Runs of text, cut where a block begins or ends; a table's cells are separated by tabs. Iterative: JATS nests deeply."""
    run: list[str] = []
    todo: list[Element | str | None] = [element]  # None: a block ends here
    while todo:
        item = todo.pop()
        if isinstance(item, str):
            run.append(item)
            continue
        if item is None or item.tag in BLOCKS:
            if (line := _tidy(run)) and line != own_title:
                yield line
            run = []
        if item is None or item.tag in UNREAD or not isinstance(item.tag, str):
            continue
        if item.tag in BLOCKS:
            todo.append(None)
        if item.tag in CELLS:
            todo.append("\t")
        for child in reversed(item):
            todo.append(child.tail or "")
            todo.append(child)
        todo.append(item.text or "")
    if line := _tidy(run):
        yield line


def _tidy(run: list[str]) -> str:
    cells = "".join(run).split("\t") if "\t" in run else ["".join(run)]
    return "\t".join(map(one_line, cells)).strip()


def _inline(element: Element | None) -> str:
    """A title without its footnotes and links to them."""
    if element is None:
        return ""
    parts = [element.text or ""]
    for child in element:
        if child.tag not in ("fn", "xref", "contrib-group", "tex-math"):
            parts.append(_inline(child) if child.tag in ("inline-formula", "alternatives") else "".join(child.itertext()))
        parts.append(child.tail or "")
    return one_line("".join(parts))
