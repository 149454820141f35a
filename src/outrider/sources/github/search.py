"""GitHub: repository search by stars, by last change, and with expanded terms

`GET /search/repositories` of the REST API: docs.github.com/rest/search/search ("Constructing a search query"), "Searching for
repositories" and "Understanding the search syntax". Limits: 10 searches a minute without a token and 30 with one, 1,000 results a search,
100 a page; secondary limits answer 403 or 429 with `Retry-After`.

Words are matched in names, descriptions and topics, and all of them must occur; a query holds at most 256 characters of words and five
operators (AND, OR, NOT). Brackets are not documented for repositories, and are not used: whether `a b OR c` is read as `(a b) OR c` or as
`a (b OR c)`, it matches everything that `a b` matches. GitHub excludes forks by default.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Self

from outrider.settings.sections import GithubSettings
from outrider.sources.adapter import (
    build_answer,
    deadline_after,
    drop_stop_words,
    half_way,
    match_then_rank,
    query_terms,
    score_results,
    split_words,
    usable_seconds,
)
from outrider.sources.github.details import fetch_details
from outrider.sources.github.parse import NAME, SearchPage, find_refusal, is_cacheable, normal_name, parse_search_page
from outrider.sources.github.repository import JSON, GithubRepositories
from outrider.sources.http.client import Caller, Params
from outrider.sources.http.service import MEBIBYTE, Reply, Service, parse_in_thread
from outrider.state.errors import SourceError, SourceTimeout, SourceUnavailable
from outrider.state.ports import EXPANDED, BooleanQuery, Capabilities, Detailed, SourceAnswer, SourceQuery
from outrider.state.records import Repository

MOST_CHARS, MOST_OPERATORS = 256, 5
MOST_WORDS, PLAIN_WORDS = 4, 3
"""A name, a one-line description and some topics rarely match more words."""
WORD = re.compile(r"[^\s\x00-\x1f\x7f\"“”„:()\[\]{}<>=*,;!?|~^\\]+")
"""A word without characters that GitHub interprets as syntax."""
OPERATORS = frozenset({"AND", "OR", "NOT"})
STARS, UPDATED = "stars", "updated"
SORTED = {STARS: {"sort": "stars", "order": "desc"}, UPDATED: {"sort": "updated", "order": "desc"}, EXPANDED: {}}
"""Sort parameters. Best match is the default and has no name."""
CAPABILITIES = Capabilities(frozenset({"repository"}), frozenset({"github"}), most=100, queries=1, boolean=True)
"""One query in three strategies, its Boolean form and one retry use five of the ten searches a minute."""
SEARCHES, SEARCHES_WITH_TOKEN = 10, 30
"""Searches a minute."""
REQUESTS, REQUESTS_WITH_TOKEN = 60, 5_000
"""Other requests an hour."""
SHARE = 0.5
"""Share of the requests that remain for the hour, without a token: details of 25 repositories would use all of them and leave none for
the next search. Not a setting, because no value works well; the remedy is a token.
"""
MOST_BYTES = 8 * MEBIBYTE
"""Of one response, such as a README or a hundred issues; 25 may be in memory at a time."""
REFUSED = 422
"""Status for an invalid query, such as one with an unknown language."""


def build_query(query: SourceQuery, *, plain: bool = False) -> str:
    """The parameter `q`; empty if there is no search word. `plain` relaxes the query: three words, without language and topic."""
    words = _fitting(drop_stop_words(_words(query_terms(query))), PLAIN_WORDS if plain else MOST_WORDS)
    if not words:
        return ""
    expression = " ".join(words)
    if query.strategy == EXPANDED:
        expression = " OR ".join((expression, *_fitting(_others(query.widened, words), MOST_OPERATORS, MOST_CHARS - len(expression))))
    return " ".join((expression, *_list_qualifiers(query, plain=plain)))


def _words(terms: Iterable[str]) -> list[str]:
    """Words as written, without a leading `-` (exclusion). Operators are lower-cased, so that they count as words."""
    return [word.lower() if word in OPERATORS else word for word in split_words(terms, WORD, "-", lower=False)]


def _others(terms: Iterable[str], words: Iterable[str]) -> Iterator[str]:
    """Terms with a word that is not in `words`; those of several words in quotation marks."""
    known = {word.casefold() for word in words}
    for term in terms:
        parts = _words((term,))
        if parts and not known.issuperset(part.casefold() for part in parts):
            yield f'"{" ".join(parts)}"' if len(parts) > 1 else parts[0]


def _fitting(terms: Iterable[str], most: int, chars: int = MOST_CHARS) -> tuple[str, ...]:
    """The first `most` terms that fit into `chars` characters, joined by blanks."""
    selected: list[str] = []
    for term in dict.fromkeys(terms):
        if len(selected) < most and len(term) < chars:
            selected.append(term)
            chars -= len(term) + 1
    return tuple(selected)


def _list_qualifiers(query: SourceQuery, *, plain: bool) -> Iterator[str]:
    """Qualifiers of the query. Only one topic, because words and two topics match almost nothing; no topic for an expanded query."""
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
    page: SearchPage | None
    """None if GitHub rejected the query."""


@dataclass(frozen=True, slots=True)
class Github:
    """A `Source` and a `Detailer`."""

    caller: Caller
    service: Service
    """For searches, which have a rate limit of their own."""
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
        service = replace(service, requests=searches, timeout_s=settings.timeout_s / 2)  # a request that hangs leaves time for a second one
        raised = searches / settings.per_s * 60 / (SEARCHES_WITH_TOKEN if token else SEARCHES)
        requests = (REQUESTS_WITH_TOKEN if token else REQUESTS) * raised
        core = replace(
            service, name=f"{NAME} (single repositories)", requests=max(1, round(requests)), per_s=3_600.0, most_bytes=MOST_BYTES
        )
        return cls(caller, service, GithubRepositories(caller, core, 1.0 if token else SHARE), settings.timeout_s)

    async def search(self, query: SourceQuery) -> SourceAnswer:
        """By stars, the Boolean query comes first: the other orders would use up the few searches a minute."""
        until = deadline_after(query.within_s)

        async def match(boolean: BooleanQuery) -> SourceAnswer:
            terms = " ".join((boolean.expression, *_list_qualifiers(query, plain=False)))
            outcome = await self._run_query(terms, query, half_way(until), replace(self.service, tries=1))
            return build_search_answer(outcome)

        if query.strategy != STARS or query.limit < 1:
            return await self._search_words(query, until)
        return await match_then_rank(query, match, lambda: self._search_words(query, until), verified=True)

    async def _search_words(self, query: SourceQuery, until: float) -> SourceAnswer:
        """Search, and retry with a plain query if GitHub rejects the first one, or if a search by stars fails or has no results."""
        terms, plain = build_query(query), build_query(query, plain=True)
        if not terms or query.limit < 1:
            return SourceAnswer(())
        if query.strategy == STARS:
            # A failing first query uses at most half of the time (plus its wait for the rate limit). Both queries together make no more
            # attempts than any other search.
            once = replace(self.service, tries=1, timeout_s=min(self.service.timeout_s, (until - time.monotonic()) / 2))
            try:
                first = await self._run_query(terms, query, until, once)
            except (SourceTimeout, SourceUnavailable) as error:
                try:
                    second = await self._run_query(plain, query, until, replace(self.service, tries=self.service.tries - 1))
                except SourceError:
                    raise error from None
                return build_search_answer(second, missing=f"the search for {terms!r} failed, so searched for {plain!r}: {error}")
            if plain != terms and (first.page is None or not first.page.records):
                return await self._retry_plain(terms, plain, first, query, until)
            return build_search_answer(first)
        first = await self._run_query(terms, query, until)
        if first.page is None and plain != terms:
            return await self._retry_plain(terms, plain, first, query, until)
        return build_search_answer(first)

    async def _retry_plain(self, terms: str, plain: str, first: QueryOutcome, query: SourceQuery, until: float) -> SourceAnswer:
        try:
            second = await self._run_query(plain, query, until)
        except SourceError as error:
            if first.page is None:
                raise
            return replace(
                build_search_answer(first),
                status="partial",
                message=f"no results for {terms!r}; the plain search failed: {error}",
            )
        return build_search_answer(second, f"no results for {terms!r}, so searched for {plain!r}")

    async def _run_query(self, terms: str, query: SourceQuery, until: float, service: Service | None = None) -> QueryOutcome:
        most = min(query.limit, self.capabilities.most)
        params: Params = {"q": terms, "per_page": most, **SORTED[query.strategy]}
        within_s, accept = until - time.monotonic(), frozenset({200, REFUSED})
        path = "/search/repositories"
        reply = await self.caller.get(service or self.service, path, params, within_s=within_s, headers=JSON, accept=accept)
        if reply.status == REFUSED:
            return QueryOutcome(reply, None)
        await reply.decode(most)
        return QueryOutcome(reply, await parse_in_thread([reply], lambda: parse_search_page(reply, most)))

    async def get(self, scheme: str, value: str, within_s: float) -> Repository | None:
        if scheme != "github" or normal_name(value) is None:
            return None
        return await self.repositories.repository(value, within_s)

    async def details(self, records: Sequence[Repository], within_s: float) -> Detailed:
        """README, top folder, releases, parents and recent activity (`fetch_details`), as far as rate limit and time allow."""
        return await fetch_details(records, self.repositories, usable_seconds(within_s))


def build_search_answer(outcome: QueryOutcome, note: str = "", missing: str = "") -> SourceAnswer:
    """Scores are 1 / rank, because GitHub gives every repository the same score."""
    reply, page = outcome
    if page is None:
        raise SourceUnavailable(f"{NAME} did not accept {reply.url}: {find_refusal(reply)}")
    cut_short = "GitHub ran out of time before it had searched everything" if page.incomplete else ""
    missing = "; ".join(filter(None, (missing, cut_short)))
    return build_answer(score_results([(record, None) for record in page.records]), page.total, [reply], page.nameless, [note], missing)
