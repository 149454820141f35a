"""The table of jobs: what is queued once, held by a pause, cancelled by a stop, and which errors a user sees."""

from __future__ import annotations

import asyncio
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pydantic import JsonValue

from outrider.jobs import worker
from outrider.jobs.job_table import JobTable
from outrider.jobs.worker import Worker
from outrider.state.errors import BadRequest, JobError, NoSuchJob, TargetPaused
from outrider.state.jobs import JobStatus, JobSteps


def states(table: JobTable) -> dict[str, JobStatus]:
    return {f"{job.kind} {job.request['n']}": job.status for job in table.list_jobs()}


def queue_two_of_each(table: JobTable, target: str = "liver") -> dict[str, str]:
    return {f"{kind} {n}": table.queue(kind, target, "/library", {"n": n}) for kind in ("citations", "fetch") for n in (1, 2)}  # type: ignore[arg-type]


def test_a_job_that_is_queued_again_stays_one_until_it_begins(table: JobTable) -> None:
    first = table.queue("citations", "liver", "/library", {"works": ["a", "b"]})
    assert table.queue("citations", "liver", "/library", {"works": ["a", "b"]}) == first
    others = {
        table.queue("fetch", "liver", "/library", {"works": ["a", "b"]}),
        table.queue("citations", "kidney", "/library", {"works": ["a", "b"]}),
        table.queue("citations", "liver", "/other", {"works": ["a", "b"]}),
        table.queue("citations", "liver", "/library", {"works": ["a"]}),
    }
    assert len({first, *others}) == 5
    assert table.start(first, 0) is not None
    assert table.queue("citations", "liver", "/library", {"works": ["a", "b"]}) != first
    job = table.get(first)
    assert (job.status, job.target, job.library, job.request) == ("running", "liver", "/library", {"works": ["a", "b"]})


def test_fetches_come_before_citations_and_older_jobs_before_newer_ones(table: JobTable) -> None:
    numbers = queue_two_of_each(table)
    order = [numbers[name] for name in ("fetch 1", "fetch 2", "citations 1", "citations 2")]
    assert [handover.id for handover in table.list_handovers()] == order


def test_a_pause_holds_queued_fetches_while_running_jobs_and_citations_complete(table: JobTable) -> None:
    numbers = queue_two_of_each(table)
    assert table.start(numbers["fetch 1"], 0)
    assert [job.id for job in table.pause("liver")] == [numbers["fetch 2"]]
    assert table.pause("liver"), "a second pause changes nothing"
    assert states(table) == {"citations 1": "queued", "citations 2": "queued", "fetch 1": "running", "fetch 2": "paused"}
    assert table.start(numbers["fetch 2"], 0) is None
    assert table.start(numbers["citations 1"], 0)
    assert table.finish(numbers["fetch 1"], "done", {})
    for kind in ("citations", "fetch"):
        with pytest.raises(TargetPaused, match="outrider jobs resume 'liver'"):
            table.queue(kind, "liver", "/library", {"n": 3})  # type: ignore[arg-type]
    table.queue("fetch", "kidney", "/library", {"n": 9})
    assert table.paused_targets() == ("liver",)
    assert [job.id for job in table.resume("liver")] == [numbers["fetch 2"]]
    assert table.paused_targets() == ()
    (handover,) = [one for one in table.list_handovers() if one.id == numbers["fetch 2"]]
    assert handover.workflow == f"{numbers['fetch 2']}.1", "another round: DBOS runs a workflow once"
    assert table.start(numbers["fetch 2"], 0) is None, "the round that the pause ended"
    assert table.start(numbers["fetch 2"], 1)


