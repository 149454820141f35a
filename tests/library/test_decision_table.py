"""What was decided about works is remembered beside the records, which no decision changes."""

from __future__ import annotations

from outrider.library.library import Library
from outrider.state.decisions import Decision, Decisions
from support.fakes import doi, paper

FIRST = Decision(what="merge", ids=("a", "b"), by="ann", at="2026-01-02T00:00:00+00:00")
THEN = Decision(what="split", ids=("a",), by="ben", at="2026-01-02T00:00:00+00:00", why="other cohort")


async def test_decisions_are_kept_in_their_order(library: Library) -> None:
    assert await library.decisions() == ()
    await library.decide(FIRST, THEN)
    await library.decide(FIRST)
    assert await library.decisions() == (FIRST, THEN, FIRST)
    assert Decisions.of(await library.decisions()).same == {("a", "b"): "merged by ann on 2026-01-02"}


async def test_no_record_changes(library: Library) -> None:
    records = [paper("a", "Aspirin", identifiers=doi("10.1000/x"), abstract="Long."), paper("b", "Statins")]
    await library.upsert(records)
    before = await library.content_hashes(["a", "b"])
    await library.decide(FIRST)
    await library.decide(THEN)
    assert await library.content_hashes(["a", "b"]) == before
    assert await library.fetch(["a", "b"]) == records
    assert await library.check() == ()
