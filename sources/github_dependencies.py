"""What a repository is made with, by GitHub's dependency graph.

`GET /repos/{owner}/{repo}/dependency-graph/sbom`, documented at docs.github.com/rest/dependency-graph/sboms: an SPDX document whose
packages name themselves by a package URL (`pkg:pypi/httpx@0.28.1`). 403 and 404 where the graph is switched off.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from outrider.sources.calls.service import Reply
from outrider.sources.github_repositories import GONE, JSON, OK, GithubRepositories, path_of
from outrider.sources.records.said import code, items, mapping
from outrider.state.errors import Malformed

OFF = frozenset({403})
OF_HOST = ("github", "githubactions")
"""The repository itself, and what its workflows run: neither is a package that it needs."""
MOST = 500


@dataclass(frozen=True, slots=True)
class GithubDependencies:
    repositories: GithubRepositories

    async def dependencies(self, full_name: str, within_s: float) -> tuple[str, ...] | None:
        """As `ecosystem:name`, sorted; None where the graph is switched off. Raises `SourceError`."""
        calls = self.repositories
        path = f"{path_of(full_name)}/dependency-graph/sbom"
        reply = await calls.caller.get(calls.service, path, within_s=within_s, headers=JSON, accept=OK | GONE | OFF)
        return named_in(reply) if reply.status in OK else None


def named_in(reply: Reply) -> tuple[str, ...]:
    packages = mapping(mapping(reply.json()).get("sbom")).get("packages")
    if not isinstance(packages, list):
        raise Malformed(f"{reply.url} answered with something else than an SPDX document")
    return tuple(sorted(dict.fromkeys(name for one in packages for name in _names(one))))[:MOST]


def _names(package: Any) -> Iterator[str]:
    for reference in items(mapping(package).get("externalRefs")):
        locator = code(mapping(reference).get("referenceLocator"))
        kind, _, rest = locator.removeprefix("pkg:").partition("/")
        name = unquote(rest.partition("@")[0].partition("?")[0])
        if locator.startswith("pkg:") and name and kind not in OF_HOST:
            yield f"{kind}:{name}"
