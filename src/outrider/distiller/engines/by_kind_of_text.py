"""One engine for abstracts and another for all other texts."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from outrider.distiller.engines.ensemble import Engine, Scores
from outrider.distiller.units import SegmentedText


@dataclass(frozen=True, slots=True)
class ByKindOfText:
    """In an abstract, place and rhetoric tell the result from the aim; in a README or a full paper they do not, and sections do."""

    abstracts: Engine
    others: Engine

    @property
    def name(self) -> str:
        return f"{self.abstracts.name} / {self.others.name}"

    @property
    def revision(self) -> str:
        return hashlib.sha256(f"{self.abstracts.revision} {self.others.revision}".encode()).hexdigest()[:16]

    def scores(self, query: str, cuts: Sequence[SegmentedText]) -> Scores:
        """Raises what the engines raise."""
        own: list[list[float] | None] = [None] * len(cuts)
        for engine, wanted in ((self.abstracts, True), (self.others, False)):
            places = [at for at, segmented in enumerate(cuts) if segmented.is_abstract() is wanted]
            if places:
                for at, scores in zip(places, engine.scores(query, [cuts[at] for at in places]), strict=True):
                    own[at] = scores
        return [scores or [] for scores in own]
