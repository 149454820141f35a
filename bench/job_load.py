"""The processes of `bench jobs`: a server like `outrider serve`, and citation jobs beside it.

`python -m bench.job_load serve LIBRARY` serves; its background jobs run in `python -m bench.job_load work LIBRARY`, which is started,
signalled and ended as the process of `outrider jobs run` is, at the same priority. The jobs are real ones: they ask four services for the
citations of generated works, and write them to the library that is searched. The services answer after `REQUEST_S`, on loopback, from a
thread of the jobs' process, so that their work is not a load of its own.
"""

from __future__ import annotations

import asyncio
import random
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

if TYPE_CHECKING:
    from support.citation_world import CitationWorld

REQUEST_S = 0.01
WORKS, REFERENCES = 3_000, 40
TITLE = "Aspirin and acute liver injury in adults: a cohort study of {} patients"
FASTER = 50
"""A second of the services' limits lasts a fiftieth of ours: jobs seldom wait, which is the worst case for a search."""


def make_world() -> CitationWorld:
    from support.citation_world import CitationWorld, WorldWork

    draw = random.Random(0)
    works = [
        WorldWork(number, f"10.5555/w.{number}", TITLE.format(number), 2000, ("Ames, A", "Bohr, B"), tuple(cited))
        for number in range(1, WORKS + 1)
        for cited in [sorted(draw.sample(range(1, WORKS + 1), REFERENCES))]
    ]
    return CitationWorld(works)


def serve(library: str) -> None:
    from outrider.interfaces.http.server import serve as serve_http
    from outrider.services import Services, job_process

    job_process.make_command = lambda _: [sys.executable, "-m", "bench.job_load", "work", library]
    serve_http(Services.from_file({"library.uri": library, "sources.offline": True}), "127.0.0.1", 0)


def work(library: str) -> None:
    from outrider.interfaces.cli.jobs import ServerSignals, take_lowest_priority
    from outrider.services import Services
    from outrider.usecases.jobs import run_jobs
    from support.citation_worker import make_flags
    from support.citation_world import DOCUMENTED
    from support.http_server import Answer, Request, serving

    take_lowest_priority()
    signals, world = ServerSignals(), make_world()

    def handle(request: Request) -> Answer:
        return replace(world.handle(request), after_s=REQUEST_S)

    limits = {name: {**own, "per_s": 1 / FASTER} for name, own in DOCUMENTED.items()}
    with serving(handle) as services:
        flags = make_flags(services.base_url, str(Path(library).parent), limits)
        asyncio.run(run_jobs(Services.from_file(flags), is_searching=signals.is_searching))


if __name__ == "__main__":
    {"serve": serve, "work": work}[sys.argv[1]](sys.argv[2])
