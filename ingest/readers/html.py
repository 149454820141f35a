"""A saved web page: its main text by trafilatura, everything else from what the page declares of itself.

Declarations are `<title>`, `meta` elements (Highwire's `citation_*`, Dublin Core, PRISM, Open Graph), JSON-LD and the canonical
link. Authors and titles that trafilatura infers from the body are not used: menus and footers pass for them. A date that is not
declared comes from the mark-up (htmldate without its search through the text). A DOI comes from a `meta` element only: one in
the text may be anyone's.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import JsonValue

from outrider.identity.identifiers import normal_doi
from outrider.ingest.entry import Entry, Parsed, ReadOptions
from outrider.ingest.fields import one_line, year_of
from outrider.ingest.readers.decoded import decoded
from outrider.state.errors import UnreadableFile
from outrider.state.records import Identifiers, Page

if TYPE_CHECKING:
    from lxml.html import HtmlElement  # type: ignore[import-untyped]

CHARSET = re.compile(
    rb"""<meta[^>]{0,200}?charset\s*=\s*["']?\s*([A-Za-z0-9_:.-]+)|<\?xml[^>]{0,100}?encoding=["']([A-Za-z0-9_:.-]+)""", re.IGNORECASE
)
CHARSET_BYTES = 4096
TITLES = ("citation_title", "dc.title", "dcterms.title", "og:title", "parsely-title")
AUTHORS = ("citation_author", "dc.creator", "dcterms.creator", "author", "parsely-author")
DESCRIPTIONS = ("description", "og:description", "dc.description", "dcterms.description")
DATES = ("citation_publication_date", "citation_date", "dc.date", "dcterms.date", "article:published_time", "parsely-pub-date", "date")
DOIS = ("citation_doi", "prism.doi", "dc.identifier", "dc.identifier.doi", "bepress_citation_doi", "doi")
LANGUAGES = ("citation_language", "dc.language", "language", "og:locale")
LINKS = ("og:url", "citation_public_url", "citation_abstract_html_url")
REPEATED = ("citation_author", "dc.creator", "dcterms.creator", "article:tag")


def read(path: Path, options: ReadOptions) -> Iterator[Parsed]:
    content = decoded(path, declared_charset)
    tree = _tree(path, content.text)
    page = Declared(tree)
    text, date = _main_text(path, tree)
    title = page.title()
    if not text and not title:
        raise UnreadableFile(f"{path}: a page without readable text")
    yield Entry(_page(page, title or path.stem, text, page.date() or date, content.said()))


def declared_charset(data: bytes) -> str | None:
    """The encoding that a page's `meta` element or XML declaration names; `gb2312` and `iso-8859-1` as browsers take them."""
    found = CHARSET.search(data[:CHARSET_BYTES])
    name = (found.group(1) or found.group(2)).decode("ascii").lower() if found else None
    return {"gb2312": "gb18030", "gbk": "gb18030", "iso-8859-1": "cp1252", "latin1": "cp1252", "us-ascii": "cp1252"}.get(name or "", name)


def _page(page: Declared, title: str, text: str, date: str, encoding: Mapping[str, str]) -> Page:
    extra: dict[str, JsonValue] = {**encoding, "date": date, "site": page.said("og:site_name")}
    return Page(
        doc_id="",
        title=title,
        description=page.said(*DESCRIPTIONS),
        text=text,
        url=page.url(),
        identifiers=Identifiers(doi=next((doi for name in DOIS if (doi := normal_doi(page.said(name)))), None)),
        authors=page.authors(),
        year=year_of(date)[0],
        language=page.language(),
        tags=page.tags(),
        metadata={name: value for name, value in extra.items() if value},
    )


