"""The requests about one repository of GitHub, the most telling first, and what has come of them.

Documentation: docs.github.com/rest, "Repository contents" (`/readme`), "Git trees", "Releases", "Repositories", "Commits", "Issues" (pull
requests are issues, too) and "Issue comments". Eight requests, nine for a fork.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from outrider.sources.github.parse import RAW
from outrider.sources.github.parse_details import NEWEST, Told, detailed
from outrider.sources.github.repository import JSON
from outrider.sources.http.client import Params
from outrider.sources.http.service import Reply
from outrider.state.records import Repository

NOTHING = frozenset({204, 409, 410})
"""No content and an empty repository, and one whose issues are switched off."""
ONE: Params = {"per_page": 1}
"""The number of the last page is how many there are."""
FIRST: Params = {"per_page": NEWEST, "direction": "desc"}


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """One request about a repository."""

    what: str
    path: str
    tell: Callable[[Told, Reply], None]
    params: Params = field(default_factory=dict)
    recent: bool = False
    headers: Mapping[str, str] = field(default_factory=lambda: JSON)


README = Part("README", "/readme", Told.readme, headers={**JSON, "Accept": RAW})
TREE = Part("top folder", "/git/trees/HEAD", Told.tree)
ITSELF = Part("the repository itself", "", Told.of_itself)
"""Of forks, for the stars of the parent, and of what was renamed, for the name of now."""
PARTS = (
    README,
    TREE,
    Part("releases", "/releases", Told.releases, ONE),
    ITSELF,
    Part("commits", "/commits", Told.commits, ONE, recent=True),
    Part("contributors", "/contributors", Told.contributors, ONE),
    Part("issues", "/issues", Told.changed_issues, {**FIRST, "state": "all", "sort": "updated"}, recent=True),
    Part("comments", "/issues/comments", Told.newest_comments, {**FIRST, "sort": "created"}),
    Part("closed issues", "/issues", Told.closed_issues, {**ONE, "state": "closed"}),
)


@dataclass(slots=True, eq=False)
class Case:
    """One repository, and how far it is."""

    path: str
    told: Told
    wanted: set[Part] = field(default_factory=lambda: set(PARTS) - {README, TREE, ITSELF})
    begun: set[Part] = field(default_factory=set)
    had: set[Part] = field(default_factory=set)
    stale: set[Part] = field(default_factory=set)
    """Had from the cache, where it is older than it should be."""
    failed: set[Part] = field(default_factory=set)
    tried: bool = False
    there: bool = False
    gone: bool = False
    without_readme: bool = False

    def wants(self, record: Repository) -> None:
        self.wanted |= set() if record.text else {README}
        self.wanted |= set() if "tree" in record.metadata else {TREE}
        self.wanted |= {ITSELF} if record.is_fork and record.parent_stars is None else set()

    def lacks(self, part: Part) -> bool:
        return part in self.wanted and not self.gone and part not in self.had and part not in self.begun

    def left_out(self) -> set[Part]:
        return set() if self.gone else self.wanted - self.had - self.stale - self.failed

    def asked(self) -> bool:
        return self.tried or bool(self.had or self.stale)

    def heard(self, part: Part, reply: Reply) -> None:
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
        return detailed(record, self.told)