@pytest.mark.parametrize("scope", ["all_jobs", "target_queue_only"])
def test_a_stop_cancels_all_jobs_or_spares_those_of_citations(table: JobTable, scope: str) -> None:
    numbers = queue_two_of_each(table)
    table.queue("fetch", "kidney", "/library", {"n": 9})
    assert table.start(numbers["citations 1"], 0)
    assert table.start(numbers["fetch 1"], 0)
    cancelled = {job.id for job in table.stop("liver", scope)}  # type: ignore[arg-type]
    spared = {"citations 1": "running", "citations 2": "queued"} if scope == "target_queue_only" else {}
    assert cancelled == {number for name, number in numbers.items() if name not in spared}
    assert states(table) == {**dict.fromkeys(numbers, "cancelled"), **spared, "fetch 9": "queued"}
    assert set(table.list_cancelled(tuple(numbers.values()))) == cancelled
    assert not table.finish(numbers["fetch 1"], "done", {}), "a cancelled job stays cancelled"
    assert table.stop("liver", scope) == ()  # type: ignore[arg-type]


def test_one_job_is_stopped_by_its_number_and_held_ones_too(table: JobTable) -> None:
    numbers = queue_two_of_each(table)
    table.pause("liver")
    assert [job.status for job in table.stop(numbers["fetch 1"], "all_jobs")] == ["cancelled"]
    assert states(table) == {"citations 1": "queued", "citations 2": "queued", "fetch 1": "cancelled", "fetch 2": "paused"}


def test_an_unknown_target_or_number_is_a_clear_error(table: JobTable) -> None:
    table.queue("fetch", "liver", "/library", {})
    for change in (table.pause, table.resume, lambda name: table.stop(name, "all_jobs"), table.get):
        with pytest.raises(NoSuchJob, match=r"'lver'.*outrider jobs list"):
            change("lver")
    for target in ("", "a\nb", "x" * 201):
        with pytest.raises(BadRequest, match="1 to 200"):
            table.queue("fetch", target, "/library", {})


def test_ended_jobs_are_deleted_after_their_time_and_running_ones_never(table: JobTable) -> None:
    numbers = queue_two_of_each(table)
    assert table.start(numbers["fetch 1"], 0)
    assert table.start(numbers["fetch 2"], 0)
    assert table.finish(numbers["fetch 2"], "done", {"works": 3})
    assert table.get(numbers["fetch 2"]).result == {"works": 3}
    assert table.expire(1.0) == ()
    table.forget_unrun(1.0)
    assert len(states(table)) == 4
    table.forget_unrun(1e-12)
    assert states(table) == {"fetch 1": "running", "fetch 2": "done"}
    assert table.expire(1e-12) == (f"{numbers['fetch 2']}.0",)
    assert states(table) == {"fetch 1": "running"}


def test_fetches_that_wait_or_are_held_are_never_deleted(table: JobTable) -> None:
    """A person chose their works. A search queues `citations` jobs by itself."""
    queue_two_of_each(table)
    table.pause("liver")
    table.queue("fetch", "kidney", "/library", {"n": 9})
    table.forget_unrun(1e-12)
    assert states(table) == {"fetch 1": "paused", "fetch 2": "paused", "fetch 9": "queued"}
    table.queue("citations", "kidney", "/library", {"n": 9})
    assert table.expire(1e-12) == ()
    assert states(table) == {"fetch 1": "paused", "fetch 2": "paused", "fetch 9": "queued"}


def test_a_list_has_as_many_jobs_as_its_limit_after_those_of_other_owners_are_left_out(table: JobTable) -> None:
    for target in ("ann/a%_b", "liver", "bob", "other/liver", "bob/liver", "eve/liver"):
        table.queue("fetch", target, "/library", {"n": 1})
        table.queue("citations", target, "/library", {"n": 1})
    fetches = [job.target for job in table.list_jobs(limit=8, hidden=("bob", "eve")) if job.kind == "fetch"]
    assert fetches == ["other/liver", "bob", "liver", "ann/a%_b"]
    assert [job.target for job in table.list_jobs("bob/liver", "queued", hidden=("bob",))] == []
    assert len(table.list_jobs(limit=3)) == 3