class Declared:
    """What a page says of itself outside its text."""

    def __init__(self, tree: HtmlElement) -> None:
        self.tree = tree
        self.meta: dict[str, tuple[str, ...]] = {}
        for element in tree.iter("meta"):
            name = (element.get("name") or element.get("property") or "").strip().lower()
            content = one_line(element.get("content") or "")
            if name and content and (name in REPEATED or name not in self.meta):
                self.meta[name] = (*self.meta.get(name, ()), content)
        self.graph = tuple(_json_ld(tree))

    def said(self, *names: str) -> str:
        """The first of these `meta` elements that is there; empty for none."""
        return next((self.meta[name][0] for name in names if name in self.meta), "")

    def date(self) -> str:
        """The day of publication as declared, in whatever form."""
        linked = (one_line(value) for node in self.graph if isinstance(value := node.get("datePublished"), str))
        return self.said(*DATES) or next(linked, "")

    def title(self) -> str:
        own = (one_line("".join(element.itertext())) for element in self.tree.iter("title"))
        return self.said(*TITLES) or next(filter(None, own), "")

    def authors(self) -> tuple[str, ...]:
        declared = next((self.meta[name] for name in AUTHORS if name in self.meta), ())
        names = [name.strip() for value in declared for name in value.split(";")]
        names = names or [name for node in self.graph for name in _names(node.get("author"))]
        names = names or [one_line("".join(link.itertext())) for link in self.tree.iter("a") if (link.get("rel") or "").lower() == "author"]
        return tuple(dict.fromkeys(name for name in names if name and "://" not in name))

    def tags(self) -> tuple[str, ...]:
        words = [word for value in (self.said("keywords", "news_keywords"),) for word in value.split(",")]
        return tuple(dict.fromkeys(filter(None, (word.strip() for word in (*words, *self.meta.get("article:tag", ()))))))

    def url(self) -> str | None:
        """Where the page says that it lives: absolute, or nothing."""
        canonical = [link.get("href") or "" for link in self.tree.iter("link") if (link.get("rel") or "").lower() == "canonical"]
        links = (link.strip() for link in (*canonical, *(self.said(name) for name in LINKS)))
        return next((link for link in links if link.lower().startswith(("http://", "https://"))), None)

    def language(self) -> str | None:
        """The primary subtag of the declared language (BCP 47), lower case."""
        root = self.tree.getroottree().getroot()
        declared = (root.get("lang"), root.get("{http://www.w3.org/XML/1998/namespace}lang"), root.get("xml:lang"), self.said(*LANGUAGES))
        primary = ((value or "").replace("_", "-").split("-")[0].strip().lower() for value in declared)
        return next((tag for tag in primary if tag.isalpha() and 2 <= len(tag) <= 3), None)


def _json_ld(tree: HtmlElement) -> Iterator[Mapping[str, Any]]:
    """The objects of the page's JSON-LD, those of an `@graph` included; broken scripts are not the page's word."""
    for script in tree.iter("script"):
        if (script.get("type") or "").lower() != "application/ld+json":
            continue
        try:
            said = json.loads(script.text or "")
        except (ValueError, RecursionError):
            continue
        for node in said if isinstance(said, list) else [said]:
            if isinstance(node, Mapping):
                graph = node.get("@graph")
                yield node
                yield from (part for part in graph if isinstance(part, Mapping)) if isinstance(graph, list) else ()


def _names(author: Any) -> list[str]:
    people = author if isinstance(author, list) else [author]
    names = (person.get("name") if isinstance(person, Mapping) else person for person in people)
    return [one_line(name) for name in names if isinstance(name, str)]


def _tree(path: Path, text: str) -> HtmlElement:
    """A whole page or a fragment, however untidy."""
    from lxml.etree import LxmlError  # type: ignore[import-untyped]
    from lxml.html import HTMLParser, document_fromstring

    try:
        return document_fromstring(text.encode("utf-8", "replace"), parser=HTMLParser(encoding="utf-8"))
    except (LxmlError, ValueError, AssertionError) as broken:  # lxml asserts that there is a body
        raise UnreadableFile(f"{path}: not an HTML page: {broken}") from broken


def _main_text(path: Path, tree: HtmlElement) -> tuple[str, str]:
    """The main text and the date in the mark-up; all of the text for a page too small to have a main part."""
    from copy import deepcopy

    from lxml.etree import LxmlError
    from trafilatura import bare_extraction, html2txt

    dates = {"original_date": True, "extensive_search": False}
    try:
        found: Any = bare_extraction(deepcopy(tree), with_metadata=True, include_comments=False, date_extraction_params=dates)
        text = (found.text if found else "") or html2txt(deepcopy(tree)) or ""
    except (LxmlError, RecursionError, ValueError, AttributeError, TypeError) as broken:  # what trafilatura lets through
        raise UnreadableFile(f"{path}: its text cannot be extracted: {type(broken).__name__}: {broken}") from broken
    return text.strip(), (found.date if found else "") or ""
