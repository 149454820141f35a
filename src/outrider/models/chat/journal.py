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
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from outrider.models.chat.client import Reply
from outrider.models.chat.cost import TokenUsage
from outrider.state.errors import ThreadError

Result = TypeVar("Result")

COUNTS = ("input_tokens", "output_tokens", "cached_tokens", "kept_tokens")
"""Keys of a stored token usage."""
log = logging.getLogger(__name__)


class AnswerStore(Protocol):
    """Where they are kept. Raises `ThreadError`."""

    async def answer(self, run: str, key: str, number: int) -> str | None: ...

    async def keep_answer(self, run: str, key: str, number: int, text: str) -> None: ...


@dataclass(frozen=True, slots=True)
class Journal:
    """The answers of one run. The same question may be asked several times by one node: each time is a number."""

    run: str
    answers: AnswerStore
    _asked: Counter[str] = field(default_factory=Counter)

    async def reply(self, key: str, ask: Callable[[], Awaitable[Reply]]) -> Reply:
        """As it was answered before, else as it is now. Nothing is kept of a call that fails, which costs nothing."""
        number = self._asked[key]
        self._asked[key] += 1
        kept = await self.answers.answer(self.run, key, number)
        if kept is not None:
            entry = json.loads(kept)
            usage = TokenUsage(*(entry["used"][name] for name in COUNTS)) if entry["used"] else None
            return Reply(entry["said"], usage, entry["finish"], entry["refusal"])
        try:
            reply = await ask()
        except BaseException:
            self._asked[key] = min(self._asked[key], number)
            raise
        try:
            await self.answers.keep_answer(self.run, key, number, _serialize(reply))
        except ThreadError as error:
            log.warning("an answer of the model was not written down, and would be paid again if this run is resumed: %s", error)
        return reply


JOURNAL: ContextVar[Journal | None] = ContextVar("journal", default=None)
"""That of the run whose node asks."""
JOURNAL_KEY = "journal"
"""Where a run's configuration holds it."""


async def run_with_journal(journal: Journal, work: Coroutine[Any, Any, Result]) -> Result:
    """Whatever the work asks of a model is written down there."""
    before = JOURNAL.set(journal)
    try:
        return await work
    finally:
        JOURNAL.reset(before)


async def ask_or_replay(node: str, model: str, request: Mapping[str, object], ask: Callable[[], Awaitable[Reply]]) -> Reply:
    """The reply of the run's journal, or what `ask` brings; outside a journalled run only the latter."""
    journal = JOURNAL.get()
    return await (ask() if journal is None else journal.reply(compute_key(node, model, request), ask))


def compute_key(node: str, model: str, request: Mapping[str, object]) -> str:
    """A hash of who asks whom what."""
    return hashlib.sha256(json.dumps([node, model, request], sort_keys=True).encode()).hexdigest()


# The keys of an entry are those of the first release, so that a run can be resumed by a later one.
def _serialize(reply: Reply) -> str:
    used = None
    if usage := reply.usage:
        counts = (usage.input_tokens, usage.output_tokens, usage.cached_tokens, usage.cache_write_tokens)
        used = dict(zip(COUNTS, counts, strict=True))
    return json.dumps({"said": reply.content, "used": used, "finish": reply.finish_reason, "refusal": reply.refusal})
