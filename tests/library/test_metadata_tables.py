"""Metadata tables: decisions and rerank evaluations are read back, and no record changes."""

from __future__ import annotations

import asyncio
from contextvars import Context
from pathlib import Path
from typing import Any

from outrider.library.library import Library
from outrider.library.metadata_tables import RerankEvaluationTable
from outrider.runtime.run_reads import share_reads
from outrider.state.duplicate_decisions import Decision, Decisions
from outrider.state.reranking import Verdict
from support.fakes import doi, paper

FIRST = Decision(what="merge", ids=("a", "b"), by="ann", at="2026-01-02T00:00:00+00:00")
THEN = Decision(what="split", ids=("a",), by="ben", at="2026-01-02T00:00:00+00:00", why="other cohort")


async def test_decisions_keep_their_order(library: Library) -> None:
    assert await library.decisions() == ()
    await library.decide(FIRST, THEN)
    await library.decide(FIRST)
    assert await library.decisions() == (FIRST, THEN, FIRST)
    assert Decisions.from_log(await library.decisions()).same == {("a", "b"): "merged by ann on 2026-01-02"}


async def test_no_record_changes(library: Library) -> None:
    records = [paper("a", "Aspirin", identifiers=doi("10.1000/x"), abstract="Long."), paper("b", "Statins")]
    await library.upsert(records)
    before = await library.content_hashes(["a", "b"])
    await library.decide(FIRST)
    await library.decide(THEN)
    assert await library.content_hashes(["a", "b"]) == before
    assert await library.fetch(["a", "b"]) == records
    assert await library.check() == ()


async def test_the_next_run_sees_what_another_process_wrote(library: Library, tmp_path: Path) -> None:
    """Tables that were absent, and new rows of known tables, records and counts; within a run, all stay as they were."""
    await library.upsert([paper("a", "Aspirin")])
    other = await Library.open(tmp_path / "library")
    for number, decisions in ((1, ()), (2, (FIRST,)), (3, (FIRST, THEN))):
        with share_reads({}):
            for _ in range(2):
                assert await library.decisions() == decisions
                assert (await library.size(), await library.edges_version() > 0) == (number, True)
                await asyncio.create_task(other.upsert([paper(f"b{number}", "Statins")]), context=Context())
        await other.decide(FIRST if number == 1 else THEN)
    snapshot = await library.snapshot()
    with share_reads({}):
        assert await library.snapshot() == snapshot
        await library.decide(THEN)
        assert await library.decisions() == (FIRST, THEN, THEN, THEN)  # also in the run that wrote
    other.close()


# Rerank evaluations


def verdict(reranker: str, judged_at: str, **fields: Any) -> Verdict:
    defaults = {"effect": "unclear", "before": 0.5, "after": 0.6, "p": 0.2, "queries": 100, "depth": 50, "weight": 0.5, "seed": 0}
    return Verdict.model_validate({**defaults, "snapshot": "x@1", "why": "why", "reranker": reranker, "judged_at": judged_at, **fields})


async def test_verdicts_come_back_newest_first_and_of_one_evaluation_the_chosen_one(library: Library, tmp_path: Path) -> None:
    assert await library.verdicts() == ()
    old = verdict("a", "2026-01-01T00:00:00+00:00", chosen=True, effect="better")
    new = [verdict("a", "2026-09-21T12:00:00+00:00"), verdict("z", "2026-09-21T12:00:00+00:00", chosen=True, effect="better")]
    await library.remember_verdicts([old])
    await library.remember_verdicts(new)
    await library.remember_verdicts([])
    again = await Library.open(tmp_path / "library")
    assert await again.verdicts() == (new[1], new[0], old)
    again.close()


async def test_verdicts_change_neither_snapshot_nor_soundness(library: Library) -> None:
    before = await library.snapshot()
    await library.remember_verdicts([verdict("a", "2026-01-01T00:00:00+00:00")])
    assert await library.snapshot() == before
    assert await library.check() == ()


async def test_a_verdict_of_a_format_without_revision_is_read_and_names_no_weights(library: Library, tmp_path: Path) -> None:
    stored = verdict("a", "2026-01-01T00:00:00+00:00", revision="1")
    await library.remember_verdicts([stored])
    import lancedb

    connection = await lancedb.connect_async(tmp_path / "library")
    table = await connection.open_table(RerankEvaluationTable.name)
    await table.update({"verdict": stored.model_dump_json(exclude={"revision"})})
    connection.close()
    again = await Library.open(tmp_path / "library")
    assert [one.revision for one in await again.verdicts()] == [""]
    again.close()
