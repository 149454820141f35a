"""A ranked search over real services on loopback, whose answers change between the runs in known ways."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from outrider.library.library import Library
from outrider.services import Services
from outrider.settings.model import EnrichSettings, LibrarySettings, SavedSettings
from outrider.usecases.saved import add_saved, run_now
from support import fake_services
from support.fakes import no_reranker
from support.http_server import Answer, Request, as_json, serving
from support.saved_searches import article, list_changes


def make_work(number: int, **fields: Any) -> dict[str, Any]:
    """A work as OpenAlex has it."""
    subjects = ("kidneys", "children", "nurses", "stroke", "asthma", "sleep", "cancer", "vision")
    return {
        "id": f"https://openalex.org/W{number}",
        "title": f"Liver injury by drugs and {subjects[number % 8]}",
        "doi": f"https://doi.org/10.1000/oa{number}",
        "publication_year": 2010 + number,
        "authorships": [{"author": {"display_name": f"Author {number}"}}],
        "cited_by_count": 3,
    } | fields


@dataclass
class Counterpart:
    """OpenAlex and Crossref, each with what a test gives them."""

    works: dict[int, dict[str, Any]] = field(default_factory=lambda: {number: make_work(number) for number in range(1, 6)})
    is_down: bool = False
    crossref: tuple[int, ...] = (1,)

    def __call__(self, request: Request) -> Answer:
        if request.path.startswith("/openalex"):
            if self.is_down:
                return Answer(b"no JSON")
            works = list(self.works.values())
            return as_json({"meta": {"count": len(works), "page": 1, "per_page": 100}, "results": works})
        items = [{"DOI": f"10.1000/cr{number}", "title": [f"Liver injury by drugs in mice {number}"]} for number in self.crossref]
        return as_json({"status": "ok", "message-type": "work-list", "message": {"total-results": len(items), "items": items}})


@pytest.mark.slow
@pytest.mark.blocking  # opens a library
async def test_every_cause_is_named(tmp_path: Path) -> None:
    library = await Library.open(tmp_path / "library", create=True)
    await library.upsert([article(1, "Liver injury by drugs in my own notes")])
    counterpart = Counterpart()
    with serving(counterpart) as server:
        base = fake_services.settings(server.base_url, tmp_path / "cache", timeout_s=5.0)
        off = {
            name: getattr(base.sources, name).model_copy(update={"enabled": name in ("openalex", "crossref")})
            for name in fake_services.SERVICES
        }
        settings = base.model_copy(
            update={
                "library": LibrarySettings(uri=str(tmp_path / "library")),
                "saved": SavedSettings(uri=str(tmp_path / "saved.sqlite")),
                "sources": base.sources.model_copy(update=off),
                "enrich": EnrichSettings(lookups=0, pages=0),
                "cache": base.cache.model_copy(update={"fresh_s": 3_600.0}),
            }
        )
        services = Services(settings, reranker=no_reranker)
        await add_saved(services, "alert", {"query": "liver injury by drugs", "top_k": 100, "distill_enabled": False})

        async def run() -> list[tuple[str, str, str]]:
            difference = (await run_now(services, "alert")).difference
            return [] if difference is None else list_changes(difference)

        await run()
        assert await run() == [], "the same answers, and nothing of the first run in the library"
        assert await library.count() == 1
        table = [
            ("a new work", {6: make_work(6)}, [("new", "openalex:W6", "new in source")]),
            (
                "a changed title",
                {2: make_work(2, title="Liver injury by drugs and nurses, revised")},
                [("changed", "openalex:W2", "record changed")],
            ),
            ("more citations", {3: make_work(3, cited_by_count=90)}, []),
            ("a retraction", {4: make_work(4, is_retracted=True)}, [("changed", "openalex:W4", "retracted")]),
            ("a work that the service drops", {5: None}, [("gone", "openalex:W5", "gone from source")]),
        ]
        for case, works, expected in table:
            counterpart.works = {number: work for number, work in (counterpart.works | works).items() if work is not None}  # type: ignore[operator]
            assert await run() == expected, case
        counterpart.is_down = True
        missing = await run()
        assert {(change, cause) for change, _, cause in missing} == {("missing", "source failed")}
        assert len(missing) == 5, "W1 to W4 and W6"
        counterpart.is_down = False
        counterpart.works[7] = make_work(7)
        assert await run() == [("new", "openalex:W7", "new in source")], "what came while it was down"
        await library.upsert([article(9, "Liver injury by drugs, seen again")])
        assert await run() == [("new", "p9", "new in source")]
        services.close()
        library.close()
