"""Saved searches: their definition, their runs, and the differences between two runs."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, JsonValue

from outrider.state.model import Model

SavedKind = Literal["search", "systematic"]
RunStatus = Literal["running", "complete", "failed"]
Change = Literal["new", "changed", "gone", "missing"]
"""`missing`: a source failed, so nobody knows whether it still has the work."""
Cause = Literal[
    "new in source", "gone from source", "query changed", "source changed", "source failed", "settings changed", "version changed",
    "ranking", "left out", "retracted", "record changed", "published", "merged", "split",
]  # fmt: skip


class SavedSearch(Model):
    """A search or systematic protocol that runs again under a name."""

    id: str
    name: str = Field(description="On a server with keys it begins with the owner's name.")
    kind: SavedKind
    request: dict[str, JsonValue] = Field(description="Fields of the request without defaults; of a protocol `query`, `syntax`, `sources`.")
    library: str = Field("", description="The library that it reads.")
    schedule: str = Field("", description="As it was written; empty for one that is run by hand.")
    timezone: str = "UTC"
    webhook: str = Field("", repr=False, description="Where each changed result is sent. An address may hold a key, so no list shows it.")
    created_at: float
    queued_at: float | None = Field(None, description="When a server last queued it by its schedule.")

    @property
    def query(self) -> str:
        query = self.request.get("query", "")
        return "; ".join(f"{name}: {text}" for name, text in query.items()) if isinstance(query, dict) else str(query)


class SourceState(Model):
    """What a run knows of one source."""

    read: bool = Field(description="Whether it was read to the end of what was asked.")
    why: str = Field("", description="Why not.")
    query: str = Field("", description="The query that it got.")
    found: int = 0
    is_cut: bool = Field(False, description="Whether it has more matches than it gave: works may lie behind the last one.")
    known_since: int | None = Field(None, description="The run that last read it; the works of a failed source are those of that run.")


class Identified(Model):
    """Counts of a systematic run for PRISMA 2020."""

    by_source: dict[str, int]
    duplicates: int
    deduplicated_by: str = ""
    outside: int = Field(0, description="Records outside the query, from a service that could not be asked exactly.")
    for_screening: int
    complete: bool
    missing: tuple[str, ...] = ()


class RunFacts(Model):
    """The circumstances of a run that explain a difference."""

    kind: SavedKind
    request: dict[str, JsonValue]
    strategy: tuple[str, ...] = Field((), description="The planned queries, or the parsed one.")
    sources: dict[str, SourceState] = Field(default_factory=dict)
    settings: dict[str, JsonValue] = Field(default_factory=dict, description="Settings that decide what is found, without defaults.")
    versions: dict[str, str] = Field(default_factory=dict)
    snapshot: str | None = None
    is_cut: bool = Field(False, description="Whether works were found beyond the number that was asked for.")
    left_out: dict[str, str] = Field(default_factory=dict, description="Works that a rule or filter left out, by id, with the reason.")
    result_set: str = Field("", description="Folder of the systematic run.")
    identified: Identified | None = None


class Delivery(Model):
    """How far the webhook of a run is."""

    state: Literal["none", "pending", "delivered", "failed"] = "none"
    attempts: int = 0
    problem: str = ""


class SavedRun(Model):
    """One run of a saved search."""

    number: int
    status: RunStatus
    started_at: float
    finished_at: float | None = None
    works: int = 0
    facts: RunFacts | None = None
    folder: str = Field("", description="Folder of a systematic run that is under way or was interrupted.")
    error: str = ""
    delivery: Delivery = Delivery()


class WorkChange(Model):
    """One work that differs between two runs."""

    change: Change
    cause: Cause
    doc_id: str
    before_id: str = Field("", description="Its id in the earlier run, where that is another.")
    title: str = ""
    authors: tuple[str, ...] = ()
    year: int | None = None
    venue: str = ""
    url: str = ""
    sources: tuple[str, ...] = ()
    fields: tuple[str, ...] = Field((), description="Fields of its record that changed.")
    why: str = ""


class RunDifference(Model):
    """What changed from one run to a later one."""

    name: str
    before: int = Field(description="Number of the earlier run.")
    after: int
    before_at: float
    after_at: float
    works_before: int
    works_after: int
    works: tuple[WorkChange, ...] = ()
    counts_only: int = Field(0, description="Works of which only counts changed, such as citations and stars; they are not listed.")
    still_missing: int = Field(0, description="Works that were missing before, and still are, since their source failed again; not listed.")
    remarks: tuple[str, ...] = Field((), description="Limits of the comparison.")

    def count(self, change: Change) -> int:
        return sum(work.change == change for work in self.works)

    @property
    def is_empty(self) -> bool:
        return not self.works
