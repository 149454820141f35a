"""Parser of HTML pages: main text by trafilatura, the rest from the page's declarations

Declarations are `<title>`, `meta` elements (Highwire's `citation_*`, Dublin Core, PRISM, Open Graph), JSON-LD and the canonical
link. Authors and titles that trafilatura infers from the body are not used: it mistakes menus and footers for them. A date that is not
declared comes from the mark-up (htmldate without its search through the text).

The page's own identifiers come from `meta` elements and from links to the page itself (canonical; `cite-as`, RFC 8574). Identifiers in
other links belong to other works and become edges `links_to`. Both ingested files and fetched pages are parsed here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any

from pydantic import JsonValue

from outrider.linkage.identifiers import normal_arxiv, normal_doi, normal_pmid
from outrider.sources.json_fields import text as text_of
from outrider.sources.web.link_identifiers import find_identifiers
from outrider.state.errors import Malformed
from outrider.state.records import Edge, Identifiers, Page

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
ABSTRACTS = ("citation_abstract", "dcterms.abstract", "dc.description.abstract")
ARXIVS = ("citation_arxiv_id",)
PMIDS = ("citation_pmid",)
OWN_LINKS = frozenset({"canonical", "cite-as"})
YEAR = re.compile(r"(?<!\d)(1\d{3}|20\d{2}|21\d{2})(?!\d)|^((?:1\d|20|21)\d{2})(?:0[1-9]|1[0-2])(?:[0-2]\d|3[01])$")
MOST_LINKS = 200
MOST_THOROUGH = 2_000
"""Largest number of elements for the thorough extraction; of 33 saved pages 28 have no more."""


def declared_charset(data: bytes) -> str | None:
    """The encoding that a page's `meta` element or XML declaration names; `gb2312` and `iso-8859-1` as browsers interpret them."""
    match = CHARSET.search(data[:CHARSET_BYTES])
    name = (match.group(1) or match.group(2)).decode("ascii").lower() if match else None
    return {"gb2312": "gb18030", "gbk": "gb18030", "iso-8859-1": "cp1252", "latin1": "cp1252", "us-ascii": "cp1252"}.get(name or "", name)


def parse_page(html: str, about: Mapping[str, JsonValue] | None = None, most_nodes: int | None = None) -> Page:
    """The record of a page, without id and source. `about` is added to its metadata.

    `most_nodes`, for untrusted pages: elements after that number are not read, which `metadata.cut` reports, and a large page is read
    only by the part of trafilatura whose time is linear in its size. Raises `Malformed` if it is not HTML.
    """
    tree = parse_tree(html)
    cut = most_nodes is not None and _cut(tree, most_nodes)
    page = PageDeclarations(tree)
    text, marked_date = _main_text(
        tree, thorough=most_nodes is None or not (next(islice(tree.iter(), MOST_THOROUGH, None), None) is not None)
    )
    date = page.date() or marked_date
    year = YEAR.search(date)
    own = page.identifiers()
    cut_note = {"cut": f"only its first {most_nodes:,} elements were read"} if cut else {}
    extra: dict[str, JsonValue] = {**(about or {}), **cut_note, "date": date, "site": page.meta_value("og:site_name"), "pdf": page.pdf()}
    return Page(
        doc_id="",
        title=page.title(),
        description=page.meta_value(*DESCRIPTIONS),
        abstract=page.meta_value(*ABSTRACTS),
        text=text,
        url=page.url(),
        identifiers=own,
        authors=page.authors(),
        year=int(year[1] or year[2]) if year else None,
        language=page.language(),
        tags=page.tags(),
        edges=page.links_to(own),
        metadata={name: value for name, value in extra.items() if value},
    )


