"""All services on one loopback server: each under its name, with three works on one topic."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pydantic import SecretStr

from outrider.settings.model import EnrichSettings, Settings
from outrider.settings.sections import CacheSettings, ServiceSettings, SourcesSettings, WebSettings
from support.http_server import Answer, Request, as_json, as_text

SERVICES = ("github", "openalex", "semantic_scholar", "arxiv", "pubmed", "crossref", "serpapi_scholar", "serpapi_google")
EACH = range(1, 4)
Faults = Mapping[str, Answer]
"""What services answer instead, by name."""


def make_handler(faults: Faults | None = None, after_s: float = 0.0, **others: Callable[[Request], Answer]) -> Callable[[Request], Answer]:
    """Answers after so many seconds in all, also where a service gets two requests. `others` replace or extend ours."""
    answers = {**ANSWERS, **others}

    def handler(request: Request) -> Answer:
        name = request.path.split("/")[1]
        answer = (faults or {}).get(name) or answers[name](request)
        return replace(answer, after_s=answer.after_s or after_s / (2 if name == "pubmed" else 1))

    return handler


def settings(base_url: str, cache: Path, own: Mapping[str, Mapping[str, Any]] = MappingProxyType({}), **common: Any) -> Settings:
    """The services of that server, with limits that tests do not meet. Nothing is fetched but their answers to a search.

    `common` goes to every service, `own` to the service of that name.
    """
    defaults = {"requests": 10_000.0, "at_once": 100, "timeout_s": 30.0, **common}
    sections = {name: _section(name, f"{base_url}/{name}", {**defaults, **own.get(name, {})}) for name in SERVICES}
    sources = SourcesSettings(web=WebSettings(enabled=False), **sections)  # type: ignore[arg-type] # each of its own kind
    return Settings(sources=sources, cache=CacheSettings(folder=str(cache), fresh_s=0.0), enrich=EnrichSettings(enabled=False))


def _section(name: str, base_url: str, fields: Mapping[str, Any]) -> ServiceSettings:
    kind: type[ServiceSettings] = type(getattr(SourcesSettings(), name))
    key = {"api_key": SecretStr("s3cret")} if name.startswith("serpapi") else {}
    return kind(base_url=base_url, **{**fields, **key})


def _title(name: str, number: int) -> str:
    return f"Liver injury by drugs, {name.replace('_', ' ')} {number}"


def _github(request: Request) -> Answer:
    items = [
        {
            "full_name": f"liver/{request.query.get('sort', 'match')}-{number}",
            "html_url": f"https://github.com/liver/{request.query.get('sort', 'match')}-{number}",
            "description": _title("github", number),
            "stargazers_count": 100 * number,
            "forks_count": 20,
            "fork": False,
            "archived": False,
            "pushed_at": "2026-09-01T00:00:00Z",
        }
        for number in EACH
    ]
    return as_json({"total_count": len(items), "incomplete_results": False, "items": items})


def _openalex(request: Request) -> Answer:
    works = [
        {"id": f"https://openalex.org/W{number}", "title": _title("openalex", number), "doi": f"https://doi.org/10.1000/oa{number}"}
        for number in EACH
    ]
    return as_json({"meta": {"count": 3, "page": 1, "per_page": 100}, "results": works})


def _semantic_scholar(request: Request) -> Answer:
    papers = [{"paperId": f"{number:040x}", "title": _title("semantic_scholar", number), "year": 2020} for number in EACH]
    return as_json({"total": 3, "offset": 0, "data": papers})


def _arxiv(request: Request) -> Answer:
    entries = "".join(
        f"<entry><id>http://arxiv.org/abs/2101.{number:05d}v1</id><title>{_title('arxiv', number)}</title><summary>Livers.</summary>"
        f"<published>2021-01-02T03:04:05Z</published><author><name>A. Frost</name></author></entry>"
        for number in EACH
    )
    spaces = 'xmlns="http://www.w3.org/2005/Atom" xmlns:opensearch="http://a9.com/-/spec/opensearch/1.1/"'
    return as_text(f"<feed {spaces}><opensearch:totalResults>3</opensearch:totalResults>{entries}</feed>", "application/atom+xml")


def _pubmed(request: Request) -> Answer:
    if request.path.endswith("esearch.fcgi"):
        return as_json({"header": {"type": "esearch"}, "esearchresult": {"count": "3", "idlist": [str(number) for number in EACH]}})
    articles = "".join(
        f'<PubmedArticle><MedlineCitation><PMID Version="1">{number}</PMID><Article><Journal><Title>Livers</Title></Journal>'
        f"<ArticleTitle>{_title('pubmed', number)}</ArticleTitle></Article></MedlineCitation></PubmedArticle>"
        for number in EACH
    )
    return as_text(f'<?xml version="1.0" ?><PubmedArticleSet>{articles}</PubmedArticleSet>', "text/xml")


def _crossref(request: Request) -> Answer:
    items = [{"DOI": f"10.1000/cr{number}", "title": [_title("crossref", number)], "type": "journal-article"} for number in EACH]
    return as_json({"status": "ok", "message-type": "work-list", "message": {"total-results": 3, "items": items}})


def _serpapi(request: Request) -> Answer:
    engine = request.query["engine"]
    results = [
        {
            "result_id": f"{engine}{number}",
            "title": _title(engine, number),
            "link": f"https://example.org/{engine}/{number}",
            "position": number,
        }
        for number in EACH
    ]
    return as_json({"search_metadata": {"status": "Success"}, "search_information": {"total_results": 3}, "organic_results": results})


ANSWERS: Mapping[str, Callable[[Request], Answer]] = {
    "github": _github,
    "openalex": _openalex,
    "semantic_scholar": _semantic_scholar,
    "arxiv": _arxiv,
    "pubmed": _pubmed,
    "crossref": _crossref,
    "serpapi_scholar": _serpapi,
    "serpapi_google": _serpapi,
}
