"""What GitHub tells of one repository beyond its search, gathered answer by answer, and the record with it. Pure: nobody is asked.

Metadata that come to be known: `readme` (whether there is one), `readme_chars` (its length, where only its first `MOST_README`
characters were kept), `tree` (names in the top folder), `releases`, `last_release_at`, `commits_90d`, `contributors`, `closed_90d` (issues
and pull requests, of the 100 that changed last), `issue_response_days` and `closed_issues`. What GitHub does not say is missing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pydantic import JsonValue

from outrider.sources.github.parse import (
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
from outrider.sources.http.service import Reply
from outrider.state.errors import Malformed
from outrider.state.records import Repository

MOST_README = 100_000
"""Characters: more than the models that read it, and the index, take in."""
NEWEST = 100
"""Issues and comments that are looked at; the most that GitHub gives at once."""


@dataclass(slots=True)
class Told:
    """One method for each kind of answer. They raise `Malformed`, and then nothing has changed."""

    since: float
    """From when on something is recent, in seconds since the epoch."""
    text: str = ""
    figures: dict[str, JsonValue] = field(default_factory=dict)
    itself: Repository | None = None
    issues: list[dict[str, Any]] | None = None
    comments: list[dict[str, Any]] | None = None

    def readme(self, reply: Reply) -> None:
        whole = readme_in(reply)
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
        self.figures["tree"] = list(names_in(reply))

    def releases(self, reply: Reply) -> None:
        said = releases_in(reply)
        self.figures |= {"releases": said.count, "last_release_at": said.last_at}

    def of_itself(self, reply: Reply) -> None:
        said = repository_of(reply.json())
        if said is None:
            raise Malformed(f"{reply.url} answered with something else than a repository")
        self.itself = said

    def commits(self, reply: Reply) -> None:
        self.figures["commits_90d"] = counted(reply)

    def contributors(self, reply: Reply) -> None:
        self.figures["contributors"] = counted(reply)

    def changed_issues(self, reply: Reply) -> None:
        self.issues = listed(reply)
        self.figures["closed_90d"] = closed_since(self.issues, self.since)

    def newest_comments(self, reply: Reply) -> None:
        self.comments = listed(reply)

    def closed_issues(self, reply: Reply) -> None:
        self.figures["closed_issues"] = counted(reply)


def detailed(record: Repository, told: Told) -> Repository:
    """With what was told, and otherwise as it was, its `doc_id` included; of a repository that was renamed the name of now."""
    figures = dict(told.figures)
    if told.issues is not None and told.comments is not None:
        every = len(told.comments) < NEWEST
        figures["issue_response_days"] = response_days(told.issues, told.comments, all_comments=every)
    known = {name: value for name, value in figures.items() if value is not None}
    changed: dict[str, Any] = {"text": record.text or told.text, "metadata": {**record.metadata, **known}}
    if told.itself:
        changed |= _of_itself(record, told.itself)
    return record.model_copy(update=changed)


def _of_itself(record: Repository, itself: Repository) -> dict[str, Any]:
    stars = itself.parent_stars
    changed: dict[str, Any] = {} if stars is None else {"parent_stars": stars}
    name, old = itself.identifiers.github, record.identifiers.github
    if name and name != old:
        changed |= {"identifiers": record.identifiers.model_copy(update={"github": name}), "url": itself.url or record.url}
        if normal_name(record.title) == old:
            changed["title"] = itself.title
    return changed
