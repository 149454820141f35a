"""Reader of JATS (NISO Z39.96) and its NLM ancestors, with full text.

A file holds one article or a `pmc-articleset`.
References are edges `cites` to `doi:...`, else `pmid:...`; what the list says of these works comes beside the record, so that candidates
have titles before any service is asked. `metadata["references"]` counts them all, and `metadata["references_without_id"]` has the fields of
those with neither: `citations` looks for the works that they name.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element  # the type only; defusedxml parses

from pydantic import JsonValue

from outrider.ingest.entry import BadEntry, Entry, Parsed, ReadOptions
from outrider.ingest.field_values import parse_year
from outrider.ingest.readers.safe_xml import parse_xml
from outrider.ingest.record_draft import make_citation
from outrider.linkage.identifiers import normal_doi, normal_pmcid, normal_pmid
from outrider.state.errors import UnreadableFile
from outrider.state.records import Document, Edge, Identifiers, Paper
from outrider.text.sanitize import collapse_spaces, element_text

HREF = "{http://www.w3.org/1999/xlink}href"
LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"
UNREAD = frozenset(
    {"tex-math", "object-id", "ref-list", "fn-group", "graphic", "media", "inline-graphic", "processing-meta", "label-alternatives"}
)
BLOCKS = frozenset("p title caption disp-quote list-item def-item disp-formula boxed-text label verse-line preformat code tr".split())
CELLS = frozenset({"td", "th"})
NOT_PUBLISHED = frozenset({"pmc-release", "nihms-submitted", "received", "accepted", "rev-recd", "preprint", "retraction"})
MOST_REFERENCES, MOST_REFERENCE_CHARS = 500, 1_000
"""References without an identifier that a record keeps, and the length of one."""
OTHER_ABSTRACTS = frozenset({"graphical", "teaser", "toc", "editor", "key-points", "web-summary"})


def read(path: Path, options: ReadOptions) -> Iterator[Parsed]:
    root = parse_xml(path)
    articles = [root] if root.tag == "article" else list(root.iter("article"))
    if not articles:
        raise UnreadableFile(f"{path}: holds no JATS article")
    for place, article in enumerate(articles, start=1):
        entry = _make_entry(article, in_set=len(articles) > 1)
        yield entry or BadEntry(f"article {place}", "has neither a title nor a text")


def _make_entry(article: Element, *, in_set: bool) -> Entry | None:
    meta = _child(_child(article, "front"), "article-meta")
    journal = _child(_child(article, "front"), "journal-meta")
    venue = element_text(_first(journal, "journal-title")) or None
    identifiers = _read_identifiers(meta)
    references = list(article.iter("ref"))
    # the body, then appendices; a blank line between headings, paragraphs, captions and table rows
    text_parts = [part for part in (article.find("body"), *article.findall("back/app-group")) if part is not None]
    # the earliest year of publication, in print or online
    dates = [date for date in _all(meta, "pub-date") if date.get("pub-type", date.get("date-type", "")) not in NOT_PUBLISHED]
    years = (parse_year(element_text(_child(date, "year")))[0] for date in dates)
    common: dict[str, Any] = {
        "doc_id": "",
        "title": _inline(_first(meta, "article-title")),
        "abstract": _read_abstract(meta),
        "text": "\n\n".join(line for part in text_parts for line in _blocks(part)),
        "identifiers": identifiers,
        "authors": tuple(_read_authors(meta)),
        "year": min(filter(None, years), default=None),
        "venue": venue,
        "language": (article.get(LANGUAGE) or "").split("-")[0].lower() or None,
        "tags": tuple(dict.fromkeys(filter(None, (element_text(word) for group in _all(meta, "kwd-group") for word in group.iter("kwd"))))),
        "edges": tuple(dict.fromkeys(edge for reference in references for edge in _list_citations(reference))),
        "metadata": _make_metadata(article, journal, meta, references),
    }
    if not common["title"] and not common["text"] and not common["abstract"]:
        return None
    cited = tuple(work for reference in references for citation in list_citations(reference) if (work := _read_cited_work(citation)))
    own_id = next((f"{scheme}:{value}" for scheme, value in identifiers.pairs()), None) if in_set else None
    if not venue and not any(identifiers.pairs()):
        return Entry(Document(**common), own_id, cited)
    volume, issue, location = (element_text(_child(meta, tag)) or None for tag in ("volume", "issue", "elocation-id"))
    pages = "-".join(dict.fromkeys(filter(None, (element_text(_child(meta, "fpage")), element_text(_child(meta, "lpage"))))))
    return Entry(Paper(**common, volume=volume, issue=issue, pages=pages or location), own_id, cited)


def _child(element: Element | None, tag: str) -> Element | None:
    return element.find(tag) if element is not None else None


def _first(element: Element | None, tag: str) -> Element | None:
    return next(element.iter(tag), None) if element is not None else None


def _all(element: Element | None, tag: str) -> list[Element]:
    return element.findall(tag) if element is not None else []


def _read_identifiers(meta: Element | None) -> Identifiers:
    ids: dict[str, str] = {}
    for element in _all(meta, "article-id"):
        ids.setdefault(element.get("pub-id-type", ""), element_text(element))
    pmcid = ids.get("pmcid") or ids.get("pmc") or ids.get("pmcaid") or ""
    return Identifiers(
        doi=normal_doi(ids.get("doi", "")),
        pmid=normal_pmid(ids.get("pmid", "")),
        pmcid=normal_pmcid(f"PMC{pmcid}" if pmcid.isdigit() else pmcid),
    )


def _read_authors(meta: Element | None) -> Iterator[str]:
    """`Surname, Given` for people, the name as written for groups. Editors are left out."""
    for group in _all(meta, "contrib-group"):
        for person in group.findall("contrib"):
            if person.get("contrib-type", group.get("content-type", "author")) not in ("author", "authors"):
                continue
            name = _first(person, "name")
            parts = [element_text(_child(name, part)) for part in ("surname", "given-names")] if name is not None else []
            author = ", ".join(filter(None, parts)) or _inline(_first(person, "collab")) or element_text(_first(person, "string-name"))
            if author:
                yield author


def _make_metadata(article: Element, journal: Element | None, meta: Element | None, references: list[Element]) -> dict[str, JsonValue]:
    licence = _first(meta, "license")
    without_id = [
        citation for reference in references for citation in list_citations(reference) if identify_citation(citation) == (None, None)
    ]
    described = [read_reference(citation) for citation in without_id[:MOST_REFERENCES]]
    metadata: dict[str, JsonValue] = {
        "article_type": article.get("article-type", ""),
        "issn": element_text(_first(journal, "issn")),
        "publisher": element_text(_first(journal, "publisher-name")),
        "licence": licence.get(HREF) if licence is not None else None,
        "references": len(references),
        "references_without_id": [fields for fields in described if fields],
    }
    return {name: value for name, value in metadata.items() if value}


def _list_citations(reference: Element) -> Iterator[Edge]:
    """The work of a reference; several if one item of the list holds several citations."""
    for citation in list_citations(reference):
        if edge := make_citation(*identify_citation(citation)):
            yield edge


def _read_cited_work(citation: Element) -> Paper | None:
    """The work of a citation that has an identifier and a title."""
    doi, pmid = identify_citation(citation)
    fields = read_reference(citation) if doi or pmid else {}
    if not fields.get("title"):
        return None
    identifiers = Identifiers(doi=doi, pmid=pmid)
    return Paper.model_validate({**fields, "doc_id": f"doi:{doi}" if doi else f"pmid:{pmid}", "identifiers": identifiers})


def list_citations(reference: Element) -> list[Element]:
    return [part for part in reference if "citation" in part.tag] or [reference]


def identify_citation(citation: Element) -> tuple[str | None, str | None]:
    """DOI and PMID."""
    ids = {element.get("pub-id-type", ""): element_text(element) for element in citation.iter("pub-id")}
    links = (link.get(HREF) or element_text(link) for link in citation.iter("ext-link"))
    doi = normal_doi(ids.get("doi", "")) or next(filter(None, (normal_doi(link) for link in links if "doi.org/" in link)), None)
    return doi, normal_pmid(ids.get("pmid", ""))


def read_reference(citation: Element) -> dict[str, JsonValue]:
    """What a `mixed-citation`, an `element-citation` or a `citation` says of the work, without identifiers.

    The keys are fields of `Paper`; the text of a citation without a title is `unstructured`.
    """
    authors = []
    for name in citation.iter("name"):
        parts = (element_text(_child(name, part)) for part in ("surname", "given-names"))
        authors.append(", ".join(filter(None, parts)))
    authors += [element_text(name) for name in citation.iter("collab")]
    title = _inline(_first(citation, "article-title"))
    source = _inline(_first(citation, "source"))
    if not title and citation.get("publication-type", citation.get("citation-type")) == "book":
        title, source = source, ""
    pages = "-".join(dict.fromkeys(filter(None, (element_text(_child(citation, tag)) for tag in ("fpage", "lpage")))))
    fields: dict[str, JsonValue] = {
        "title": title,
        "authors": [author for author in authors if author],
        "year": parse_year(element_text(_first(citation, "year")))[0],
        "venue": source,
        "volume": element_text(_child(citation, "volume")),
        "pages": pages or element_text(_child(citation, "elocation-id")),
        "unstructured": "" if title else collapse_spaces("".join(_text_without_ids(citation)))[:MOST_REFERENCE_CHARS],
    }
    return {name: value for name, value in fields.items() if value}


def _text_without_ids(element: Element) -> Iterator[str]:
    yield element.text or ""
    for child in element:
        if child.tag not in ("pub-id", "label"):
            yield from _text_without_ids(child)
        yield child.tail or ""


def _read_abstract(meta: Element | None) -> str:
    """The abstract proper: not the graphical one, the teaser or the summary for the table of contents."""
    abstracts = [abstract for abstract in _all(meta, "abstract") if abstract.get("abstract-type", "") not in OTHER_ABSTRACTS]
    abstracts.sort(key=lambda abstract: bool(abstract.get("abstract-type")))
    return "\n".join(_blocks(abstracts[0], own_title="Abstract")) if abstracts else ""


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
            if (line := _clean_run(run)) and line != own_title:
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
    if line := _clean_run(run):
        yield line


def _clean_run(run: list[str]) -> str:
    cells = "".join(run).split("\t") if "\t" in run else ["".join(run)]
    return "\t".join(map(collapse_spaces, cells)).strip()


def _inline(element: Element | None) -> str:
    """A title without its footnotes and links to them."""
    if element is None:
        return ""
    parts = [element.text or ""]
    for child in element:
        if child.tag not in ("fn", "xref", "contrib-group", "tex-math"):
            parts.append(_inline(child) if child.tag in ("inline-formula", "alternatives") else "".join(child.itertext()))
        parts.append(child.tail or "")
    return collapse_spaces("".join(parts))
