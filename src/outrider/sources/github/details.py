"""Details of many repositories of GitHub: README, top folder, releases, recent activity

Documentation: docs.github.com/rest, "Rate limits for the REST API" and "Best practices for using the REST API". Limits: 60 requests an
hour without a token, 5,000 with one, and a hundred at once.

The requests (`detail_requests`) go part by part, each for all repositories, the most informative part first: when limit or time end,
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
from outrider.sources.github.detail_requests import (
    ITSELF,
    NOTHING,
    PARTS,
    README,
    TREE,
    DetailRequest,
    RepositoryDetails,
    RepositoryProgress,
)
from outrider.sources.github.parse import normal_name, parse_budget
from outrider.sources.github.repository import GONE, OK, GithubRepositories, redirect_path, repository_path
from outrider.sources.http.rate_limit import SlidingWindow, get_rate_limiter
from outrider.sources.http.service import MOVED, Reply
from outrider.state.errors import Malformed, RateLimited, SourceError, SourceTimeout, Unauthorized
from outrider.state.ports import Detailed
from outrider.state.records import Repository

RECENT = timedelta(days=90)
ALONE_S = 1.0
"""How long the first request goes before all others: its answer says whether the token is good, and how many more there may be."""
CURE = "set GITHUB_TOKEN: with one there are 5,000 requests an hour instead of 60"
Status = Literal["ok", "partial", "empty", "cached", "stale", "rate_limited", "unauthorized", "forbidden", "unavailable", "timeout"]


async def fetch_details(records: Sequence[Repository], repositories: GithubRepositories, within_s: float) -> Detailed:
    """What a record has already, README and top folder, is not asked for. Raises nothing that GitHub may cause."""
    now = datetime.fromtimestamp(repositories.caller.clock(), UTC)
    # The beginning of a day: whoever asks again on that day finds the answer in the cache.
    since = now.replace(hour=0, minute=0, second=0, microsecond=0) - RECENT
    cases: dict[str, RepositoryProgress] = {}
    for record in records:
        if name := _name(record):
            cases.setdefault(name, RepositoryProgress(repository_path(name), RepositoryDetails(since.timestamp()))).wants(record)
    looking = DetailFetcher(repositories, f"{since:%Y-%m-%dT%H:%M:%SZ}", within_s, tuple(cases.values()))
    await in_background(looking.look())
    asked = [cases.get(_name(record)) for record in records]
    return looking.report(records, asked)


def _name(record: Repository) -> str:
    return normal_name(record.identifiers.github or "") or ""


@dataclass(slots=True, eq=False)
class RequestBudget:
    """How many requests there may still be: by our own limit, by what GitHub says is left, and by the share of one search.

    What other searches under way may still ask is not shared out again: shares hold for those at once as for those in turn.
    """

    left: int
    share: float
    others: list[RequestBudget] = field(default_factory=list)
    """Of all searches under way, this one, too."""
    taken: int = 0
    under_way: int = 0
    answered: int = 0
    renewed_at: float | None = None

    @classmethod
    @contextmanager
    def of(cls, window: SlidingWindow, share: float) -> Iterator[RequestBudget]:
        under_way = _UNDER_WAY[window]
        made = cls(int(max(0, window.available() - sum(one.left for one in under_way)) * share), share, under_way)
        under_way.append(made)
        try:
            yield made
        finally:
            under_way.remove(made)

    def take(self) -> bool:
        if self.left <= 0:
            return False
        self.left, self.taken, self.under_way = self.left - 1, self.taken + 1, self.under_way + 1
        return True

    def hear(self, reply: Reply, now: float) -> None:
        """Of answers that cross, the first to come says the least; what is under way may not be counted in it."""
        remaining, renewed_at = parse_budget(reply, now)
        self.answered += 1
        self.renewed_at = renewed_at or self.renewed_at
        if remaining is None:
            return
        if self.answered == 1:
            theirs = sum(one.left + one.under_way for one in self.others if one is not self)
            self.left = min(self.left, int(max(0, remaining + 1 - theirs) * self.share) - self.taken)
        self.left = max(0, min(self.left, remaining - self.under_way))


_UNDER_WAY: defaultdict[SlidingWindow, list[RequestBudget]] = defaultdict(list)
"""On the background loop only, as the windows are."""


@dataclass(slots=True)
class DetailFetcher:
    """The requests of one search."""

    repositories: GithubRepositories
    since: str
    within_s: float
    cases: tuple[RepositoryProgress, ...]
    allowance: RequestBudget = field(default_factory=lambda: RequestBudget(0, 1.0))
    until: float = 0.0
    stopped: SourceError | None = None
    """Why nothing more is asked."""
    failures: list[SourceError] = field(default_factory=list)
    oldest_s: float = 0.0

    async def look(self) -> None:
        """On the background loop, where the limits are. When time is up, what came is what there is."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self.within_s):
                self.until = time.monotonic() + self.within_s
                service, share = self.repositories.service, self.repositories.share
                await asyncio.gather(*(self._load_cached(case, part) for case, part in self._jobs()))
                with RequestBudget.of(get_rate_limiter(service).window, share) as self.allowance:
                    jobs = self._jobs()
                    alone = asyncio.ensure_future(self._run_jobs(jobs, until_answered=True))
                    try:
                        await asyncio.wait({alone}, timeout=min(ALONE_S, self.until - time.monotonic()))
                        await asyncio.gather(alone, *(self._run_jobs(jobs) for _ in range(service.at_once)))
                    finally:
                        alone.cancel()

    def _jobs(self) -> Iterator[tuple[RepositoryProgress, DetailRequest]]:
        return ((case, part) for part in PARTS for case in self.cases if case.lacks(part))

    async def _load_cached(self, case: RepositoryProgress, part: DetailRequest) -> None:
        """From the cache alone."""
        try:
            reply = await self._get(case, part, tries=0)
            case.take_reply(part, reply)
        except SourceError:
            return
        self.oldest_s = max(self.oldest_s, reply.age_s)
        (case.stale if reply.stale else case.had).add(part)

    async def _run_jobs(self, jobs: Iterator[tuple[RepositoryProgress, DetailRequest]], *, until_answered: bool = False) -> None:
        """Several do this at a time with the same jobs."""
        for case, part in jobs:
            if self.stopped or time.monotonic() >= self.until:
                return
            await self._ask(case, part)
            if until_answered and self.allowance.answered:
                return

    async def _ask(self, case: RepositoryProgress, part: DetailRequest) -> None:
        case.begun.add(part)
        try:
            reply = await self._request_within_budget(case, part)
            if reply.status in MOVED:
                case.path = redirect_path(reply, self.repositories.service)
                case.wanted.add(ITSELF)
                reply = await self._request_within_budget(case, part)
            if reply.status in MOVED:
                raise Malformed(f"{reply.url} answered {reply.status} once more")
            case.take_reply(part, reply)
        except SourceError as error:
            if isinstance(error, RateLimited | SourceTimeout) and time.monotonic() >= self.until:
                return  # it had no fair chance
            if isinstance(error, RateLimited | Unauthorized):
                self.stopped = self.stopped or error
            else:
                case.failed.add(part)
                self.failures.append(error)
            return
        case.had.add(part)
        case.stale.discard(part)
        if case.without_readme and part is README and not case.there and case.lacks(TREE):
            await self._ask(case, TREE)

    async def _request_within_budget(self, case: RepositoryProgress, part: DetailRequest) -> Reply:
        """Raises the reason for which an older answer of the cache would have to do."""
        if not self.allowance.take():
            service, share = self.repositories.service, self.repositories.share
            at = self.allowance.renewed_at or self.repositories.caller.clock() + service.per_s
            portion = f"{share:.0%} of " if share < 1 else ""
            raise RateLimited(f"{service.name}: {portion}what was left of the requests of this hour is used up", at)
        case.tried = True
        try:
            reply = await self._get(case, part, tries=1)
        finally:
            self.allowance.under_way -= 1
        if reply.why:
            raise reply.why
        if reply.age_s:
            self.allowance.left += 1  # from the cache after all, under its new name
        else:
            self.allowance.hear(reply, self.repositories.caller.clock())
        return reply

    async def _get(self, case: RepositoryProgress, part: DetailRequest, tries: int) -> Reply:
        return await self.repositories.caller.get(
            replace(self.repositories.service, tries=tries),
            case.path + part.path,
            {**part.params, "since": self.since} if part.recent else part.params,
            within_s=self.until - time.monotonic(),
            headers=part.headers,
            accept=OK | NOTHING | GONE | MOVED,
        )

    def report(self, records: Sequence[Repository], cases: Sequence[RepositoryProgress | None]) -> Detailed:
        """`cases` are those of the records, None for one that is not GitHub's."""
        those = [case for case in cases if case]
        returned = sum(not case.gone and (case.there or bool(case.stale)) for case in those)
        left_out = Counter(part for case in self.cases for part in case.left_out())
        retry_at = max((at for error in self._errors() if (at := error.retry_at) is not None), default=None)
        return Detailed(
            tuple(case.of(record) if case else record for record, case in zip(records, cases, strict=True)),
            asked=sum(case.asked() for case in those),
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
            known: dict[str, Status] = {"rate_limited": "rate_limited", "forbidden": "forbidden", "timeout": "timeout"}
            return known.get(self._errors()[0].status, "unavailable")
        if left_out or any(part not in case.stale for case in self.cases for part in case.failed):
            return "partial"
        return "stale" if any(case.stale for case in self.cases) else "ok" if self.allowance.answered else "cached"

    def _notes(self, left_out: Mapping[DetailRequest, int]) -> Iterator[str]:
        stale = sum(len(case.stale) for case in self.cases)
        if left_out:
            yield f"left out: {', '.join(f'{part.what} of {left_out[part]}' for part in PARTS if part in left_out)}"
        if self.stopped:
            yield f"{self.stopped}"
        elif left_out:
            yield f"its {self.within_s:.3g} s were over"
        if isinstance(self.stopped, RateLimited) and self.repositories.share < 1:
            yield CURE
        if self.failures:
            many = len(self.failures)
            yield f"1 request failed: {self.failures[0]}" if many == 1 else f"{many} requests failed, the first so: {self.failures[0]}"
        if stale:
            yield f"{stale} older answers of the cache stand in"
        if self.oldest_s:
            yield f"from the cache, up to {format_age(self.oldest_s)} old"
        if gone := sum(case.gone for case in self.cases):
            yield f"{gone} no longer there"
