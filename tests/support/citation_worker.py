"""A worker of citation jobs that is killed for real: the handler and the worker of `outrider jobs run`, over services on loopback.

Started once, it forks for each run, since imports take seconds. Reads the flags of settings from standard input, one JSON a line; answers
with the process number of the fork, and with its exit code, or signal, when it has ended.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import warnings
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from outrider.jobs import worker
from outrider.services import Services
from outrider.usecases.jobs import run_jobs
from support.citation_world import KEY

IMPORTED = (
    "dbos", "sqlalchemy.dialects.sqlite", "lancedb", "pyarrow", "httpx", "h2", "diskcache", "filelock", "outrider.jobs.worker",
    "outrider.library.library", "outrider.sources.arxiv", "outrider.sources.github.search", "outrider.sources.pubmed",
    "outrider.sources.serpapi", "outrider.sources.web.search", "outrider.sources.europe_pmc",
)  # fmt: skip
SEARCHED_ALSO = ("github", "arxiv", "pubmed", "web", "europe_pmc")


def make_flags(base_url: str, folder: str, limits: Mapping[str, Mapping[str, float]]) -> dict[str, Any]:
    """Flags of the settings for the services at this address. Responses are not cached: a request that is repeated is sent."""
    flags: dict[str, Any] = {"library.uri": f"{folder}/library", "jobs.uri": f"{folder}/jobs.sqlite", "cache.fresh_s": 0}
    flags |= {"cache.folder": f"{folder}/cache", "sources.openalex.api_key": KEY, "sources.offline": False}
    flags |= {f"sources.{name}.enabled": False for name in SEARCHED_ALSO}
    for service, own in limits.items():
        flags[f"sources.{service}.base_url"] = f"{base_url}/{service}"
        flags |= {f"sources.{service}.{name}": value for name, value in own.items()}
    return flags


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> None:
    for name in IMPORTED:
        import_module(name)
    worker.TICK_S = worker.QUEUE_S = 0.05
    warnings.simplefilter("ignore")  # LanceDB warns of forks; none of its threads runs yet
    for line in sys.stdin:
        child = os.fork()
        if not child:
            services = Services.from_file(json.loads(line))
            asyncio.run(run_jobs(services))
            services.close()
            os._exit(0)
        say(str(child))
        _, status = os.waitpid(child, 0)
        say(str(os.waitstatus_to_exitcode(status)))


if __name__ == "__main__":
    main()
