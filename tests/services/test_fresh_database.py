"""Several processes that open a fresh Postgres database at once."""

from __future__ import annotations

import asyncio
import uuid
from contextlib import AsyncExitStack

import pytest

from outrider.jobs.job_table import JobTable
from outrider.services.checkpoints import open_store
from outrider.settings.model import ThreadSettings
from support.postgres import postgres

__all__ = ["postgres"]
pytestmark = pytest.mark.slow
AT_ONCE = 6


@pytest.fixture
def fresh(postgres: str) -> str:
    """The address of a database that nothing has opened yet."""
    import psycopg

    name = f"fresh_{uuid.uuid4().hex[:8]}"
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return postgres.rsplit("/", 1)[0] + f"/{name}"


async def test_threads_are_set_up_once(fresh: str) -> None:
    async with AsyncExitStack() as stack:
        stores = await asyncio.gather(
            *(stack.enter_async_context(open_store(ThreadSettings(uri=fresh), lease_s=1.0)) for _ in range(AT_ONCE)), return_exceptions=True
        )
        assert [store for store in stores if isinstance(store, BaseException)] == []


async def test_jobs_are_set_up_once(fresh: str) -> None:
    def queue(number: int) -> str:
        # its path makes it another database to the memory of this process, as of another one
        return JobTable(f"{fresh}?application_name=p{number}").queue("citations", f"t{number}", "", {})

    numbers = await asyncio.gather(*(asyncio.to_thread(queue, number) for number in range(AT_ONCE)))
    assert {job.id for job in JobTable(fresh).list_jobs()} == set(numbers)
