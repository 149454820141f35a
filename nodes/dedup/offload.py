"""The works among candidates, found beside the event loop: in a worker process while a server answers several searches.

A worker is sent the candidates, and names in its answer what it was sent by its place, so that only what it made is carried back: what
nothing was merged with comes back as the same object.
"""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Iterator, Sequence
from contextlib import suppress
from io import BytesIO
from typing import Any

from outrider.nodes.dedup.cluster import Found, found_in
from outrider.nodes.dedup.group import Judging
from outrider.runtime.workers import NoWorker, Workers
from outrider.state.decisions import Decisions
from outrider.state.hits import Candidate

MODULES = (__name__,)
"""What a worker needs loaded."""


async def found_beside(
    workers: Workers | None, candidates: Sequence[Candidate], decisions: Decisions, *, fold_versions: bool = True
) -> Found:
    """`found_in`, in a worker where that is sooner, else in a thread."""
    if workers is not None and workers.available():
        with suppress(NoWorker):
            return await _found_there(workers, candidates, decisions, fold_versions)
    return await asyncio.to_thread(found_in, candidates, decisions, fold_versions=fold_versions)


async def _found_there(workers: Workers, candidates: Sequence[Candidate], decisions: Decisions, fold_versions: bool) -> Found:
    given = await asyncio.to_thread(pickle.dumps, (candidates, decisions, fold_versions), pickle.HIGHEST_PROTOCOL)
    answer = await workers.run(answered, given)
    works, grey = await asyncio.to_thread(_Reader(answer, candidates).load)
    return Found(works, grey, Judging(decisions))


def answered(given: bytes) -> bytes:
    """In the worker."""
    candidates, decisions, fold_versions = pickle.loads(given)  # noqa: S301 - of the process that started this one
    found = found_in(candidates, decisions, fold_versions=fold_versions)
    answer = BytesIO()
    _Writer(answer, candidates).dump((found.works, found.grey))
    return answer.getvalue()


class _Writer(pickle.Pickler):
    def __init__(self, into: BytesIO, sent: Sequence[Candidate]) -> None:
        super().__init__(into, pickle.HIGHEST_PROTOCOL)
        self._place = {id(part): place for place, part in enumerate(_parts(sent))}

    def persistent_id(self, obj: Any) -> int | None:
        return self._place.get(id(obj))


class _Reader(pickle.Unpickler):
    """Of what a worker of this process wrote."""

    def __init__(self, answer: bytes, sent: Sequence[Candidate]) -> None:
        super().__init__(BytesIO(answer))
        self._sent = list(_parts(sent))

    def persistent_load(self, pid: int) -> object:
        return self._sent[pid]


def _parts(sent: Sequence[Candidate]) -> Iterator[object]:
    """What candidates are made of and works keep, in one order on both sides."""
    for one in sent:
        yield one.record
        yield from one.found_by
        yield from one.members
        yield from one.duplicates
        yield from one.related
