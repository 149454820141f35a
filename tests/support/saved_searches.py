"""Saved searches over a library and a service in memory whose records change between the runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from outrider.saved_searches.store import SavedStore
from outrider.services import Services
from outrider.services.saved_queue import find_saved_store
from outrider.settings.model import SavedSettings, Settings, SystematicSettings
from outrider.settings.sections import SourcesSettings
from outrider.state.records import Identifiers, Paper, Record
from outrider.state.saved import RunDifference
from outrider.usecases.saved import add_saved, diff_runs, run_now
from support.fakes import NOON, Shelf, no_reranker
from support.systematic_runs import LibraryVersions, MemorySource

AUTHORS = ("Doe, Jane", "Roe, Richard")


def article(number: int, title: str = "", **fields: Any) -> Paper:
    """A paper that is like no other one."""
    words = ("kidney", "fever", "stroke", "asthma", "surgery", "migraine", "cancer", "diabetes", "pregnancy", "sleep")
    title = title or f"Aspirin and {words[number % 10]} in {('rats', 'children', 'nurses')[number % 3]}"
    defaults: dict[str, Any] = {
        "doc_id": f"p{number}",
        "title": title,
        "abstract": f"We studied {title.lower()} for {number + 2} years.",
        "authors": AUTHORS,
        "year": 2000 + number,
        "venue": "Annals of Tests",
        "identifiers": Identifiers(doi=f"10.1000/{number}"),
    }
    return Paper.model_validate(defaults | fields)


@dataclass
class SavedWorld:
    """One saved search at a time, its services, and a clock that a test moves."""

    folder: Path
    library: LibraryVersions = field(default_factory=lambda: LibraryVersions([]))
    world: dict[str, MemorySource] = field(default_factory=dict)
    shelves: tuple[Shelf, ...] = ()
    saved: Mapping[str, Any] = field(default_factory=dict)
    sources: Mapping[str, Any] = field(default_factory=dict)
    now: float = NOON

    @property
    def services(self) -> Services:
        values = {"uri": str(self.folder / "saved.sqlite"), **self.saved}
        settings = Settings(
            saved=SavedSettings.model_validate(values),
            systematic=SystematicSettings(folder=str(self.folder / "runs"), page=5),
            sources=SourcesSettings.model_validate(self.sources),
        )
        shelf = self.shelves[0] if self.shelves else None
        return Services(
            settings,
            clock=lambda: self.now,
            shelf=shelf,
            sources=self.shelves,
            reranker=no_reranker,
            pin=self.library,
            world=dict(self.world),
        )

    @property
    def store(self) -> SavedStore:
        return find_saved_store(self.services.settings)

    async def save(self, request: Mapping[str, Any], *, name: str = "alert", **options: Any) -> None:
        await add_saved(self.services, name, request, kind="search" if self.shelves else "systematic", **options)

    async def run(self, name: str = "alert") -> RunDifference | None:
        self.now += 3_600
        return (await run_now(self.services, name, pauses=(0.0,))).difference

    async def diff(self, before: int | None = None, after: int | None = None) -> RunDifference:
        return await diff_runs(self.services, "alert", before, after)


def list_changes(difference: RunDifference | None) -> list[tuple[str, str, str]]:
    assert difference is not None
    return [(work.change, work.doc_id, work.cause) for work in difference.works]


def replace_record(records: list[Record], number: int, **fields: Any) -> list[Record]:
    """The records, of which one has other fields."""
    return [one.model_copy(update=fields) if one.doc_id == f"p{number}" else one for one in records]
