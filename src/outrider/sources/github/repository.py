"""Single repositories of GitHub by name, and their dependencies

Documentation: docs.github.com/rest/repos/repos (`GET /repos/{owner}/{repo}`). A renamed repository answers 301 with its URL by number,
which is followed on the same host only. Dependencies: docs.github.com/rest/dependency-graph/sboms
(`GET /repos/{owner}/{repo}/dependency-graph/sbom`), an SPDX document whose packages have a package URL (`pkg:pypi/httpx@0.28.1`). 403 and
404 if the graph is disabled.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from urllib.parse import quote, unquote, urlsplit

from outrider.sources.github.parse import normal_name, parse_repository
from outrider.sources.http.client import Caller
from outrider.sources.http.service import MOVED, Reply, Service
from outrider.sources.json_fields import code, items, mapping
from outrider.state.errors import Malformed, SourceUnavailable
from outrider.state.records import Repository

JSON = {"Accept": "application/vnd.github+json", "X-GitHub-Api-Version": "2022-11-28"}
GONE = frozenset({404, 451})
"""The repository does not exist, is private, or is blocked for legal reasons."""
OK = frozenset({200})
BY_NUMBER = re.compile(r"/repositories/\d+(?=/|$)")
OFF = frozenset({403})
OF_HOST = ("github", "githubactions")
"""Package types of the repository itself and of its workflows, neither of which is a dependency."""
MOST = 500


@dataclass(frozen=True, slots=True)
class GithubDependencies:
    """The packages that a repository depends on, from GitHub's dependency graph."""

    repositories: GithubRepositories

    async def dependencies(self, full_name: str, within_s: float) -> tuple[str, ...] | None:
        """Dependencies as `ecosystem:name`, sorted; None if the graph is disabled. Raises `SourceError`."""
        calls = self.repositories
        path = f"{repository_path(full_name)}/dependency-graph/sbom"
        reply = await calls.caller.get(calls.service, path, within_s=within_s, headers=JSON, accept=OK | GONE | OFF)
        return parse_dependencies(reply) if reply.status in OK else None


def parse_dependencies(reply: Reply) -> tuple[str, ...]:
    """`ecosystem:name` of each package of an SPDX document, sorted, at most `MOST`. Raises `Malformed` for another document."""
    packages = mapping(mapping(reply.json()).get("sbom")).get("packages")
    if not isinstance(packages, list):
        raise Malformed(f"{reply.url} did not answer with an SPDX document")
    names: set[str] = set()
    for reference in (reference for package in packages for reference in items(mapping(package).get("externalRefs"))):
        locator = code(mapping(reference).get("referenceLocator"))
        kind, _, rest = locator.removeprefix("pkg:").partition("/")
        name = unquote(rest.partition("@")[0].partition("?")[0])
        if locator.startswith("pkg:") and name and kind not in OF_HOST:
            names.add(f"{kind}:{name}")
    return tuple(sorted(names))[:MOST]


@dataclass(frozen=True, slots=True)
class GithubRepositories:
    """Single repositories by name."""

    caller: Caller
    service: Service
    """For all requests except searches, which have a rate limit of their own."""
    share: float = 1.0
    """Share of the requests that remain for this hour that the details of one search may use."""

    async def repository(self, full_name: str, within_s: float) -> Repository | None:
        """The repository, after a redirect if it was renamed; None if it does not exist. Raises `SourceError`."""
        if normal_name(full_name) is None:
            raise SourceUnavailable(f"{self.service.name}: {full_name!r} is not a repository name; write owner/name")
        until = time.monotonic() + within_s
        path, accept = repository_path(full_name), OK | GONE
        reply = await self.caller.get(self.service, path, within_s=within_s, headers=JSON, accept=accept | MOVED)
        if reply.status in MOVED:
            path = redirect_path(reply, self.service)
            reply = await self.caller.get(self.service, path, within_s=until - time.monotonic(), headers=JSON, accept=accept)
        if reply.status in GONE:
            return None
        record = parse_repository(reply.json())
        if record is None:
            raise Malformed(f"{reply.url} did not answer with a repository")
        return record


def repository_path(full_name: str) -> str:
    """The path of `owner/name` in the REST API."""
    return f"/repos/{quote(full_name.strip(), safe='/')}"


def redirect_path(reply: Reply, service: Service) -> str:
    """Path of the repository by its number. Raises `Malformed` for another host, which must not receive the token."""
    there, base = urlsplit(reply.headers.get("location", "")), urlsplit(service.base_url.rstrip("/"))
    path = BY_NUMBER.match(there.path.removeprefix(base.path))
    if (there.scheme, there.netloc) != (base.scheme, base.netloc) or path is None:
        raise Malformed(f"{reply.url} redirected ({reply.status}) to an address that is not a repository of {base.netloc}")
    return path.group()
