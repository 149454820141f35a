"""Replay of a recorded run, and its comparison with the recorded one"""

from __future__ import annotations

import asyncio
import json
import logging
import tempfile
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from contextlib import aclosing
from os import PathLike
from pathlib import Path
from typing import Any

from outrider.recorder.codec import Unreadable, digest, dump
from outrider.recorder.compare import Replay, RunComparison, compare_recordings, compare_replay
from outrider.recorder.recording import Kind, Recording, read_recording
from outrider.recorder.replay_tape import NotRecorded, ReplayLoop, ReplayTape
from outrider.runtime.tape import use_tape
from outrider.services import Services
from outrider.services.recorded import STATES, find_run_folder_of, read_prompts, read_run, replay_services
from outrider.services.systematic import begin_run
from outrider.state.errors import BadRequest
from outrider.state.pipeline import RunContext
from outrider.usecases.cite import find_candidates
from outrider.usecases.recorded_run import make_systematic_response

log = logging.getLogger(__name__)


def replay_recording(path: str | PathLike[str], diff: str | PathLike[str] | None = None) -> RunComparison:
    """Run the nodes of a recorded run again, without a library, a model or a network, and compare.

    `.same` is whether the response is the recorded one, byte for byte; `.response` is the replayed one; `.differences` says at which node
    the first difference appears, and what changed. `diff` names another recording to compare with instead: then nothing is run. Raises
    `BadRequest` for a file that is no whole recording.
    """
    recording = read_recording(Path(path))
    try:
        if diff is not None:
            return compare_recordings(recording, read_recording(Path(diff)))
        return compare_replay(recording, run_again(recording))
    except Unreadable as error:
        raise BadRequest(f"{path} is no whole recording: {error}") from error
    except RecursionError as error:
        raise BadRequest(f"{path} is refused: its values are nested too deeply") from error


def run_again(recording: Recording) -> Replay:
    """Replay in a thread of its own, which has the only event loop of the run."""
    future: Future[Replay] = Future()

    def run() -> None:
        try:
            with tempfile.TemporaryDirectory(prefix="outrider-replay-") as folder:
                future.set_result(_run_on_loop(recording, folder))
        except BaseException as error:  # noqa: BLE001 - raised where the caller waits
            future.set_exception(error)

    threading.Thread(target=run, name="outrider-replay", daemon=True).start()
    return future.result()


def _run_on_loop(recording: Recording, folder: str) -> Replay:
    tape = ReplayTape(recording)
    try:
        services: Services = replay_services(Services, recording, tape, folder)
        request: Any = dict(recording.index.request)
        if recording.index.kind in STATES:
            request = STATES[recording.index.kind][0].model_validate(request)
        context = RunContext.model_validate(recording.index.limits)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise Unreadable(f"its request or its ports are none of this version ({type(error).__name__})") from error
    loop = ReplayLoop(tape)
    problem, response = "", b""
    try:
        asyncio.set_event_loop(loop)
        loop.run_until_complete(_run(recording.index.kind, tape, services, request, context))
        response = read_run(recording.index.kind, tape)[1]
    except NotRecorded as error:
        problem = str(error)
    except (BadRequest, Unreadable):
        raise
    except Exception as error:  # an answer that no node expects: of another version, left out, or of nobody
        log.debug("a node fails in a replay", exc_info=True)
        problem = tape.add_failure(error)
    finally:
        _close(loop)
        asyncio.set_event_loop(None)
    updates = [(update.node, tape.encoder.encode(update.update)) for update in tape.updates]
    here, there = find_run_folder_of(response), str(recording.index.facts.get("run_folder", ""))
    if here and there:  # the only path in a response
        response = _rename(response, here, there)
        updates = [(node, json.loads(_rename(dump(update), here, there))) for node, update in updates]
    return Replay(response, digest(response), updates, tape.encoder.blobs, tape, problem, read_prompts(services))


def _close(loop: ReplayLoop) -> None:
    """End what a run that broke off left behind."""
    loop.tape.is_closing = True
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    if tasks:
        loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
    loop.close()


def _rename(content: bytes, here: str, there: str) -> bytes:
    return content.replace(json.dumps(here)[1:-1].encode(), json.dumps(there)[1:-1].encode())


async def _run(kind: Kind, tape: ReplayTape, services: Services, request: Any, context: RunContext) -> None:
    if kind not in STATES:
        tape.begin_run(request)
        with use_tape(tape, kind):
            response = await (_run_systematic if kind == "systematic" else _list_candidates)(services, request)
        tape.add_update(kind, None, response)
        return
    graph = await asyncio.to_thread(_build_graph, kind, services)
    with use_tape(tape):
        await graph.ainvoke(request, context=context)


async def _run_systematic(services: Services, request: Mapping[str, Any]) -> dict[str, Any]:
    run = await begin_run(services, request["query"], request["sources"], syntax=request["syntax"])
    async with aclosing(run), aclosing(run.pages()) as pages:
        async for _ in pages:
            pass
    return make_systematic_response(run)


async def _list_candidates(services: Services, request: Mapping[str, Any]) -> dict[str, Any]:
    return (await find_candidates(services, **request)).model_dump(mode="json")


def _build_graph(kind: Kind, services: Services) -> Any:
    """The graph of a kind of run, which is imported here: each takes as long as the others."""
    if kind == "analyze":
        from outrider.graph.analyze import build_analysis

        return build_analysis(services, checkpointer=False)
    if kind == "citations":
        from outrider.graph.citations import build_citations

        return build_citations(services, checkpointer=False)
    from outrider.graph.pipeline import build

    return build(services, checkpointer=False)
