"""Jobs from a search to their end: what is queued after it, for which library they run, and what Python offers."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pydantic import JsonValue

from outrider.graph.pipeline import build
from outrider.jobs.job_table import JobTable
from outrider.services import Services
from outrider.services.citation_queue import OWNER, THREAD, find_job_table
from outrider.settings.model import CitationSettings, JobSettings, LibrarySettings, Settings, ThreadSettings
from outrider.settings.sections import SourcesSettings
from outrider.state.errors import JobError, TargetPaused
from outrider.state.jobs import Job, JobHandler, JobKind, JobSteps
from outrider.usecases.jobs import list_jobs, pause_target, queue_job, run_jobs
from support.fakes import Shelf, no_reranker, paper
from support.http_app import ASPIRIN


def make_services(folder: Path, after_search: str = "on", *, offline: bool = False) -> Services:
    """Services whose sources are replaced after they are made: they queue as those of the settings do."""
    shelf = Shelf([ASPIRIN, paper("b", "Aspirin and the heart")])
    settings = Settings(
        jobs=JobSettings(uri=str(folder / "jobs.sqlite")),
        library=LibrarySettings(uri=str(folder / "library")),
        citations=CitationSettings(after_search=after_search),  # type: ignore[arg-type]
        sources=SourcesSettings(offline=offline),
    )
    services = Services(settings, reranker=no_reranker)
    services.shelf, services._sources, services.keeper, services._loads_models = shelf, (shelf,), None, False
    return services


async def search(services: Services, query: str = "aspirin liver", **config: Any) -> None:
    await build(services).ainvoke({"query": query}, {"configurable": config})
    await asyncio.to_thread(join_threads)


def join_threads() -> None:
    for thread in threading.enumerate():
        if thread.name == THREAD:
            thread.join()


def read_jobs(folder: Path) -> tuple[Job, ...]:
    return JobTable(str(folder / "jobs.sqlite")).list_jobs()


async def test_a_search_queues_one_citation_job_for_its_works(tmp_path: Path) -> None:
    services = make_services(tmp_path)
    await search(services)
    await search(services)
    owner = OWNER.set("ann")
    await search(services, "aspirin\nheart")
    OWNER.reset(owner)
    await search(services, thread_id="ann/liver")
    jobs = await asyncio.to_thread(read_jobs, tmp_path)
    assert [(job.kind, job.target, job.status) for job in jobs[::-1]] == [
        ("citations", "aspirin liver", "queued"),
        ("citations", "ann/aspirin heart", "queued"),
        ("citations", "ann/liver", "queued"),
    ]
    assert jobs[-1].request == {"targets": [ASPIRIN.doc_id, "b"]}
    assert jobs[-1].library == str(tmp_path / "library")


@pytest.mark.parametrize(("after_search", "offline"), [("off", False), ("on", True)])
async def test_nothing_is_queued_offline_or_where_the_settings_say_so(tmp_path: Path, after_search: str, offline: bool) -> None:
    await search(make_services(tmp_path, after_search, offline=offline))
    assert not (tmp_path / "jobs.sqlite").exists()


async def test_a_search_of_a_paused_target_has_its_answer_and_queues_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    services = make_services(tmp_path)
    await search(services)
    await pause_target(services, "aspirin liver")
    with pytest.raises(TargetPaused):
        await queue_job(services, "citations", "aspirin liver", {})
    await search(services)
    assert len((await list_jobs(services)).jobs) == 1
    assert not caplog.records


async def test_a_file_that_cannot_be_written_costs_a_search_nothing_but_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    services = make_services(tmp_path)
    await asyncio.to_thread((tmp_path / "jobs.sqlite").write_bytes, b"no database" * 1_000)
    await search(services)
    assert "citations of this search will not be read" in caplog.text


@pytest.mark.blocking  # DBOS blocks the loop on which it is launched
async def test_a_job_runs_over_the_library_that_it_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    services = make_services(tmp_path)
    monkeypatch.setenv("OUTRIDER_CONFIG", "")
    await queue_job(services, "fetch", "liver", {})
    await asyncio.to_thread(find_job_table(services.settings).queue, "fetch", "liver", str(tmp_path / "other"), {})
    libraries: list[str] = []

    def make_handlers(of_library: Services) -> Mapping[JobKind, JobHandler]:
        async def fetch(_: dict[str, JsonValue], __: JobSteps) -> dict[str, JsonValue]:
            libraries.append(of_library.settings.library.uri)
            return {}

        return {"fetch": fetch}

    assert await run_jobs(services, make_handlers=make_handlers) == 2
    assert sorted(libraries) == [str(tmp_path / "library"), str(tmp_path / "other")]


def test_jobs_are_beside_the_threads_unless_the_settings_say_where(tmp_path: Path) -> None:
    threads = ThreadSettings(uri=str(tmp_path / "threads.sqlite"))
    assert find_job_table(Settings(threads=threads)).uri == str(tmp_path / "jobs.sqlite")
    database = ThreadSettings(uri="postgresql://me@host/x")
    assert find_job_table(Settings(threads=database)).uri == "postgresql://me@host/x"
    own = JobSettings(uri=str(tmp_path / "own"))
    assert find_job_table(Settings(threads=database, jobs=own)).uri == str(tmp_path / "own")
    remote = Settings(jobs=JobSettings(uri="postgresql://me:s3cret@host.example/x"), sources=SourcesSettings(offline=True))
    with pytest.raises(JobError, match="use a file") as raised:
        find_job_table(remote)
    assert "s3cret" not in str(raised.value)
