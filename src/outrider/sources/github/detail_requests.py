"""Requests for the details of one repository of GitHub, and the record with their results

Documentation: docs.github.com/rest, "Repository contents" (`/readme`), "Git trees", "Releases", "Repositories", "Commits", "Issues" (pull
requests are issues, too) and "Issue comments". Eight requests, nine for a fork, the most informative first.

Metadata that they add: `readme` (whether there is one), `readme_chars` (its length, if only its first `MOST_README` characters are
used), `tree` (names in the top folder), `releases`, `last_release_at`, `commits_90d`, `contributors`, `closed_90d` (issues and pull
requests, of the 100 that changed last), `issue_response_days` and `closed_issues`. What GitHub does not return is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

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
from outrider.sources.github.repository import JSON
from outrider.sources.http.client import Params
from outrider.sources.http.service import Reply
from outrider.state.errors import Malformed
from outrider.state.records import Repository

MOST_README = 100_000
"""Characters: more than the models that read it, and the index, take in."""
NEWEST = 100
"""Issues and comments that are looked at; the most that GitHub gives at once."""
NOTHING = frozenset({204, 409, 410})
"""No content and an empty repository, and one whose issues are switched off."""
ONE: Params = {"per_page": 1}
"""The number of the last page is how many there are."""
FIRST: Params = {"per_page": NEWEST, "direction": "desc"}


@dataclass(frozen=True, slots=True, eq=False)
class DetailRequest:
    """One request about a repository."""

    what: str
    path: str
    tell: Callable[[RepositoryDetails, Reply], None]
    params: Params = field(default_factory=dict)
    recent: bool = False
    headers: Mapping[str, str] = field(default_factory=lambda: JSON)


@dataclass(slots=True, eq=False)
class RepositoryProgress:
    """One repository, and how far it is."""

    path: str
    told: RepositoryDetails
    wanted: set[DetailRequest] = field(default_factory=lambda: set(PARTS) - {README, TREE, ITSELF})
    begun: set[DetailRequest] = field(default_factory=set)
    had: set[DetailRequest] = field(default_factory=set)
    stale: set[DetailRequest] = field(default_factory=set)
    """Had from the cache, where it is older than it should be."""
    failed: set[DetailRequest] = field(default_factory=set)
    tried: bool = False
    there: bool = False
    gone: bool = False
    without_readme: bool = False

    def wants(self, record: Repository) -> None:
        self.wanted |= set() if record.text else {README}
        self.wanted |= set() if "tree" in record.metadata else {TREE}
        self.wanted |= {ITSELF} if record.is_fork and record.parent_stars is None else set()

    def lacks(self, part: DetailRequest) -> bool:
        return part in self.wanted and not self.gone and part not in self.had and part not in self.begun

    def left_out(self) -> set[DetailRequest]:
        return set() if self.gone else self.wanted - self.had - self.stale - self.failed

    def asked(self) -> bool:
        return self.tried or bool(self.had or self.stale)

    def take_reply(self, part: DetailRequest, reply: Reply) -> None:
        """Raises `Malformed`. That there is no README means something only of a repository that is there."""
        if reply.status == 451 or (reply.status == 404 and part is not README):
            self.gone = True
        elif reply.status == 404:
            self.without_readme = True
        else:
            if reply.status not in NOTHING:
                part.tell(self.told, reply)
            elif part is TREE and reply.status == 409:
                self.told.figures["tree"] = []
            self.there |= not reply.stale

    def of(self, record: Repository) -> Repository:
        if self.gone or not (self.there or self.stale):
            return record
        if self.without_readme and self.there:
            self.told.no_readme()
        return merge_details(record, self.told)


@dataclass(slots=True)
class RepositoryDetails:
    """One method for each kind of answer. They raise `Malformed`, and then nothing has changed."""

    since: float
    """From when on something is recent, in seconds since the epoch."""
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
        """Any more: an older answer may have had one."""
        self.text = ""
        self.figures.pop("readme_chars", None)
        self.figures["readme"] = False

    def tree(self, reply: Reply) -> None:
        self.figures["tree"] = list(parse_tree(reply))

    def releases(self, reply: Reply) -> None:
        said = parse_releases(reply)
        self.figures |= {"releases": said.count, "last_release_at": said.last_at}

    def of_itself(self, reply: Reply) -> None:
        said = parse_repository(reply.json())
        if said is None:
            raise Malformed(f"{reply.url} answered with something else than a repository")
        self.itself = said

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
    """The record with its details; all else stays, `doc_id` included. A renamed repository gets its present name."""
    figures = dict(details.figures)
    if details.issues is not None and details.comments is not None:
        every = len(details.comments) < NEWEST
        figures["issue_response_days"] = median_response_days(details.issues, details.comments, all_comments=every)
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


ITSELF: DetailRequest = DetailRequest("the repository itself", "", RepositoryDetails.of_itself)
"""Of forks, for the stars of the parent, and of what was renamed, for the name of now."""


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
