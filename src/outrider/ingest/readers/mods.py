"""Reader of MODS 3, the Metadata Object Description Schema of the Library of Congress.

www.loc.gov/standards/mods/v3: one `mods`, or many in a `modsCollection`.
The venue, volume, issue and pages of an article or chapter stand in its host (`relatedItem type="host"`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from xml.etree.ElementTree import Element  # the type only; defusedxml parses

from pydantic import JsonValue

from outrider.ingest.column_mapping import NOTHING, has_content
from outrider.ingest.entry import BadEntry, Entry, Parsed, ReadOptions
from outrider.ingest.field_values import parse_issns, parse_year
from outrider.ingest.readers.open_text import refuse_large
from outrider.ingest.readers.safe_xml import parse_xml
from outrider.linkage.identifiers import normal_arxiv, normal_doi, normal_isbn, normal_pmcid, normal_pmid
from outrider.state.errors import NothingToRead
from outrider.state.records import Identifiers, Paper
from outrider.text.languages_and_work_types import normal_language
from outrider.text.sanitize import element_text

AUTHOR_ROLES = frozenset({"aut", "author", "cre", "creator", "dis", "dissertant", ""})
"""MARC relators, and a name without a role."""
TOPICS = ("topic", "geographic")
DATES = ("dateIssued", "copyrightDate", "dateCreated", "dateOther")


def read(path: Path, options: ReadOptions) -> Iterator[Parsed]:
    refuse_large(path, options)
    root = parse_xml(path)
    items = [root] if root.tag == "mods" else root.findall("mods")
    if not items:
        raise NothingToRead(f"{path}: no <mods> element in it")
    for place, item in enumerate(items, 1):
        paper = _make_paper(item)
        if has_content(paper):
            own_id = element_text(item.find("recordInfo/recordIdentifier")) or item.get("ID")
            yield Entry(paper, own_id or None)
        else:
            yield BadEntry(f"record {place}", NOTHING, empty=True)


def _make_paper(item: Element) -> Paper:
    host = next((part for part in item.findall("relatedItem") if part.get("type") == "host"), None)
    parts = [part for element in (item, host) if element is not None for part in element.findall("part")]
    ids = {(element.get("type") or "").lower(): element_text(element) for element in reversed(item.findall("identifier"))}
    issns = [issn for element in (item, host) for issn in _list_issns(element)]
    origins = [origin for element in (item, host) if element is not None for origin in element.findall("originInfo")]
    dates = [*(part.find("date") for part in parts), *(origin.find(name) for name in DATES for origin in origins)]
    years = (parse_year(element_text(date))[0] for date in dates if date is not None)
    notes = _texts(item.findall("note"))
    subjects = [(subject.get("authority"), _texts(part for part in subject if part.tag in TOPICS)) for subject in item.findall("subject")]
    headings = [topics for authority, topics in subjects if topics and authority == "mesh"]
    keywords = [topics for authority, topics in subjects if authority != "mesh"]
    genres = [text for text in _texts(item.findall("genre")) if text.casefold() not in ("text", "manuscript")]
    publisher = next((element_text(origin.find("publisher")) for origin in origins if origin.find("publisher") is not None), "")
    metadata: dict[str, JsonValue] = {
        "publication_types": list(genres),
        "issn": issns[0] if issns else "",
        "other_issns": list(issns[1:]),
        "publisher": publisher,
        "mesh_qualified": [f"{name}/{qualifier}" for name, *qualifiers in headings for qualifier in qualifiers],
        "notes": list(notes),
    }
    url = next(iter(_texts(item.findall("location/url"))), "") or ids.get("uri") or ids.get("url")
    languages = item.findall("language/languageTerm") or item.findall("language")
    return Paper(
        doc_id="",
        title=_title(item),
        abstract="\n".join(_texts(item.findall("abstract"))),
        url=url or None,
        identifiers=Identifiers(
            doi=normal_doi(ids.get("doi", "")) or normal_doi(ids.get("uri", "")),
            pmid=normal_pmid(ids.get("pmid") or ids.get("pubmed") or ids.get("medline") or ""),
            pmcid=normal_pmcid(ids.get("pmcid") or ids.get("pmc") or ""),
            arxiv=normal_arxiv(ids.get("arxiv", "")),
            isbn=normal_isbn(ids.get("isbn", "")),
        ),
        authors=tuple(_authors(item)),
        year=next(filter(None, years), None),
        venue=(_title(host) if host is not None else "") or None,
        volume=_detail(parts, "volume"),
        issue=_detail(parts, "issue") or _detail(parts, "number"),
        pages=_pages(parts),
        language="; ".join(dict.fromkeys(filter(None, map(normal_language, _texts(languages))))) or None,
        tags=tuple(dict.fromkeys(text for topics in keywords for text in topics)),
        mesh=tuple(dict.fromkeys(name for name, *_ in headings)),
        metadata={name: value for name, value in metadata.items() if value},
    )


def _texts(elements: Iterable[Element]) -> list[str]:
    return [text for element in elements if (text := element_text(element))]


def _list_issns(element: Element | None) -> list[str]:
    values = [] if element is None else [part for part in element.findall("identifier") if (part.get("type") or "").lower() == "issn"]
    return list(dict.fromkeys(issn for value in values for issn in parse_issns(element_text(value))[0]))


def _title(element: Element) -> str:
    """The main title with its article and subtitle; other titles (abbreviated, translated, uniform) have a type."""
    infos = element.findall("titleInfo")
    info = next((info for info in infos if not info.get("type")), infos[0] if infos else None)
    if info is None:
        return ""
    main = " ".join(_texts([*info.findall("nonSort"), *info.findall("title")]))
    parts = _texts([*info.findall("partNumber"), *info.findall("partName")])
    return ". ".join([": ".join([main, *_texts(info.findall("subTitle"))]), *parts])


def _authors(item: Element) -> Iterator[str]:
    """`Family, Given`; a name in one part as it is written."""
    for name in item.findall("name"):
        roles = {role.casefold() for role in _texts(name.findall("role/roleTerm"))} or {""}
        if AUTHOR_ROLES.isdisjoint(roles):
            continue
        parts: dict[str, list[str]] = {}
        for part in name.findall("namePart"):
            parts.setdefault(part.get("type") or "", []).append(element_text(part))
        family, given = (" ".join(parts.get(kind, [])) for kind in ("family", "given"))
        whole = " ".join(parts.get("", [])) or element_text(name.find("displayForm"))
        if text := ", ".join(filter(None, (family, given))) or whole:
            yield text


def _detail(parts: Iterable[Element], kind: str) -> str | None:
    details = (detail for part in parts for detail in part.findall("detail") if (detail.get("type") or "").lower() == kind)
    return next((text for detail in details for text in _texts([*detail.findall("number"), *detail.findall("caption")])), None)


def _pages(parts: Iterable[Element]) -> str | None:
    for extent in (extent for part in parts for extent in part.findall("extent") if (extent.get("unit") or "pages").startswith("page")):
        start, end = element_text(extent.find("start")), element_text(extent.find("end"))
        if pages := "-".join(dict.fromkeys(filter(None, (start, end)))) or element_text(extent.find("list")):
            return pages
    return None
