"""All services on one loopback server, each with its own latency, and their settings.

Addresses begin with a room, and each run takes its own: the limits and failures that a process has recorded for a service belong to its
address, so that a new room is a service without a history. The rooms share works and log.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from html import escape
from pathlib import Path
from typing import Any
from unittest.mock import patch

from pydantic import SecretStr

from bench import answers, chat, github
from bench.answers import Project, Work
from bench.served import SITES, HttpRequest, HttpResponse, Server
from outrider.settings.model import PlannerSettings, Settings
from outrider.settings.sections import CacheSettings, ServiceSettings, SourcesSettings, WebSettings
from outrider.sources.web.browser import unavailable_reason
from outrider.sources.web.search import DUCKDUCKGO, ENGINES

SERVICES = ("github", "openalex", "semantic_scholar", "arxiv", "pubmed", "crossref", "serpapi_scholar", "serpapi_google")
WEB, MODEL, PAGES, DETAILS = "engine", "model", "pages", "github/repos"
HANGS_S = 3_600.0
DOI = re.compile(r"10\.\d{4,9}/[^\s\"/]+")
WORD = re.compile(r"[a-z0-9+#]{2,}")
KEYED = {"serpapi_scholar", "serpapi_google"}
ON_THE_WEB = {WEB, "serpapi_google"}
SERPAPI = {"google_scholar": "serpapi_scholar", "google": "serpapi_google"}


@dataclass
class FakeServices:
    """Responses of every service, the model, a search engine and the pages that they link to."""

    works: Sequence[Work]
    projects: Sequence[Project]
    latency_s: Mapping[str, float]
    """Seconds of one call, by service; also `model`, `engine`, `pages`, and `github/repos` for single repositories."""
    hangs: str = ""
    """The service that never answers."""
    shares: bool = False
    """Whether a quarter of the works are pages, and each service of papers holds two thirds of the others, not all the same."""
    _places: dict[str, list[int]] = field(default_factory=dict)

    def __call__(self, request: HttpRequest) -> HttpResponse:
        _, service, *rest = (*request.parts, "")
        if service in (PAGES, ""):  # the latter for robots.txt and the like
            return self._late(PAGES, self._page(rest[0] if rest else ""))
        if service == MODEL:
            return self._late(MODEL, chat.respond(request.body))
        name = SERPAPI.get(request.query.get("engine", ""), service)
        timed = DETAILS if name == "github" and rest[0] == "repos" else name
        return self._late(timed, replace(self._answer(name, request), log_fields={"service": name}))

    def _late(self, name: str, response: HttpResponse) -> HttpResponse:
        return replace(response, after_s=HANGS_S if name == self.hangs else self.latency_s.get(name, 0.0))

    def _answer(self, name: str, request: HttpRequest) -> HttpResponse:
        query, limit = request.query, 100
        if name == "github":
            return github.respond(request, self.projects)
        if request.path.endswith("efetch.fcgi"):
            ids = set(query["id"].split(","))
            return answers.pubmed_articles([work for work in self.works if str(work.number) in ids])
        words = next((query[key] for key in ("search", "query", "search_query", "term", "query.bibliographic", "q") if key in query), "")
        if request.path.endswith("/batch"):
            works = [self._by_doi(name, one) for one in json.loads(request.body)["ids"]]
            return answers.as_json([answers.semantic_scholar_paper(work) if work else None for work in works])
        if "doi:" in query.get("filter", ""):
            named = [work for one in query["filter"].split("|") if (work := self._by_doi(name, one))]
            return answers.LISTS[name](named, len(named))
        if single := self._single(name, query["term"] if name == "pubmed" else "/".join(request.parts[2:])):
            return single
        matches = [work for work in self.search(words) if self._holds(name, work)]
        if name == "pubmed":
            return answers.pubmed_ids(matches[: int(query.get("retmax", limit))], len(matches))
        if name in KEYED:
            start, page = int(query.get("start", 0)), int(query.get("num", 10))
            return answers.serpapi(query["engine"], matches[start : start + page], len(matches), _links(request), start)
        if name == WEB:
            return answers.duckduckgo(matches[:20], _links(request))
        most = next((int(query[key]) for key in ("per_page", "limit", "max_results", "rows") if key in query), limit)
        return answers.LISTS[name](matches[:most], len(matches))

    def _holds(self, name: str, work: Work) -> bool:
        if not self.shares:
            return True
        return work.number % 4 == 0 if name in ON_THE_WEB else work.number % 4 > 0 and (work.number + SERVICES.index(name)) % 3 > 0

    def _single(self, name: str, place: str) -> HttpResponse | None:
        """A work by its DOI, which may stand in an address after a scheme; None where no DOI is asked for. PubMed may be asked for many."""
        named = DOI.findall(place)
        if not named:
            return None
        if name == "pubmed":
            works = [work for one in named if (work := self._by_doi(name, one))]
            return answers.pubmed_ids(works, len(works))
        work = self._by_doi(name, named[0])
        return answers.SINGLE[name](work) if work and name in answers.SINGLE else github.GONE

    def _by_doi(self, name: str, place: str) -> Work | None:
        named = DOI.search(place)
        return next((one for one in self.works if named and one.doi == named[0].lower() and self._holds(name, one)), None)

    def search(self, words: str) -> list[Work]:
        """Works with any of the words, those with more of them first."""
        if not self._places:
            for at, work in enumerate(self.works):
                for word in set(WORD.findall(f"{work.title} {work.text}".lower())):
                    self._places.setdefault(word, []).append(at)
        hits = Counter(at for word in set(WORD.findall(words.lower())) for at in self._places.get(word, ()))
        return [self.works[at] for at in sorted(hits, key=lambda at: (-hits[at], at))]

    def _page(self, number: str) -> HttpResponse:
        work = next((one for one in self.works if str(one.number) == number), None)
        if work is None:
            return HttpResponse(b"", "text/plain", 404)
        body = "".join(f"<p>{escape(part)}.</p>" for part in (work.text or work.title).split(". "))
        title = escape(work.title)
        html = f"<html><head><title>{title}</title></head><body><article><h1>{title}</h1>{body}</article></body></html>"
        return HttpResponse(html.encode(), "text/html; charset=utf-8")


def _links(request: HttpRequest) -> answers.Link:
    """The address of a work's page; the works are spread over several hosts."""
    port = request.host.rpartition(":")[2]
    return lambda work: f"http://{SITES[work.number // 4 % len(SITES)]}:{port}/{request.parts[0]}/{PAGES}/{work.number}"


