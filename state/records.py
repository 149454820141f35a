"""Records: papers, repositories, pages and documents as one tagged union."""

from __future__ import annotations

import hashlib
import html
import json
import re
import unicodedata
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field, JsonValue, TypeAdapter

from outrider.state.model import Model

LIBRARY = "library"
"""The `source` of the user's own records."""


WEB_SCHEMES = ("http", "https")
SCHEME = re.compile(r"([a-z][a-z0-9+.-]*):", re.IGNORECASE)
HOST_AND_PORT = re.compile(r"(?:localhost|[a-z0-9-]+(?:\.[a-z0-9-]+)+):\d{1,5}(?:[/?#]|$)", re.IGNORECASE)
"""No scheme, as in `example.org:8080/x`. A name without a dot is one: browsers run `javascript:1/alert(1)`."""
SCRIPT_SCHEMES = frozenset({"javascript", "jscript", "livescript", "mocha", "vbscript", "vbs"})
DATA_URL = re.compile(r"data:[\w.+/-]*[;,]", re.IGNORECASE)
IGNORED_IN_SCHEME = re.compile(r"^[\x00-\x20]+|[\t\n\r]")
"""Browsers drop these before they look for the scheme (WHATWG URL, basic URL parser)."""
MAX_SCHEME_CHARS = 100
"""Start of an address in which a scheme is looked for: entities make it longer."""


def link_scheme(address: str) -> str:
    """The scheme that a browser would see, in lower case; empty for an address without one, such as `www.example.org/x`.

    Entities, compatibility forms and invisible characters are resolved first: a page or a reader downstream may resolve them too.
    """
    start = address.lstrip()[:MAX_SCHEME_CHARS]
    if ":" not in start and "&" not in start and start.isascii():  # most texts, and there are many
        return ""
    if "&" in start:
        start = html.unescape(start)
    if not start.isascii():
        start = "".join(char for char in unicodedata.normalize("NFKC", start) if unicodedata.category(char) != "Cf")
    start = IGNORED_IN_SCHEME.sub("", start)
    match = SCHEME.match(start)
    return match.group(1).lower() if match and not HOST_AND_PORT.match(start) else ""


def web_link(address: str | None) -> str | None:
    """The address unchanged if it is one of the web (http, https, or without a scheme); None for any other, such as `javascript:`."""
    return address if not address or link_scheme(address) in ("", *WEB_SCHEMES) else None


def is_script(address: str) -> bool:
    """Whether a browser would run the address, or show what it contains, instead of opening a place of the web."""
    scheme = link_scheme(address)
    return scheme in SCRIPT_SCHEMES or (scheme == "data" and DATA_URL.search(address) is not None)


def without_scripts(metadata: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """The fields without texts that are script addresses."""
    return {name: _drop_scripts(value) for name, value in metadata.items() if not (isinstance(value, str) and is_script(value))}


def _drop_scripts(value: JsonValue) -> JsonValue:
    if isinstance(value, list):
        return [_drop_scripts(item) for item in value if not (isinstance(item, str) and is_script(item))]
    return without_scripts(value) if isinstance(value, dict) else value


WebLink = Annotated[str | None, AfterValidator(web_link)]
"""A link as records and hits carry it. The type is the one gate: sources, files, earlier libraries and saved answers pass it."""
Metadata = Annotated[dict[str, JsonValue], AfterValidator(without_scripts)]


class Identifiers(Model):
    """Identifiers of a work in other systems, normalised: no resolver prefix, lower-case DOI, no arXiv version."""

    doi: str | None = None
    pmid: str | None = None
    pmcid: str | None = None
    arxiv: str | None = None
    openalex: str | None = None
    s2: str | None = None
    isbn: str | None = None
    github: str | None = None
    pypi: str | None = None

    def pairs(self) -> tuple[tuple[str, str], ...]:
        """The known identifiers as (scheme, value), strongest first."""
        return tuple((name, value) for name, value in vars(self).items() if value)


class Edge(Model):
    """A relation from one record to something named, e.g. `depends_on` `pypi:httpx`."""

    relation: str
    target: str


class BaseRecord(Model):
    """Fields of every kind of record. A missing value is None or empty, never a guess."""

    doc_id: str
    title: str = ""
    description: str = ""
    abstract: str = ""
    text: str = Field("", description="The whole available body: a full text, a README, a note.")
    url: WebLink = None
    identifiers: Identifiers = Identifiers()
    authors: tuple[str, ...] = ()
    year: int | None = None
    venue: str | None = None
    citations: int | None = None
    stars: int | None = None
    language: str | None = Field(None, description="Natural language of a text; programming language of a repository.")
    tags: tuple[str, ...] = Field((), description="Keywords, topics or classifiers as the source gave them.")
    edges: tuple[Edge, ...] = ()
    source: str = Field(LIBRARY, description="The service that returned the record.")
    origin: str | None = Field(None, description="The file or collection that the record was ingested from.")
    metadata: Metadata = Field(default_factory=dict, description="Fields without a place of their own.")

    NOT_CONTENT: ClassVar[frozenset[str]] = frozenset({"doc_id", "source", "origin"})

    def content_hash(self) -> str:
        """Sha-256 of the record's content, without its id and origin."""
        content = self.model_dump(mode="json", exclude=set(self.NOT_CONTENT), exclude_defaults=True)
        return hashlib.sha256(json.dumps(content, sort_keys=True, ensure_ascii=False).encode()).hexdigest()

    def full_text(self) -> str:
        """All available text, abstract first; spans are offsets into it."""
        return "\n\n".join(part for part in (self.abstract or self.description, self.text) if part)


class Paper(BaseRecord):
    kind: Literal["paper"] = "paper"
    volume: str | None = None
    issue: str | None = None
    pages: str | None = None
    mesh: tuple[str, ...] = ()


class Repository(BaseRecord):
    kind: Literal["repository"] = "repository"
    licence: str | None = None
    forks: int | None = None
    parent_stars: int | None = Field(None, description="Stars of the repository that this one was forked from.")
    is_fork: bool | None = None
    archived: bool | None = None
    updated_at: str | None = Field(None, description="ISO 8601 date of the last push.")


class Page(BaseRecord):
    kind: Literal["page"] = "page"


class Document(BaseRecord):
    kind: Literal["document"] = "document"


Record = Annotated[Paper | Repository | Page | Document, Field(discriminator="kind")]
Kind = Literal["paper", "repository", "page", "document"]
RECORD: TypeAdapter[Record] = TypeAdapter(Record)
