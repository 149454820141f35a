"""Metadata tables: decisions and rerank evaluations are read back, and no record changes."""

from __future__ import annotations

import asyncio
import shutil
from contextvars import Context
from pathlib import Path
from typing import Any

import pytest

from outrider.library import record_table
from outrider.library.library import Library
from outrider.library.metadata_tables import RerankEvaluationTable
from outrider.runtime.run_reads import share_reads
from outrider.state.citations import CitationLink
from outrider.state.duplicate_decisions import Decision, Decisions
from outrider.state.errors import LibraryMissing
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


async def test_a_run_looks_once_when_the_tables_were_written(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread for each read of each table takes a part of a warm search's time that can be measured."""
    looked: list[Path] = []
    read_times = record_table.read_times
    monkeypatch.setattr(record_table, "read_times", lambda folder: looked.append(folder) or read_times(folder))
    with share_reads({}):
        await library.count()
        for _ in range(2):
            await library.decisions()
            await library.verdicts()
            await library.edges("kind = 'author'")
    assert len(looked) == 1


async def make_library(folder: Path, name: str, **tables: bool) -> None:
    """One whose records, and other tables as far as asked for, name `name`."""
    made = await Library.open(folder, create=True)
    await made.upsert([paper(name, f"red {name}", authors=("Fox, Ann",))])
    if tables.get("decisions"):
        await made.decide(FIRST.model_copy(update={"by": name}))
    if tables.get("verdicts"):
        await made.remember_verdicts([verdict(name, "2026-01-01T00:00:00+00:00")])
    if tables.get("labels"):
        await made.label([name], [name])
    if tables.get("citations"):
        works = (paper("x", "Cited", identifiers=doi("10.1000/x")), paper("y", "Citing", identifiers=doi(f"10.1000/{name}")))
        await made.citations.add(
            works, [CitationLink(citing=f"doi:10.1000/{name}", cited="doi:10.1000/x", source="openalex", date="2026-01-01")]
        )
    made.close()


async def read_all(library: Library) -> dict[str, list[str]]:
    return {
        "records": [record.doc_id for record in await library.brief(["old", "new"])],
        "edges": [row[0] for row in await library.edges("kind = 'author'")],
        "decisions": [decision.by for decision in await library.decisions()],
        "verdicts": [one.reranker for one in await library.verdicts()],
        "labels": [*await library.labels()],
        "citations": sorted(await library.citations.find_keys(["doi:10.1000/old", "doi:10.1000/new"])),
        "code": [*await library.code_links.read_own_names()],
    }


@pytest.mark.parametrize("tables", [True, False])
async def test_a_library_deleted_and_created_anew_under_a_handle_is_read_whole(tmp_path: Path, tables: bool) -> None:
    """Its tables have the numbers of versions that the old ones had, or are not there."""
    everything = dict.fromkeys(("decisions", "verdicts", "labels", "citations"), True)
    await make_library(tmp_path / "l", "old", **everything)
    library = await Library.open(tmp_path / "l")
    before = await read_all(library)
    assert all(before[name] for name in ("records", "edges", *everything))
    shutil.rmtree(tmp_path / "l")
    with pytest.raises(LibraryMissing):
        await library.decisions()
    await make_library(tmp_path / "l", "new", **dict.fromkeys(everything, tables))
    fresh = await Library.open(tmp_path / "l")
    assert await read_all(library) == await read_all(fresh)
    assert "old" not in str(await read_all(library))
    await library.decide(THEN)
    assert await library.decisions() == await fresh.decisions()
    library.close()
    fresh.close()


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
