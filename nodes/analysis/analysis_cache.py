"""Analyses of before: the same question of the same work, within the time for which answers are fresh."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import ValidationError

from outrider.state.analysis import Analysis, AnalysisState, AnalysisUpdate

if TYPE_CHECKING:
    from outrider.state.ports import TextCache

PATIENCE_S = 1.0
"""A cache that takes longer is as good as none."""
NOT_KEPT = {"target", "age_s", "timings_ms", "execution_time_ms", "usage"}


@dataclass(frozen=True, slots=True)
class KeptAnalyses:
    texts: TextCache
    fresh_s: float
    made_with: str
    """Model, settings and version: another's analysis is another."""

    async def get(self, state: AnalysisState) -> AnalysisUpdate | None:
        kept = await self.texts.get(self._key(state.target, state.question), PATIENCE_S)
        if kept is None or kept.age_s >= self.fresh_s:
            return None
        try:
            found = Analysis.model_validate_json(kept.text)
        except ValidationError:
            return None
        update: AnalysisUpdate = {name: getattr(found, name) for name in Analysis.model_fields if name not in NOT_KEPT}  # type: ignore[assignment]
        return {**update, "age_s": kept.age_s}

    async def put(self, asked: str, done: AnalysisState) -> None:
        """What something failed in is looked at again. `asked` is the question as it was put."""
        if done.kind is not None and not done.failures:
            said = Analysis.model_validate({name: getattr(done, name) for name in Analysis.model_fields})
            await self.texts.put(self._key(done.target, asked), said.model_dump_json())

    def _key(self, target: str, question: str) -> str:
        return hashlib.sha256(f"analysis {json.dumps([target, question, self.made_with])}".encode()).hexdigest()
