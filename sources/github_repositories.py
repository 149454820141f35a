"""Single repositories of GitHub: what stands in them, and what has happened there of late.

Documentation: docs.github.com/rest, "Repositories" (`/repos/{owner}/{repo}`, `/contributors`), "Repository contents" (`/readme`), "Git
trees", "Releases", "Commits", "Issues" (pull requests are issues, too) and "Issue comments". A repository that was renamed answers 301
with its address by number, which is followed, but only on the same host. Limits: 60 requests an hour without a token, 5,000 with one.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar
from urllib.parse import parse_qsl, quote, urlsplit

from pydantic import JsonValue

from outrider.sources.calls.caller import Caller, Params
from outrider.sources.calls.service import MOVED, Reply, Service
from outrider.sources.github_records import (
    RAW,
    Releases,
    closed_since,
    counted,
    listed,
    names_in,
    normal_name,
    readme_in,
    releases_in,
    repository_of,
    response_days,
)
from outrider.state.errors import Malformed, SourceError, SourceUnavailable
from outrider.state.records import Repository

JSON = {"Accept": "application/vnd.github+json", "X-GitHub-Api-Version": "2022-11-28"}
SOURCE = {**JSON, "Accept": RAW}
GONE, EMPTY = frozenset({404, 451}), 409
BY_NUMBER = re.compile(r"/repositories/\d+(?:/[\w-]+)*")
RECENT = timedelta(days=90)
PAGE_SIZE = 100
"""The most that GitHub gives at once."""
ONE: Params = {"per_page": 1}
NEWEST: Params = {"per_page": PAGE_SIZE, "direction": "desc"}

Answered = TypeVar("Answered")
Part = Callable[[str, float], Awaitable[Mapping[str, JsonValue]]]


@dataclass(frozen=True, slots=True)
class GithubRepositories:
    """Everything raises `SourceError` and is bounded by `within_s`, but `details`, which leaves out what it could not get."""

    caller: Caller
    service: Service

    async def repository(self, full_name: str, within_s: float) -> Repository | None:
        """As it is called now, if it was renamed; None where there is none, or none that may be seen."""
        reply = await self._asked(full_name, "", within_s, accept=GONE)
        if reply.status in GONE:
            return None
        record = repository_of(reply.json())
        if record is None:
            raise Malformed(f"{reply.url} answered with something else than a repository")
        return record

    async def readme(self, full_name: str, within_s: float) -> str | None:
        """Its source: Markdown, mostly. None where there is none."""
        reply = await self._asked(full_name, "/readme", within_s, accept=GONE, headers=SOURCE)
        return None if reply.status in GONE else readme_in(reply)

    async def tree(self, full_name: str, within_s: float) -> tuple[str, ...] | None:
        """The names in its top folder; None where there is no such repository."""
        reply = await self._asked(full_name, "/git/trees/HEAD", within_s, accept=GONE | {EMPTY})
        return None if reply.status in GONE else () if reply.status == EMPTY else names_in(reply)

    async def releases(self, full_name: str, within_s: float) -> Releases:
        return releases_in(await self._asked(full_name, "/releases", within_s, ONE))

    async def details(self, full_name: str, within_s: float, *, deep: bool) -> Mapping[str, JsonValue]:
        """What belongs into the metadata of its record; what GitHub does not say, or not in time, is missing.

        Two requests give `tree`, `releases` and `last_release_at`. `deep` makes five more for `commits_90d`, `contributors`,
        `closed_90d` (issues and pull requests, of the 100 that changed last), `issue_response_days` and `closed_issues`.
        """
        parts: tuple[Part, ...] = (self._top, self._published)
        if deep:
            parts += (self._commits, self._contributors, self._issues, self._closed)
        found = await asyncio.gather(*(_or_none(part(full_name, within_s)) for part in parts))
        return {name: value for part in found if part for name, value in part.items() if value is not None}

    async def _top(self, full_name: str, within_s: float) -> Mapping[str, JsonValue]:
        names = await self.tree(full_name, within_s)
        return {"tree": None if names is None else list(names)}

    async def _published(self, full_name: str, within_s: float) -> Mapping[str, JsonValue]:
        releases = await self.releases(full_name, within_s)
        return {"releases": releases.count, "last_release_at": releases.last_at}

    async def _commits(self, full_name: str, within_s: float) -> Mapping[str, JsonValue]:
        asked = {**ONE, "since": _written(self._since())}
        return {"commits_90d": counted(await self._asked(full_name, "/commits", within_s, asked))}

    async def _contributors(self, full_name: str, within_s: float) -> Mapping[str, JsonValue]:
        return {"contributors": counted(await self._asked(full_name, "/contributors", within_s, ONE))}

    async def _closed(self, full_name: str, within_s: float) -> Mapping[str, JsonValue]:
        return {"closed_issues": counted(await self._asked(full_name, "/issues", within_s, {**ONE, "state": "closed"}))}

    async def _issues(self, full_name: str, within_s: float) -> Mapping[str, JsonValue]:
        since = self._since()
        changed = {**NEWEST, "state": "all", "sort": "updated", "since": _written(since)}
        reply, comments = await asyncio.gather(
            self._asked(full_name, "/issues", within_s, changed), _or_none(self._comments(full_name, within_s))
        )
        issues, comments = listed(reply), comments or []
        return {
            "closed_90d": closed_since(issues, since.timestamp()),
            "issue_response_days": response_days(issues, comments, all_comments=len(comments) < PAGE_SIZE),
        }

    async def _comments(self, full_name: str, within_s: float) -> list[dict[str, Any]]:
        return listed(await self._asked(full_name, "/issues/comments", within_s, {**NEWEST, "sort": "created"}))

    def _since(self) -> datetime:
        """The beginning of a day, so that whoever asks again on that day finds the answer in the cache."""
        now = datetime.fromtimestamp(self.caller.clock(), UTC)
        return now.replace(hour=0, minute=0, second=0, microsecond=0) - RECENT

    async def _asked(
        self,
        full_name: str,
        what: str,
        within_s: float,
        params: Params | None = None,
        *,
        accept: frozenset[int] = frozenset(),
        headers: Mapping[str, str] = JSON,
    ) -> Reply:
        """Follows one redirection, as it comes of a new name."""
        if normal_name(full_name) is None:
            raise SourceUnavailable(f"{self.service.name}: {full_name!r} names no repository; write owner/name")
        until = time.monotonic() + within_s
        path = f"/repos/{quote(full_name.strip(), safe='/')}{what}"
        statuses = frozenset({200}) | accept
        reply = await self.caller.get(self.service, path, params, within_s=within_s, headers=headers, accept=statuses | MOVED)
        if reply.status not in MOVED:
            return reply
        path, params = self._moved_to(reply)
        left_s = until - time.monotonic()
        return await self.caller.get(self.service, path, params, within_s=left_s, headers=headers, accept=statuses)

    def _moved_to(self, reply: Reply) -> tuple[str, Params]:
        """Path and parameters of the new address. One of another host is not asked: the token is for this one."""
        there, base = urlsplit(reply.headers.get("location", "")), urlsplit(self.service.base_url.rstrip("/"))
        path = there.path.removeprefix(base.path)
        if (there.scheme, there.netloc) != (base.scheme, base.netloc) or not BY_NUMBER.fullmatch(path):
            raise Malformed(f"{reply.url} answered {reply.status} with an address that is not one of a repository of {base.netloc}")
        return path, dict(parse_qsl(there.query))


def _written(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"


async def _or_none(asked: Awaitable[Answered]) -> Answered | None:
    try:
        return await asked
    except SourceError:
        return None
