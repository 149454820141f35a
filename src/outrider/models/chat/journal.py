"""Answers that were paid for, written down as they arrive: a run whose process was killed goes on without paying for them again.

Kept are single calls, as the endpoint answered them, not what was made of them: an answer that was unusable was paid for, too, and what a
run has spent is the same however often it was killed. A call under way at the kill is lost.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol, TypeVar

from outrider.models.chat.client import Reply
from outrider.models.chat.cost import Used
from outrider.state.errors import ThreadError

Result = TypeVar("Result")

log = logging.getLogger(__name__)


class Answers(Protocol):
    """Where they are kept. Raises `ThreadError`."""

    async def answer(self, run: str, key: str, number: int) -> str | None: ...

    async def keep_answer(self, run: str, key: str, number: int, text: str) -> None: ...


@dataclass(frozen=True, slots=True)
class Journal:
    """The answers of one run. The same question may be asked several times by one node: each time is a number."""

    run: str
    answers: Answers
    _asked: Counter[str] = field(default_factory=Counter)

    async def reply(self, key: str, ask: Callable[[], Awaitable[Reply]]) -> Reply:
        """As it was answered before, else as it is now. Nothing is kept of a call that fails, which costs nothing."""
        number = self._asked[key]
        self._asked[key] += 1
        kept = await self.answers.answer(self.run, key, number)
        if kept is not None:
            return _read(kept)
        try:
            reply = await ask()
        except BaseException:
            self._asked[key] = min(self._asked[key], number)
            raise
        try:
            await self.answers.keep_answer(self.run, key, number, json.dumps(asdict(reply)))
        except ThreadError as error:
            log.warning("an answer of the model was not written down, and would be paid again if this run is resumed: %s", error)
        return reply


JOURNAL: ContextVar[Journal | None] = ContextVar("journal", default=None)
"""That of the run whose node asks."""
JOURNALLED = "journal"
"""Where a run's configuration holds it."""


async def within(journal: Journal, work: Coroutine[Any, Any, Result]) -> Result:
    """Whatever the work asks of a model is written down there."""
    before = JOURNAL.set(journal)
    try:
        return await work
    finally:
        JOURNAL.reset(before)


async def answered(node: str, model: str, request: Mapping[str, object], ask: Callable[[], Awaitable[Reply]]) -> Reply:
    """The reply of the run's journal, or what `ask` brings; outside a journalled run only the latter."""
    journal = JOURNAL.get()
    return await (ask() if journal is None else journal.reply(key_of(node, model, request), ask))


def key_of(node: str, model: str, request: Mapping[str, object]) -> str:
    """A hash of who asks whom what."""
    return hashlib.sha256(json.dumps([node, model, request], sort_keys=True).encode()).hexdigest()


def _read(text: str) -> Reply:
    said = json.loads(text)
    return Reply(said["said"], Used(**said["used"]) if said["used"] else None, said["finish"], said["refusal"])
