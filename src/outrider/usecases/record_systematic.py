"""Recordings of systematic runs outside the graph, and their replay."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from typing import Any

from outrider.runtime.tape import Tape, use_tape
from outrider.services import Services
from outrider.services.recorded import RunRecorder, read_run
from outrider.services.systematic import Syntax, begin_run
from outrider.systematic_search.run import Run

NODE = "systematic"


class RecordedRun:
    """The tape of one systematic run; none where the services record nothing."""

    def __init__(self, services: Services, query: Any, sources: Sequence[str] | None, syntax: Syntax) -> None:
        self._recorder = RunRecorder(services, "systematic") if services.ports is not None else None
        self._tape = self._recorder.begin() if self._recorder else None
        if self._tape is not None:
            self._tape.begin_run({"query": query, "sources": list(sources or ()), "syntax": syntax})

    @contextmanager
    def on_tape(self) -> Iterator[None]:
        with use_tape(self._tape, NODE):
            yield

    async def finish(self, run: Run) -> None:
        """Write the recording of a run that was read to its end."""
        if self._recorder is None or self._tape is None:
            return
        self._tape.add_update(NODE, None, make_response(run))
        await asyncio.to_thread(self._recorder.write_run, self._tape, *read_run("systematic", self._tape), None)


def make_response(run: Run) -> dict[str, Any]:
    """What the command prints; without the signature, which only the holder of the key can repeat."""
    manifest = run.manifest
    assert manifest is not None  # noqa: S101 - the run came to its end
    return {"result_set": run.result_set().model_dump(mode="json"), "manifest": manifest.model_dump(mode="json", exclude={"signature"})}


async def run_systematic(services: Services, request: Mapping[str, Any], tape: Tape) -> None:
    """Run a recorded request to its end, on the tape that answers it."""
    tape.begin_run(request)
    with use_tape(tape, NODE):
        run = await begin_run(services, request["query"], request["sources"], syntax=request["syntax"])
        async with aclosing(run), aclosing(run.pages()) as pages:
            async for _ in pages:
                pass
    tape.add_update(NODE, None, make_response(run))
