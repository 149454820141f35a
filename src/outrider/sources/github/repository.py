"""Single repositories of GitHub: by name, their dependencies, and requests for details

Documentation: docs.github.com/rest/repos/repos (`GET /repos/{owner}/{repo}`). A renamed repository answers 301 with its URL by number,
which is followed on the same host only. Dependencies: docs.github.com/rest/dependency-graph/sboms
(`GET /repos/{owner}/{repo}/dependency-graph/sbom`), an SPDX document whose packages have a package URL (`pkg:pypi/httpx@0.28.1`). 403 and
404 if the graph is disabled.

Details, documentation: docs.github.com/rest, "Repository
contents" (`/readme`), "Git trees", "Releases", "Repositories", "Commits", "Issues" (pull requests are issues, too) and "Issue comments".
They take eight requests, nine for a fork, the most informative first.

Metadata that they add: `readme` (whether there is one), `readme_chars` (its length, if only its first `MOST_README` characters are
used), `tree` (names in the top folder), `releases`, `last_release_at`, `commits_90d`, `contributors`, `closed_90d` (issues and pull
requests, of the 100 that changed last), `issue_response_days` and `closed_issues`. What GitHub does not return is missing.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from pydantic import JsonValue

from outrider.sources.github.parse import (
    RAW,
    count_closed_since,
    median_response_days,
    normal_name,
    parse_count,
    parse_list,
    parse_readme,
    parse_releases,
    parse_repository,
    parse_tree,
)
from outrider.sources.http.client import Caller, Params
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


MOST_README = 100_000
"""Characters; the index and the models that read a README use fewer."""
NEWEST = 100
"""Issues and comments per request: the largest page that GitHub returns."""
NOTHING = frozenset({204, 409, 410})
"""Statuses without data: no content, an empty repository, disabled issues."""
ONE: Params = {"per_page": 1}
"""With one item per page, the number of the last page is the count."""
FIRST: Params = {"per_page": NEWEST, "direction": "desc"}


@dataclass(frozen=True, slots=True, eq=False)
class DetailRequest:
    """One request about a repository."""

    what: str
    path: str
    apply: Callable[[RepositoryDetails, Reply], None]
    params: Params = field(default_factory=dict)
    recent: bool = False
    headers: Mapping[str, str] = field(default_factory=lambda: JSON)


@dataclass(slots=True, eq=False)
class RepositoryProgress:
    """The state of the requests for one repository."""

    path: str
    details: RepositoryDetails
    required: set[DetailRequest] = field(default_factory=lambda: set(PARTS) - {README, TREE, ITSELF})
    started: set[DetailRequest] = field(default_factory=set)
    loaded: set[DetailRequest] = field(default_factory=set)
    stale: set[DetailRequest] = field(default_factory=set)
    """Loaded from the cache, older than requested."""
    failed: set[DetailRequest] = field(default_factory=set)
    requested: bool = False
    exists: bool = False
    is_gone: bool = False
    without_readme: bool = False

    def require_missing(self, record: Repository) -> None:
        self.required |= set() if record.text else {README}
        self.required |= set() if "tree" in record.metadata else {TREE}
        self.required |= {ITSELF} if record.is_fork and record.parent_stars is None else set()

    def needs(self, part: DetailRequest) -> bool:
        return part in self.required and not self.is_gone and part not in self.loaded and part not in self.started

    def omitted_requests(self) -> set[DetailRequest]:
        return set() if self.is_gone else self.required - self.loaded - self.stale - self.failed

    def was_requested(self) -> bool:
        return self.requested or bool(self.loaded or self.stale)

    def take_reply(self, part: DetailRequest, reply: Reply) -> None:
        """Raises `Malformed`. A 404 for the README counts only if another request shows that the repository exists."""
        if reply.status == 451 or (reply.status == 404 and part is not README):
            self.is_gone = True
        elif reply.status == 404:
            self.without_readme = True
        else:
            if reply.status not in NOTHING:
                part.apply(self.details, reply)
            elif part is TREE and reply.status == 409:
                self.details.figures["tree"] = []
            self.exists |= not reply.stale

    def merge_into(self, record: Repository) -> Repository:
        if self.is_gone or not (self.exists or self.stale):
            return record
        if self.without_readme and self.exists:
            self.details.no_readme()
        return merge_details(record, self.details)


@dataclass(slots=True)
class RepositoryDetails:
    """One method for each kind of response. They raise `Malformed` and leave the details unchanged then."""

    since: float
    """Start of the recent period, in seconds since the epoch."""
    text: str = ""
    figures: dict[str, JsonValue] = field(default_factory=dict)
    itself: Repository | None = None
    issues: list[dict[str, Any]] | None = None
    comments: list[dict[str, Any]] | None = None

    def readme(self, reply: Reply) -> None:
        whole = parse_readme(reply)
        self.figures["readme"] = True
        if whole is not None:
            self.text = whole[:MOST_README]
        if whole and len(whole) > MOST_README:
            self.figures["readme_chars"] = len(whole)

    def no_readme(self) -> None:
        """Removes the README of an older response, too."""
        self.text = ""
        self.figures.pop("readme_chars", None)
        self.figures["readme"] = False

    def tree(self, reply: Reply) -> None:
        self.figures["tree"] = list(parse_tree(reply))

    def releases(self, reply: Reply) -> None:
        releases = parse_releases(reply)
        self.figures |= {"releases": releases.count, "last_release_at": releases.last_at}

    def repository(self, reply: Reply) -> None:
        repository = parse_repository(reply.json())
        if repository is None:
            raise Malformed(f"{reply.url} did not answer with a repository")
        self.itself = repository

    def commits(self, reply: Reply) -> None:
        self.figures["commits_90d"] = parse_count(reply)

    def contributors(self, reply: Reply) -> None:
        self.figures["contributors"] = parse_count(reply)

    def changed_issues(self, reply: Reply) -> None:
        self.issues = parse_list(reply)
        self.figures["closed_90d"] = count_closed_since(self.issues, self.since)

    def newest_comments(self, reply: Reply) -> None:
        self.comments = parse_list(reply)

    def closed_issues(self, reply: Reply) -> None:
        self.figures["closed_issues"] = parse_count(reply)


def merge_details(record: Repository, details: RepositoryDetails) -> Repository:
    """The record with its details; other fields, such as `doc_id`, stay the same. A renamed repository gets its current name."""
    figures = dict(details.figures)
    if details.issues is not None and details.comments is not None:
        is_complete = len(details.comments) < NEWEST
        figures["issue_response_days"] = median_response_days(details.issues, details.comments, all_comments=is_complete)
    known = {name: value for name, value in figures.items() if value is not None}
    changed: dict[str, Any] = {"text": record.text or details.text, "metadata": {**record.metadata, **known}}
    if itself := details.itself:
        changed |= {} if itself.parent_stars is None else {"parent_stars": itself.parent_stars}
        name, old = itself.identifiers.github, record.identifiers.github
        if name and name != old:
            changed |= {"identifiers": record.identifiers.model_copy(update={"github": name}), "url": itself.url or record.url}
            if normal_name(record.title) == old:
                changed["title"] = itself.title
    return record.model_copy(update=changed)


README: DetailRequest = DetailRequest("README", "/readme", RepositoryDetails.readme, headers={**JSON, "Accept": RAW})


TREE: DetailRequest = DetailRequest("top folder", "/git/trees/HEAD", RepositoryDetails.tree)


ITSELF: DetailRequest = DetailRequest("the repository itself", "", RepositoryDetails.repository)
"""Requested for forks (stars of the parent) and for renamed repositories (current name)."""


PARTS: tuple[DetailRequest, ...] = (
    README,
    TREE,
    DetailRequest("releases", "/releases", RepositoryDetails.releases, ONE),
    ITSELF,
    DetailRequest("commits", "/commits", RepositoryDetails.commits, ONE, recent=True),
    DetailRequest("contributors", "/contributors", RepositoryDetails.contributors, ONE),
    DetailRequest("issues", "/issues", RepositoryDetails.changed_issues, {**FIRST, "state": "all", "sort": "updated"}, recent=True),
    DetailRequest("comments", "/issues/comments", RepositoryDetails.newest_comments, {**FIRST, "sort": "created"}),
    DetailRequest("closed issues", "/issues", RepositoryDetails.closed_issues, {**ONE, "state": "closed"}),
)
