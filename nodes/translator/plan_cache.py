"""Plans that a model made before: the same question within some minutes is not asked again. Nothing that rules made is kept."""

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
"""A cache that takes longer is as good as none."""
REQUEST_FIELDS = {"query", "search_mode", "user_feedback", "previous_strategies"}


@dataclass(frozen=True, slots=True)
class PlanCache:
    texts: TextCache
    fresh_s: float

    async def get(self, key: str) -> tuple[Draft, float] | None:
        """The draft and its age in seconds; None where there is none, it is too old or damaged, or the cache cannot be read."""
        kept = await self.texts.get(key, PATIENCE_S)
        if kept is None or kept.age_s >= self.fresh_s:
            return None
        try:
            draft = Draft.model_validate_json(kept.text)
        except ValidationError:
            return None
        return (draft, kept.age_s) if sanitize_queries(draft) else None

    async def put(self, key: str, draft: Draft) -> None:
        """One without a query that can be searched leaves the plan to rules, and is not kept."""
        if sanitize_queries(draft):
            await self.texts.put(key, draft.model_dump_json())


def make_cache_key(request: SearchRequest, sources: Sequence[str], model: str, prompt: QueryPrompt, asked: ChatRequest) -> str:
    """A hash of all that decides what the model says: request, mode, feedback, earlier rounds, sources, model, prompt, and the day."""
    parts = [
        request.model_dump(mode="json", include=REQUEST_FIELDS),
        list(sources),
        model,
        dict(prompt.versions),
        [asked.system, asked.user, asked.max_output_tokens],
        _shape(),
    ]
    return hashlib.sha256(f"translation {json.dumps(parts, sort_keys=True)}".encode()).hexdigest()


@cache
def _shape() -> str:
    """Another version of Outrider may ask for something else."""
    return json.dumps(Draft.model_json_schema(), sort_keys=True)
