"""Journal of paid model answers, so that a killed run resumes without paying again.

An entry is one call as the endpoint answered it, before parsing: an unusable answer was paid for, too, and the recorded cost of a run
does not depend on how often it was killed. A call under way at the kill is lost.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from outrider.models.chat.client import Reply
from outrider.models.chat.provider import TokenUsage
from outrider.state.errors import ThreadError

Result = TypeVar("Result")

COUNTS = ("input_tokens", "output_tokens", "cached_tokens", "kept_tokens")
"""Keys of a stored token usage."""
log = logging.getLogger(__name__)


class AnswerStore(Protocol):
    """Storage of answers. Raises `ThreadError`."""

    async def answer(self, run: str, key: str, number: int) -> str | None: ...

    async def keep_answer(self, run: str, key: str, number: int, text: str) -> None: ...


@dataclass(frozen=True, slots=True)
class Journal:
    """The answers of one run. A node may ask the same question several times; each time has a number."""

    run: str
    answers: AnswerStore
    _numbers: Counter[str] = field(default_factory=Counter)

    async def reply(self, key: str, ask: Callable[[], Awaitable[Reply]]) -> Reply:
        """The stored reply, else a new one, which is then stored. A failed call, which costs nothing, is not stored."""
        number = self._numbers[key]
        self._numbers[key] += 1
        stored = await self.answers.answer(self.run, key, number)
        if stored is not None:
            entry = json.loads(stored)
            usage = TokenUsage(*(entry["used"][name] for name in COUNTS)) if entry["used"] else None
            return Reply(entry["said"], usage, entry["finish"], entry["refusal"])
        try:
            reply = await ask()
        except BaseException:
            self._numbers[key] = min(self._numbers[key], number)
            raise
        used = None
        if reply.usage:
            counts = (reply.usage.input_tokens, reply.usage.output_tokens, reply.usage.cached_tokens, reply.usage.cache_write_tokens)
            used = dict(zip(COUNTS, counts, strict=True))
        # the keys of an entry are those of the first release, so that a run can be resumed by a later one
        entry = {"said": reply.content, "used": used, "finish": reply.finish_reason, "refusal": reply.refusal}
        try:
            await self.answers.keep_answer(self.run, key, number, json.dumps(entry))
        except ThreadError as error:
            log.warning("an answer of the model was not written down, and would be paid again if this run is resumed: %s", error)
        return reply


JOURNAL: ContextVar[Journal | None] = ContextVar("journal", default=None)
"""The journal of the run whose node makes the call."""
JOURNAL_KEY = "journal"
"""Key of the journal in a run's configuration."""


async def run_with_journal(journal: Journal, work: Coroutine[Any, Any, Result]) -> Result:
    """Run the coroutine with its model calls recorded in the journal."""
    before = JOURNAL.set(journal)
    try:
        return await work
    finally:
        JOURNAL.reset(before)


async def ask_or_replay(node: str, model: str, request: Mapping[str, object], ask: Callable[[], Awaitable[Reply]]) -> Reply:
    """The reply in the run's journal, else that of `ask`; without a journal always the latter."""
    journal = JOURNAL.get()
    return await (ask() if journal is None else journal.reply(compute_key(node, model, request), ask))


def compute_key(node: str, model: str, request: Mapping[str, object]) -> str:
    """A hash of the node, the model and the request."""
    return hashlib.sha256(json.dumps([node, model, request], sort_keys=True).encode()).hexdigest()
