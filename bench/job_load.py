"""The processes of `bench jobs`: a server like `outrider serve`, and jobs that keep a core busy beside it.

`python -m bench.job_load serve LIBRARY` serves; its background jobs run in `python -m bench.job_load work`, which is started, signalled and
ended as the process of `outrider jobs run` is, at the same priority. A step of a job waits like a request to a service, computes like the
reading of its answer, and keeps its result.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Mapping
from typing import Any

from pydantic import JsonValue

from outrider.state.jobs import JobHandler, JobKind, JobSteps

REQUEST_S = 0.01
WORKS = 1_000
"""Works of an answer: a page of a list of citations."""
TITLE = "Aspirin and acute liver injury in adults: a cohort study of {} patients"


def compute() -> int:
    """Read a page of works: JSON, and the words of their titles; some 20 ms."""
    from outrider.linkage.names_and_titles import normal_title

    page = json.dumps([{"id": number, "title": TITLE.format(number), "abstract": TITLE.format(number) * 20} for number in range(WORKS)])
    return sum(len(normal_title(work["title"] + work["abstract"])) for work in json.loads(page))


async def handle(request: dict[str, JsonValue], steps: JobSteps) -> dict[str, JsonValue]:
    async def read_page() -> JsonValue:
        await asyncio.sleep(REQUEST_S)
        return compute()

    count = int(str(request["steps"]))
    for number in range(count):
        await steps.step(f"page {number}", read_page)
        if not number % 10:
            await steps.report(f"{number} of {count}")
    return {}


def make_handlers(_: Any) -> Mapping[JobKind, JobHandler]:
    return {"citations": handle, "fetch": handle}


def serve(library: str) -> None:
    from outrider.interfaces.http.server import serve as serve_http
    from outrider.services import Services, job_process

    job_process.make_command = lambda _: [sys.executable, "-m", "bench.job_load", "work"]
    serve_http(Services.from_file({"library.uri": library, "sources.offline": True}), "127.0.0.1", 0)


def work() -> None:
    from outrider.interfaces.cli.jobs import NICENESS, ServerSignals
    from outrider.services import Services
    from outrider.usecases.jobs import run_jobs

    os.nice(NICENESS)
    signals = ServerSignals()
    asyncio.run(run_jobs(Services.from_file(), is_searching=signals.is_searching, make_handlers=make_handlers))


if __name__ == "__main__":
    serve(sys.argv[2]) if sys.argv[1] == "serve" else work()
