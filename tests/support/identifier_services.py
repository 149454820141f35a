"""Services that know works by identifier, pages, and a library, on loopback."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from outrider.ingest.report import IngestReport
from outrider.services import Services
from outrider.settings.model import LibrarySettings
from outrider.sources.http.ssrf_guard import Guard
from outrider.sources.web.fetch import PageFetcher
from outrider.state.records import Record
from outrider.usecases.ingest import ingest_targets
from support.fake_services import settings
from support.http_server import Answer, Request, as_bytes, as_json, as_text, refusal, serving
from support.word_embedder import WordEmbedder

TITLE = "Liver injury by common drugs"
ABSTRACT = "Drugs harm livers in more ways than one."
WORDS = "Sentence {} about the livers of those who take drugs is long enough to be part of the main text. "
TEXT = "<article>" + "".join(f"<p>{WORDS.format(number)}</p>" for number in range(5)) + "</article>"
X = "10.1000/x"
OPENALEX = {"id": "https://openalex.org/W7", "title": TITLE, "doi": f"https://doi.org/{X}", "cited_by_count": 7, "publication_year": 2020}
CROSSREF = {"DOI": X, "title": [TITLE], "type": "journal-article", "abstract": f"<jats:p>{ABSTRACT}</jats:p>", "volume": "12"}
REPOSITORY = {"full_name": "ann/liver", "html_url": "https://github.com/ann/liver", "description": "Livers.", "stargazers_count": 70}
SPACES = 'xmlns="http://www.w3.org/2005/Atom" xmlns:opensearch="http://a9.com/-/spec/opensearch/1.1/"'
ATOM = (
    f"<feed {SPACES}><opensearch:totalResults>1</opensearch:totalResults><entry><id>http://arxiv.org/abs/2101.00001v2</id>"
    f"<title>{TITLE}</title><summary>{ABSTRACT}</summary><published>2021-01-02T03:04:05Z</published></entry></feed>"
)
MEDLINE = (
    '<?xml version="1.0" ?><PubmedArticleSet><PubmedArticle><MedlineCitation><PMID Version="1">123</PMID><Article><Journal>'
    f"<Title>Livers</Title></Journal><ArticleTitle>{TITLE}</ArticleTitle><Abstract><AbstractText>{ABSTRACT}</AbstractText></Abstract>"
    "</Article></MedlineCitation><PubmedData><ArticleIdList>"
    f'<ArticleId IdType="pubmed">123</ArticleId><ArticleId IdType="doi">{X}</ArticleId><ArticleId IdType="pmc">PMC12</ArticleId>'
    "</ArticleIdList></PubmedData></PubmedArticle></PubmedArticleSet>"
)
HIT = {"header": {}, "esearchresult": {"count": "1", "idlist": ["123"]}}


def page(head: str = f"<title>{TITLE}</title>", body: str = TEXT) -> Answer:
    return as_text(f'<html lang="en"><head>{head}</head><body>{body}</body></html>', "text/html")


def make_handler(answers: Mapping[str, Answer]) -> Callable[[Request], Answer]:
    """Each service answers any other path with its own form of "not found"."""
    nothing = {
        "/pubmed/entrez/eutils/esearch.fcgi": as_json({"header": {}, "esearchresult": {"count": "0", "idlist": []}}),
        "/arxiv/api/query": as_text(f"<feed {SPACES}><opensearch:totalResults>0</opensearch:totalResults></feed>", "application/atom+xml"),
    }
    parts = {
        f"/github/repos/ann/liver/{part}": as_json([]) for part in ("releases", "commits", "contributors", "issues", "issues/comments")
    }
    parts["/github/repos/ann/liver/git/trees/HEAD"] = as_json({"tree": []})
    return lambda request: answers.get(request.path) or (nothing | parts).get(request.path) or refusal(404)


@dataclass
class FakeNetwork:
    """Services and pages on one server; a path without an answer does not exist."""

    folder: Path
    answers: dict[str, Answer] = field(default_factory=dict)
    """By path; services' paths begin with their names."""
    embedder: Any = field(default_factory=lambda: WordEmbedder(dimension=8))
    offline: bool = False
    timeout_s: float = 30.0
    server: serving = field(init=False)

    def __post_init__(self) -> None:
        self.server = serving(make_handler(self.answers))

    async def __aenter__(self) -> FakeNetwork:
        self.server.__enter__()
        host = self.server.base_url.removeprefix("http://")
        base = settings(self.server.base_url, self.folder / "answers", timeout_s=self.timeout_s)
        sources = base.sources.model_copy(update={"offline": self.offline})
        own = {"library": LibrarySettings(uri=str(self.folder / "library")), "sources": sources}
        self.pages = PageFetcher(Guard(frozenset({host})), per_s=0.001)
        self.services = Services(base.model_copy(update=own), embedder=self.embedder, pages=self.pages)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.pages.close()
        self.services.close()
        self.server.__exit__()

    def link(self, path: str) -> str:
        return self.server.base_url + path

    async def ingest(self, *targets: str) -> IngestReport:
        return await ingest_targets(self.services, targets)

    async def stored_records(self) -> list[Record]:
        return [record async for record in (await self.services.library()).scan()]

    def requested_paths(self, *names: str) -> list[str]:
        """Paths requested from these services, or from pages where none is named."""
        services = ("openalex", "crossref", "semantic_scholar", "pubmed", "arxiv", "github")
        firsts = [(request.path.split("/")[1], request.path) for request in self.server.requests]
        return [path for first, path in firsts if (first in names if names else first not in services)]


def make_network(folder: Path, answers: dict[str, Any], **fields: Any) -> FakeNetwork:
    return FakeNetwork(folder, answers, **fields)


WORK: dict[str, Answer] = {
    f"/openalex/works/doi:{X}": as_json(OPENALEX),
    f"/crossref/works/{X}": as_json({"status": "ok", "message-type": "work", "message": CROSSREF}),
}
BY_SCHEME: Sequence[tuple[str, dict[str, Answer], dict[str, Any]]] = (
    (f"doi:{X}", WORK, {"kind": "paper", "title": TITLE, "abstract": ABSTRACT, "citations": 7, "year": 2020}),
    ("arxiv:2101.00001", {"/arxiv/api/query": as_text(ATOM, "application/atom+xml")}, {"abstract": ABSTRACT, "year": 2021}),
    ("pmid:123", {"/pubmed/entrez/eutils/efetch.fcgi": as_text(MEDLINE, "text/xml")}, {"abstract": ABSTRACT, "venue": "Livers"}),
    (
        "pmcid:PMC12",
        {"/pubmed/entrez/eutils/esearch.fcgi": as_json(HIT), "/pubmed/entrez/eutils/efetch.fcgi": as_text(MEDLINE, "text/xml")},
        {"abstract": ABSTRACT},
    ),
    (
        "github:ann/liver",
        {
            "/github/repos/ann/liver": as_json(REPOSITORY),
            "/github/repos/ann/liver/readme": as_bytes(b"# Liver\n\nUse it.", "application/vnd.github.raw+json"),
        },
        {"kind": "repository", "title": "ann/liver", "stars": 70},
    ),
)
