"""kill -9 at any page, and in the middle of a line: the resumed run leaves the same files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import outrider
from outrider.systematic_search import manifest
from outrider.systematic_search.ledger import NoSuchRun
from support.kill_systematic_run import QUERY, SOURCES, make_services

EVERY = bool(os.environ.get("OUTRIDER_EVERY_PAGE"))
"""Whether a run is killed at each of its pages instead of some, which takes minutes."""
TESTS = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def killer() -> Iterator[subprocess.Popen[str]]:
    environ = {**os.environ, "PYTHONPATH": f"{TESTS.parent / 'src'}:{TESTS}"}
    command = [sys.executable, "-m", "support.kill_systematic_run"]
    with subprocess.Popen(command, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process
        assert process.stdin is not None
        process.stdin.close()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("undisturbed")
    list(outrider.systematic(QUERY, services=make_services(folder), sources=SOURCES, folder=folder / "run"))
    return folder / "run"


def test_a_run_that_is_killed_at_any_page_leaves_the_same_manifest(
    tmp_path: Path, killer: subprocess.Popen[str], undisturbed: Path
) -> None:
    whole = manifest.read(undisturbed / manifest.NAME)
    last = 1 + 4 + 1 + 5 + 1 + 3 + 1 + 1  # asked; pages and end of each source; done
    every = [(sync, torn) for sync in range(1, last + 1) for torn in (False, True)]
    some = [(1, True), (2, False), (4, True), (6, False), (9, True), (12, True), (last, True)]
    for case, (sync, torn) in enumerate(every if EVERY else some):
        folder = tmp_path / str(case)
        assert _run_killed(killer, folder, sync, torn=torn) == 9, (sync, torn)
        if (sync, torn) == (1, True):
            with pytest.raises(NoSuchRun, match="no run that began"):
                list(outrider.systematic(services=make_services(folder), resume=folder / "run"))
            continue
        doc_ids = [hit.doc_id for hit in outrider.systematic(services=make_services(folder), resume=folder / "run")]
        assert len(doc_ids) == whole.total
        assert _without_times(manifest.read(folder / "run" / manifest.NAME)) == _without_times(whole), (sync, torn)
        assert (folder / "run" / "ledger.jsonl").read_bytes() == (undisturbed / "ledger.jsonl").read_bytes()
        assert outrider.verify(folder / "run" / manifest.NAME).sound


def _run_killed(killer: subprocess.Popen[str], folder: Path, syncs: int, *, torn: bool) -> int:
    assert killer.stdin is not None
    assert killer.stdout is not None
    killer.stdin.write(json.dumps({"folder": str(folder), "syncs": syncs, "torn": torn}) + "\n")
    killer.stdin.flush()
    return int(killer.stdout.readline())


def _without_times(run: manifest.Manifest) -> dict[str, object]:
    return run.model_dump(mode="json", exclude={"times", "seal"})
