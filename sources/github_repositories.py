"""A single repository of GitHub by its name; what else is asked of it, `github_details` says.

Documentation: docs.github.com/rest/repos/repos (`GET /repos/{owner}/{repo}`). One that was renamed answers 301 with its address by
number, which is followed, but only on the same host.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from urllib.parse import quote, urlsplit

from outrider.sources.calls.caller import Caller
from outrider.sources.calls.service import MOVED, Reply, Service
from outrider.sources.records.github import normal_name, repository_of
from outrider.state.errors import Malformed, SourceUnavailable
from outrider.state.records import Repository

JSON = {"Accept": "application/vnd.github+json", "X-GitHub-Api-Version": "2022-11-28"}
GONE = frozenset({404, 451})
"""There is none, or none that may be seen."""
OK = frozenset({200})
BY_NUMBER = re.compile(r"/repositories/\d+(?=/|$)")


@dataclass(frozen=True, slots=True)
class GithubRepositories:
    caller: Caller
    service: Service
    """For everything but searches, which GitHub counts apart."""
    share: float = 1.0
    """The part of the requests still left in an hour that the details of one search may cost."""

    async def repository(self, full_name: str, within_s: float) -> Repository | None:
        """As it is called now, if it was renamed; None where there is none. Raises `SourceError`."""
        if normal_name(full_name) is None:
            raise SourceUnavailable(f"{self.service.name}: {full_name!r} names no repository; write owner/name")
        until = time.monotonic() + within_s
        path, accept = path_of(full_name), OK | GONE
        reply = await self.caller.get(self.service, path, within_s=within_s, headers=JSON, accept=accept | MOVED)
        if reply.status in MOVED:
            path = moved_to(reply, self.service)
            reply = await self.caller.get(self.service, path, within_s=until - time.monotonic(), headers=JSON, accept=accept)
        if reply.status in GONE:
            return None
        record = repository_of(reply.json())
        if record is None:
            raise Malformed(f"{reply.url} answered with something else than a repository")
        return record


def path_of(full_name: str) -> str:
    return f"/repos/{quote(full_name.strip(), safe='/')}"


def moved_to(reply: Reply, service: Service) -> str:
    """Path of the repository by its number. One of another host is not asked: the token is for this one."""
    there, base = urlsplit(reply.headers.get("location", "")), urlsplit(service.base_url.rstrip("/"))
    path = BY_NUMBER.match(there.path.removeprefix(base.path))
    if (there.scheme, there.netloc) != (base.scheme, base.netloc) or path is None:
        raise Malformed(f"{reply.url} answered {reply.status} with an address that is not one of a repository of {base.netloc}")
    return path.group()