def settings(
    server: Server, room: str, folder: Path, *, keys: bool = True, contact: str = "bench@example.org", gap_s: float = 2.0, **limits: Any
) -> Settings:
    """Settings for the services of a room, without a cache, under their real limits unless `limits` replace them."""
    base_url = f"{server.base_url}/{room}"
    sections = {name: section(name, base_url, keys=keys, **limits) for name in SERVICES}
    hosts = ",".join(f"{host}:{server.port}" for host in ("127.0.0.1", *server.sites))
    web = WebSettings(gap_s=gap_s, enabled=not unavailable_reason(), timeout_s=limits.get("timeout_s", 10.0))
    request = SourcesSettings(web=web, allowed_hosts=hosts, contact=contact, **sections)  # type: ignore[arg-type] # each of its own
    cache = CacheSettings(folder=str(folder / "answers" / room), fresh_s=0.0)
    return Settings(sources=request, cache=cache, planner=PlannerSettings(enabled=False))


def section(name: str, base_url: str, *, keys: bool = True, **limits: Any) -> ServiceSettings:
    """SerpApi has two names here, with one limit."""
    kind: type[ServiceSettings] = type(getattr(SourcesSettings(), name))
    key = {"api_key": SecretStr("a key of nobody")} if keys or name in KEYED else {}
    return kind(base_url=f"{base_url}/{'serpapi' if name in KEYED else name}", **{**limits, **key})


@contextmanager
def engine_at(server: Server, room: str) -> Iterator[None]:
    """Replaces the real search engine by that of the room."""
    here = replace(DUCKDUCKGO, address=f"{server.base_url}/{room}/{WEB}/?q={{query}}")
    with patch.dict(ENGINES, {DUCKDUCKGO.name: here}):
        yield


def quickest(times: Sequence[float], count: int) -> float:
    """The shortest interval that contains `count` of these times; infinite if there are fewer."""
    ordered = sorted(times)
    return min((last - first for first, last in zip(ordered, ordered[count - 1 :], strict=False)), default=math.inf)
