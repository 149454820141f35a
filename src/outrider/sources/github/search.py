"""GitHub: repositories by stars, by last change, and by more words than the request

`GET /search/repositories` of the REST API: docs.github.com/rest/search/search ("Constructing a search query"), "Searching for
repositories" and "Understanding the search syntax". Limits: 10 searches a minute without a token and 30 with one, 1,000 results a search,
100 a page; secondary limits answer 403 or 429 with `Retry-After`.

Words are matched in names, descriptions and topics, and all of them must occur; a query holds at most 256 characters of words and five
operators (AND, OR, NOT). Brackets are not documented for repositories, and are not used: whether `a b OR c` is read as `(a b) OR c` or as
`a (b OR c)`, it matches everything that `a b` matches. GitHub itself leaves out forks.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Self

from outrider.settings.sections import GithubSettings
from outrider.sources.adapter import build_answer, deadline_after, drop_stop_words, query_terms, score_results, split_words, usable_seconds
from outrider.sources.github.details import fetch_details
from outrider.sources.github.parse import NAME, SearchPage, find_refusal, is_cacheable, normal_name, parse_search_page
from outrider.sources.github.repository import JSON, GithubRepositories
from outrider.sources.http.client import Caller, Params
from outrider.sources.http.service import MEBIBYTE, Reply, Service
from outrider.state.errors import SourceError, SourceTimeout, SourceUnavailable
from outrider.state.ports import EXPANDED, Capabilities, Detailed, SourceAnswer, SourceQuery
from outrider.state.records import Repository

MOST_CHARS, MOST_OPERATORS = 256, 5
MOST_WORDS, PLAIN_WORDS = 4, 3
"""A name, a line of description and some topics hardly hold more words of a request."""
WORD = re.compile(r"[^\s\x00-\x1f\x7f\"“”„:()\[\]{}<>=*,;!?|~^\\]+")
"""What GitHub would not read as syntax."""
OPERATORS = frozenset({"AND", "OR", "NOT"})
STARS, UPDATED = "stars", "updated"
SORTED = {STARS: {"sort": "stars", "order": "desc"}, UPDATED: {"sort": "updated", "order": "desc"}, EXPANDED: {}}
"""Best match is what GitHub does unasked, and has no name of its own."""
CAPABILITIES = Capabilities(frozenset({"repository"}), frozenset({"github"}), most=100, queries=1)
"""One query by three strategies, and a second try, are four of ten searches a minute."""
SEARCHES, SEARCHES_WITH_TOKEN = 10, 30
"""A minute."""
REQUESTS, REQUESTS_WITH_TOKEN = 60, 5_000
"""An hour, of everything but searches."""
SHARE = 0.5
"""Of the requests left in an hour without a token: one search of 25 repositories would use up all, and leave nothing to the next. No
setting, since every value is a bad one: a token mends it.
"""
MOST_BYTES = 8 * MEBIBYTE
"""Of a README, or of a hundred issues: 25 of them may be under way."""
REFUSED = 422
"""The query is not valid: an unknown language, for example."""


def build_query(query: SourceQuery, *, plain: bool = False) -> str:
    """The parameter `q`; empty where there is no word to look for. `plain` asks for less: three words, without language and topic."""
    words = _fitting(drop_stop_words(_words(query_terms(query))), PLAIN_WORDS if plain else MOST_WORDS)
    if not words:
        return ""
    asked = " ".join(words)
    if query.strategy == EXPANDED:
        asked = " OR ".join((asked, *_fitting(_others(query.widened, words), MOST_OPERATORS, MOST_CHARS - len(asked))))
    return " ".join((asked, *_list_qualifiers(query, plain=plain)))


def _words(terms: Iterable[str]) -> list[str]:
    """As they are written, without what would leave a word out or stand for an operator."""
    return [word.lower() if word in OPERATORS else word for word in split_words(terms, WORD, "-", lower=False)]


def _others(terms: Iterable[str], words: Iterable[str]) -> Iterator[str]:
    """Terms that say more than `words`, those of several words in quotation marks."""
    known = {word.casefold() for word in words}
    for term in terms:
        parts = _words((term,))
        if parts and not known.issuperset(part.casefold() for part in parts):
            yield f'"{" ".join(parts)}"' if len(parts) > 1 else parts[0]


def _fitting(terms: Iterable[str], most: int, chars: int = MOST_CHARS) -> tuple[str, ...]:
    """The first `most` of those that together, a blank between two, have no more than `chars` characters."""
    kept: list[str] = []
    for term in dict.fromkeys(terms):
        if len(kept) < most and len(term) < chars:
            kept.append(term)
            chars -= len(term) + 1
    return tuple(kept)


def _list_qualifiers(query: SourceQuery, *, plain: bool) -> Iterator[str]:
    """One topic: beside the words a second one leaves next to nothing. None where a query is widened."""
    language, topics = query.repositories.language, query.repositories.topics
    if not plain and language and (parts := WORD.findall(language)):
        yield f'language:"{" ".join(parts)}"' if len(parts) > 1 else f"language:{parts[0]}"
    if not plain and topics and query.strategy != EXPANDED:
        yield f"topic:{'-'.join(_words(topics[:1])).lower()}"
    stars = query.constraints.stars
    if stars.min is not None and stars.max is not None:
        yield f"stars:{stars.min}..{stars.max}"
    elif stars.min is not None:
        yield f"stars:>={stars.min}"
    elif stars.max is not None:
        yield f"stars:<={stars.max}"
    if query.repositories.created_after:
        yield f"created:>={query.repositories.created_after.isoformat()}"
    yield "archived:false"


class QueryOutcome(NamedTuple):
    """The response to one query, parsed."""

    reply: Reply
    found: SearchPage | None
    """None where the query is refused."""


@dataclass(frozen=True, slots=True)
class Github:
    """A `Source` and a `Detailer`."""

    caller: Caller
    service: Service
    """For searches, which GitHub counts apart."""
    repositories: GithubRepositories
    timeout_s: float
    name: str = NAME
    strategies: tuple[str, ...] = (STARS, UPDATED, EXPANDED)
    capabilities: Capabilities = field(default=CAPABILITIES)

    @classmethod
    def of(cls, settings: GithubSettings, caller: Caller) -> Self:
        token = settings.api_key.get_secret_value()
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        untouched = (settings.requests, settings.per_s) == (SEARCHES, 60)
        searches = SEARCHES_WITH_TOKEN if token and untouched else settings.requests
        service = Service.of(NAME, settings, headers=headers, keeps=is_cacheable)
        service = replace(service, requests=searches, timeout_s=settings.timeout_s / 2)  # one that hangs leaves time for another
        raised = searches / settings.per_s * 60 / (SEARCHES_WITH_TOKEN if token else SEARCHES)
        requests = (REQUESTS_WITH_TOKEN if token else REQUESTS) * raised
        core = replace(
            service, name=f"{NAME} (single repositories)", requests=max(1, round(requests)), per_s=3_600.0, most_bytes=MOST_BYTES
        )
        return cls(caller, service, GithubRepositories(caller, core, 1.0 if token else SHARE), settings.timeout_s)

    async def search(self, query: SourceQuery) -> SourceAnswer:
        """A query that GitHub refuses is asked again for less, and one by stars that finds nothing or fails, too: something should come."""
        until = deadline_after(query.within_s)
        terms, plain = build_query(query), build_query(query, plain=True)
        if not terms or query.limit < 1:
            return SourceAnswer(())
        if query.strategy == STARS:
            # One that fails costs half of the time, its turn not counted, and with its second query no more requests than any other
            once = replace(self.service, tries=1, timeout_s=min(self.service.timeout_s, (until - time.monotonic()) / 2))
            try:
                first = await self._run_query(terms, query, until, once)
            except (SourceTimeout, SourceUnavailable) as error:
                try:
                    second = await self._run_query(plain, query, until, replace(self.service, tries=self.service.tries - 1))
                except SourceError:
                    raise error from None
                return build_search_answer(second, missing=f"asking for {terms!r} failed, so asked for {plain!r}: {error}")
            if plain != terms and (first.found is None or not first.found.records):
                return await self._retry_plain(terms, plain, first, query, until)
            return build_search_answer(first)
        first = await self._run_query(terms, query, until)
        if first.found is None and plain != terms:
            return await self._retry_plain(terms, plain, first, query, until)
        return build_search_answer(first)

    async def _retry_plain(self, terms: str, plain: str, first: QueryOutcome, query: SourceQuery, until: float) -> SourceAnswer:
        try:
            second = await self._run_query(plain, query, until)
        except SourceError as error:
            if first.found is None:
                raise
            return replace(build_search_answer(first), status="partial", message=f"nothing for {terms!r}; asking for less failed: {error}")
        return build_search_answer(second, f"nothing for {terms!r}, so asked for {plain!r}")

    async def _run_query(self, terms: str, query: SourceQuery, until: float, service: Service | None = None) -> QueryOutcome:
        params: Params = {"q": terms, "per_page": min(query.limit, self.capabilities.most), **SORTED[query.strategy]}
        within_s, accept = until - time.monotonic(), frozenset({200, REFUSED})
        path = "/search/repositories"
        reply = await self.caller.get(service or self.service, path, params, within_s=within_s, headers=JSON, accept=accept)
        return QueryOutcome(reply, None if reply.status == REFUSED else parse_search_page(reply))

    async def get(self, scheme: str, value: str, within_s: float) -> Repository | None:
        if scheme != "github" or normal_name(value) is None:
            return None
        return await self.repositories.repository(value, within_s)

    async def details(self, records: Sequence[Repository], within_s: float) -> Detailed:
        """README, top folder, releases, parents and recent activity (`github_details`), as far as limit and time allow."""
        return await fetch_details(records, self.repositories, usable_seconds(within_s))


def build_search_answer(outcome: QueryOutcome, note: str = "", missing: str = "") -> SourceAnswer:
    """Scores are 1 / rank: GitHub gives every repository the same one."""
    reply, found = outcome
    if found is None:
        raise SourceUnavailable(f"{NAME} did not accept {reply.url}: {find_refusal(reply)}")
    cut_short = "GitHub ran out of time before it had searched everything" if found.incomplete else ""
    missing = "; ".join(filter(None, (missing, cut_short)))
    return build_answer(score_results([(record, None) for record in found.records]), found.total, [reply], found.nameless, [note], missing)
