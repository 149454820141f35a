"""Search responses in each service's own format, made from plain works.

The adapters' docstrings name the documentation of the formats.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from xml.sax.saxutils import escape

from bench.served import HttpResponse


@dataclass(frozen=True, slots=True)
class Work:
    """A paper; the services' own ids derive from its number."""

    number: int
    title: str
    text: str = ""
    year: int = 2020
    doi: str = ""


@dataclass(frozen=True, slots=True)
class Project:
    """A repository of GitHub."""

    full_name: str
    description: str
    stars: int = 100
    forks: int = 20
    language: str = ""
    topics: tuple[str, ...] = ()
    created_at: str = "2020-01-01T00:00:00Z"
    pushed_at: str = "2026-09-01T00:00:00Z"
    archived: bool = False
    readme: str = field(default="", repr=False)


Link = Callable[[Work], str]
"""Address of a work's page."""


def as_json(data: Any, headers: Mapping[str, str] | None = None) -> HttpResponse:
    return HttpResponse(json.dumps(data).encode(), headers=headers or {})


def repository(project: Project) -> dict[str, Any]:
    return {
        "full_name": project.full_name,
        "html_url": f"https://github.com/{project.full_name}",
        "description": project.description,
        "stargazers_count": project.stars,
        "forks_count": project.forks,
        "language": project.language or None,
        "topics": list(project.topics),
        "fork": False,
        "archived": project.archived,
        "created_at": project.created_at,
        "pushed_at": project.pushed_at,
        "license": {"spdx_id": "MIT"},
        "open_issues_count": 12,
    }


def github(projects: Sequence[Project], total: int) -> HttpResponse:
    return as_json({"total_count": total, "incomplete_results": False, "items": list(map(repository, projects))})


def openalex(works: Sequence[Work], total: int) -> HttpResponse:
    return as_json({"meta": {"count": total, "page": 1, "per_page": 100}, "results": list(map(openalex_work, works))})


def openalex_work(work: Work) -> dict[str, Any]:
    positions: dict[str, list[int]] = {}
    for at, word in enumerate(work.text.split()):
        positions.setdefault(word, []).append(at)
    return {
        "id": f"https://openalex.org/W{work.number}",
        "title": work.title,
        "doi": f"https://doi.org/{work.doi}" if work.doi else None,
        "publication_year": work.year,
        "abstract_inverted_index": positions or None,
    }


def semantic_scholar(works: Sequence[Work], total: int) -> HttpResponse:
    return as_json({"total": total, "offset": 0, "data": list(map(semantic_scholar_paper, works))})


def semantic_scholar_paper(work: Work) -> dict[str, Any]:
    ids = {"DOI": work.doi} if work.doi else {}
    return {
        "paperId": f"{work.number:040x}",
        "title": work.title,
        "abstract": work.text or None,
        "year": work.year,
        "externalIds": ids,
    }


def arxiv(works: Sequence[Work], total: int) -> HttpResponse:
    entries = "".join(
        f"<entry><id>http://arxiv.org/abs/2101.{work.number:05d}v1</id><title>{escape(work.title)}</title>"
        f"<summary>{escape(work.text)}</summary><published>{work.year}-01-02T03:04:05Z</published>"
        f"<author><name>A. Frost</name></author></entry>"
        for work in works
    )
    spaces = 'xmlns="http://www.w3.org/2005/Atom" xmlns:opensearch="http://a9.com/-/spec/opensearch/1.1/"'
    feed = f"<feed {spaces}><opensearch:totalResults>{total}</opensearch:totalResults>{entries}</feed>"
    return HttpResponse(feed.encode(), "application/atom+xml; charset=utf-8")


def pubmed_ids(works: Sequence[Work], total: int) -> HttpResponse:
    result = {"count": str(total), "idlist": [str(work.number) for work in works]}
    return as_json({"header": {"type": "esearch"}, "esearchresult": result})


def pubmed_articles(works: Sequence[Work]) -> HttpResponse:
    articles = "".join(
        f'<PubmedArticle><MedlineCitation><PMID Version="1">{work.number}</PMID><Article><Journal><JournalIssue><PubDate>'
        f"<Year>{work.year}</Year></PubDate></JournalIssue><Title>Reports</Title></Journal>"
        f"<ArticleTitle>{escape(work.title)}</ArticleTitle><Abstract><AbstractText>{escape(work.text)}</AbstractText></Abstract>"
        f'</Article></MedlineCitation><PubmedData><ArticleIdList><ArticleId IdType="doi">{work.doi}</ArticleId></ArticleIdList>'
        f"</PubmedData></PubmedArticle>"
        for work in works
    )
    return HttpResponse(f'<?xml version="1.0" ?><PubmedArticleSet>{articles}</PubmedArticleSet>'.encode(), "text/xml; charset=utf-8")


def crossref(works: Sequence[Work], total: int) -> HttpResponse:
    return as_json(
        {"status": "ok", "message-type": "work-list", "message": {"total-results": total, "items": list(map(crossref_work, works))}}
    )


def crossref_work(work: Work) -> dict[str, Any]:
    """Without an abstract, like most of Crossref's works."""
    return {"DOI": work.doi, "title": [work.title], "type": "journal-article", "issued": {"date-parts": [[work.year]]}}


def serpapi(engine: str, works: Sequence[Work], total: int, link: Link, start: int = 0) -> HttpResponse:
    rows = [
        {
            "result_id": f"{engine}{work.number}",
            "title": work.title,
            "link": link(work),
            "snippet": work.text[:160],
            "position": place,
        }
        for place, work in enumerate(works, start + 1)
    ]
    return as_json({"search_metadata": {"status": "Success"}, "search_information": {"total_results": total}, "organic_results": rows})


def duckduckgo(works: Sequence[Work], link: Link) -> HttpResponse:
    """A result page of the engine that works without scripts."""
    rows = "".join(
        f'<div class="result"><a class="result__a" href="{link(work)}">'
        f'{escape(work.title)}</a><a class="result__snippet">{escape(work.text[:160])}</a></div>'
        for work in works
    )
    return HttpResponse(f"<html><body>{rows or '<div class=no-results>none</div>'}</body></html>".encode(), "text/html; charset=utf-8")


LISTS: Mapping[str, Callable[[Sequence[Work], int], HttpResponse]] = {
    "openalex": openalex,
    "semantic_scholar": semantic_scholar,
    "arxiv": arxiv,
    "crossref": crossref,
}
"""Services that answer a search with one response."""
SINGLE: Mapping[str, Callable[[Work], HttpResponse]] = {
    "openalex": lambda work: as_json(openalex_work(work)),
    "semantic_scholar": lambda work: as_json(semantic_scholar_paper(work)),
    "crossref": lambda work: as_json({"status": "ok", "message-type": "work", "message": crossref_work(work)}),
}
"""Services that look up a work by its DOI."""
