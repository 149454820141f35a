"""A worker of jobs that is killed for real, for `jobs/test_worker.py`: started once, it forks for each case, since imports take seconds.

Reads cases from standard input, one JSON a line, and answers each on a line of its own: the exit code or signal of the fork.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from outrider.jobs import worker
from outrider.jobs.job_table import JobTable
from outrider.jobs.worker import Worker
from outrider.state.jobs import JobHandler, JobKind, JobSteps

STEPS = 4


def make_handlers(case: dict[str, Any]) -> Mapping[JobKind, JobHandler]:
    """Handlers that write each request that they pay for to a log. They die at `die`: a place, and the number of a step."""
    log, place, at = Path(case["log"]), *case.get("die", ("", -1))

    def die(here: str, number: int) -> None:
        if (here, number) == (place, at):
            os.kill(os.getpid(), signal.SIGKILL)

    def write(line: str) -> None:
        with log.open("a", encoding="utf-8") as stream:
            stream.write(f"{line}\n")

    async def handle(request: dict[str, JsonValue], steps: JobSteps) -> dict[str, JsonValue]:
        total = 0
        for number in range(STEPS):
            die("before", number)

            async def pay(number: int = number) -> JsonValue:
                write(f"{request['name']} {number}")
                die("within", number)
                return 10**number

            answer = await steps.step(f"request {number}", pay)
            assert isinstance(answer, int)
            total += answer
            await steps.report(f"{number + 1} of {STEPS}")
        die("before", STEPS)
        return {"total": total}

    return {"fetch": handle, "citations": handle}


async def run(case: dict[str, Any]) -> None:
    table = JobTable(case["uri"])
    if case.get("die") == ["ended", STEPS]:
        finish = JobTable.finish

        def finish_and_die(*arguments: Any) -> bool:
            finish(*arguments)
            os.kill(os.getpid(), signal.SIGKILL)
            raise AssertionError

        JobTable.finish = finish_and_die  # type: ignore[method-assign, assignment]
    await Worker(table, lambda _: make_handlers(case)).run()


def main() -> None:
    import dbos

    assert dbos
    worker.TICK_S = worker.QUEUE_S = 0.05
    for line in sys.stdin:
        child = os.fork()
        if not child:
            asyncio.run(run(json.loads(line)))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
