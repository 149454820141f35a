"""Runs that are killed for real, for `review/test_killed.py`: started once, it forks for each case, since imports take seconds.

Reads cases from standard input, one JSON a line (`folder`, `syncs`, `torn`), and answers each with the signal that ended the fork.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import outrider
from outrider.services import Services
from support.systematic_runs import Shelves, World, exact_services, papers

QUERY = "aspirin[ti]"
SOURCES = ["library", "pubmed", "openalex"]


def services(folder: Path) -> Services:
    """The same library and services in every process."""
    abroad = [one.model_copy(update={"doc_id": f"W{one.doc_id}"}) for one in papers(17)]
    world = {"pubmed": World("pubmed", list(abroad)), "openalex": World("openalex", list(papers(9, first=40)))}
    return exact_services(folder, Shelves(papers(31)), world)


def killed(folder: Path, syncs: int, torn: bool) -> None:
    """Dies at the ledger's sync of this number; `torn` while the line before it is being written."""
    import outrider.systematic_search.ledger as ledger

    left = syncs

    class Dying:
        def __getattr__(self, name: str) -> object:
            return getattr(os, name)

        def fsync(self, handle: int) -> None:
            nonlocal left
            left -= 1
            if left == 0:
                if torn:
                    os.ftruncate(handle, os.fstat(handle).st_size - 40)
                os.kill(os.getpid(), signal.SIGKILL)
            os.fsync(handle)

    ledger.os = Dying()  # type: ignore[assignment]
    list(outrider.systematic(QUERY, services=services(folder), sources=SOURCES, folder=folder / "run"))


def main() -> None:
    for line in sys.stdin:
        case = json.loads(line)
        child = os.fork()
        if child == 0:
            killed(Path(case["folder"]), case["syncs"], case["torn"])
            os._exit(0)
        _, status = os.waitpid(child, 0)
        sys.stdout.write(json.dumps(os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
