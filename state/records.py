"""Records: papers, repositories, pages and documents as one tagged union."""

from __future__ import annotations

import hashlib
import json
from typing import Annotated, ClassVar, Literal

from pydantic import Field, JsonValue, TypeAdapter

from outrider.state.model import Model

LIBRARY = "library"
"""The `source` of the user's own records."""


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
    url: str | None = None
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
    metadata: dict[str, JsonValue] = Field(default_factory=dict, description="Fields without a place of their own.")

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
