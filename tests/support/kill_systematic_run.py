"""Runs that are killed for real, for `systematic_search/test_killed.py`.

The process starts once and forks for each case, since imports take seconds.

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
from support.systematic_runs import LibraryVersions, MemorySource, make_exact_services, make_papers

QUERY = "aspirin[ti]"
SOURCES = ["library", "pubmed", "openalex"]


def make_services(folder: Path) -> Services:
    """The same library and services in every process."""
    abroad = [one.model_copy(update={"doc_id": f"W{one.doc_id}"}) for one in make_papers(17)]
    remote_sources = {"pubmed": MemorySource("pubmed", list(abroad)), "openalex": MemorySource("openalex", list(make_papers(9, first=40)))}
    return make_exact_services(folder, LibraryVersions(make_papers(31)), remote_sources)


def run_and_die(folder: Path, syncs: int, torn: bool) -> None:
    """Die at the ledger's sync of this number; `torn` cuts the line before it short."""
    import outrider.systematic_search.ledger as ledger

    remaining = syncs

    class Dying:
        def __getattr__(self, name: str) -> object:
            return getattr(os, name)

        def fsync(self, handle: int) -> None:
            nonlocal remaining
            remaining -= 1
            if remaining == 0:
                if torn:
                    os.ftruncate(handle, os.fstat(handle).st_size - 40)
                os.kill(os.getpid(), signal.SIGKILL)
            os.fsync(handle)

    ledger.os = Dying()  # type: ignore[assignment]
    list(outrider.systematic(QUERY, services=make_services(folder), sources=SOURCES, folder=folder / "run"))


def main() -> None:
    for line in sys.stdin:
        case = json.loads(line)
        child = os.fork()
        if child == 0:
            run_and_die(Path(case["folder"]), case["syncs"], case["torn"])
            os._exit(0)
        _, status = os.waitpid(child, 0)
        sys.stdout.write(json.dumps(os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
