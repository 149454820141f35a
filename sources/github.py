"""GitHub: repositories by their stars, by their last change, and by more words than were asked for.

`GET /search/repositories` of the REST API, documented at docs.github.com/rest/search/search; how a query is written, `github_query` says,
and what is asked of single repositories, `github_repositories`. Limits: 10 searches a minute without a token and 30 with one, 1,000
results a search, 100 a page; secondary limits answer 403 or 429 with `Retry-After`.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import Self

from outrider.settings.sources import GithubSettings
from outrider.sources.answering import answered, scored, spared
from outrider.sources.calls.caller import Caller, Params
from outrider.sources.calls.service import Reply, Service
from outrider.sources.github_query import question
from outrider.sources.github_records import NAME, found_in, normal_name, refusal_in, worth_keeping
from outrider.sources.github_repositories import JSON, GithubRepositories
from outrider.state.errors import SourceError, SourceUnavailable
from outrider.state.ports import EXPANDED, Capabilities, SourceAnswer, SourceQuery
from outrider.state.records import Repository

STARS, UPDATED = "stars", "updated"
SORTED = {STARS: {"sort": "stars", "order": "desc"}, UPDATED: {"sort": "updated", "order": "desc"}, EXPANDED: {}}
"""Best match is what GitHub does unasked, and has no name of its own."""
CAPABILITIES = Capabilities(frozenset({"repository"}), frozenset({"github"}), most=100, queries=1)
"""One query by three strategies, and a second try, are four of ten searches a minute."""
SEARCHES, SEARCHES_WITH_TOKEN = 10, 30
"""A minute."""
REQUESTS, REQUESTS_WITH_TOKEN = 60, 5_000
"""An hour, of everything but searches."""
REFUSED = 422
"""The query is not valid: an unknown language, for example."""


@dataclass(frozen=True, slots=True)
class Github:
    """A `Source`; `repositories` has what enriches its records."""

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
        service = Service.of(NAME, settings, headers=headers, keeps=worth_keeping)
        service = replace(service, requests=searches, timeout_s=settings.timeout_s / 2)  # one that hangs leaves time for another
        raised = searches / settings.per_s * 60 / (SEARCHES_WITH_TOKEN if token else SEARCHES)
        requests = (REQUESTS_WITH_TOKEN if token else REQUESTS) * raised
        core = replace(service, name=f"{NAME} (single repositories)", requests=max(1, round(requests)), per_s=3_600.0)
        return cls(caller, service, GithubRepositories(caller, core), settings.timeout_s)

    async def search(self, query: SourceQuery) -> SourceAnswer:
        """A query that GitHub refuses is asked again for less, and one by stars that finds nothing, too: something should come."""
        within_s = spared(query.within_s)
        until = time.monotonic() + within_s
        asked, plain = question(query), question(query, plain=True)
        if not asked or query.limit < 1:
            return SourceAnswer(())
        first = await self._asked(asked, query, within_s)
        refused = first.status == REFUSED
        if plain == asked or not (refused or (query.strategy == STARS and not found_in(first).records)):
            return answer(first)
        try:
            second = await self._asked(plain, query, until - time.monotonic())
        except SourceError as error:
            if refused:
                raise
            return replace(answer(first), status="partial", message=f"nothing for {asked!r}; asking for less failed: {error}")
        return answer(second, f"nothing for {asked!r}, so asked for {plain!r}")

    async def _asked(self, asked: str, query: SourceQuery, within_s: float) -> Reply:
        params: Params = {"q": asked, "per_page": min(query.limit, self.capabilities.most), **SORTED[query.strategy]}
        accept = frozenset({200, REFUSED})
        return await self.caller.get(self.service, "/search/repositories", params, within_s=within_s, headers=JSON, accept=accept)

    async def get(self, scheme: str, value: str, within_s: float) -> Repository | None:
        if scheme != "github" or normal_name(value) is None:
            return None
        return await self.repositories.repository(value, within_s)


def answer(reply: Reply, note: str = "") -> SourceAnswer:
    """Scores are 1 / rank: GitHub gives every repository the same one."""
    if reply.status == REFUSED:
        raise SourceUnavailable(f"{NAME} did not accept {reply.url}: {refusal_in(reply)}")
    found = found_in(reply)
    missing = "GitHub ran out of time before it had searched everything" if found.incomplete else ""
    return answered(scored([(record, None) for record in found.records]), found.total, [reply], found.nameless, [note], missing)
