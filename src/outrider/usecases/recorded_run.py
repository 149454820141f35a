"""Recordings of what runs outside a graph: systematic runs and candidates of a chase"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from outrider.recorder.recording import Kind
from outrider.runtime.tape import use_tape
from outrider.services import Services
from outrider.services.recorded import RunRecorder

if TYPE_CHECKING:
    from outrider.systematic_search.run import Run


class RecordedRun:
    """The tape of one run, whose only node has the name of its kind; none where the services record nothing, and none in a replay."""

    def __init__(self, services: Services, kind: Kind, request: Mapping[str, Any]) -> None:
        self._kind = kind
        is_recorded = services.ports is not None and not services.ports.is_replay
        self._recorder = RunRecorder(services, kind) if is_recorded else None
        self._tape = self._recorder.begin() if self._recorder else None
        if self._tape is not None:
            self._tape.begin_run(dict(request))

    @contextmanager
    def on_tape(self) -> Iterator[None]:
        with nullcontext() if self._tape is None else use_tape(self._tape, self._kind):
            yield

    async def finish(self, response: Mapping[str, Any]) -> None:
        """Write the recording of a run that came to its end."""
        if self._recorder is None or self._tape is None:
            return
        self._tape.add_update(self._kind, None, response)
        await asyncio.to_thread(self._recorder.write, self._tape, None)


def make_systematic_response(run: Run) -> dict[str, Any]:
    """What the command prints; without the signature, which only the holder of the key can repeat."""
    manifest = run.manifest
    assert manifest is not None  # noqa: S101 - the run came to its end
    return {"result_set": run.result_set().model_dump(mode="json"), "manifest": manifest.model_dump(mode="json", exclude={"signature"})}
