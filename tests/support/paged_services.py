"""Fakes of PubMed, OpenAlex, Semantic Scholar, Crossref and GitHub on loopback.

They have as many matches as a test wants, with the real limits; records are made on request. Options let a total change, a record come
twice, a service fail.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from urllib.parse import parse_qs

from support.http_server import Answer, Request, as_json, as_text, refusal

ARTICLE = (
    '<PubmedArticle><MedlineCitation><PMID Version="1">{0}</PMID><Article><Journal><JournalIssue><PubDate><Year>2020</Year></PubDate>'
    "</JournalIssue><Title>J</Title></Journal><ArticleTitle>Liver {0}</ArticleTitle></Article></MedlineCitation></PubmedArticle>"
)


@dataclass
class Pubmed:
    """Article `n` was entered `n // a_day` days after the first day."""

    count: int
    a_day: int = 40
    first: date = date(1990, 1, 1)
    grows_at: int = 0
    """From which search on one more article is there."""
    fails_at: int = 0
    """The fetch that fails, counted from 1, and all after it."""
    lost: frozenset[int] = frozenset()
    """Numbers that are named and have no article."""
    warns: bool = False
    cap: int = 9_999
    searches: list[dict[str, str]] = field(default_factory=list)
    fetches: int = 0
    most: int = 0
    """Numbers that one search named at most."""

    def __call__(self, request: Request) -> Answer:
        assert request.method == "POST"
        parameters = {name: values[-1] for name, values in parse_qs(request.body.decode()).items()}
        return self.search(parameters) if request.path.endswith("esearch.fcgi") else self.fetch(parameters)

    def search(self, parameters: dict[str, str]) -> Answer:
        self.searches.append(parameters)
        count = self.count + (0 < self.grows_at <= len(self.searches))
        first, last = 1, count
        if "mindate" in parameters:
            assert parameters["datetype"] == "edat"
            low, high = (date(*map(int, parameters[name].split("/"))) for name in ("mindate", "maxdate"))
            first = max(1, (low - self.first).days * self.a_day)
            last = min(count, ((high - self.first).days + 1) * self.a_day - 1)
        size = min(int(parameters["retmax"]), self.cap)
        ids = [str(number) for number in range(first, last + 1)][::-1]
        self.most = max(self.most, len(ids[:size]))
        result = {"count": str(max(0, last - first + 1)), "idlist": ids[:size]}
        warnings = {"warninglist": {"quotedphrasesnotfound": ['"liver xx"']}} if self.warns else {}
        return as_json({"header": {"type": "esearch"}, "esearchresult": {**result, **warnings}})

    def fetch(self, parameters: dict[str, str]) -> Answer:
        self.fetches += 1
        if 0 < self.fails_at <= self.fetches:
            return refusal(500)
        articles = "".join(ARTICLE.format(number) for number in parameters["id"].split(",") if int(number) not in self.lost)
        return as_text(f'<?xml version="1.0" ?><PubmedArticleSet>{articles}</PubmedArticleSet>', "text/xml")


@dataclass
class Paged:
    """A service with a cursor or a token: the number of the first record that has not been returned yet."""

    count: int
    page: int
    make: Callable[[int], object]
    answer: Callable[[Sequence[object], int, str], object]
    """Of records, the total, and what leads on."""
    cursor: str = "cursor"
    start: str = "*"
    end: str = ""
    grows_at: int = 0
    fails_at: int = 0
    again: int | None = None
    """The record that is repeated on the next page."""
    limited: int = 0
    """The request that is answered with 429."""
    requests: list[Request] = field(default_factory=list)

    def __call__(self, request: Request) -> Answer:
        self.requests.append(request)
        if 0 < self.fails_at <= len(self.requests):
            return refusal(500)
        if self.limited == len(self.requests):
            return refusal(429, headers={"Retry-After": "7"})
        token = request.query.get(self.cursor, self.start)
        first = 0 if token == self.start else int(token.removeprefix("at"))
        numbers = list(range(first, min(first + self.page, self.count)))
        if self.again is not None and first > self.again:
            numbers = [self.again, *numbers]
        on = f"at{first + self.page}" if first + self.page < self.count else self.end
        total = self.count + (0 < self.grows_at <= len(self.requests))
        return as_json(self.answer([self.make(number) for number in numbers], total, on))


def openalex(count: int, **faults: int) -> Paged:
    """A work of each: its cursor leads on once more, to an empty page."""

    def work(number: int) -> object:
        return {"id": f"https://openalex.org/W{number + 1}", "title": f"Liver {number}", "publication_year": 2020, "language": "en"}

    def answer(works: Sequence[object], total: int, on: str) -> object:
        return {"meta": {"count": total, "next_cursor": on or None}, "results": works}

    return Paged(count, 100, work, answer, **faults)


def semantic_scholar(count: int, **faults: int) -> Paged:
    def paper(number: int) -> object:
        return {"paperId": f"{number:040x}", "title": f"Liver {number}", "year": 2020, "abstract": None}

    def answer(papers: Sequence[object], total: int, on: str) -> object:
        return {"total": total, "token": on or None, "data": papers}

    return Paged(count, 1_000, paper, answer, cursor="token", start="", **faults)


def crossref(count: int, **faults: int) -> Paged:
    def work(number: int) -> object:
        return {"DOI": f"10.1000/cr{number}", "title": [f"Liver {number}"], "type": "journal-article"}

    def answer(works: Sequence[object], total: int, on: str) -> object:
        message = {"total-results": total, "next-cursor": on or "at99999999", "items": works}
        return {"status": "ok", "message-type": "work-list", "message": message}

    return Paged(count, 500, work, answer, **faults)


@dataclass
class Github:
    """Repository `n` was made `n` quarters of an hour after the first moment."""

    count: int
    first: datetime = datetime(2015, 1, 1, tzinfo=UTC)
    cut_short: bool = False
    queries: list[str] = field(default_factory=list)

    def __call__(self, request: Request) -> Answer:
        query, page = request.query["q"], int(request.query["page"])
        self.queries.append(query)
        assert page * 100 <= 1_000, "only the first 1000 results are there"
        low, high = self.first, self.first + timedelta(days=100_000)
        if "created:" in query:
            low, high = (datetime.strptime(one, "%Y-%m-%dT%H:%M:%S%z") for one in query.partition("created:")[2].split(".."))
        step = timedelta(minutes=15)
        first = max(0, -((self.first - low) // step))
        numbers = range(first, max(first, min(self.count, (high - self.first) // step + 1)))
        items = [
            {"full_name": f"owner/liver-{number}", "html_url": f"https://github.com/owner/liver-{number}", "description": "Of livers."}
            for number in numbers[(page - 1) * 100 : page * 100]
        ]
        return as_json({"total_count": len(numbers), "incomplete_results": self.cut_short, "items": items})
