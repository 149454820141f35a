"""Cache of the model's plans, so that the same question is not sent again at once."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from pydantic import ValidationError

from outrider.nodes.translator.model_plan import Draft, QueryPrompt
from outrider.nodes.translator.sanitize_plan import sanitize_queries
from outrider.state.chat import ChatRequest
from outrider.state.ports import TextCache
from outrider.state.request import SearchRequest

PATIENCE_S = 1.0
"""A slower cache is treated as a miss."""
REQUEST_FIELDS = {"query", "search_mode", "user_feedback", "previous_strategies"}


@dataclass(frozen=True, slots=True)
class PlanCache:
    texts: TextCache
    fresh_s: float

    async def get(self, key: str) -> tuple[Draft, float] | None:
        """The draft and its age in seconds; None if there is none, it is too old or damaged, or the cache cannot be read."""
        cached = await self.texts.get(key, PATIENCE_S)
        if cached is None or cached.age_s >= self.fresh_s:
            return None
        try:
            draft = Draft.model_validate_json(cached.text)
        except ValidationError:
            return None
        return (draft, cached.age_s) if sanitize_queries(draft) else None

    async def put(self, key: str, draft: Draft) -> None:
        """Store a draft with a query that can be searched; without one the rules plan."""
        if sanitize_queries(draft):
            await self.texts.put(key, draft.model_dump_json())


def make_cache_key(request: SearchRequest, sources: Sequence[str], model: str, prompt: QueryPrompt, question: ChatRequest) -> str:
    """Hash of all that decides the answer: request, mode, feedback, earlier rounds, sources, model, prompt, schema, and the day."""
    parts = [
        request.model_dump(mode="json", include=REQUEST_FIELDS),
        list(sources),
        model,
        dict(prompt.versions),
        [question.system, question.user, question.max_output_tokens],
        _draft_schema(),  # another version of Outrider may ask for something else
    ]
    return hashlib.sha256(f"translation {json.dumps(parts, sort_keys=True)}".encode()).hexdigest()


@cache
def _draft_schema() -> str:
    return json.dumps(Draft.model_json_schema(), sort_keys=True)
