"""Saved searches of several servers in one Postgres database: as in a file, and each schedule runs once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from outrider.jobs.job_table import JobTable
from outrider.saved_searches import database
from outrider.saved_searches.store import SavedStore
from outrider.services.saved_queue import find_saved_store, queue_due_searches
from outrider.settings.model import JobSettings, SavedSettings, Settings, SharedSettings, ThreadSettings
from outrider.settings.sections import SourcesSettings
from outrider.state.errors import BadRequest, NoSuchSaved, SavedBusy, SavedError
from outrider.state.saved import SavedSearch
from outrider.usecases.saved import list_saved, remove_saved
from support.postgres import postgres
from support.saved_searches import SavedWorld, article, list_changes
from support.systematic_runs import LibraryVersions

__all__ = ["postgres"]
pytestmark = [pytest.mark.slow, pytest.mark.blocking]
PROTOCOL = {"query": "aspirin[ti]", "sources": ["library"]}
DAY_S = 86_400.0
LONG_AGO = 1.7e9


@pytest.fixture
def uri(postgres: str) -> Iterator[str]:
    """An empty database, as to this process."""
    import psycopg

    JobTable(postgres).create()
    with psycopg.connect(postgres) as connection:
        connection.execute(f"DROP SCHEMA IF EXISTS {database.SCHEMA} CASCADE")
        connection.execute("DELETE FROM outrider_jobs")
    database._created.clear()
    yield postgres
    database._created.clear()


async def test_runs_in_postgres_are_compared_kept_and_deleted_as_in_a_file(uri: str, tmp_path: Path) -> None:
    found = []
    for place in (uri, str(tmp_path / "saved.sqlite")):
        world = SavedWorld(tmp_path, LibraryVersions([article(number) for number in range(4)]), saved={"uri": place, "keep_runs": 2})
        await world.save(PROTOCOL)
        await world.run()
        world.library.records = [*world.library.records[1:], article(9, title="Aspirin\0 and a zero byte")]
        first = list_changes(await world.run())
        await world.save(PROTOCOL, replace=True)
        second = list_changes(await world.run())
        saved = world.store.get("alert")
        kept = [run.number for run in world.store.runs(saved)], len(world.store._query("SELECT content FROM records"))
        with pytest.raises(BadRequest, match="already"):
            await world.save(PROTOCOL)
        with world.store.claim(saved), pytest.raises(SavedBusy, match="is being run"):
            await world.run()
        removed = await remove_saved(world.services, "alert")
        left = world.store._query("SELECT content FROM records"), await list_saved(world.services)
        with pytest.raises(NoSuchSaved):
            world.store.get("alert")
        found.append((first, second, kept, removed, left))
    assert found[0] == found[1]
    assert found[0][0] == [("new", "p9", "new in source"), ("gone", "p0", "gone from source")]


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_servers_that_see_a_search_due_at_once_queue_it_once_a_day(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    settings = make_settings(request.getfixturevalue("uri") if kind == "postgres" else "", tmp_path)
    store = find_saved_store(settings)
    store.add(SavedSearch(id="ab" * 16, name="liver", kind="search", request={"query": "x"}, schedule="daily", created_at=LONG_AGO))

    def count(now: float) -> int:
        with ThreadPoolExecutor(8) as servers:
            return sum(servers.map(lambda _: queue_due_searches(settings, now), range(8)))

    assert [count(LONG_AGO + day * DAY_S) for day in (0, 2, 2.1, 3.5)] == [0, 1, 0, 1]
    table = JobTable(settings.jobs.uri)
    assert len(table.list_jobs()) == 1, "it waits still, and is not queued a second time"


def test_a_claim_is_free_as_soon_as_it_is_given_up(uri: str) -> None:
    store = SavedStore(uri)
    saved = SavedSearch(id="cd" * 16, name="claimed", kind="search", request={"query": "x"}, created_at=LONG_AGO)
    for _ in range(100):
        with store.claim(saved):
            pass


def test_a_server_that_dies_while_it_queues_leaves_the_run_to_another(uri: str, tmp_path: Path) -> None:
    store = SavedStore(uri)
    saved = SavedSearch(id="ab" * 16, name="liver", kind="search", request={"query": "x"}, schedule="daily", created_at=LONG_AGO)
    store.add(saved)

    def die() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store.queue(saved, LONG_AGO + DAY_S, lambda *_: True, die)
    assert store.get("liver").queued_at is None
    assert queue_due_searches(make_settings(uri, tmp_path), LONG_AGO + 2 * DAY_S) == 1


def make_settings(uri: str, folder: Path) -> Settings:
    if uri:
        threads, shared = ThreadSettings(uri=uri), SharedSettings(redis_url="redis://localhost")
        return Settings(threads=threads, jobs=JobSettings(uri=uri), shared=shared)
    return Settings(saved=SavedSettings(uri=str(folder / "saved.sqlite")), jobs=JobSettings(uri=str(folder / "jobs.sqlite")))


def test_several_servers_share_the_database_of_their_jobs_by_default(tmp_path: Path) -> None:
    shared = make_settings("postgresql://me:s3cret@localhost/x", tmp_path)
    assert find_saved_store(shared).path == "postgresql://me:s3cret@localhost/x"
    one_server = shared.model_copy(update={"shared": SharedSettings()})
    assert isinstance(find_saved_store(one_server).path, Path), "as before, so that nobody loses what was saved"


@pytest.mark.parametrize(
    ("uri", "error", "message"),
    [
        ("redis://me:s3cret@host/1", BadRequest, "takes a file or an address"),
        ("postgresql://me:s3cret@host.example/x", SavedError, "use a file"),
    ],
)
def test_another_address_is_refused_without_its_password(uri: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message) as refused:
        find_saved_store(Settings(saved=SavedSettings(uri=uri), sources=SourcesSettings(offline=True)))
    assert "s3cret" not in str(refused.value)


async def test_a_database_that_does_not_answer_is_an_error_without_its_password() -> None:
    store = SavedStore("postgresql://me:s3cret@127.0.0.1:1/x")
    with pytest.raises(SavedError, match="cannot be read or written") as refused:
        await asyncio.to_thread(store.list_searches)
    assert "s3cret" not in str(refused.value)
