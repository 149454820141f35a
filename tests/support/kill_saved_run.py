"""Runs of a saved search that are killed for real, for `saved_searches/test_killed.py`.

The process starts once and forks for each case. Reads cases from standard input, one JSON a line (`folder`, `at`), and answers each with
the signal that ended the fork. `at` is a page (a number), `store` (when the works are written) or `commit` (when the transaction ends).
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from outrider.saved_searches import store
from outrider.usecases.run_saved import run_saved
from support.saved_searches import SavedWorld, article
from support.systematic_runs import LibraryVersions


def make_world(folder: Path) -> SavedWorld:
    """The same library in every process: one work more than in the first run."""
    return SavedWorld(folder, LibraryVersions([article(number, f"Aspirin in town {number}") for number in range(23)]))


def die(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def run_and_die(folder: Path, at: str) -> None:
    world, pages = make_world(folder), 0

    def count(*_: object) -> None:
        nonlocal pages
        pages += 1
        if str(pages) == at:
            die()

    if at == "store":
        store._find_known = die  # type: ignore[assignment]
    elif at == "commit":
        put: Any = store.SavedStore._put

        def put_and_die(self: Any, connection: Any, saved: Any, run: Any) -> None:
            put(self, connection, saved, run)
            if run.status == "complete":
                die()

        store.SavedStore._put = put_and_die  # type: ignore[method-assign]
    saved = world.store.get("alert")
    asyncio.run(run_saved(world.services, world.store, saved, count))


def main() -> None:
    for line in sys.stdin:
        case = json.loads(line)
        child = os.fork()
        if child == 0:
            run_and_die(Path(case["folder"]), case["at"])
            os._exit(0)
        _, status = os.waitpid(child, 0)
        print(os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0, flush=True)


if __name__ == "__main__":
    main()
