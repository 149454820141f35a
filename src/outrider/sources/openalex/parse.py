"""What OpenAlex says of a work, as a record. Pure: nothing here asks anybody, and nothing is guessed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pydantic import JsonValue

from outrider.linkage.identifiers import normal_arxiv, normal_doi, normal_pmcid, normal_pmid
from outrider.sources.json_fields import code, items, link, mapping, number, plain, text, title, whole, year
from outrider.state.errors import Malformed
from outrider.state.records import Identifiers, Paper

NAME = "openalex"
FIELDS = (
    "id,doi,ids,title,display_name,publication_year,publication_date,language,type,primary_location,locations,open_access,authorships,"
    "cited_by_count,biblio,is_retracted,topics,keywords,mesh,abstract_inverted_index"
)
"""What is read below. `concepts` are not: they are no longer kept up and will be removed, and who selects a removed field gets nothing."""
WORK = re.compile(r"(?:https?://(?:api\.)?openalex\.org/(?:works/)?)?(W\d+)/?", re.IGNORECASE)
PMC_NUMBER = re.compile(r"/pmc/articles/(\d+)/?\Z", re.IGNORECASE)
ARXIV_DOI = "10.48550/arxiv."
MOST_TAGS = 12
MOST_POSITIONS = 100_000
"""Words of an abstract."""


def works_of(said: Any) -> tuple[list[Any], int | None]:
    """Works and how many there are, of a list: `{"meta": {"count": ...}, "results": [...]}`."""
    works = mapping(said).get("results")
    if not isinstance(works, list):
        raise Malformed(f"{NAME} answered a search with something else than a list of works")
    return works, whole(mapping(mapping(said).get("meta")).get("count"))


def refusal_of(said: Any) -> str:
    """What `{"error": ..., "message": ...}` says, which may come with status 200; empty for an answer."""
    refusal = mapping(said)
    return " ".join(filter(None, (text(refusal.get("error")), text(refusal.get("message")))))


def paper_of(said: Any) -> Paper | None:
    """None for what has no id of the service."""
    work = mapping(said)
    identifiers = identifiers_of(work)
    if identifiers.openalex is None:
        return None
    place, biblio = mapping(work.get("primary_location")), mapping(work.get("biblio"))
    return Paper(
        doc_id=f"{NAME}:{identifiers.openalex}",
        title=title(work.get("title")) or title(work.get("display_name")),
        abstract=abstract_of(work.get("abstract_inverted_index")),
        url=link(place.get("landing_page_url")) or link(work.get("doi")) or link(work.get("id")),
        identifiers=identifiers,
        authors=tuple(filter(None, map(author_of, items(work.get("authorships"))))),
        year=year(work.get("publication_year")),
        venue=title(mapping(place.get("source")).get("display_name")) or title(place.get("raw_source_name")) or None,
        citations=whole(work.get("cited_by_count")),
        language=text(work.get("language")) or None,
        tags=tags_of(work),
        source=NAME,
        metadata=metadata_of(work),
        volume=text(biblio.get("volume")) or None,
        issue=text(biblio.get("issue")) or None,
        pages=pages_of(biblio),
        mesh=named(work.get("mesh"), "descriptor_name"),
    )


def score_of(said: Any) -> float | None:
    return number(mapping(said).get("relevance_score"))


def identifiers_of(work: Mapping[str, Any]) -> Identifiers:
    ids = mapping(work.get("ids"))
    doi = normal_doi(code(work.get("doi"))) or normal_doi(code(ids.get("doi")))
    return Identifiers(
        openalex=work_id(code(work.get("id"))) or work_id(code(ids.get("openalex"))),
        doi=doi,
        pmid=normal_pmid(code(ids.get("pmid"))),
        pmcid=pmcid_of(code(ids.get("pmcid"))),
        arxiv=arxiv_of(work, doi),
    )


def work_id(value: str) -> str | None:
    """`W123` of a work's id or address; its letter tells works from authors and others."""
    found = WORK.fullmatch(value.strip())
    return found[1].upper() if found else None


def pmcid_of(address: str) -> str | None:
    """OpenAlex writes PubMed Central's address with the number alone."""
    bare = PMC_NUMBER.search(address)
    return normal_pmcid(f"PMC{bare[1]}" if bare else address)


def arxiv_of(work: Mapping[str, Any], doi: str | None) -> str | None:
    """From arXiv's own DOI, else from the places where the work lies."""
    if doi and doi.startswith(ARXIV_DOI):
        return normal_arxiv(doi.removeprefix(ARXIV_DOI))
    places = (mapping(place) for place in (work.get("primary_location"), *items(work.get("locations"))))
    links = (code(place.get(name)) for place in places for name in ("landing_page_url", "pdf_url"))
    return next(filter(None, (normal_arxiv(one) for one in links if "arxiv.org/" in one)), None)


def author_of(said: Any) -> str:
    return text(mapping(mapping(said).get("author")).get("display_name")) or text(mapping(said).get("raw_author_name"))


def abstract_of(said: Any) -> str:
    """The text of an inverted index: each word with its places."""
    places = [(place, word) for word, at in mapping(said).items() for place in map(whole, items(at)) if place is not None]
    return plain(" ".join(word for _, word in sorted(places)[:MOST_POSITIONS]))


def tags_of(work: Mapping[str, Any]) -> tuple[str, ...]:
    """Keywords, then topics: both are OpenAlex's own, made from the text, best first."""
    every = (*named(work.get("keywords"), "display_name"), *named(work.get("topics"), "display_name"))
    spelt: dict[str, str] = {}
    for tag in every:
        spelt.setdefault(tag.casefold(), tag)
    return tuple(spelt.values())[:MOST_TAGS]


def named(said: Any, name: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(filter(None, (text(mapping(one).get(name)) for one in items(said)))))


def pages_of(biblio: Mapping[str, Any]) -> str | None:
    ends = dict.fromkeys(filter(None, (text(biblio.get("first_page")), text(biblio.get("last_page")))))
    return "-".join(ends) or None


def metadata_of(work: Mapping[str, Any]) -> dict[str, JsonValue]:
    access, retracted = mapping(work.get("open_access")), work.get("is_retracted")
    said: dict[str, JsonValue] = {
        "type": text(work.get("type")),
        "published": text(work.get("publication_date")),
        "retracted": retracted if isinstance(retracted, bool) else None,
        "open_access": text(access.get("oa_status")),
        "open_access_url": link(access.get("oa_url")),
        "licence": text(mapping(work.get("primary_location")).get("license")),
    }
    return {name: value for name, value in said.items() if value not in {None, ""}}
