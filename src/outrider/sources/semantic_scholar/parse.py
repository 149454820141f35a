"""What Semantic Scholar says of papers, as records: pure functions, told apart from asking it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import JsonValue

from outrider.linkage.identifiers import normal_arxiv, normal_doi, normal_pmcid, normal_pmid
from outrider.sources import json_fields as said
from outrider.state.errors import Malformed
from outrider.state.records import Identifiers, Paper
from outrider.text.sanitize import told

NAME = "semantic_scholar"
FIELDS = (
    "title,abstract,year,publicationDate,venue,publicationVenue,journal,authors,externalIds,url,citationCount,openAccessPdf,"
    "publicationTypes,fieldsOfStudy"
)
"""What is read below; `paperId` always comes."""
DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
ID = re.compile(r"[\w:.-]{1,100}", re.ASCII)


@dataclass(frozen=True, slots=True)
class PageSaid:
    """One page of a list. `seen` counts what it held, `papers` is what can be used of it."""

    papers: tuple[Paper, ...]
    seen: int
    total: int | None
    following: int | None
    """The offset of the next page."""
    token: str
    """Of the next page, in a bulk search."""


def page_of(answer: Any, within: str = "") -> PageSaid:
    """`{"total", "offset", "next" or "token", "data": [...]}`; each paper may stand under a key of its own, such as `citedPaper`.

    `data` is absent where `total` is 0, and null where a publisher keeps a list back.
    """
    listed = said.mapping(answer).get("data")
    if listed is None and said.mapping(answer).keys() & {"data", "total", "offset"}:
        listed = []
    if not isinstance(listed, list):
        raise Malformed(f"{NAME} answered with something else than a list of papers: {told(answer, '')}")
    papers = [paper_of(said.mapping(one).get(within) if within else one) for one in listed]
    total, following = said.whole(answer.get("total")), said.whole(answer.get("next"))
    return PageSaid(tuple(paper for paper in papers if paper), len(listed), total, following, said.text(answer.get("token")))


def paper_of(answer: Any) -> Paper | None:
    """None for what has no id of the service: it could not be asked for again, nor told from others."""
    paper = said.mapping(answer)
    identifiers, journal = identifiers_of(paper), said.mapping(paper.get("journal"))
    if identifiers.s2 is None:
        return None
    volume = said.text(journal.get("volume"))
    venues = (said.mapping(paper.get("publicationVenue")).get("name"), paper.get("venue"), journal.get("name"))
    return Paper(
        doc_id=f"{NAME}:{identifiers.s2}",
        source=NAME,
        title=said.title(paper.get("title")),
        abstract=said.plain(paper.get("abstract")),
        url=said.link(paper.get("url")),
        identifiers=identifiers,
        authors=texts(said.mapping(one).get("name") for one in said.items(paper.get("authors"))),
        year=said.year(paper.get("year")),
        venue=next(filter(None, map(said.title, venues)), None),
        citations=said.whole(paper.get("citationCount")),
        tags=tuple(dict.fromkeys(texts(said.items(paper.get("fieldsOfStudy"))))),
        volume=None if volume.startswith("abs/") else volume or None,  # of what lies on arXiv: its number there, no volume
        pages=said.text(journal.get("pages")) or None,
        metadata=metadata_of(paper),
    )


def identifiers_of(paper: Mapping[str, Any]) -> Identifiers:
    names = said.mapping(paper.get("externalIds"))
    own, corpus_id = said.text(paper.get("paperId")), digits(names.get("CorpusId"))
    return Identifiers(
        doi=normal_doi(said.text(names.get("DOI"))),
        arxiv=normal_arxiv(said.text(names.get("ArXiv"))),
        pmid=normal_pmid(digits(names.get("PubMed"))),
        pmcid=normal_pmcid("PMC" + digits(names.get("PubMedCentral"))),
        s2=own if ID.fullmatch(own) else f"CorpusId:{corpus_id}" if corpus_id else None,
    )


def metadata_of(paper: Mapping[str, Any]) -> dict[str, JsonValue]:
    published = said.text(paper.get("publicationDate"))
    known: dict[str, JsonValue] = {
        "published": published if DATE.fullmatch(published) else None,
        "tldr": said.plain(said.mapping(paper.get("tldr")).get("text")),
        "pdf_url": said.link(said.mapping(paper.get("openAccessPdf")).get("url")),
        "publication_types": list(texts(said.items(paper.get("publicationTypes")))),
        "corpus_id": digits(said.mapping(paper.get("externalIds")).get("CorpusId")),
    }
    return {name: value for name, value in known.items() if value}


def texts(values: Iterable[Any]) -> tuple[str, ...]:
    return tuple(filter(None, map(said.text, values)))


def digits(value: Any) -> str:
    """A number, which stands there as a number, as text, or as text after `PMC`; empty for anything else."""
    text = str(said.whole(value) or "") or said.text(value).upper().removeprefix("PMC")
    return text if text.isascii() and text.isdigit() and len(text) < 16 else ""
