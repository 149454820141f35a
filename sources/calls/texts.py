"""Texts of our own among the answers of services: the same folder or Redis, the same failures that cost time only."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from outrider.sources.calls.cache import Answers, kept_in, put_beside
from outrider.state.background import in_background
from outrider.state.ports import KeptText


@dataclass(frozen=True, slots=True)
class Texts:
    """A `TextCache`."""

    answers: Answers
    secret: str = field(default="", repr=False)
    """What holds it is not kept."""

    async def get(self, key: str, within_s: float) -> KeptText | None:
        kept = await in_background(kept_in(self.answers, key, time.monotonic() + within_s))
        return None if kept is None else KeptText(kept.body.decode(errors="replace"), kept.age_s)

    async def put(self, key: str, text: str) -> None:
        if not (self.secret and self.secret in text):
            await in_background(self._put(key, text.encode(errors="replace")))

    async def _put(self, key: str, body: bytes) -> None:
        put_beside(self.answers, key, body, {})
