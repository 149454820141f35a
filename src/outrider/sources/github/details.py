"""Details of many repositories of GitHub: README, top folder, releases, recent activity

Documentation: docs.github.com/rest, "Rate limits for the REST API" and "Best practices for using the REST API". Limits: 60 requests an
hour without a token, 5,000 with one, and a hundred at once.

The requests (`repository`) go part by part, each for all repositories, the most informative part first: when limit or time end,
every repository has it. Cached responses cost nothing and are used first, whatever budget is left.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Literal

from outrider.runtime.threads_and_loops import in_background
from outrider.sources.adapter import format_age
from outrider.sources.github.parse import MOST_NAMES, normal_name, parse_budget
from outrider.sources.github.repository import (
    GONE,
    ITSELF,
    NOTHING,
    OK,
    PARTS,
    README,
    TREE,
    DetailRequest,
    GithubRepositories,
    RepositoryDetails,
    RepositoryProgress,
    redirect_path,
    repository_path,
)
from outrider.sources.http.service import MOVED, Reply
from outrider.state.errors import Malformed, RateLimited, SourceError, SourceTimeout, Unauthorized
from outrider.state.ports import Detailed
from outrider.state.records import Repository

RECENT = timedelta(days=90)
ALONE_S = 1.0
"""How long the first request runs alone: its response shows whether the token is valid and how many requests remain."""
CURE = "set GITHUB_TOKEN: with one there are 5,000 requests an hour instead of 60"
Status = Literal["ok", "partial", "empty", "cached", "stale", "rate_limited", "unauthorized", "forbidden", "unavailable", "timeout"]


async def fetch_details(records: Sequence[Repository], repositories: GithubRepositories, within_s: float) -> Detailed:
    """Skips the README and top folder of records that have them. Errors of GitHub are reported, not raised."""
    now = datetime.fromtimestamp(repositories.caller.clock(), UTC)
    # The start of a day, so that the cache answers a later search of the same day.
    since = now.replace(hour=0, minute=0, second=0, microsecond=0) - RECENT
    cases: dict[str, RepositoryProgress] = {}
    for record in records:
        if name := _name(record):
            cases.setdefault(name, RepositoryProgress(repository_path(name), RepositoryDetails(since.timestamp()))).require_missing(record)
    fetcher = DetailFetcher(repositories, f"{since:%Y-%m-%dT%H:%M:%SZ}", within_s, tuple(cases.values()))
    await in_background(fetcher.run())
    progress = [cases.get(_name(record)) for record in records]
    return fetcher.report(records, progress)


def _name(record: Repository) -> str:
    return normal_name(record.identifiers.github or "") or ""


@dataclass(slots=True, eq=False)
class RequestBudget:
    """Requests that one search may still send, limited by our rate limit, by GitHub's remaining count, and by the search's share.

    Requests that concurrent searches have reserved are subtracted first, so that a share means the same for concurrent searches as for
    consecutive ones.
    """

    remaining: int
    share: float
    others: list[RequestBudget] = field(default_factory=list)
    """Budgets of all concurrent searches, including this one."""
    used: int = 0
    in_flight: int = 0
    responses: int = 0
    renewed_at: float | None = None

    @classmethod
    @contextmanager
    def of(cls, limiter: object, available: int, share: float) -> Iterator[RequestBudget]:
        budgets = _UNDER_WAY[limiter]
        budget = cls(int(max(0, available - sum(one.remaining for one in budgets)) * share), share, budgets)
        budgets.append(budget)
        try:
            yield budget
        finally:
            budgets.remove(budget)

    def take(self) -> bool:
        if self.remaining <= 0:
            return False
        self.remaining, self.used, self.in_flight = self.remaining - 1, self.used + 1, self.in_flight + 1
        return True

    def record_reply(self, reply: Reply, now: float) -> None:
        """Lower the budget to what GitHub reports.

        Concurrent responses may arrive out of order, so the budget never grows. The reported number may not include requests in flight.
        """
        remaining, renewed_at = parse_budget(reply, now)
        self.responses += 1
        self.renewed_at = renewed_at or self.renewed_at
        if remaining is None:
            return
        if self.responses == 1:
            theirs = sum(one.remaining + one.in_flight for one in self.others if one is not self)
            self.remaining = min(self.remaining, int(max(0, remaining + 1 - theirs) * self.share) - self.used)
        self.remaining = max(0, min(self.remaining, remaining - self.in_flight))


_UNDER_WAY: defaultdict[object, list[RequestBudget]] = defaultdict(list)
"""By limiter; used on the background loop only, like those."""


@dataclass(slots=True)
class DetailFetcher:
    """The requests of one search."""

    repositories: GithubRepositories
    since: str
    within_s: float
    cases: tuple[RepositoryProgress, ...]
    budget: RequestBudget = field(default_factory=lambda: RequestBudget(0, 1.0))
    until: float = 0.0
    stopped: SourceError | None = None
    """Why no further request is sent."""
    failures: list[SourceError] = field(default_factory=list)
    oldest_s: float = 0.0

    async def run(self) -> None:
        """Runs on the background loop, where the limits are. After `within_s` the results so far are used."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self.within_s):
                self.until = time.monotonic() + self.within_s
                service, share = self.repositories.service, self.repositories.share
                await asyncio.gather(*(self._load_cached(case, part) for case, part in self._jobs()))
                limiter = self.repositories.caller.limiter(service)
                with RequestBudget.of(limiter, (await limiter.outlook()).available, share) as self.budget:
                    jobs = self._jobs()
                    first = asyncio.ensure_future(self._run_jobs(jobs, until_answered=True))
                    try:
                        await asyncio.wait({first}, timeout=min(ALONE_S, self.until - time.monotonic()))
                        await asyncio.gather(first, *(self._run_jobs(jobs) for _ in range(service.at_once)))
                    finally:
                        first.cancel()

    def _jobs(self) -> Iterator[tuple[RepositoryProgress, DetailRequest]]:
        return ((case, part) for part in PARTS for case in self.cases if case.needs(part))

    async def _load_cached(self, case: RepositoryProgress, part: DetailRequest) -> None:
        """Reads the cache only."""
        try:
            reply = await self._get(case, part, tries=0)
            case.take_reply(part, reply)
        except SourceError:
            return
        self.oldest_s = max(self.oldest_s, reply.age_s)
        (case.stale if reply.stale else case.loaded).add(part)

    async def _run_jobs(self, jobs: Iterator[tuple[RepositoryProgress, DetailRequest]], *, until_answered: bool = False) -> None:
        """Several workers share the same iterator of jobs."""
        for case, part in jobs:
            if self.stopped or time.monotonic() >= self.until:
                return
            await self._load(case, part)
            if until_answered and self.budget.responses:
                return

    async def _load(self, case: RepositoryProgress, part: DetailRequest) -> None:
        case.started.add(part)
        try:
            reply = await self._request_within_budget(case, part)
            if reply.status in MOVED:
                case.path = redirect_path(reply, self.repositories.service)
                case.required.add(ITSELF)
                reply = await self._request_within_budget(case, part)
            if reply.status in MOVED:
                raise Malformed(f"{reply.url} redirected twice ({reply.status})")
            case.take_reply(part, reply)
        except SourceError as error:
            if isinstance(error, RateLimited | SourceTimeout) and time.monotonic() >= self.until:
                return  # it had too little time to count as a failure
            if isinstance(error, RateLimited | Unauthorized):
                self.stopped = self.stopped or error
            else:
                case.failed.add(part)
                self.failures.append(error)
            return
        case.loaded.add(part)
        case.stale.discard(part)
        if case.without_readme and part is README and not case.exists and case.needs(TREE):
            await self._load(case, TREE)

    async def _request_within_budget(self, case: RepositoryProgress, part: DetailRequest) -> Reply:
        """Raises the reason if only a stale cached response is available."""
        if not self.budget.take():
            service, share = self.repositories.service, self.repositories.share
            at = self.budget.renewed_at or self.repositories.caller.clock() + service.per_s
            portion = f"{share:.0%} of " if share < 1 else ""
            raise RateLimited(f"{service.name}: {portion}the requests that remained for this hour are used up", at)
        case.requested = True
        try:
            reply = await self._get(case, part, tries=1)
        finally:
            self.budget.in_flight -= 1
        if reply.why:
            raise reply.why
        if reply.age_s:
            self.budget.remaining += 1  # the cache had the response under the new name
        else:
            self.budget.record_reply(reply, self.repositories.caller.clock())
        return reply

    async def _get(self, case: RepositoryProgress, part: DetailRequest, tries: int) -> Reply:
        reply = await self.repositories.caller.get(
            replace(self.repositories.service, tries=tries),
            case.path + part.path,
            {**part.params, "since": self.since} if part.recent else part.params,
            within_s=self.until - time.monotonic(),
            headers=part.headers,
            accept=OK | NOTHING | GONE | MOVED,
        )
        if reply.headers.get("content-type", "").startswith("application/json"):
            await reply.decode(MOST_NAMES)
        return reply

    def report(self, records: Sequence[Repository], cases: Sequence[RepositoryProgress | None]) -> Detailed:
        """`cases` match `records`; None for a record that is not from GitHub."""
        known = [case for case in cases if case]
        returned = sum(not case.is_gone and (case.exists or bool(case.stale)) for case in known)
        left_out = Counter(part for case in self.cases for part in case.omitted_requests())
        retry_at = max((at for error in self._errors() if (at := error.retry_at) is not None), default=None)
        return Detailed(
            tuple(case.merge_into(record) if case else record for record, case in zip(records, cases, strict=True)),
            asked=sum(case.was_requested() for case in known),
            returned=returned,
            status=self._status(returned, left_out),
            message="; ".join(filter(None, self._notes(left_out))),
            retry_at=retry_at,
        )

    def _errors(self) -> list[SourceError]:
        return [*([self.stopped] if self.stopped else ()), *self.failures]

    def _status(self, returned: int, left_out: Mapping[DetailRequest, int]) -> Status:
        if isinstance(self.stopped, Unauthorized):
            return "unauthorized"
        if not returned:
            if not self._errors():
                return "timeout" if left_out else "empty"
            statuses: dict[str, Status] = {"rate_limited": "rate_limited", "forbidden": "forbidden", "timeout": "timeout"}
            return statuses.get(self._errors()[0].status, "unavailable")
        if left_out or any(part not in case.stale for case in self.cases for part in case.failed):
            return "partial"
        return "stale" if any(case.stale for case in self.cases) else "ok" if self.budget.responses else "cached"

    def _notes(self, left_out: Mapping[DetailRequest, int]) -> Iterator[str]:
        stale = sum(len(case.stale) for case in self.cases)
        if left_out:
            yield f"left out: {', '.join(f'{part.what} of {left_out[part]}' for part in PARTS if part in left_out)}"
        if self.stopped:
            yield f"{self.stopped}"
        elif left_out:
            yield f"its time limit of {self.within_s:.3g} s was reached"
        if isinstance(self.stopped, RateLimited) and self.repositories.share < 1:
            yield CURE
        if self.failures:
            many = len(self.failures)
            yield f"1 request failed: {self.failures[0]}" if many == 1 else f"{many} requests failed, the first with: {self.failures[0]}"
        if stale:
            yield f"{stale} older cached responses are used instead"
        if self.oldest_s:
            yield f"from the cache, up to {format_age(self.oldest_s)} old"
        if gone := sum(case.is_gone for case in self.cases):
            yield f"{gone} no longer available"