class PageDeclarations:
    """Declarations of a page outside its text."""

    def __init__(self, tree: HtmlElement) -> None:
        self.tree = tree
        self.meta: dict[str, tuple[str, ...]] = {}
        for element in tree.iter("meta"):
            name = (element.get("name") or element.get("property") or "").strip().lower()
            content = text_of(element.get("content") or "")
            if name and content and (name in REPEATED or name not in self.meta):
                self.meta[name] = (*self.meta.get(name, ()), content)
        self.graph = tuple(_json_ld(tree))

    def meta_value(self, *names: str) -> str:
        """The first of these `meta` elements that exists; empty for none."""
        return next((self.meta[name][0] for name in names if name in self.meta), "")

    def date(self) -> str:
        """The declared date of publication, in any format."""
        linked = (text_of(value) for node in self.graph if isinstance(value := node.get("datePublished"), str))
        return self.meta_value(*DATES) or next(linked, "")

    def title(self) -> str:
        own = (text_of("".join(element.itertext())) for element in self.tree.iter("title"))
        return self.meta_value(*TITLES) or next(filter(None, own), "")

    def authors(self) -> tuple[str, ...]:
        declared = next((self.meta[name] for name in AUTHORS if name in self.meta), ())
        names = [name.strip() for value in declared for name in value.split(";")]
        if not names:
            authors = (node.get("author") for node in self.graph)
            people = (person for author in authors for person in (author if isinstance(author, list) else [author]))
            linked = (person.get("name") if isinstance(person, Mapping) else person for person in people)
            names = [text_of(name) for name in linked if isinstance(name, str)]
        names = names or [text_of("".join(link.itertext())) for link in self.tree.iter("a") if "author" in _relations(link)]
        return tuple(dict.fromkeys(name for name in names if name and "://" not in name))

    def tags(self) -> tuple[str, ...]:
        words = [word for value in (self.meta_value("keywords", "news_keywords"),) for word in value.split(",")]
        return tuple(dict.fromkeys(filter(None, (word.strip() for word in (*words, *self.meta.get("article:tag", ()))))))

    def url(self) -> str | None:
        """The declared URL of the page if it is absolute."""
        canonical = [link.get("href") or "" for link in self.tree.iter("link") if "canonical" in _relations(link)]
        links = (link.strip() for link in (*canonical, *(self.meta_value(name) for name in LINKS)))
        return next((link for link in links if link.lower().startswith(("http://", "https://"))), None)

    def pdf(self) -> str:
        """The declared URL of the work as PDF."""
        link = self.meta_value("citation_pdf_url")
        return link if link.lower().startswith(("http://", "https://")) else ""

    def identifiers(self) -> Identifiers:
        """Identifiers of the page itself."""
        linked = [find_identifiers(element.get("href") or "") for element in self.tree.iter("link") if OWN_LINKS & _relations(element)]
        named = Identifiers(
            doi=next((doi for name in DOIS if (doi := normal_doi(self.meta_value(name)))), None),
            arxiv=next((arxiv for name in ARXIVS if (arxiv := normal_arxiv(self.meta_value(name)))), None),
            pmid=next((pmid for name in PMIDS if (pmid := normal_pmid(self.meta_value(name)))), None),
        )
        known = {scheme: value for identifiers in (*reversed(linked), named) for scheme, value in identifiers.pairs()}
        return Identifiers(**known)

    def links_to(self, own: Identifiers) -> tuple[Edge, ...]:
        """The works that its links identify, in the page's order, without itself."""
        named = (pair for element in self.tree.iter("a") for pair in find_identifiers(element.get("href") or "").pairs())
        targets = dict.fromkeys(f"{scheme}:{value}" for scheme, value in named if (scheme, value) not in own.pairs())
        return tuple(Edge(relation="links_to", target=target) for target in list(targets)[:MOST_LINKS])

    def language(self) -> str | None:
        """The primary subtag of the declared language (BCP 47), lower case."""
        root = self.tree.getroottree().getroot()
        declared = (
            root.get("lang"),
            root.get("{http://www.w3.org/XML/1998/namespace}lang"),
            root.get("xml:lang"),
            self.meta_value(*LANGUAGES),
        )
        primary = ((value or "").replace("_", "-").split("-")[0].strip().lower() for value in declared)
        return next((tag for tag in primary if tag.isalpha() and 2 <= len(tag) <= 3), None)


def _json_ld(tree: HtmlElement) -> Iterator[Mapping[str, Any]]:
    """The objects of the page's JSON-LD, those of an `@graph` included; broken scripts are skipped."""
    for script in tree.iter("script"):
        if (script.get("type") or "").lower() != "application/ld+json":
            continue
        try:
            payload = json.loads(script.text or "")
        except (ValueError, RecursionError):
            continue
        for node in payload if isinstance(payload, list) else [payload]:
            if isinstance(node, Mapping):
                graph = node.get("@graph")
                yield node
                yield from (part for part in graph if isinstance(part, Mapping)) if isinstance(graph, list) else ()


def _relations(element: HtmlElement) -> frozenset[str]:
    return frozenset((element.get("rel") or "").lower().split())


def parse_tree(html: str) -> HtmlElement:
    """A whole page or a fragment, also invalid HTML. Raises `Malformed`."""
    from lxml.etree import LxmlError  # type: ignore[import-untyped]
    from lxml.html import HTMLParser, document_fromstring

    try:
        return document_fromstring(html.encode("utf-8", "replace"), parser=HTMLParser(encoding="utf-8"))
    except (LxmlError, ValueError, AssertionError) as broken:  # lxml asserts that there is a body
        raise Malformed(f"not an HTML page: {broken}") from broken


def _cut(tree: HtmlElement, most: int) -> bool:
    """Keep the first `most` nodes in the order of the page. True if there were more."""
    first = next(islice(tree.iter(), most, None), None)
    if first is None:
        return False
    for node in (first, *first.iterancestors()):
        parent = node.getparent()
        if parent is None:
            break
        del parent[parent.index(node) + (node is not first) :]
        if node is not first:
            node.tail = None
    return True


def _main_text(tree: HtmlElement, *, thorough: bool = True) -> tuple[str, str]:
    """The main text and the date in the mark-up; all of the text for a page too small to have a main part, by its own blocks.

    If `thorough`, justext is used, too; its time is quadratic in the number of paragraphs.
    """
    from copy import deepcopy

    from lxml.etree import LxmlError
    from trafilatura import bare_extraction, html2txt

    from outrider.sources.web.page_text import HTML_NAMES, render_blocks

    dates = {"original_date": True, "extensive_search": False}
    try:
        extracted: Any = bare_extraction(
            deepcopy(tree), with_metadata=True, include_comments=False, date_extraction_params=dates, fast=not thorough
        )
        text = render_blocks(extracted.body) if extracted else ""
        if "\n" not in text:  # nothing, or a small page as one block
            whole = render_blocks(tree, HTML_NAMES)
            text = whole if not text or list(filter(str.isalnum, whole)) == list(filter(str.isalnum, text)) else text
        text = text or html2txt(deepcopy(tree)) or ""
    except (LxmlError, RecursionError, ValueError, AttributeError, TypeError) as broken:  # errors that trafilatura does not catch
        raise Malformed(f"its text cannot be extracted: {type(broken).__name__}: {broken}") from broken
    return text.strip(), (extracted.date if extracted else "") or ""
