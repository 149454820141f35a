from __future__ import annotations

from pathlib import Path

import pytest

from outrider.jobs.job_table import JobTable
from support.postgres import postgres

__all__ = ["postgres"]


@pytest.fixture(params=["sqlite", "postgres"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> JobTable:
    """An empty table, in a file or in a database."""
    if request.param == "sqlite":
        return JobTable(str(tmp_path / "jobs.sqlite"))
    jobs = JobTable(request.getfixturevalue("postgres"))
    jobs.create()
    with jobs._connect() as connection:
        connection.execute("DELETE FROM outrider_jobs")
        connection.execute("DELETE FROM outrider_paused_targets")
    return jobs
