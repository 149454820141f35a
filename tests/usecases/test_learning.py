"""Learning from use through the graph: off by default, proven before it is used, explained, bounded and reset."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import outrider
from outrider.learning.preferences import NEEDED
from outrider.library.library import Library
from outrider.services import Services
from outrider.settings.model import LearningSettings, LibrarySettings, Settings
from outrider.settings.sections import SourcesSettings
from outrider.state.citations import CitationCandidate
from outrider.state.errors import BadRequest
from outrider.state.learning import MAX_BOOST
from outrider.usecases.learning import (
    clear_history,
    complete_query,
    record_decisions,
    record_feedback,
    remember_query,
    reset_learning,
    show_learning,
)
from support.fakes import Shelf, no_reranker, paper

WORDS = ("rats", "mice", "nurses", "children", "fever", "sleep", "stroke", "asthma", "cancer", "vision", "migraine", "surgery")


def make_services(folder: Path, *, enabled: bool = True, **learning: Any) -> Services:
    records = [
        paper(f"{word}{number}", f"Aspirin and {word}, study {number}", venue="Hepatology" if number == 3 else f"Journal {number}")
        for word in WORDS
        for number in range(5)
    ]
    shelf = Shelf(records)
    settings = Settings(learning=LearningSettings(enabled=enabled, file=str(folder / "learning.sqlite"), **learning))
    return Services(settings, shelf=shelf, sources=(shelf,), reranker=no_reranker)


async def keep_venue(services: Services, words: tuple[str, ...]) -> None:
    """In each search, keep the work of one venue, which stands fourth among equals."""
    for word in words:
        answer = await outrider.asearch(f"aspirin {word}", services=services, top_k=5)
        await record_feedback(services, word, answer, f"{word}3", "keep")


async def test_what_was_kept_orders_later_hits_once_it_is_proven(tmp_path: Path) -> None:
    services = make_services(tmp_path)
    first = await outrider.asearch("aspirin surgery", services=services, top_k=5)
    assert first.hits[0].doc_id != "surgery3"
    assert [row.why for row in first.bypassed if row.step == "learning"] == [
        f"it needs {NEEDED} searches in which works were kept or opened, and has 0"
    ]
    await keep_venue(services, WORDS[:11])
    answer = await outrider.asearch("aspirin surgery", services=services, top_k=5)
    hit = next(one for one in answer.hits if one.doc_id == "surgery3")
    before = next(one for one in first.hits if one.doc_id == "surgery3")
    assert hit.rank < before.rank
    assert hit.learned == "raised by what you kept and dropped before (venue hepatology)"
    assert 0 < hit.scores["learned"] <= MAX_BOOST
    assert hit.score == pytest.approx(before.score + hit.scores["learned"])
    assert answer.provenance_hash != first.provenance_hash
    status = await show_learning(services)
    assert (status.used, status.searches, status.weights[0].feature) == (True, 11, "venue hepatology")
    assert await reset_learning(services) == 11
    again = await outrider.asearch("aspirin surgery", services=services, top_k=5)
    assert [one.doc_id for one in again.hits] == [one.doc_id for one in first.hits]
    assert again.provenance_hash == first.provenance_hash


async def test_it_is_off_by_default_and_then_records_nothing(tmp_path: Path) -> None:
    services = make_services(tmp_path, enabled=False)
    answer = await outrider.asearch("aspirin rats", services=services)
    assert not [row for row in answer.bypassed if row.step == "learning"]
    with pytest.raises(BadRequest, match=r"learning\.enabled"):
        await record_feedback(services, "1", answer, answer.hits[0].doc_id, "keep")
    await remember_query(services, "aspirin rats")
    assert await complete_query(services, "asp") == ()
    assert not Settings().learning.enabled
    assert (await show_learning(services)).searches == 0


@pytest.mark.blocking  # looks at the file
async def test_the_history_can_be_switched_off_and_cleared(tmp_path: Path) -> None:
    services = make_services(tmp_path)
    await remember_query(services, "aspirin rats")
    assert [(one.text, one.source) for one in await complete_query(services, "ASP")] == [("aspirin rats", "history")]
    assert await clear_history(services) == 1
    assert await complete_query(services, "asp") == ()
    silent = make_services(tmp_path / "silent", history=False)
    await remember_query(silent, "aspirin rats")
    assert not (tmp_path / "silent" / "learning.sqlite").exists()


async def test_decisions_of_a_chase_are_feedback(tmp_path: Path) -> None:
    services = make_services(tmp_path)
    candidates = [CitationCandidate(key=f"k{number}", venue="Hepatology" if number < 2 else "Other", score=9.0) for number in range(40)]
    await record_decisions(services, "label:otters", 1, candidates, {"k0": "keep", "k35": "drop"})
    await record_decisions(services, "label:otters", 2, candidates, {})
    await record_decisions(make_services(tmp_path, enabled=False), "label:off", 1, candidates, {"k0": "keep"})
    status = await show_learning(services)
    assert status.searches == 1
    await record_decisions(services, "label:frogs", 1, candidates, {"k1": "keep", "k3": "drop"})
    weights = {one.feature: one.weight for one in (await show_learning(services)).weights}
    assert weights["venue hepatology"] > 0 > weights["venue other"]


async def test_a_work_that_is_no_hit_is_refused(tmp_path: Path) -> None:
    services = make_services(tmp_path)
    answer = await outrider.asearch("aspirin rats", services=services)
    with pytest.raises(BadRequest, match="no hit of this search"):
        await record_feedback(services, "1", answer, "nowhere", "keep")


@pytest.mark.blocking  # opens a library
async def test_words_of_the_library_complete_the_last_word(tmp_path: Path) -> None:
    library = await Library.open(tmp_path / "library", create=True)
    await library.upsert(
        [
            paper(str(number), f"Study {number}", tags=("Hepatotoxicity", "Liver injury") if number else ("Liver injury",))
            for number in range(3)
        ]
    )
    library.close()
    settings = Settings(library=LibrarySettings(uri=str(tmp_path / "library")), sources=SourcesSettings(offline=True))
    services = Services(settings, reranker=no_reranker)
    assert [one.text for one in await complete_query(services, "aspirin liv")] == ["aspirin liver injury"]
    assert [(one.text, one.source) for one in await complete_query(services, "HEP")] == [("hepatotoxicity", "library")]
    for odd in ("", "a", "x'; DROP", "100%", "\ud800\ud800", "nothing-like-this"):
        assert await complete_query(services, odd) == ()
    services.close()