def test_all_jobs_of_a_kind_are_listed_for_a_library_or_a_target(table: JobTable) -> None:
    queue_two_of_each(table)
    other = table.queue("citations", "kidney", "/other", {"n": 1})
    assert [job.id for job in table.list_of_kind("citations", library="/other")] == [other]
    assert {(job.kind, job.target) for job in table.list_of_kind("fetch", target="liver")} == {("fetch", "liver")}
    assert len(table.list_of_kind("citations")) == 3


def test_one_process_at_a_time_may_work_the_jobs(table: JobTable) -> None:
    table.create()
    assert not table.is_worked()
    claim = table.try_lock()
    assert claim
    assert table.is_worked()
    assert JobTable(table.uri).try_lock() is None
    claim.check()
    claim.release()
    assert not table.is_worked()


def test_servers_that_queue_the_same_at_once_queue_one_job(table: JobTable) -> None:
    table.create()
    with ThreadPoolExecutor(8) as pool:
        numbers = set(pool.map(lambda _: table.queue("saved", "liver", "/library", {"saved": "liver"}), range(24)))
    assert {job.id for job in table.list_jobs()} == numbers
    assert len(numbers) == 1


def test_a_claim_that_the_database_ended_is_lost_and_free_for_others(postgres: str) -> None:
    table = JobTable(postgres)
    claim = table.try_lock()
    assert claim
    _end_claims(table)
    with pytest.raises(JobError, match="cannot be read or written"):
        claim.check()
    claim.release()
    other = table.try_lock()
    assert other
    other.release()


async def test_a_worker_without_its_claim_ends_and_leaves_its_job_to_another(postgres: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "TICK_S", 0.05)
    table, begun, end = JobTable(postgres), asyncio.Event(), asyncio.Event()
    number = table.queue("fetch", "claimed", "/library", {})

    async def handle(_: dict[str, JsonValue], steps: JobSteps) -> dict[str, JsonValue]:
        begun.set()
        await end.wait()
        return {}

    first = asyncio.create_task(Worker(table, lambda _: {"fetch": handle}).run())
    async with asyncio.timeout(60):
        await begun.wait()
        await asyncio.to_thread(_end_claims, table)
        with pytest.raises(JobError):
            await first
    assert table.get(number).status == "running"
    end.set()
    await Worker(table, lambda _: {"fetch": handle}).run()
    assert (table.get(number).status, table.get(number).attempts) == ("done", 2)


def _end_claims(table: JobTable) -> None:
    """As a restart of the database does."""
    with table._connect() as connection:
        connection.execute("SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND pid <> pg_backend_pid()")


def test_reading_creates_no_file(tmp_path: Path) -> None:
    table = JobTable(str(tmp_path / "none" / "jobs.sqlite"))
    assert (table.list_jobs(), table.count_open(), table.paused_targets(), table.is_worked()) == ((), 0, (), False)
    with pytest.raises(NoSuchJob):
        table.get("x")
    assert not table.exists


def test_a_damaged_file_and_a_wrong_address_are_errors_without_the_password(tmp_path: Path) -> None:
    damaged = tmp_path / "jobs.sqlite"
    damaged.write_bytes(b"SQLite format 3\0" + b"no database" * 1_000)
    for uri, message in (
        (str(damaged), "not a database.*jobs.uri"),
        (str(tmp_path), "jobs.uri"),
        ("/dev/null/x", "jobs.uri"),
        ("mysql://me:s3cret@host/x", "postgresql"),
        ("postgresql://me:s3cret@127.0.0.1:1/x", "refused"),
    ):
        with pytest.raises(JobError, match=message) as raised:
            JobTable(uri).queue("fetch", "liver", "/library", {})
        assert "s3cret" not in str(raised.value)


def test_the_file_is_readable_by_its_owner_alone(tmp_path: Path) -> None:
    table = JobTable(str(tmp_path / "jobs.sqlite"))
    table.queue("fetch", "liver", "/library", {})
    assert (tmp_path / "jobs.sqlite").stat().st_mode & 0o077 == 0
    with sqlite3.connect(table.uri) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
