"""A run that is killed at any point: nothing of before is lost, and the next run is compared with the last complete one."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from outrider.usecases.saved import run_now
from support import kill_saved_run
from support.saved_searches import list_changes

TESTS = Path(__file__).parents[1]
CASES = ("1", "2", "3", "5", "store", "commit")


@pytest.mark.slow
def test_a_killed_run_loses_nothing(tmp_path: Path) -> None:
    first = tmp_path / "first"
    world = kill_saved_run.make_world(first)
    world.library.records = world.library.records[:-1]

    async def prepare() -> None:
        await world.save({"query": "aspirin[ti]", "sources": ["library"]})
        await world.run()

    asyncio.run(prepare())
    for case in CASES:
        shutil.copytree(first, tmp_path / case)
    asked = "".join(json.dumps({"folder": str(tmp_path / case), "at": case}) + "\n" for case in CASES)
    environ = {**os.environ, "PYTHONPATH": f"{TESTS.parent / 'src'}:{TESTS}"}
    command = [sys.executable, "-m", "support.kill_saved_run"]
    ended = subprocess.run(command, env=environ, input=asked, capture_output=True, text=True, timeout=120, check=True)
    assert ended.stdout.split() == [str(int(signal.SIGKILL))] * len(CASES)
    for case in CASES:
        killed = kill_saved_run.make_world(tmp_path / case)
        saved = killed.store.get("alert")
        assert [(run.number, run.status) for run in killed.store.runs(saved)] == [(1, "complete"), (2, "running")], case
        assert (len(killed.store.works(saved, 1)), killed.store.works(saved, 2)) == (22, []), case
        outcome = asyncio.run(run_now(killed.services, "alert"))
        assert list_changes(outcome.difference) == [("new", "p22", "new in source")], case
        assert outcome.difference is not None
        assert (outcome.difference.before, outcome.run.number) == (1, 2), case
